//! What a port is connected to, as a user writes it.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest name of a network interface in bytes (IFNAMSIZ without the zero).
const INTERFACE_NAME: usize = 15;

/// A device behind a port, written `KIND` or `KIND:ARGUMENTS`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Dev {
    /// `tap:NAME`: a new interface of the kernel, gone when weir ends.
    Tap { interface: String },
    /// `veth:IFACE`: an interface that exists, by packet sockets; the kernel's offloads may stay on.
    Veth { interface: String },
    /// `pci:ADDRESS`: a network card that is bound to a driver DPDK can use.
    Pci { address: String },
    /// `pcap:IN,OUT` or `pcap:IN,OUT,infinite`: packets from one file, to another; either may be left empty.
    Pcap { input: String, output: String, infinite: bool },
    /// `ring:NAME`: what is sent comes back.
    Ring { name: String },
    /// `null`: packets of `size` zero bytes as fast as they are fetched; takes any. `copy` touches each byte.
    Null { size: u16, copy: bool },
    /// `memory`: frames that a test puts in and takes out.
    Memory,
}

/// Why a device is none, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no device: {problem}")]
pub struct DevError {
    pub given: String,
    pub problem: String,
}

const KINDS: &str =
    "tap:NAME, veth:IFACE, pci:ADDRESS, pcap:IN,OUT[,infinite], ring:NAME, null[:size=64,copy=1] or memory";

impl FromStr for Dev {
    type Err = DevError;

    fn from_str(given: &str) -> Result<Self, DevError> {
        let (kind, arguments) = given.split_once(':').unwrap_or((given, ""));
        let dev = match kind {
            "tap" => interface(arguments, "tap:wtap0").map(|interface| Self::Tap { interface }),
            "veth" => interface(arguments, "veth:veth0").map(|interface| Self::Veth { interface }),
            "pci" => pci(arguments),
            "pcap" => pcap(arguments),
            "ring" => ring(arguments),
            "null" => null(arguments),
            "memory" if arguments.is_empty() => Ok(Self::Memory),
            "memory" => Err("memory takes no arguments".to_owned()),
            _ => Err(format!("expected {KINDS}")),
        };
        dev.map_err(|problem| DevError { given: given.to_owned(), problem })
    }
}

fn interface(name: &str, example: &str) -> Result<String, String> {
    // The kernel's own rule (dev_valid_name), and no comma, which would end the argument of a DPDK device.
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | ',');
    if name.is_empty() || name.len() > INTERFACE_NAME || name.contains(odd) || matches!(name, "." | "..") {
        return Err(format!(
            "an interface name has 1 to {INTERFACE_NAME} characters, none of them a space, slash, colon or comma, as in {example}"
        ));
    }
    Ok(name.to_owned())
}

/// `[domain:]bus:device.function` in hexadecimal.
fn pci(address: &str) -> Result<Dev, String> {
    let wrong = || "a PCI address looks like pci:0000:03:00.0 (`lspci -D` lists them)".to_owned();
    let hex = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    let (rest, function) = address.rsplit_once('.').ok_or_else(wrong)?;
    let parts: Vec<_> = rest.split(':').collect();
    let (domain, bus, device) = match parts[..] {
        [bus, device] => ("0000", bus, device),
        [domain, bus, device] => (domain, bus, device),
        _ => return Err(wrong()),
    };
    let right = hex(domain, 4) && hex(bus, 2) && hex(device, 2) && matches!(function.as_bytes(), [b'0'..=b'7']);
    if !right {
        return Err(wrong());
    }
    Ok(Dev::Pci { address: format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase() })
}

fn pcap(arguments: &str) -> Result<Dev, String> {
    let parts: Vec<_> = arguments.split(',').collect();
    let (input, output, infinite) = match parts[..] {
        [input] => (input, "", false),
        [input, output] => (input, output, false),
        [input, output, "infinite"] => (input, output, true),
        _ => return Err("expected pcap:IN,OUT or pcap:IN,OUT,infinite; file names hold no comma".to_owned()),
    };
    if input.is_empty() && output.is_empty() {
        return Err("pcap needs a file to read, pcap:IN, or one to write, pcap:,OUT".to_owned());
    }
    if infinite && input.is_empty() {
        return Err("there is no file to read over and over: pcap:IN,,infinite".to_owned());
    }
    if arguments.contains(['[', ']', '"']) {
        return Err("DPDK takes no file names with brackets or quotes".to_owned());
    }
    Ok(Dev::Pcap { input: input.to_owned(), output: output.to_owned(), infinite })
}

