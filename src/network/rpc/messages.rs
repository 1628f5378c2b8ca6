//! Messages as they come from the other side, and as they are when they have been checked.

use tonic::{Code, Status};

use super::{VERSION, proto};
use crate::config::MAX_NETWORKED;
use crate::network::controller::{JoinError, NetworkProfile, ParameterUpdate};
use crate::pisa::hash::HashFamily;
use crate::program::ProgramConfig;
use crate::switch::{KeyHeaders, TelemetryHeader};
use crate::telemetry::epoch::Nanos;
use crate::text::is_name;

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
    Differs { what: String, theirs: String, ours: String },
    #[error(
        "records of {program}, as the switch has it, may have {theirs} bytes, and the controller takes {ours}; \
         fewer cells, or as many in the controller's own configuration"
    )]
    TooLong { program: &'static str, theirs: usize, ours: usize },
    #[error("no switch {name} is expected; there are {expected}")]
    Unexpected { name: String, expected: String },
    #[error("the certificate is of the switch {names}, and this one calls itself {name}")]
    Uncertified { name: String, names: String },
    #[error("the controller runs no program {name}, but {programs}")]
    Unknown { name: &'static str, programs: String },
    #[error("another program {0} of the switch reports already")]
    Same(&'static str),
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
            Refusal::Unknown { .. } | Refusal::Same(_) | Refusal::TooLong { .. } => Code::FailedPrecondition,
            Refusal::Uncertified { .. } => Code::PermissionDenied,
            Refusal::Twice(_) => Code::AlreadyExists,
            Refusal::Stopping => Code::Unavailable,
        };
        Self::new(code, refusal.to_string())
    }
}

/// A switch that asks to be taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub name: String,
    /// Of its epochs, in nanoseconds.
    pub length: Nanos,
    pub transit: Nanos,
    pub header: TelemetryHeader,
    pub key: KeyHeaders,
    /// The programs whose records it can send; of one that this process cannot read, why not.
    pub programs: Vec<Result<Offer, BadMessage>>,
    /// Name and version of its software, for people.
    pub software: String,
}

/// A program of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub program: ProgramConfig,
    /// Parameters in use until an update takes effect.
    pub parameters: Vec<u8>,
}

/// Longest text that a switch may call its software.
const SOFTWARE: usize = 64;

impl Hello {
    /// What the network of one of the switch's programs is to be like.
    pub fn profile(&self, program: ProgramConfig) -> NetworkProfile {
        NetworkProfile { program, length: self.length, transit: self.transit, header: self.header, key: self.key }
    }
}

impl From<&Hello> for proto::Hello {
    fn from(hello: &Hello) -> Self {
        let Hello { name, length, transit, header, key, programs, software } = hello;
        Self {
            version: VERSION,
            name: name.clone(),
            epoch_ns: *length,
            transit_ns: *transit,
            programs: programs.iter().flatten().map(Into::into).collect(),
            software: software.clone(),
            dscp: *header == TelemetryHeader::Dscp,
            inner_key: *key == KeyHeaders::Inner,
        }
    }
}

impl From<&Offer> for proto::Program {
    fn from(Offer { program, parameters }: &Offer) -> Self {
        Self { program: serde_json::to_string(program).unwrap_or_default(), parameters: parameters.clone().into() }
    }
}

impl TryFrom<proto::Hello> for Hello {
    type Error = Refusal;

    fn try_from(hello: proto::Hello) -> Result<Self, Refusal> {
        let proto::Hello { version, name, epoch_ns: length, transit_ns: transit, programs, software, dscp, inner_key } =
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
        if !(1..=MAX_NETWORKED).contains(&programs.len()) {
            bad("hello.programs", format!("1 to {MAX_NETWORKED}"))?;
        }
        let programs = programs.iter().map(Offer::try_from).collect();
        let header = if dscp { TelemetryHeader::Dscp } else { TelemetryHeader::Shim };
        let key = if inner_key { KeyHeaders::Inner } else { KeyHeaders::Outer };
        Ok(Self { name, length, transit, header, key, programs, software })
    }
}

impl TryFrom<&proto::Program> for Offer {
    type Error = BadMessage;

