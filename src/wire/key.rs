//! The fields of keys, in the order in which their bytes are hashed and stored.

use serde::Serialize;

/// A part of a key, in network order. A value that is narrower than `bits` stands in the low ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KeyField {
    pub field: &'static str,
    pub bits: u32,
    /// Leading bits of the field that count. The others are 0 in the key.
    pub kept_bits: u32,
}

impl KeyField {
    pub const fn new(field: &'static str, bits: u32) -> Self {
        Self { field, bits, kept_bits: bits }
    }

    pub const fn src(bits: u32) -> Self {
        Self::new("ip.src", bits)
    }

    pub const fn dst(bits: u32) -> Self {
        Self::new("ip.dst", bits)
    }

    /// The fields of a five-tuple whose addresses have this number of bits.
    pub const fn tuple(address_bits: u32) -> [Self; 5] {
        let [sport, dport, proto] = Self::PORTS;
        [Self::src(address_bits), Self::dst(address_bits), sport, dport, proto]
    }

    /// Ports and protocol.
    pub const PORTS: [Self; 3] = [Self::new("l4.sport", 16), Self::new("l4.dport", 16), Self::new("ip.proto", 8)];

    /// The field with the first `prefix` bits of an address alone.
    #[must_use]
    pub fn cut(self, prefix: u32) -> Self {
        let is_address = matches!(self.field, "ip.src" | "ip.dst");
        Self { kept_bits: if is_address { self.bits.min(prefix) } else { self.bits }, ..self }
    }
}
