//! The device behind a port, as a user writes it.

use std::{fmt, path::Path, str::FromStr};

use schemars::JsonSchema;

use crate::text::serde_as_text;

mod words;

use words::{interface, memif, null, pcap, pci, ring, veth, vhost, virtio_user, xdp};

/// A device behind a port, written `KIND` or `KIND:ARGUMENTS`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(with = "String")]
pub enum Dev {
    /// `tap:NAME`: a new interface of the kernel, gone when weir ends.
    Tap { interface: String },
    /// `veth:IFACE`: an interface that exists, by packet sockets; the kernel's offloads may stay
    /// on. `cut`: the payload of its large frames is copied into packets at once.
    Veth { interface: String, cut: bool },
    /// `xdp:IFACE`: an interface that exists, by AF_XDP sockets; `copy` where its driver's
    /// zero-copy mode does not work.
    Xdp { interface: String, queues: Option<u16>, copy: bool },
    /// `memif:ID`: shared memory with another process, which has the other role on the same socket.
    Memif { id: u32, server: bool, socket: String },
    /// `vhost:PATH`: the host's end of a vhost-user socket, which is made at PATH, or with `client`
    /// found there.
    Vhost { path: String, queues: Option<u16>, client: bool },
    /// `virtio-user:PATH`: the guest's end of a vhost-user socket.
    VirtioUser { path: String, queues: Option<u16> },
    /// `pci:ADDRESS`: a network card that is bound to a driver DPDK can use.
    Pci { address: String },
    /// `pcap:IN,OUT` or `pcap:IN,OUT,infinite`: packets from one file, to another; either may be
    /// left empty.
    Pcap { input: String, output: String, infinite: bool },
    /// `ring:NAME`: what is sent comes back.
    Ring { name: String },
    /// `null`: packets of `size` zero bytes as fast as they are fetched, or with `rx=0` none; takes
    /// any. `copy` touches each byte.
    Null { size: u16, copy: bool, rx: bool },
    /// `memory`: frames that a test puts in and takes out.
    Memory,
}

/// An error in the text of a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no device: {problem}")]
pub struct DevError {
    pub given: String,
    pub problem: String,
}

const KINDS: &str = "tap:NAME, veth:IFACE, xdp:IFACE, pci:ADDRESS, memif:ID, vhost:PATH, virtio-user:PATH, \
                     pcap:IN,OUT[,infinite], ring:NAME, null[:size=64,copy=1,rx=0] or memory";

impl Dev {
    /// The form of each kind, for the JSON Schema.
    pub const PATTERN: &str = concat!(
        r"^(tap:[^\s/:,]{1,15}|(veth|xdp):[^\s/:,]{1,15}(,.*)?|memif:[0-9]+(,.*)?|(vhost|virtio-user):/.*",
        r"|pci:([0-9A-Fa-f]{4}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]|pcap:.*[^,].*|ring:[A-Za-z0-9_-]{1,16}",
        r"|null(:.*)?|memory:?)$"
    );

    /// Queues in each direction that the user wants it to have.
    pub fn queues(&self) -> Option<u16> {
        match self {
            Self::Xdp { queues, .. } | Self::Vhost { queues, .. } | Self::VirtioUser { queues, .. } => *queues,
            _ => None,
        }
    }

    /// The kernel's interface that it is, or takes its packets from.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Tap { interface } | Self::Veth { interface, .. } | Self::Xdp { interface, .. } => Some(interface),
            _ => None,
        }
    }

    /// Whether packets for it come in or wait while the port is down, as its driver cannot stop
    /// them. A file and a ring wait.
    pub fn is_fed_by_a_peer(&self) -> bool {
        let by_a_peer =
            matches!(self, Self::Pci { .. } | Self::Vhost { .. } | Self::VirtioUser { .. } | Self::Memif { .. });
        by_a_peer || matches!(self, Self::Tap { .. } | Self::Xdp { .. })
    }

    /// Whether two ports would have the same device, which one alone can have.
    pub fn is_one_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memif { .. }, _) | (Self::Pci { .. }, _) => self == other,
            (Self::Vhost { path, .. }, Self::Vhost { path: others, .. })
            | (Self::VirtioUser { path, .. }, Self::VirtioUser { path: others, .. }) => path == others,
            _ => self.interface().is_some() && self.interface() == other.interface(),
        }
    }

    /// The files that the device opens.
    pub fn files(&self) -> Vec<&Path> {
        let paths = match self {
            Self::Memif { socket: path, .. } | Self::Vhost { path, .. } | Self::VirtioUser { path, .. } => [path, ""],
            Self::Pcap { input, output, .. } => [input.as_str(), output],
            _ => [""; 2],
        };
        paths.into_iter().filter(|path| !path.is_empty()).map(Path::new).collect()
    }
}

impl FromStr for Dev {
    type Err = DevError;