    fn try_from(offer: &proto::Program) -> Result<Self, BadMessage> {
        let wrong = |why: String| BadMessage { field: "program.program", why };
        let program: ProgramConfig = serde_json::from_str(&offer.program).map_err(|error| wrong(error.to_string()))?;
        program.validate().map_err(|error| wrong(error.to_string()))?;
        let parameters = read_parameters("program.parameters", &offer.parameters, &program)?;
        Ok(Self { program, parameters })
    }
}

fn read_parameters(field: &'static str, bytes: &[u8], program: &ProgramConfig) -> Result<Vec<u8>, BadMessage> {
    program.fits(bytes).map_err(|error| BadMessage { field, why: error.to_string() })?;
    Ok(bytes.to_vec())
}

impl proto::Update {
    /// For the program at this place of the switch's hello.
    pub(super) fn new(program: usize, update: &ParameterUpdate) -> Self {
        Self { from_epoch: update.epoch, parameters: update.parameters.clone().into(), program: program as u32 }
    }
}

/// # Errors
/// If a switch that runs this program cannot measure with it.
pub(super) fn read_update(update: &proto::Update, program: &ProgramConfig) -> Result<ParameterUpdate, BadMessage> {
    let parameters = read_parameters("update.parameters", &update.parameters, program)?;
    Ok(ParameterUpdate { epoch: update.from_epoch, parameters })
}

/// A switch is taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    pub hashes: HashFamily,
    /// Of each of its programs: the place among the controller's, or why the controller does not
    /// take it.
    pub programs: Vec<Result<usize, Refusal>>,
}

impl Welcome {
    /// Bytes that no record of the switch's programs that are taken exceeds.
    pub(super) fn longest(&self, hello: &Hello) -> usize {
        let taken = hello.programs.iter().zip(&self.programs).filter(|(_, taken)| taken.is_ok());
        taken.flat_map(|(offer, _)| offer).map(|offer| offer.program.longest()).max().unwrap_or_default()
    }
}

impl From<&Welcome> for proto::Welcome {
    fn from(welcome: &Welcome) -> Self {
        let refused = (0..).zip(&welcome.programs).filter_map(|(program, taken)| {
            let why = taken.as_ref().err()?.to_string();
            Some(proto::Refused { program, why })
        });
        Self { secret: welcome.hashes.reveal().to_vec().into(), refused: refused.collect() }
    }
}

/// The hash functions of the network, and for each of the switch's programs why the controller does
/// not take it, if it does not.
pub(super) fn read_welcome(
    welcome: proto::Welcome,
    programs: usize,
) -> Result<(HashFamily, Vec<Option<String>>), BadMessage> {
    // A secret of another length is one too, and not shown.
    let right = |_| BadMessage { field: "welcome.secret", why: format!("{} bytes", HashFamily::SECRET_BYTES) };
    let hashes = welcome.secret.as_ref().try_into().map(HashFamily::from_secret).map_err(right)?;
    let mut refused = vec![None; programs];
    for proto::Refused { program, why } in welcome.refused {
        match refused.get_mut(program as usize) {
            Some(refused) => *refused = Some(why),
            None => bad("refused.program", format!("0 to {}", programs.saturating_sub(1)))?,
        }
    }
    Ok((hashes, refused))
}

