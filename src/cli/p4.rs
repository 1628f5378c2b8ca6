//! `weir p4`: constants and control data for the P4 sources, from a switch's configuration.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::{Failure, Programs, help, in_memory};
use crate::api::view::ProgramLayout;
use crate::config::Config;
use crate::pisa::hash::HashFamily;
use crate::program::{P4Constant, P4Entry, P4Form, P4Halves, P4Register, P4Target, ProgramConfig};
use crate::switch::{KeyHeaders, TelemetryHeader};
use crate::telemetry::epoch::EpochClock;

/// Most epochs that one file has table entries for.
const MAX_EPOCHS: u64 = 1024;

/// Write what the P4 sources in `p4/` need of a configuration: constants.p4, which they include,
/// control.json, which the control scripts read, and member.json, what the switch says of itself to
/// a controller
#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir p4 --program {program} --target v1model --reproducible 7 --out DIR",
    "weir p4 -c weir.toml --target t2na --epochs 0..15 --out DIR",
    "weir p4 -c weir.toml --target v1model --secret FILE --out DIR",
]))]
pub struct P4 {
    #[command(flatten)]
    programs: Programs,
    /// The architecture of the P4 switch
    #[arg(long, value_enum)]
    target: P4Target,
    /// Directory for constants.p4, control.json and member.json; files of these names are replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Take programs, epoch and name of the switch from a configuration file
    #[arg(short, long, value_name = "FILE", conflicts_with = "programs", help_heading = help::MEASUREMENT)]
    config: Option<PathBuf>,
    /// Hash polynomials from this seed, as the switches of the network have it
    #[arg(long, value_name = "SEED", help_heading = help::MEASUREMENT)]
    reproducible: Option<u64>,
    /// Hash polynomials from the secret in this file, 64 hexadecimal digits, as a controller tells it to
    /// its switches
    #[arg(long, value_name = "FILE", conflicts_with = "reproducible", help_heading = help::MEASUREMENT)]
    secret: Option<PathBuf>,
    /// Parameters of a program in the epochs that get table entries, in hexadecimal, as a controller
    /// tells them to its switches; by default those that a switch starts with
    #[arg(long, value_name = "PROGRAM=HEX", value_parser = parameters, help_heading = help::MEASUREMENT)]
    parameters: Vec<(String, Vec<u8>)>,
    /// Epochs that get table entries, of programs whose parameters change from epoch to epoch
    #[arg(long, value_name = "FIRST..LAST", default_value = "0..1", value_parser = epochs, help_heading = help::MEASUREMENT)]
    epochs: RangeInclusive<u64>,
}

/// Reads a range of epochs, both ends included.
fn epochs(text: &str) -> Result<RangeInclusive<u64>, String> {
    let range = text.split_once("..").and_then(|(first, last)| Some(first.parse().ok()?..=last.parse().ok()?));
    match range {
        Some(range) if !range.is_empty() && range.end() - range.start() < MAX_EPOCHS => Ok(range),
        _ => Err(format!("not FIRST..LAST with at most {MAX_EPOCHS} epochs")),
    }
}

/// Reads parameters of a program.
fn parameters(text: &str) -> Result<(String, Vec<u8>), String> {
    let read = text.split_once('=').and_then(|(program, bytes)| Some((program.to_owned(), bytes_of(bytes)?)));
    read.ok_or_else(|| "not PROGRAM=HEX".into())
}

/// Bytes in hexadecimal.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    let (pairs, []) = digits.as_deref()?.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// `control.json`, without its entries.
#[derive(Serialize)]
struct Control<'a> {
    version: &'static str,
    target: P4Target,
    switch: &'a str,
    epoch_shift: u32,
    programs: BTreeMap<String, ProgramControl<'a>>,
}

#[derive(Serialize)]
struct ProgramControl<'a> {
    layout: ProgramLayout,
    crcs: Vec<Crc<'a>>,
    registers: &'a [P4Register],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    halves: &'a [P4Halves],
}

/// The parameters of a CRC: zlib's, but for the polynomial.
#[derive(Serialize)]
struct Crc<'a> {
    action: &'a str,
    /// In hexadecimal, as all three numbers.
    polynomial: String,
    init: &'static str,
    xorout: &'static str,
    reflect_in: bool,
    reflect_out: bool,
}

