//! Messages as they come from the other side, and as they are when they have been checked.

use tonic::{Code, Status};

use super::{VERSION, proto};
use crate::config::is_name;
use crate::network::controller::{JoinError, NetworkProfile, ParameterUpdate};
use crate::pisa::hash::HashFamily;
use crate::program::{AnyParameters, ProgramConfig};
use crate::switch::TelemetryHeader;
use crate::telemetry::epoch::Nanos;

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
    pub profile: NetworkProfile,
    /// Until an update takes effect.
    pub parameters: AnyParameters,
    /// What it runs, for people to read.
    pub software: String,
}

/// Longest text that a switch may call its software.
const SOFTWARE: usize = 64;

impl From<&Hello> for proto::Hello {
    fn from(hello: &Hello) -> Self {
        let Hello { name, profile: NetworkProfile { program, length, transit, header }, parameters, software } = hello;
        Self {
            version: VERSION,
            name: name.clone(),
            epoch_ns: *length,
            transit_ns: *transit,
            program: serde_json::to_string(program).unwrap_or_default(),
            parameters: parameters.encode().into(),
            software: software.clone(),
            dscp: *header == TelemetryHeader::Dscp,
        }
    }
}

impl TryFrom<proto::Hello> for Hello {
    type Error = Refusal;

    fn try_from(hello: proto::Hello) -> Result<Self, Refusal> {
        let proto::Hello { version, name, epoch_ns: length, transit_ns: transit, program, parameters, software, dscp } =
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
        let wrong = |why: String| BadMessage { field: "hello.program", why };
        let program: ProgramConfig = serde_json::from_str(&program).map_err(|error| wrong(error.to_string()))?;
        program.validate().map_err(|error| wrong(error.to_string()))?;
        let parameters = read_parameters("hello.parameters", &parameters, &program)?;
        let header = if dscp { TelemetryHeader::Dscp } else { TelemetryHeader::Shim };
        Ok(Self { name, profile: NetworkProfile { program, length, transit, header }, parameters, software })
    }
}

fn read_parameters(field: &'static str, bytes: &[u8], program: &ProgramConfig) -> Result<AnyParameters, BadMessage> {
    program.parameters(bytes).map_err(|error| BadMessage { field, why: error.to_string() })
}

impl From<&ParameterUpdate> for proto::Update {
    fn from(update: &ParameterUpdate) -> Self {
        Self { from_epoch: update.epoch, parameters: update.parameters.encode().into() }
    }
}

/// # Errors
/// If a switch that runs this program cannot measure with it.
pub(super) fn read_update(update: &proto::Update, program: &ProgramConfig) -> Result<ParameterUpdate, BadMessage> {
    let parameters = read_parameters("update.parameters", &update.parameters, program)?;
    Ok(ParameterUpdate { epoch: update.from_epoch, parameters })
}

impl From<&HashFamily> for proto::Welcome {
    fn from(hashes: &HashFamily) -> Self {
        Self { secret: hashes.reveal().to_vec().into() }
    }
}

pub(super) fn read_welcome(welcome: proto::Welcome) -> Result<HashFamily, BadMessage> {
    // A secret of another length is one too, and not shown.
    let right = |_| BadMessage { field: "welcome.secret", why: format!("{} bytes", HashFamily::SECRET_BYTES) };
    welcome.secret.as_ref().try_into().map(HashFamily::from_secret).map_err(right)
}

/// What a switch has measured, not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMessage {
    pub first: u64,
    pub last: u64,
    pub record: prost::bytes::Bytes,
    /// Records that the switch could not send since the one before.
    pub unsent: u64,
    /// The switch's clock when it was sent; 0 when that is not known.
    pub sent: Nanos,
}

impl TryFrom<proto::Record> for RecordMessage {
    type Error = BadMessage;

    fn try_from(record: proto::Record) -> Result<Self, BadMessage> {
        let proto::Record { first_epoch: first, last_epoch: last, record, unsent_records: unsent, sent_ns: sent } =
            record;
        if first > last {
            return bad("record.last_epoch", "not before the first one");
        }
        Ok(Self { first, last, record, unsent, sent })
    }
}