impl proto::Record {
    /// The same record, if its epochs are in order.
    pub(super) fn checked(self) -> Result<Self, BadMessage> {
        if self.first_epoch > self.last_epoch { bad("record.last_epoch", "not before the first one") } else { Ok(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Parameters as _;
    use crate::program::chamelemon::{ChameleMon, Config, EncoderParameters};

    fn hello() -> Hello {
        Hello {
            name: "edge1".into(),
            length: 1 << 26,
            transit: 10_000_000,
            header: TelemetryHeader::Dscp,
            key: KeyHeaders::Inner,
            programs: vec![Ok(offer()), Ok(offer())],
            software: "weir 0.1.0".into(),
        }
    }

    fn offer() -> Offer {
        let program = ProgramConfig::new::<ChameleMon>(Config::default());
        Offer { parameters: program.start(), program }
    }

    fn parameters(sample: u32) -> Vec<u8> {
        EncoderParameters { sample, ..Config::default().parameters() }.encode()
    }

    #[test]
    fn what_is_said_is_understood() {
        assert_eq!(Hello::try_from(proto::Hello::from(&hello())), Ok(hello()));
        let update = ParameterUpdate { epoch: 77, parameters: parameters(9) };
        let sent = proto::Update::new(3, &update);
        assert_eq!((sent.program, read_update(&sent, &offer().program)), (3, Ok(update)));
        let (hashes, programs) = (HashFamily::reproducible(1), vec![Ok(2), Err(Refusal::Same("chamelemon"))]);
        let welcome = Welcome { hashes: hashes.clone(), programs };
        let refused = vec![None, Some("another program chamelemon of the switch reports already".into())];
        assert_eq!(read_welcome((&welcome).into(), 2), Ok((hashes, refused)));
        assert_eq!(read_welcome((&welcome).into(), 1).unwrap_err().to_string(), "refused.program: 0 to 0");
    }

    #[test]
    fn what_breaks_a_rule_is_refused_by_name() {
        let refused = |change: &dyn Fn(&mut proto::Hello)| {
            let mut hello = proto::Hello::from(&hello());
            change(&mut hello);
            Hello::try_from(hello).unwrap_err().to_string()
        };
        assert_eq!(refused(&|hello| hello.version = 2), "version 2 of the protocol, and the controller speaks 3");
        assert_eq!(refused(&|hello| hello.programs.clear()), "hello.programs: 1 to 8");
        assert_eq!(refused(&|hello| hello.programs.resize(9, Default::default())), "hello.programs: 1 to 8");
        assert!(refused(&|hello| hello.name = "../x".into()).starts_with("hello.name: "));
        assert!(refused(&|hello| hello.epoch_ns = 0).starts_with("hello.epoch_ns: "));
        assert!(refused(&|hello| hello.software = "\u{1b}[2J".into()).starts_with("hello.software: "));
        // A program that is refused leaves the others as they are.
        let unread = |change: &dyn Fn(&mut proto::Program)| {
            let mut hello = proto::Hello::from(&hello());
            change(&mut hello.programs[0]);
            let programs = Hello::try_from(hello).unwrap().programs;
            assert_eq!(programs[1], Ok(offer()));
            programs[0].clone().unwrap_err().to_string()
        };
        let program = |text: &str| unread(&|offer| offer.program = format!("{{\"name\": \"chamelemon\", {text}}}"));
        assert!(unread(&|offer| offer.program.clear()).starts_with("program.program: "));
        assert!(unread(&|offer| offer.program = "{\"name\": \"other\"}".into()).contains("unknown program \"other\""));
        assert!(program("\"tower\": \"9x3\"").contains("counters have 8, 16 or 32 bits"));
        assert!(program("\"tower\": \"8x4294967295\"").contains("1 to 16777216 counters"));
        assert!(program("\"tower\": \"\"").starts_with("program.program: "));
        assert!(program("\"upstream\": 4294967295").contains("upstream = 4294967295"));
        assert!(program("\"arrays\": 0").contains("arrays = 0"));

        assert_eq!(
            unread(&|offer| offer.parameters = prost::bytes::Bytes::new()),
            "program.parameters: it ends after 0 bytes, in the parameters"
        );
        let update = ParameterUpdate { epoch: 7, parameters: parameters(65_537) };
        let error = read_update(&proto::Update::new(0, &update), &offer().program).unwrap_err();
        assert!(error.to_string().contains("sample = 65537"), "{error}");
        let empty = proto::Update { from_epoch: 1, ..Default::default() };
        assert!(read_update(&empty, &offer().program).is_err());

        for length in [0, 31, 33, 128] {
            let welcome = proto::Welcome { secret: vec![7; length].into(), refused: Vec::new() };
            let error = read_welcome(welcome, 1).unwrap_err();
            assert_eq!(error.to_string(), "welcome.secret: 32 bytes");
        }
        let record = proto::Record { first_epoch: 2, last_epoch: 1, ..Default::default() };
        assert_eq!(record.checked().unwrap_err().field, "record.last_epoch");
    }

    #[test]
    fn the_secret_is_not_shown() {
        let welcome = Welcome { hashes: HashFamily::reproducible(1), programs: vec![Ok(0)] };
        let welcome = proto::Welcome::from(&welcome);
        let message = proto::ToSwitch { what: Some(proto::to_switch::What::Welcome(welcome)) };
        assert_eq!(format!("{message:?}"), "ToSwitch { what: Some(Welcome(Welcome(secret))) }");
    }
}