    fn from_str(given: &str) -> Result<Self, DevError> {
        let (kind, arguments) = given.split_once(':').unwrap_or((given, ""));
        let dev = match kind {
            "tap" => interface(arguments, "tap:wtap0").map(|interface| Self::Tap { interface }),
            "veth" => veth(arguments),
            "xdp" => xdp(arguments),
            "memif" => memif(arguments),
            "vhost" => vhost(arguments),
            "virtio-user" => virtio_user(arguments),
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

impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tap { interface } => write!(f, "tap:{interface}"),
            Self::Veth { interface, cut } => {
                write!(f, "veth:{interface}{}", if *cut { ",segments=cut" } else { "" })
            }
            Self::Xdp { interface, queues, copy } => {
                write!(f, "xdp:{interface}")?;
                words::write_queues(f, *queues)?;
                f.write_str(if *copy { ",copy" } else { "" })
            }
            Self::Memif { id, server, socket } => {
                write!(f, "memif:{id},role={},socket={socket}", if *server { "server" } else { "client" })
            }
            Self::Vhost { path, queues, client } => {
                write!(f, "vhost:{path}")?;
                words::write_queues(f, *queues)?;
                f.write_str(if *client { ",client" } else { "" })
            }
            Self::VirtioUser { path, queues } => {
                write!(f, "virtio-user:{path}")?;
                words::write_queues(f, *queues)
            }
            Self::Pci { address } => write!(f, "pci:{address}"),
            Self::Pcap { input, output, infinite } => {
                write!(f, "pcap:{input},{output}{}", if *infinite { ",infinite" } else { "" })
            }
            Self::Ring { name } => write!(f, "ring:{name}"),
            Self::Null { size: 64, copy: false, rx: true } => write!(f, "null"),
            Self::Null { size: 64, copy: false, rx: false } => write!(f, "null:rx=0"),
            Self::Null { size, copy, rx } => {
                write!(f, "null:size={size},copy={}{}", u8::from(*copy), if *rx { "" } else { ",rx=0" })
            }
            Self::Memory => write!(f, "memory"),
        }
    }
}

serde_as_text!(Dev);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_and_written_back() {
        for text in [
            "tap:wtap0",
            "veth:eth-1.20",
            "veth:eth0,segments=cut",
            "xdp:eth0",
            "xdp:eth0,queues=4,copy",
            "memif:7,role=client,socket=/run/m.sock",
            "vhost:/run/vm1.sock",
            "vhost:/run/vm1.sock,queues=2,client",
            "virtio-user:/run/vm1.sock,queues=2",
            "pci:0000:03:00.0",
            "pcap:in.pcap,out.pcap",
            "pcap:/tmp/a b.pcap,",
            "pcap:,out.pcap",
            "pcap:in.pcap,,infinite",
            "ring:loop0",
            "null",
            "null:size=128,copy=1",
            "null:rx=0",
            "null:size=64,copy=1,rx=0",
            "memory",
        ] {
            let dev: Dev = text.parse().unwrap();
            assert_eq!(dev.to_string(), text);
        }
    }

    #[test]
    fn short_forms() {
        assert_eq!("pci:3A:00.1".parse(), Ok(Dev::Pci { address: "0000:3a:00.1".to_owned() }));
        let memif = Dev::Memif { id: 3, server: true, socket: "/run/memif.sock".to_owned() };
        assert_eq!("memif:3".parse(), Ok(memif));
        let veth = Dev::Veth { interface: "eth0".to_owned(), cut: false };
        assert_eq!("veth:eth0,segments=whole".parse(), Ok(veth));
        assert_eq!("null:copy=1".parse(), Ok(Dev::Null { size: 64, copy: true, rx: true }));
        let input = Dev::Pcap { input: "in.pcap".to_owned(), output: String::new(), infinite: false };
        assert_eq!("pcap:in.pcap".parse(), Ok(input));
    }

    #[test]
    fn a_device_is_for_one_port() {
        let one = |a: &str, b: &str| a.parse::<Dev>().unwrap().is_one_with(&b.parse().unwrap());
        for (a, b) in [
            ("veth:eth0", "veth:eth0"),
            ("veth:eth0", "xdp:eth0,copy"),
            ("veth:eth0", "veth:eth0,segments=cut"),
            ("tap:eth0", "veth:eth0"),
            ("pci:03:00.0", "pci:0000:03:00.0"),
            ("vhost:/run/v", "vhost:/run/v,queues=2"),
            ("memif:1", "memif:1"),
        ] {
            assert!(one(a, b) && one(b, a), "{a} {b}");
        }
        for (a, b) in [
            ("veth:eth0", "veth:eth1"),
            ("memif:1", "memif:1,role=client"),
            ("vhost:/run/v", "virtio-user:/run/v"),
            ("null", "null"),
            ("memory", "memory"),
            ("ring:r", "ring:r"),
            ("pcap:a,", "pcap:a,"),
        ] {
            assert!(!one(a, b) && !one(b, a), "{a} {b}");
        }
    }

    #[test]
    fn an_error_says_what_would_be_right() {
        for (text, hint) in [
            ("eth0", "veth:IFACE"),
            ("", "tap:NAME"),
            ("tap", "tap:wtap0"),
            ("veth:a-name-that-is-too-long", "1 to 15"),
            ("veth:a/b", "slash"),
            ("veth:a,segments=most", "segments=whole or segments=cut"),
            ("xdp:", "xdp:eth0"),
            ("xdp:eth0,queues=0", "1 to 64"),
            ("xdp:eth0,zerocopy", "queues=N or copy"),
            ("memif:", "memif:0"),
            ("memif:1,role=master", "role=server"),
            ("memif:1,socket=run/m.sock", "begins with /"),
            ("vhost:vm.sock", "begins with /"),
            ("vhost:/run/a,server", "queues=N or client"),
            ("virtio-user:/run/a,client", "queues=N"),
            ("pci:03:00", "pci:0000:03:00.0"),
            ("pci:0000:03:00.8", "pci:0000:03:00.0"),
            ("pcap:", "pcap:IN"),
            ("pcap:a,b,loop", "infinite"),
            ("pcap:,b,infinite", "pcap:IN,,infinite"),
            ("ring:", "ring:loop0"),
            ("null:size=9", "14 to 1518"),
            ("null:fast", "copy=1"),
            ("null:rx=2", "rx=0"),
            ("memory:1", "no arguments"),
        ] {
            let error = text.parse::<Dev>().unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains(text), "{error}");
        }
    }
}