impl From<RecordMessage> for proto::Record {
    fn from(record: RecordMessage) -> Self {
        let RecordMessage { first, last, record, unsent, sent } = record;
        Self { first_epoch: first, last_epoch: last, record, unsent_records: unsent, sent_ns: sent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::chamelemon::{ChameleMon, Config, Runtime};

    fn hello() -> Hello {
        let program = ProgramConfig::new::<ChameleMon>(Config::default());
        let parameters = program.start();
        let profile = NetworkProfile { program, length: 1 << 26, transit: 10_000_000, header: TelemetryHeader::Dscp };
        Hello { name: "edge1".into(), profile, parameters, software: "weir 0.1.0".into() }
    }

    fn runtime(sample: u32) -> AnyParameters {
        AnyParameters::new(Runtime { sample, ..Config::default().runtime() })
    }

    #[test]
    fn what_is_said_is_understood() {
        assert_eq!(Hello::try_from(proto::Hello::from(&hello())), Ok(hello()));
        let update = ParameterUpdate { epoch: 77, parameters: runtime(9) };
        assert_eq!(read_update(&(&update).into(), &hello().profile.program), Ok(update));
        let hashes = HashFamily::reproducible(1);
        assert_eq!(read_welcome((&hashes).into()), Ok(hashes));
    }

    #[test]
    fn what_breaks_a_rule_is_refused_by_name() {
        let refused = |change: &dyn Fn(&mut proto::Hello)| {
            let mut hello = proto::Hello::from(&hello());
            change(&mut hello);
            Hello::try_from(hello).unwrap_err().to_string()
        };
        let program = |text: &str| refused(&|hello| hello.program = format!("{{\"name\": \"chamelemon\", {text}}}"));
        assert_eq!(refused(&|hello| hello.version = 9), "version 9 of the protocol, and the controller speaks 2");
        assert!(refused(&|hello| hello.name = "../x".into()).starts_with("hello.name: "));
        assert!(refused(&|hello| hello.epoch_ns = 0).starts_with("hello.epoch_ns: "));
        assert!(refused(&|hello| hello.software = "\u{1b}[2J".into()).starts_with("hello.software: "));
        assert!(refused(&|hello| hello.program.clear()).starts_with("hello.program: "));
        assert!(refused(&|hello| hello.program = "{\"name\": \"other\"}".into()).contains("unknown program \"other\""));
        assert!(program("\"tower\": \"9x3\"").contains("counters have 8, 16 or 32 bits"));
        assert!(program("\"tower\": \"8x4294967295\"").contains("1 to 16777216 counters"));
        assert!(program("\"tower\": \"\"").starts_with("hello.program: "));
        assert!(program("\"upstream\": 4294967295").contains("upstream = 4294967295"));
        assert!(program("\"arrays\": 0").contains("arrays = 0"));

        assert_eq!(
            refused(&|hello| hello.parameters = prost::bytes::Bytes::new()),
            "hello.parameters: it ends after 0 bytes, in the parameters"
        );
        let update = ParameterUpdate { epoch: 7, parameters: runtime(65_537) };
        let error = read_update(&(&update).into(), &hello().profile.program).unwrap_err();
        assert!(error.to_string().contains("sample = 65537"), "{error}");
        let empty = proto::Update { from_epoch: 1, parameters: prost::bytes::Bytes::new() };
        assert!(read_update(&empty, &hello().profile.program).is_err());

        for length in [0, 31, 33, 128] {
            let error = read_welcome(proto::Welcome { secret: vec![7; length].into() }).unwrap_err();
            assert_eq!(error.to_string(), "welcome.secret: 32 bytes");
        }
        let record = proto::Record { first_epoch: 2, last_epoch: 1, ..Default::default() };
        assert_eq!(RecordMessage::try_from(record).unwrap_err().field, "record.last_epoch");
    }

    #[test]
    fn the_secret_is_not_shown() {
        let welcome = proto::Welcome::from(&HashFamily::reproducible(1));
        let message = proto::ToSwitch { what: Some(proto::to_switch::What::Welcome(welcome)) };
        assert_eq!(format!("{message:?}"), "ToSwitch { what: Some(Welcome(Welcome(secret))) }");
    }
}
