//! The registry: all programs that there are, and a program with its parameters once its type is
//! forgotten.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::answers::Task;
use super::{
    Analysis, AnyAnalysis, AnyParameters, AnyRecord, AnySchedule, AnySeries, Dataplane, DecodeError, Difference, Exact,
    Parameters, Program, ProgramError, RunAnswers, Schedule, Truth, chamelemon, hashpipe,
};
use crate::pisa::Excess;
use crate::pisa::hash::HashFamily;

/// The programs that a configuration may name, in the order in which people read of them.
pub struct Programs(Vec<Entry>);

/// One line of the registry.
struct Entry {
    name: &'static str,
    read: fn(Map<String, Value>) -> Result<ProgramConfig, serde_json::Error>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

static REGISTRY: OnceLock<Programs> = OnceLock::new();

impl Programs {
    /// weir's own programs.
    pub fn of_weir() -> Self {
        Self(Vec::new()).with::<hashpipe::HashPipe>().with::<chamelemon::ChameleMon>()
    }

    /// With one more program. One of the same name takes its place.
    #[must_use]
    pub fn with<P: Program>(mut self) -> Self {
        self.0.retain(|entry| entry.name != P::NAME);
        self.0.push(Entry {
            name: P::NAME,
            read: |fields| Ok(ProgramConfig::new::<P>(serde_json::from_value(Value::Object(fields))?)),
            schema: P::Config::json_schema,
        });
        self
    }

    /// Makes these the programs of the process. The first call decides; without one they are weir's
    /// own.
    pub fn install(self) {
        let _ = REGISTRY.set(self);
    }

    fn installed() -> &'static Self {
        REGISTRY.get_or_init(Self::of_weir)
    }

    fn find(name: &str) -> Option<&'static Entry> {
        Self::installed().0.iter().find(|entry| entry.name == name)
    }
}

/// The key that names the program.
const NAME: &str = "name";

/// A program and its parameters, as configured.
pub struct ProgramConfig(Box<dyn Configured>);

/// A [`Program::Config`] without its type.
trait Configured: Send + Sync {
    fn name(&self) -> &'static str;
    fn config(&self) -> &dyn Any;
    fn copy(&self) -> Box<dyn Configured>;
    fn equals(&self, other: &dyn Any) -> bool;
    fn fields(&self) -> Map<String, Value>;
    fn validate(&self) -> Result<(), ProgramError>;
    fn blame(&self, array: &str, excess: Excess) -> (&'static str, &'static str);
    fn schedule(&self) -> AnySchedule;
    fn dataplane(&self, hashes: &HashFamily, schedule: &AnySchedule) -> Result<Box<dyn Dataplane>, ProgramError>;
    fn reader(&self, hashes: &HashFamily) -> RecordReader;
    fn exact(&self) -> Box<dyn Exact>;
    fn local_only(&self) -> Option<&'static str>;
    fn rank(&self, task: Task) -> Option<usize>;
    fn start(&self) -> AnyParameters;
    fn parameters(&self, bytes: &[u8]) -> Result<AnyParameters, DecodeError>;
    fn fits(&self, parameters: &AnyParameters) -> Result<(), ProgramError>;
    fn longest(&self) -> usize;
    fn adapts(&self) -> bool;
    fn difference(&self, other: &dyn Any) -> Option<Difference>;
    fn analysis(&self, salt: u64) -> AnyAnalysis;
    fn series(&self) -> AnySeries;
    fn run(&self, record: &AnyRecord, series: &AnySeries, truth: Option<&Truth>, max: usize) -> Option<RunAnswers>;
}

/// Reads the byte form of records of one program, as it is configured.
pub struct RecordReader(Box<Read>);

type Read = dyn Fn(&[u8]) -> Result<AnyRecord, DecodeError> + Send + Sync;

impl RecordReader {
    /// # Errors
    /// If these are not the bytes of such a record, whole and without anything behind them.
    pub fn read(&self, bytes: &[u8]) -> Result<AnyRecord, DecodeError> {
        (self.0)(bytes)
    }
}

struct Of<P: Program>(P::Config);