fn ring(name: &str) -> Result<Dev, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if name.is_empty() || name.len() > 16 || !name.bytes().all(plain) {
        return Err("a ring has a name of 1 to 16 letters, digits, - or _, as in ring:loop0".to_owned());
    }
    Ok(Dev::Ring { name: name.to_owned() })
}

fn null(arguments: &str) -> Result<Dev, String> {
    let (mut size, mut copy) = (64, false);
    for argument in arguments.split(',').filter(|a| !a.is_empty()) {
        match argument.split_once('=') {
            Some(("size", value)) => {
                let number = value.parse().ok().filter(|n| (14..=1518).contains(n));
                size = number.ok_or_else(|| format!("size={value}: expected 14 to 1518 bytes"))?;
            }
            Some(("copy", "0")) => copy = false,
            Some(("copy", "1")) => copy = true,
            _ => return Err(format!("`{argument}`: expected size=BYTES or copy=0 or copy=1")),
        }
    }
    Ok(Dev::Null { size, copy })
}

impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tap { interface } => write!(f, "tap:{interface}"),
            Self::Veth { interface } => write!(f, "veth:{interface}"),
            Self::Pci { address } => write!(f, "pci:{address}"),
            Self::Pcap { input, output, infinite } => {
                write!(f, "pcap:{input},{output}{}", if *infinite { ",infinite" } else { "" })
            }
            Self::Ring { name } => write!(f, "ring:{name}"),
            Self::Null { size: 64, copy: false } => write!(f, "null"),
            Self::Null { size, copy } => write!(f, "null:size={size},copy={}", u8::from(*copy)),
            Self::Memory => write!(f, "memory"),
        }
    }
}

impl TryFrom<String> for Dev {
    type Error = DevError;

    fn try_from(given: String) -> Result<Self, DevError> {
        given.parse()
    }
}

impl From<Dev> for String {
    fn from(dev: Dev) -> Self {
        dev.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_and_written_back() {
        for text in [
            "tap:wtap0",
            "veth:eth-1.20",
            "pci:0000:03:00.0",
            "pcap:in.pcap,out.pcap",
            "pcap:/tmp/a b.pcap,",
            "pcap:,out.pcap",
            "pcap:in.pcap,,infinite",
            "ring:loop0",
            "null",
            "null:size=128,copy=1",
            "memory",
        ] {
            let dev: Dev = text.parse().unwrap();
            assert_eq!(dev.to_string(), text);
        }
    }

    #[test]
    fn short_forms() {
        assert_eq!("pci:3A:00.1".parse(), Ok(Dev::Pci { address: "0000:3a:00.1".to_owned() }));
        assert_eq!("null:copy=1".parse(), Ok(Dev::Null { size: 64, copy: true }));
        let input = Dev::Pcap { input: "in.pcap".to_owned(), output: String::new(), infinite: false };
        assert_eq!("pcap:in.pcap".parse(), Ok(input));
    }

    #[test]
    fn an_error_says_what_would_be_right() {
        for (text, hint) in [
            ("eth0", "veth:IFACE"),
            ("", "tap:NAME"),
            ("tap", "tap:wtap0"),
            ("veth:a-name-that-is-too-long", "1 to 15"),
            ("veth:a/b", "slash"),
            ("pci:03:00", "pci:0000:03:00.0"),
            ("pci:0000:03:00.8", "pci:0000:03:00.0"),
            ("pcap:", "pcap:IN"),
            ("pcap:a,b,loop", "infinite"),
            ("pcap:,b,infinite", "pcap:IN,,infinite"),
            ("ring:", "ring:loop0"),
            ("null:size=9", "14 to 1518"),
            ("null:fast", "copy=1"),
            ("memory:1", "no arguments"),
        ] {
            let error = text.parse::<Dev>().unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains(text), "{error}");
        }
    }
}