/// `member.json`: what a switch says of itself to a controller (`controller.proto`, Hello).
#[derive(Serialize)]
struct Member<'a> {
    name: &'a str,
    epoch_ns: u64,
    transit_ns: u64,
    dscp: bool,
    /// Those whose records a controller takes.
    programs: Vec<MemberProgram>,
}

#[derive(Serialize)]
struct MemberProgram {
    name: String,
    program: ProgramConfig,
    /// Those that it starts with, in hexadecimal.
    parameters: String,
}

impl<'a> Member<'a> {
    fn new(config: &'a Config) -> Self {
        let program = |(name, program): (String, &ProgramConfig)| MemberProgram {
            name,
            program: program.clone(),
            parameters: program.start().iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let epoch_ns = config.switch.epoch.nanos();
        let networked = ProgramConfig::named(&config.programs).filter(|(_, program)| program.is_networked());
        Self {
            name: config.known_as(),
            epoch_ns,
            transit_ns: EpochClock::longest_transit(epoch_ns).min(config.switch.transit.nanos()),
            dscp: config.switch.telemetry_header == TelemetryHeader::Dscp,
            programs: networked.map(program).collect(),
        }
    }
}

impl P4 {
    pub fn run(&self) -> Result<(), Failure> {
        let config = match &self.config {
            Some(path) => Config::load(path)?,
            None => in_memory(self.programs.or_default()?),
        };
        if config.switch.key == KeyHeaders::Inner {
            let why = "the P4 sources read no packets inside tunnels; outer is what they have";
            return Err(Failure::Usage(format!("switch.key = inner: {why}")));
        }
        let (hashes, origin) = self.hashes(config.switch.reproducible)?;
        let epoch = config.switch.epoch.nanos();
        if !epoch.is_power_of_two() {
            let why = "a P4 switch reads the epoch from the bits of its clock; use a power of two, as 67108864ns";
            return Err(Failure::Usage(format!("epoch = \"{}\": {why}", config.switch.epoch)));
        }
        // Of a switch whose ports are not known, programs have the form that they plan for.
        let programs = if self.config.is_some() { config.programs_here() } else { config.programs.clone() };
        let config = Config { programs, ..config };
        let switch = config.known_as();
        if config.programs.is_empty() {
            return Err(Failure::Usage("no program is configured, so there is nothing to write".into()));
        }
        let forms: Vec<_> = ProgramConfig::named(&config.programs)
            .map(|(name, program)| {
                if name != program.name() {
                    return Err(Failure::Usage(format!("{name}: a P4 switch has each program once")));
                }
                let parameters = self.parameters_of(&name, program)?;
                let form = program.p4(switch, &hashes, self.target, self.epochs.clone(), &parameters)?;
                let form = form.ok_or_else(|| Failure::Usage(format!("{name} has no P4 sources")))?;
                Ok((name, ProgramLayout::new(&program.layout(switch)?), form))
            })
            .collect::<Result<_, Failure>>()?;
        if let Some((name, _)) = self.parameters.iter().find(|(name, _)| forms.iter().all(|form| form.0 != *name)) {
            return Err(Failure::Usage(format!("--parameters {name}=…: no such program is configured")));
        }
        let constants = self.constants(epoch.ilog2(), &origin, &forms);
        let entries = forms.iter().flat_map(|(.., form)| &form.entries);
        let control = with_entries(&self.control(switch, epoch.ilog2(), &forms), entries).map_err(Failure::failed)?;
        std::fs::create_dir_all(&self.out).map_err(|error| failed(&self.out, &error))?;
        self.write("constants.p4", constants.as_bytes())?;
        self.write("control.json", control.as_bytes())?;
        let member = serde_json::to_string_pretty(&Member::new(&config)).map_err(Failure::failed)?;
        self.write("member.json", (member + "\n").as_bytes())
    }

    /// The hash functions of the network, and the option that gave them.
    fn hashes(&self, configured: Option<u64>) -> Result<(HashFamily, String), Failure> {
        if let Some(path) = &self.secret {
            let text = std::fs::read_to_string(path).map_err(|error| failed(path, &error))?;
            let secret = bytes_of(text.trim()).and_then(|bytes| bytes.try_into().ok());
            let secret = secret.ok_or_else(|| {
                Failure::Usage(format!("{}: not {} hexadecimal digits", path.display(), 2 * HashFamily::SECRET_BYTES))
            })?;
            return Ok((HashFamily::from_secret(secret), "--secret FILE".into()));
        }
        let seed = self.reproducible.or(configured).ok_or_else(|| {
            let why =
                "--reproducible SEED or --secret FILE: a P4 switch hashes as the other switches of its network do";
            Failure::Usage(why.into())
        })?;
        Ok((HashFamily::reproducible(seed), format!("--reproducible {seed}")))
    }

