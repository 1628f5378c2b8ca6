//! The registry: all programs that there are, and a program with its parameters once its type is
//! forgotten.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, RangeInclusive};
use std::sync::{Arc, OnceLock};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::analyser::{Analyser, AnyAnalyser, AnyRestorer, Restorer};
use super::{
    Analysis, AnyRecord, AnySchedule, Clash, CongestionFeedback, Dataplane, DecodeError, Difference, Exact, P4Form,
    P4Request, P4Target, Parameters, Program, ProgramError, Schedule, chamelemon, disketch, hashpipe, hopcounters,
    pint,
};
use crate::answers::{Answers, CountedPort, Task};
use crate::history::Room;
use crate::pisa::hash::HashFamily;
use crate::pisa::{Excess, Layout};

/// The programs that a configuration may name, in the order in which people read of them.
pub struct Programs(Vec<Entry>);

/// One line of the registry.
struct Entry {
    name: &'static str,
    read: fn(Map<String, Value>) -> Result<ProgramConfig, serde_json::Error>,
    schema: fn(&mut SchemaGenerator) -> Schema,
    for_all_tasks: fn() -> ProgramConfig,
    meaning: fn(&str) -> Option<&'static str>,
}

static REGISTRY: OnceLock<Programs> = OnceLock::new();

impl Programs {
    /// weir's own programs.
    pub fn of_weir() -> Self {
        Self(Vec::new())
            .with::<hashpipe::HashPipe>()
            .with::<chamelemon::ChameleMon>()
            .with::<pint::Pint>()
            .with::<disketch::DiSketch>()
            .with::<hopcounters::HopCounters>()
    }

