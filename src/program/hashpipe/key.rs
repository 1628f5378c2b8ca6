//! A flow's key in a slot: fields of the packet, or a digest of its five-tuple.

use serde::{Deserialize, Serialize};

use crate::answers::{Digest32, FlowName};
use crate::pisa::hash::{Crc, Digest};
use crate::pisa::{Vectors, Word};
use crate::program;
use crate::program::bytes::{Reader, Writer};
use crate::program::{DecodeError, Report};
use crate::wire::{Addr4, Addr6, FiveTuple, FlowKey, Headers, Pair4, Pair6, Tuple4, Tuple6};

/// A flow's key in a slot: its fields, or with `digest32` the CRC-32 of the five-tuple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "HashpipeKey")]
pub enum Key {
    #[default]
    #[serde(rename = "5tuple")]
    Tuple,
    #[serde(rename = "pair")]
    Pair,
    #[serde(rename = "src")]
    Source,
    #[serde(rename = "dst")]
    Destination,
    #[serde(rename = "digest32")]
    Digest32,
}

impl Key {
    /// The fields that name a flow.
    pub fn fields(self) -> program::Key {
        match self {
            Self::Tuple | Self::Digest32 => program::Key::Tuple,
            Self::Pair => program::Key::Pair,
            Self::Source => program::Key::Source,
            Self::Destination => program::Key::Destination,
        }
    }
}

/// A key of slots, and how a packet's is made.
pub trait SlotKey: FlowKey + Word {
    /// Whether it is a digest, which names no flow.
    const IS_DIGEST: bool = false;
    /// Makes the key of a packet.
    type Unit: Copy + Send;

    /// Keys of addresses have their first `prefix` bits.
    fn unit(prefix: u8) -> Self::Unit;
    fn of_packet(unit: &Self::Unit, headers: &Headers, vectors: Vectors) -> Self;
    fn name(self) -> FlowName;
}

macro_rules! fields {
    ($($key:ty),*) => {$(
        impl SlotKey for $key {
            /// The bits that count.
            type Unit = Self;

            fn unit(prefix: u8) -> Self {
                Self::mask(prefix)
            }

            #[inline(always)]
            fn of_packet(mask: &Self, headers: &Headers, vectors: Vectors) -> Self {
                vectors.key::<Self>(headers).and(*mask)
            }

            fn name(self) -> FlowName {
                FlowName::Flow(self.flow())
            }
        }
    )*};
}

fields!(Tuple4, Tuple6, Pair4, Pair6, Addr4<false>, Addr6<false>, Addr4<true>, Addr6<true>);

impl<const V6: bool> SlotKey for Digest<V6> {
    const IS_DIGEST: bool = true;
    type Unit = Crc;

    fn unit(_: u8) -> Crc {
        Crc::new(Self::POLYNOMIAL)
    }

    #[inline(always)]
    fn of_packet(unit: &Crc, headers: &Headers, _: Vectors) -> Self {
        Self::by(unit, headers)
    }

    fn name(self) -> FlowName {
        FlowName::Digest32(Digest32 { is_ipv6: V6, crc: self.0, is_ambiguous: false })
    }
}

/// The report of a packet whose flow has become large enough: its five-tuple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub FiveTuple);

impl Report for Name {
    /// Of an IPv6 five-tuple.
    const BITS: u32 = <Tuple6 as FlowKey>::BITS;
    const MAX_BYTES: usize = 40;

    fn encode(&self, to: &mut Writer) {
        to.bytes(&self.0.bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = FiveTuple::from_bytes(from.take("the name of a flow")?);
        // Whatever stands in the bytes, a name has one form.
        match FiveTuple::of_flow(&name.flow()) {
            Some(of_flow) if of_flow == name => Ok(Self(name)),
            _ => from.wrong("the name of a flow", "a five-tuple of IPv4 or IPv6"),
        }
    }
}
