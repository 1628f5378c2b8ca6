//! Reports of packets in a loop, as records carry them.

use crate::program::bytes::{MAX_U32, MAX_U64, Reader, Writer};
use crate::program::pint::record::read_hops;
use crate::program::{DecodeError, Report};
use crate::wire::FiveTuple;

/// Reports of loops that a bank and a record have room for. One looping packet makes a report each
/// time that it comes round, and all say much the same, so a few are enough.
pub const LOOP_REPORTS: usize = 1024;

/// A packet that a switch found in a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Looped {
    pub time_ns: u64,
    pub flow: FiveTuple,
    /// Switches that it had passed, this one included; each time that it came by counts.
    pub hops: u8,
    pub identity: u32,
}

impl Report for Looped {
    /// Time, IPv6 five-tuple, hops, identity.
    const BITS: u32 = 64 + 296 + 6 + 32;
    const MAX_BYTES: usize = MAX_U64 + size_of::<FiveTuple>() + 1 + MAX_U32;

    fn encode(&self, to: &mut Writer) {
        to.number(self.time_ns);
        to.bytes(&self.flow.bytes());
        to.number(self.hops.into());
        to.number(self.identity.into());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (time_ns, flow) = (from.number("a time")?, FiveTuple::from_bytes(from.take("a flow")?));
        let hops = read_hops(from)?;
        Ok(Self { time_ns, flow, hops, identity: from.u32("an identity")? })
    }
}
