//! The telemetry shim between switches.

pub use super::ethertype::SHIM as ETHERTYPE;

/// Bytes that the shim adds to a frame.
pub const LEN: usize = 6;

/// The only version so far. Not 0, so that a frame of zeros behind the EtherType is not taken for a shim.
pub const VERSION: u8 = 1;

/// Whether this switch speaks the version in the shim's second byte behind the EtherType.
#[inline(always)]
pub(super) fn is_known(byte: u8) -> bool {
    byte >> 6 == VERSION
}
