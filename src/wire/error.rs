//! Why bytes are not the header that they were taken for.

use std::fmt;

use thiserror::Error;

/// The headers that have a repr or a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    Ethernet,
    Shim,
    Arp,
    Ipv4,
    Ipv6,
    Tcp,
    Icmp,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ethernet => "Ethernet",
            Self::Shim => "telemetry shim",
            Self::Arp => "ARP",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Tcp => "TCP",
            Self::Icmp => "ICMP",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("{layer}: {needed} bytes needed, {had} there")]
    Short { layer: Layer, needed: usize, had: usize },
    #[error("{layer}: {field} cannot be {value}")]
    Bad { layer: Layer, field: &'static str, value: usize },
}

/// At least `needed` bytes.
pub(super) fn need(layer: Layer, needed: usize, bytes: &[u8]) -> Result<(), WireError> {
    let had = bytes.len();
    if had < needed { Err(WireError::Short { layer, needed, had }) } else { Ok(()) }
}

/// A field that must satisfy `ok`.
pub(super) fn check(layer: Layer, field: &'static str, value: impl Into<usize>, ok: bool) -> Result<(), WireError> {
    if ok { Ok(()) } else { Err(WireError::Bad { layer, field, value: value.into() }) }
}
