//! Messages as they come from the other side, and as they are when they have been checked.

use tonic::{Code, Status};

use super::{VERSION, proto};
use crate::config::is_name;
use crate::control::controller::{JoinError, Order, Terms};
use crate::epoch::Nanos;
use crate::pisa::hash::{Polynomial, Polynomials};
use crate::program::ProgramError;
use crate::program::chamelemon::{Config, Division, Level, Runtime, Shape, TowerShape, Width};
use crate::switch::TelemetryHeader;

/// A message that breaks a rule of `controller.proto`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadMessage {
    pub field: &'static str,
    pub why: String,
}

fn bad<T>(field: &'static str, why: impl Into<String>) -> Result<T, BadMessage> {
    Err(BadMessage { field, why: why.into() })
}

/// Why a controller does not take a switch in, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Bad(#[from] BadMessage),
    #[error("version {0} of the protocol, and the controller speaks {VERSION}")]
    Version(u32),
    #[error("{what} of the switch is {theirs}, and the controller's is {ours}")]
    Differs { what: &'static str, theirs: String, ours: String },
    #[error("no switch {name} is expected; there are {expected}")]
    Unexpected { name: String, expected: String },
    #[error("the certificate is of the switch {names}, and this one calls itself {name}")]
    Uncertified { name: String, names: String },
    #[error("a switch {0} is connected already")]
    Twice(String),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error("the controller is stopping")]
    Stopping,
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Bad(_) => Code::InvalidArgument,
            Refusal::Version(_) => Code::Unimplemented,
            Refusal::Join(JoinError::Full { .. }) => Code::ResourceExhausted,
            Refusal::Differs { .. } | Refusal::Unexpected { .. } | Refusal::Join(_) => Code::FailedPrecondition,
            Refusal::Uncertified { .. } => Code::PermissionDenied,
            Refusal::Twice(_) => Code::AlreadyExists,
            Refusal::Stopping => Code::Unavailable,
        };
        Self::new(code, refusal.to_string())
    }
}

/// Who a switch is, and what it measures with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub name: String,
    pub terms: Terms,
    /// Until an order takes effect.
    pub runtime: Runtime,
    /// What it runs, for people to read.
    pub software: String,
}

/// Longest text that a switch may call its software.
const SOFTWARE: usize = 64;

impl From<&Hello> for proto::Hello {
    fn from(hello: &Hello) -> Self {
        let Hello { name, terms: Terms { shape, tower, length, transit, carrier }, runtime, software } = hello;
        let level = |level: &Level| proto::Level { bits: level.width.bits(), counters: level.counters };
        let Shape { arrays, small, upstream, downstream } = *shape;
        let shape = proto::Shape { tower: tower.0.iter().map(level).collect(), arrays, small, upstream, downstream };
        Self {
            version: VERSION,
            name: name.clone(),
            epoch_ns: *length,
            transit_ns: *transit,
            shape: Some(shape),
            runtime: Some(runtime.into()),
            software: software.clone(),
            tos: *carrier == TelemetryHeader::Tos,
        }
    }
}

impl TryFrom<proto::Hello> for Hello {
    type Error = Refusal;

    fn try_from(hello: proto::Hello) -> Result<Self, Refusal> {
        let proto::Hello { version, name, epoch_ns: length, transit_ns: transit, shape, runtime, software, tos } =
            hello;
        if version != VERSION {
            return Err(Refusal::Version(version));
        }
        if !is_name(&name) {
            bad("hello.name", "1 to 32 letters, digits, '-', '_' and '.', not starting with '-' or '.'")?;
        }
        if length == 0 {
            bad("hello.epoch_ns", "an epoch has a length")?;
        }
        if software.len() > SOFTWARE || software.chars().any(char::is_control) {
            bad("hello.software", format!("up to {SOFTWARE} bytes of printable text"))?;
        }
        let Some(shape) = shape else { return Ok(bad("hello.shape", "missing")?) };
        let (shape, tower) = read_shape(shape)?;
        let runtime = read_runtime("hello.runtime", runtime, &shape)?;
        let carrier = if tos { TelemetryHeader::Tos } else { TelemetryHeader::Shim };
        Ok(Self { name, terms: Terms { shape, tower, length, transit, carrier }, runtime, software })
    }
}