    /// With one more program. One of the same name takes its place.
    #[must_use]
    pub fn with<P: Program>(mut self) -> Self {
        self.0.retain(|entry| entry.name != P::NAME);
        self.0.push(Entry {
            name: P::NAME,
            read: |fields| Ok(ProgramConfig::new::<P>(serde_json::from_value(Value::Object(fields))?)),
            schema: P::Config::json_schema,
            for_all_tasks: || ProgramConfig::new::<P>(P::for_all_tasks()),
            meaning: P::meaning,
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
#[derive(Clone)]
pub struct ProgramConfig(Arc<dyn Configured>);

impl Deref for ProgramConfig {
    type Target = dyn Configured;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// A [`Program::Config`] without its type.
pub trait Configured: Any + Send + Sync {
    fn name(&self) -> &'static str;
    /// The parameters that are set, as JSON.
    fn fields(&self) -> Map<String, Value>;
    /// Whether the other one is the same program with the same parameters.
    fn equals(&self, other: &dyn Configured) -> bool;
    /// [`Program::ON_EVERY_HOP`].
    fn is_on_every_hop(&self) -> bool;
    /// [`Program::at_ports`].
    fn at_ports(&self, ports: &[CountedPort]) -> ProgramConfig;
    /// [`Program::validate`].
    fn validate(&self) -> Result<(), ProgramError>;
    /// [`Program::blame`].
    fn blame(&self, array: &str, excess: Excess) -> (&'static str, &'static str);
    /// [`Program::lesser`].
    fn lesser(&self) -> Vec<(String, ProgramConfig)>;
    /// Where the parameters that may change from epoch to epoch are set.
    fn schedule(&self) -> AnySchedule;
    /// One that begins with [`Program::waiting`].
    fn waiting_schedule(&self) -> AnySchedule;
    /// [`Program::reader`].
    fn reader(&self, switch: &str, hashes: &HashFamily) -> RecordReader;
    /// [`Program::exact`].
    fn exact(&self) -> Box<dyn Exact>;
    /// [`Program::congestion_feedback`].
    fn congestion_feedback(&self, hashes: &HashFamily) -> Option<CongestionFeedback>;
    /// [`Program::local_only`].
    fn local_only(&self) -> Option<&'static str>;
    /// [`Answers::NEEDS_ROUTES`].
    fn needs_routes(&self) -> bool;
    /// Place of a task among those that the program answers, the main one first; `None` if not
    /// answered.
    fn rank(&self, task: Task) -> Option<usize>;
    /// The byte form of [`Program::start`].
    fn start(&self) -> Vec<u8>;
    /// Checks the byte form of parameters: an error if the bytes are not parameters, or the program
    /// cannot measure with them [as it is configured](Program::fits).
    fn fits(&self, parameters: &[u8]) -> Result<(), DecodeError>;
    /// [`Parameters::is_like`], of byte forms.
    fn alike(&self, one: &[u8], other: &[u8]) -> bool;
    /// [`Program::longest`].
    fn longest(&self) -> usize;
    /// [`Program::adapts`].
    fn adapts(&self) -> bool;
    /// Why switches with these two configurations cannot stand in one network.
    fn difference(&self, other: &ProgramConfig) -> Option<Difference>;
    /// [`Program::clash`], or two switches that hash alike where they should not.
    fn clash(&self, names: &[&str]) -> Option<Clash>;
    /// [`Program::analysis`], with an empty history that has this room.
    fn analyser(&self, salt: u64, room: Room) -> Box<dyn AnyAnalyser>;
    /// [`Program::p4`], for these epochs of the switch of this name, which are measured with these
    /// parameters.
    fn p4(
        &self,
        switch: &str,
        hashes: &HashFamily,
        target: P4Target,
        epochs: RangeInclusive<u64>,
        parameters: &[u8],
    ) -> Result<Option<P4Form>, ProgramError>;
    /// What makes a history that has this room of an archive's epochs.
    fn restorer(&self, room: Room) -> Box<dyn AnyRestorer>;
}

/// Reads the byte form of records of one program, as it is configured: all of the bytes.
pub type RecordReader = Arc<dyn Fn(&[u8]) -> Result<AnyRecord, DecodeError> + Send + Sync>;

struct Of<P: Program>(P::Config);

impl<P: Program> Configured for Of<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn fields(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(&self.0) else { return Map::new() };
        // What is not set is not written.
        fields.retain(|_, value| !value.is_null());
        fields
    }

    fn equals(&self, other: &dyn Configured) -> bool {
        other.get::<P>() == Some(&self.0)
    }

    fn is_on_every_hop(&self) -> bool {
        P::ON_EVERY_HOP
    }

    fn at_ports(&self, ports: &[CountedPort]) -> ProgramConfig {
        ProgramConfig::new::<P>(P::at_ports(&self.0, ports))
    }

    fn validate(&self) -> Result<(), ProgramError> {
        P::validate(&self.0)
    }

    fn blame(&self, array: &str, excess: Excess) -> (&'static str, &'static str) {
        P::blame(&self.0, array, excess)
    }

    fn lesser(&self) -> Vec<(String, ProgramConfig)> {
        P::lesser(&self.0).into_iter().map(|(how, config)| (how, ProgramConfig::new::<P>(config))).collect()
    }

    fn schedule(&self) -> AnySchedule {
        Arc::new(Schedule::<P>::new(self.0.clone(), P::start(&self.0)))
    }

    fn waiting_schedule(&self) -> AnySchedule {
        Arc::new(Schedule::<P>::new(self.0.clone(), P::waiting(&self.0)))
    }

    fn reader(&self, switch: &str, hashes: &HashFamily) -> RecordReader {
        let read = P::reader(&self.0, switch, hashes);
        Arc::new(move |bytes| Ok(Box::new(read(bytes)?)))
    }

    fn exact(&self) -> Box<dyn Exact> {
        Box::new(P::exact(&self.0))
    }

    fn congestion_feedback(&self, hashes: &HashFamily) -> Option<CongestionFeedback> {
        P::congestion_feedback(&self.0, hashes)
    }

    fn local_only(&self) -> Option<&'static str> {
        P::local_only(&self.0)
    }

    fn needs_routes(&self) -> bool {
        <P::Analysis as Analysis>::Kept::NEEDS_ROUTES
    }

    fn rank(&self, task: Task) -> Option<usize> {
        P::Analysis::TASKS.iter().position(|own| *own == task)
    }

    fn start(&self) -> Vec<u8> {
        P::start(&self.0).encode()
    }

    fn fits(&self, parameters: &[u8]) -> Result<(), DecodeError> {
        Ok(P::fits(&self.0, &P::Parameters::decode(parameters)?)?)
    }

    fn alike(&self, one: &[u8], other: &[u8]) -> bool {
        let [one, other] = [one, other].map(P::Parameters::decode);
        matches!((one, other), (Ok(one), Ok(other)) if one.is_like(&other))
    }

    fn longest(&self) -> usize {
        P::longest(&self.0)
    }

    fn adapts(&self) -> bool {
        P::adapts(&self.0)
    }

    fn difference(&self, other: &ProgramConfig) -> Option<Difference> {
        match other.get::<P>() {
            Some(other) => P::difference(&self.0, other),
            None => Some(Difference { key: "program", value: P::NAME.into(), other: other.name().into() }),
        }
    }

    fn clash(&self, names: &[&str]) -> Option<Clash> {
        P::clash(&self.0, names).or_else(|| {
            let [first, _, ..] = names else { return None };
            // Names decide, whatever the secret.
            let recorder = HashFamily::reproducible(0).recorder();
            P::dataplane(&self.0, first, &recorder, &Schedule::new(self.0.clone(), P::start(&self.0))).ok()?;
            let [one, other] = recorder.alike(names)?.map(String::from);
            Some(Clash { program: P::NAME, one, other, why: "an array hashes alike in both" })
        })
    }

    fn analyser(&self, salt: u64, room: Room) -> Box<dyn AnyAnalyser> {
        Box::new(Analyser::<P>::new(&self.0, salt, room))
    }

    fn p4(
        &self,
        switch: &str,
        hashes: &HashFamily,
        target: P4Target,
        epochs: RangeInclusive<u64>,
        parameters: &[u8],
    ) -> Result<Option<P4Form>, ProgramError> {
        let layout = self.schedule().dataplane(switch, hashes)?.layout();
        P::p4(&P4Request { config: &self.0, parameters, switch, hashes, layout: &layout, target, epochs })
    }

    fn restorer(&self, room: Room) -> Box<dyn AnyRestorer> {
        Box::new(Restorer::<P>::new(&self.0, room))
    }
}

impl dyn Configured {
    /// Whether a controller of many switches takes its records.
    pub fn is_networked(&self) -> bool {
        self.local_only().is_none()
    }

    /// The parameters, if they are of this program.
    pub fn get<P: Program>(&self) -> Option<&P::Config> {
        (self as &dyn Any).downcast_ref::<Of<P>>().map(|of| &of.0)
    }

    /// A replica of the switch of this name, whose parameters never change.
    ///
    /// # Errors
    /// If it cannot be built as configured.
    pub fn build(&self, switch: &str, hashes: &HashFamily) -> Result<Box<dyn Dataplane>, ProgramError> {
        self.schedule().dataplane(switch, hashes)
    }

    /// The program's pipeline in the switch of this name, with the parameters of the first epoch. No
    /// secret is a part of it.
    ///
    /// # Errors
    /// If it cannot be built as configured.
    pub fn layout(&self, switch: &str) -> Result<Layout, ProgramError> {
        self.build(switch, &HashFamily::reproducible(0)).map(|program| program.layout())
    }
}

impl ProgramConfig {
    pub fn new<P: Program>(config: P::Config) -> Self {
        Self(Arc::new(Of::<P>(config)))
    }

    /// The names of all programs there are.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Programs::installed().0.iter().map(|entry| entry.name)
    }

    /// The programs with the names that results give them: of several of one kind the second has
    /// `_2` behind its name, and so on.
    pub fn named(programs: &[Self]) -> impl Iterator<Item = (String, &Self)> {
        programs.iter().enumerate().map(|(i, program)| {
            let before = programs[..i].iter().filter(|other| other.name() == program.name()).count();
            let name = if before == 0 { program.name().into() } else { format!("{}_{}", program.name(), before + 1) };
            (name, program)
        })
    }

    /// [`Program::meaning`], of the program of this name.
    pub fn meaning(name: &str, key: &str) -> Option<&'static str> {
        (Programs::find(name)?.meaning)(key)
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

    /// Each program with parameters with which it answers all of its tasks.
    pub fn for_all_tasks() -> impl Iterator<Item = Self> {
        Programs::installed().0.iter().map(|entry| (entry.for_all_tasks)())
    }

    /// The first program whose records a controller takes, with its default parameters.
    pub fn networked() -> Self {
        let networked = Self::defaults().find(|program| program.is_networked());
        networked.unwrap_or_else(|| Self::new::<chamelemon::ChameleMon>(Default::default()))
    }

    /// The names of the programs whose records a controller takes.
    pub fn networked_names() -> Vec<&'static str> {
        Self::defaults().filter(|program| program.is_networked()).map(|program| program.name()).collect()
    }
}

impl PartialEq for ProgramConfig {
    fn eq(&self, other: &Self) -> bool {
        self.equals(&**other)
    }
}

impl Eq for ProgramConfig {}

impl fmt::Debug for ProgramConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.name(), self.fields())
    }
}

impl Serialize for ProgramConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = (NAME.to_owned(), Value::from(self.name()));
        serializer.collect_map([name].into_iter().chain(self.fields()))
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
