//! Why bytes are not the header that they were taken for.

use thiserror::Error;

/// The headers that have a repr or a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Layer {
    #[error("Ethernet")]
    Ethernet,
    #[error("telemetry shim")]
    Shim,
    #[error("ARP")]
    Arp,
    #[error("IPv4")]
    Ipv4,
    #[error("IPv6")]
    Ipv6,
    #[error("TCP")]
    Tcp,
    #[error("ICMP")]
    Icmp,
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