fn read_shape(shape: proto::Shape) -> Result<(Shape, TowerShape), BadMessage> {
    let proto::Shape { tower, arrays, small, upstream, downstream } = shape;
    let level = |level: proto::Level| {
        let width = match level.bits {
            8 => Width::Bits8,
            16 => Width::Bits16,
            32 => Width::Bits32,
            bits => return bad("hello.shape.tower", format!("counters of {bits} bits; there are 8, 16 and 32")),
        };
        Ok(Level { width, counters: level.counters })
    };
    let tower = TowerShape(tower.into_iter().map(level).collect::<Result<_, _>>()?);
    // The words are checked as those of a configuration are.
    let checked = tower.to_string().parse::<TowerShape>();
    let config = Config { tower, arrays, small, upstream, downstream, ..Config::default() };
    let checked = checked.and_then(|_| config.validate().map_err(|error| error.to_string()));
    match checked {
        Ok(()) => Ok((config.shape(), config.tower)),
        Err(why) => bad("hello.shape", why),
    }
}

impl From<&Runtime> for proto::Runtime {
    fn from(runtime: &Runtime) -> Self {
        let Runtime { division: Division { hh, hl, ll }, hh_threshold, hl_threshold, sample, sample_seed } = *runtime;
        Self { hh, hl, ll, hh_threshold, hl_threshold, sample, sample_seed: sample_seed.into() }
    }
}

fn read_runtime(field: &'static str, runtime: Option<proto::Runtime>, shape: &Shape) -> Result<Runtime, BadMessage> {
    let Some(runtime) = runtime else { return bad(field, "missing") };
    let proto::Runtime { hh, hl, ll, hh_threshold, hl_threshold, sample, sample_seed } = runtime;
    let Ok(sample_seed) = u16::try_from(sample_seed) else { return bad(field, "sample_seed has 16 bits at the most") };
    let runtime = Runtime { division: Division { hh, hl, ll }, hh_threshold, hl_threshold, sample, sample_seed };
    runtime.validate(shape).map_err(|error: ProgramError| BadMessage { field, why: error.to_string() })?;
    Ok(runtime)
}

impl From<&Order> for proto::Order {
    fn from(order: &Order) -> Self {
        Self { from_epoch: order.epoch, runtime: Some((&order.runtime).into()) }
    }
}

/// # Errors
/// If the encoders of this shape have no room for it.
pub(super) fn read_order(order: proto::Order, shape: &Shape) -> Result<Order, BadMessage> {
    Ok(Order { epoch: order.from_epoch, runtime: read_runtime("order.runtime", order.runtime, shape)? })
}

impl From<&Polynomials> for proto::Welcome {
    fn from(polynomials: &Polynomials) -> Self {
        Self { polynomials: polynomials.as_slice().iter().map(|polynomial| polynomial.reveal()).collect() }
    }
}

pub(super) fn read_welcome(welcome: proto::Welcome) -> Result<Polynomials, BadMessage> {
    let polynomials: Vec<_> = welcome.polynomials.into_iter().filter_map(Polynomial::new).collect();
    // What they are is a secret also when they are wrong.
    let right = || format!("{} different irreducible polynomials of degree 32", Polynomials::LEN);
    Polynomials::from_slice(&polynomials).map_or_else(|| bad("welcome.polynomials", right()), Ok)
}

/// What a switch has measured, its sketches not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub first: u64,
    pub last: u64,
    pub sketches: prost::bytes::Bytes,
    /// Records that the switch could not send since the one before.
    pub unsent: u64,
    /// The switch's clock when it was sent; 0 when that is not known.
    pub sent: Nanos,
}

impl TryFrom<proto::Record> for Record {
    type Error = BadMessage;

    fn try_from(record: proto::Record) -> Result<Self, BadMessage> {
        let proto::Record { first_epoch: first, last_epoch: last, sketches, unsent_records: unsent, sent_ns: sent } =
            record;
        if first > last {
            return bad("record.last_epoch", "not before the first one");
        }
        Ok(Self { first, last, sketches, unsent, sent })
    }
}

