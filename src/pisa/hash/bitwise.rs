//! The oracle: a reflected CRC-32 one bit at a time. Everything else in this module is held to it.

use super::Polynomial;

/// ```text
/// register ← init
/// for each byte:  register ← register xor byte
///     eight times: shift right; if a 1 fell out, xor with the reflected polynomial
/// hash ← register xor xorout
/// ```
pub fn crc(polynomial: Polynomial, init: u32, xorout: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(init, |register, &byte| advance(polynomial, register ^ u32::from(byte), 8)) ^ xorout
}

/// The register after `bits` zero bits.
pub(super) fn advance(polynomial: Polynomial, register: u32, bits: u32) -> u32 {
    (0..bits).fold(register, |r, _| r >> 1 ^ if r & 1 == 1 { polynomial.reflected() } else { 0 })
}