impl<P: Program> Configured for Of<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn config(&self) -> &dyn Any {
        &self.0
    }

    fn copy(&self) -> Box<dyn Configured> {
        Box::new(Self(self.0.clone()))
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(&self.0)
    }

    fn fields(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(&self.0) else { return Map::new() };
        // What is not set is not written.
        fields.retain(|_, value| !value.is_null());
        fields
    }

    fn validate(&self) -> Result<(), ProgramError> {
        P::validate(&self.0)
    }

    fn blame(&self, array: &str, excess: Excess) -> (&'static str, &'static str) {
        P::blame(&self.0, array, excess)
    }

    fn schedule(&self) -> AnySchedule {
        AnySchedule::new(Schedule::<P>::new(self.0.clone(), P::start(&self.0)))
    }

    fn dataplane(&self, hashes: &HashFamily, schedule: &AnySchedule) -> Result<Box<dyn Dataplane>, ProgramError> {
        let own = Schedule::<P>::new(self.0.clone(), P::start(&self.0));
        P::dataplane(&self.0, hashes, schedule.get().unwrap_or(&own))
    }

    fn reader(&self, hashes: &HashFamily) -> RecordReader {
        let read = P::reader(&self.0, hashes);
        RecordReader(Box::new(move |bytes| Ok(AnyRecord::new(read(bytes)?))))
    }

    fn exact(&self) -> Box<dyn Exact> {
        Box::new(P::exact(&self.0))
    }

    fn local_only(&self) -> Option<&'static str> {
        P::local_only(&self.0)
    }

    fn rank(&self, task: Task) -> Option<usize> {
        P::Analysis::TASKS.iter().position(|own| *own == task)
    }

    fn start(&self) -> AnyParameters {
        AnyParameters::new(P::start(&self.0))
    }

    fn parameters(&self, bytes: &[u8]) -> Result<AnyParameters, DecodeError> {
        let parameters = P::Parameters::decode(bytes)?;
        P::fits(&self.0, &parameters)?;
        Ok(AnyParameters::new(parameters))
    }

    fn fits(&self, parameters: &AnyParameters) -> Result<(), ProgramError> {
        let foreign = ProgramError::Combination { program: P::NAME, why: "the parameters are of another program" };
        P::fits(&self.0, parameters.get().ok_or(foreign)?)
    }

    fn longest(&self) -> usize {
        P::longest(&self.0)
    }

    fn adapts(&self) -> bool {
        P::adapts(&self.0)
    }

    fn difference(&self, other: &dyn Any) -> Option<Difference> {
        P::difference(&self.0, other.downcast_ref()?)
    }

    fn analysis(&self, salt: u64) -> AnyAnalysis {
        AnyAnalysis::new(P::analysis(&self.0, salt))
    }

    fn series(&self) -> AnySeries {
        AnySeries::new::<P::Series>()
    }

    fn run(&self, record: &AnyRecord, series: &AnySeries, truth: Option<&Truth>, max: usize) -> Option<RunAnswers> {
        Some(P::run(&self.0, record.get()?, series.get()?, truth, max))
    }
}

impl ProgramConfig {
    pub fn new<P: Program>(config: P::Config) -> Self {
        Self(Box::new(Of::<P>(config)))
    }