impl From<Record> for proto::Record {
    fn from(record: Record) -> Self {
        let Record { first, last, sketches, unsent, sent } = record;
        Self { first_epoch: first, last_epoch: last, sketches, unsent_records: unsent, sent_ns: sent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let config = Config::default();
        let terms = Terms {
            shape: config.shape(),
            tower: config.tower.clone(),
            length: 1 << 26,
            transit: 10_000_000,
            carrier: TelemetryHeader::Tos,
        };
        Hello { name: "edge1".into(), terms, runtime: config.runtime(), software: "weir 0.1.0".into() }
    }

    #[test]
    fn what_is_said_is_understood() {
        assert_eq!(Hello::try_from(proto::Hello::from(&hello())), Ok(hello()));
        let config = Config::default();
        let order = Order { epoch: 77, runtime: Runtime { sample_seed: 9, ..config.runtime() } };
        assert_eq!(read_order((&order).into(), &config.shape()), Ok(order));
        let polynomials = Polynomials::reproducible(1);
        assert_eq!(read_welcome((&polynomials).into()), Ok(polynomials));
    }

    #[test]
    fn what_breaks_a_rule_is_refused_by_name() {
        let refused = |change: &dyn Fn(&mut proto::Hello)| {
            let mut hello = proto::Hello::from(&hello());
            change(&mut hello);
            Hello::try_from(hello).unwrap_err().to_string()
        };
        fn shape(hello: &mut proto::Hello) -> &mut proto::Shape {
            hello.shape.as_mut().unwrap()
        }
        assert_eq!(refused(&|hello| hello.version = 9), "version 9 of the protocol, and the controller speaks 1");
        assert!(refused(&|hello| hello.name = "../x".into()).starts_with("hello.name: "));
        assert!(refused(&|hello| hello.epoch_ns = 0).starts_with("hello.epoch_ns: "));
        assert!(refused(&|hello| hello.software = "\u{1b}[2J".into()).starts_with("hello.software: "));
        assert_eq!(refused(&|hello| hello.shape = None), "hello.shape: missing");
        assert!(refused(&|hello| shape(hello).tower[0].bits = 9).contains("counters of 9 bits"));
        assert!(refused(&|hello| shape(hello).tower[0].counters = u32::MAX).contains("1 to 16777216 counters"));
        assert!(refused(&|hello| shape(hello).tower.clear()).starts_with("hello.shape: "));
        assert!(refused(&|hello| shape(hello).upstream = u32::MAX).contains("upstream = 4294967295"));
        assert!(refused(&|hello| shape(hello).arrays = 0).contains("arrays = 0"));

        assert_eq!(refused(&|hello| hello.runtime = None), "hello.runtime: missing");

        let config = Config::default();
        let order = Order { epoch: 7, runtime: Runtime { sample: 65_537, ..config.runtime() } };
        let error = read_order((&order).into(), &config.shape()).unwrap_err();
        assert!(error.to_string().contains("sample = 65537"), "{error}");
        assert!(read_order(proto::Order { from_epoch: 1, runtime: None }, &config.shape()).is_err());

        let welcome = proto::Welcome::from(&Polynomials::reproducible(1));
        for polynomials in [vec![], vec![1; 32], welcome.polynomials[1..].to_vec()] {
            assert_eq!(read_welcome(proto::Welcome { polynomials }).unwrap_err().field, "welcome.polynomials");
        }
        let record = proto::Record { first_epoch: 2, last_epoch: 1, ..Default::default() };
        assert_eq!(Record::try_from(record).unwrap_err().field, "record.last_epoch");
    }

    #[test]
    fn polynomials_are_not_shown() {
        let welcome = proto::Welcome::from(&Polynomials::reproducible(1));
        let message = proto::ToSwitch { what: Some(proto::to_switch::What::Welcome(welcome)) };
        assert_eq!(format!("{message:?}"), "ToSwitch { what: Some(Welcome(Welcome(secret))) }");
    }
}