    /// The parameters with which a program measures the epochs.
    fn parameters_of(&self, name: &str, program: &ProgramConfig) -> Result<Vec<u8>, Failure> {
        let Some((_, given)) = self.parameters.iter().find(|(of, _)| of == name) else { return Ok(program.start()) };
        program.fits(given).map_err(|error| Failure::Usage(format!("--parameters {name}=…: {error}")))?;
        Ok(given.clone())
    }

    fn write(&self, file: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.out.join(file);
        std::fs::write(&path, bytes).map_err(|error| failed(&path, &error))
    }

    /// `constants.p4`.
    fn constants(&self, epoch_shift: u32, origin: &str, forms: &[(String, ProgramLayout, P4Form)]) -> String {
        let target = self.target.name();
        let mut text = format!(
            "/* Written by `weir p4 --target {target} {origin}`, for p4/switch/{target}.p4. Do not edit. */\n\n"
        );
        define(&mut text, "EPOCH_SHIFT", &P4Constant { name: String::new(), value: epoch_shift.into(), bits: 0 });
        text.push_str("/* Copies of each register array, by the lowest bits of an epoch's number. */\n");
        text.push_str("#ifndef EPOCH_COPY_BITS\n#define EPOCH_COPY_BITS 1\n#endif\n");
        for (name, layout, form) in forms {
            let program = symbol(name);
            let _ = write!(text, "\n#define {program}\n");
            for array in &layout.arrays {
                let of = format!("{program}_{}_{}", symbol(&array.name), array.index);
                let number = |value| P4Constant { name: String::new(), value, bits: 0 };
                define(&mut text, &format!("{of}_CELLS"), &number(array.cells));
                define(&mut text, &format!("{of}_BITS"), &number(array.cell_bits.into()));
            }
            for constant in &form.constants {
                define(&mut text, &format!("{program}_{}", constant.name), constant);
            }
            if self.target == P4Target::T2na {
                for crc in &form.crcs {
                    let constant =
                        P4Constant { name: String::new(), value: crc.polynomial.reveal().into(), bits: u32::BITS };
                    define(&mut text, &format!("CRC_{}", symbol(&crc.action)), &constant);
                }
            }
        }
        text
    }

    fn control<'a>(
        &self,
        switch: &'a str,
        epoch_shift: u32,
        forms: &'a [(String, ProgramLayout, P4Form)],
    ) -> Control<'a> {
        let crc = |crc: &'a crate::program::P4Crc| Crc {
            action: &crc.action,
            polynomial: format!("{:#010x}", crc.polynomial.reveal()),
            init: "0xffffffff",
            xorout: "0xffffffff",
            reflect_in: true,
            reflect_out: true,
        };
        let program = |(name, layout, form): &'a (String, ProgramLayout, P4Form)| {
            let crcs = form.crcs.iter().map(crc).collect();
            let (registers, halves) = (&*form.registers, &*form.halves);
            (name.clone(), ProgramControl { layout: layout.clone(), crcs, registers, halves })
        };
        Control {
            version: env!("CARGO_PKG_VERSION"),
            target: self.target,
            switch,
            epoch_shift,
            programs: forms.iter().map(program).collect(),
        }
    }
}

/// The document with the entries of all programs, a line each: some tables have thousands.
fn with_entries<'a>(control: &Control<'_>, entries: impl Iterator<Item = &'a P4Entry>) -> serde_json::Result<String> {
    let document = serde_json::to_string_pretty(control)?;
    let entries = entries.map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?.join(",\n    ");
    let entries = if entries.is_empty() { entries } else { format!("\n    {entries}\n  ") };
    Ok(format!("{},\n  \"entries\": [{entries}]\n}}\n", document.strip_suffix("\n}").unwrap_or(&document)))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

/// A name as the preprocessor takes it.
fn symbol(name: &str) -> String {
    name.to_ascii_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn define(text: &mut String, name: &str, constant: &P4Constant) {
    let _ = match constant.bits {
        0 => writeln!(text, "#define {name} {}", constant.value),
        bits => writeln!(text, "#define {name} {bits}w{:#x}", constant.value),
    };
}