    /// The names of all programs there are.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Programs::installed().0.iter().map(|entry| entry.name)
    }

    /// The JSON Schema of a program's parameters.
    pub fn schema(name: &str) -> Option<Schema> {
        let entry = Programs::find(name)?;
        let mut generator = SchemaGenerator::default();
        let mut schema = (entry.schema)(&mut generator);
        let definitions = generator.take_definitions(true);
        if !definitions.is_empty() {
            schema.ensure_object().insert("$defs".into(), Value::Object(definitions));
        }
        Some(schema)
    }

    /// Each program with its default parameters.
    pub fn defaults() -> impl Iterator<Item = Self> {
        Programs::installed().0.iter().filter_map(|entry| (entry.read)(Map::new()).ok())
    }

    /// The first program whose records a controller takes, with its default parameters.
    pub fn networked() -> Self {
        let networked = Self::defaults().find(Self::is_networked);
        networked.unwrap_or_else(|| Self::new::<chamelemon::ChameleMon>(Default::default()))
    }

    /// The names of the programs whose records a controller takes.
    pub fn networked_names() -> Vec<&'static str> {
        Self::defaults().filter(Self::is_networked).map(|program| program.name()).collect()
    }

    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The parameters, if they are of this program.
    pub fn get<P: Program>(&self) -> Option<&P::Config> {
        self.0.config().downcast_ref()
    }

    /// The value of a parameter, as JSON.
    pub fn parameter(&self, key: &str) -> Option<Value> {
        self.0.fields().remove(key)
    }

    /// Checks the parameters, without building anything.
    ///
    /// # Errors
    /// If one is out of its range, or some do not go together.
    pub fn validate(&self) -> Result<(), ProgramError> {
        self.0.validate()
    }

    /// Of an array that asks for too much of a target: the key that says how much, and what would
    /// be less.
    pub fn blame(&self, array: &str, excess: Excess) -> (&'static str, &'static str) {
        self.0.blame(array, excess)
    }

    /// Where the parameters that may change from epoch to epoch are set.
    pub fn schedule(&self) -> AnySchedule {
        self.0.schedule()
    }

    /// A replica of the program. All replicas of a switch are built from the same polynomials, and
    /// read one schedule.
    ///
    /// # Errors
    /// If it cannot be built as configured.
    pub fn dataplane(&self, hashes: &HashFamily, schedule: &AnySchedule) -> Result<Box<dyn Dataplane>, ProgramError> {
        self.0.dataplane(hashes, schedule)
    }

    /// A replica whose parameters never change.
    ///
    /// # Errors
    /// If it cannot be built as configured.
    pub fn build(&self, hashes: &HashFamily) -> Result<Box<dyn Dataplane>, ProgramError> {
        self.dataplane(hashes, &self.schedule())
    }

    /// What reads the byte form of the records of switches that are configured like this.
    pub fn reader(&self, hashes: &HashFamily) -> RecordReader {
        self.0.reader(hashes)
    }

    /// Exact counts of what the program measures.
    pub fn exact(&self) -> Box<dyn Exact> {
        self.0.exact()
    }

    /// Whether a controller of many switches takes its records.
    pub fn is_networked(&self) -> bool {
        self.local_only().is_none()
    }

    /// Why no controller of many switches takes its records; `None` when one does.
    pub fn local_only(&self) -> Option<&'static str> {
        self.0.local_only()
    }

    /// Place of a task among those that the program answers, the main one first; `None` if not
    /// answered.
    pub fn rank(&self, task: Task) -> Option<usize> {
        self.0.rank(task)
    }

    /// The parameters of the first epoch.
    pub fn start(&self) -> AnyParameters {
        self.0.start()
    }

    /// Reads the byte form of parameters.
    ///
    /// # Errors
    /// If these are not the bytes of any, or the program cannot measure with them as it is
    /// configured.
    pub fn parameters(&self, bytes: &[u8]) -> Result<AnyParameters, DecodeError> {
        self.0.parameters(bytes)
    }

    /// Checks parameters.
    ///
    /// # Errors
    /// If the program cannot measure with them as it is configured.
    pub fn fits(&self, parameters: &AnyParameters) -> Result<(), ProgramError> {
        self.0.fits(parameters)
    }

    /// The length in bytes that no record of a switch exceeds.
    pub fn longest(&self) -> usize {
        self.0.longest()
    }

    /// Whether the parameters are to follow what the epochs show, or stay as they are.
    pub fn adapts(&self) -> bool {
        self.0.adapts()
    }

    /// Why switches with these two configurations cannot stand in one network.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        let names = [self, other].map(Self::name);
        if names[0] != names[1] {
            return Some(Difference { key: "program", value: names[0].into(), other: names[1].into() });
        }
        self.0.difference(other.0.config())
    }

    /// What a controller makes of the records of switches that are configured like this.
    pub fn analysis(&self, salt: u64) -> AnyAnalysis {
        self.0.analysis(salt)
    }

    /// What of a series of epochs their merged record does not hold; of no epoch yet.
    pub fn series(&self) -> AnySeries {
        self.0.series()
    }

    /// The answers about a run, of its merged record; `None` for a record of another program.
    pub fn run(&self, record: &AnyRecord, series: &AnySeries, truth: Option<&Truth>, max: usize) -> Option<RunAnswers> {
        self.0.run(record, series, truth, max)
    }
}

impl Clone for ProgramConfig {
    fn clone(&self) -> Self {
        Self(self.0.copy())
    }
}

impl PartialEq for ProgramConfig {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.0.config())
    }
}

impl Eq for ProgramConfig {}

impl fmt::Debug for ProgramConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.name(), self.0.fields())
    }
}

impl Serialize for ProgramConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = (NAME.to_owned(), Value::from(self.name()));
        serializer.collect_map([name].into_iter().chain(self.0.fields()))
    }
}

impl<'de> Deserialize<'de> for ProgramConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let name = fields.remove(NAME).ok_or_else(|| Error::missing_field(NAME))?;
        let known = || ProgramConfig::names().collect::<Vec<_>>().join(", ");
        let entry = name.as_str().and_then(Programs::find);
        let entry = entry.ok_or_else(|| Error::custom(format!("unknown program {name}, there are {}", known())))?;
        (entry.read)(fields).map_err(Error::custom)
    }
}

impl JsonSchema for ProgramConfig {
    fn schema_name() -> Cow<'static, str> {
        "ProgramConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut program = |entry: &Entry| {
            let mut schema = (entry.schema)(generator);
            let object = schema.ensure_object();
            if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
                let name = schemars::json_schema!({ "type": "string", "const": entry.name });
                properties.insert(NAME.into(), name.into());
            }
            object.insert("required".into(), Value::from(vec![NAME]));
            schema
        };
        let programs: Vec<_> = Programs::installed().0.iter().map(&mut program).collect();
        schemars::json_schema!({ "description": "A program and its parameters, as configured.", "oneOf": programs })
    }
}

/// What a configuration's type is to be.
pub trait Settings:
    Clone + fmt::Debug + Default + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
}

impl<T: Clone + fmt::Debug + Default + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static>
    Settings for T
{
}
