//! Hashes of two arguments on which all switches of a network agree, for PINT.

use super::{Crc, Polynomial};

/// ```text
/// global(packet, argument) = CRC₃(CRC₁(packet) + CRC₂(argument))
/// ```
/// Without the addition, which carries, the whole would be linear: then the hashes of one packet at two hops differ by the
/// same word for every packet, and the hops do not sample independently.
#[derive(Debug)]
pub struct Global {
    packet: Crc,
    argument: Crc,
    sum: Crc,
}

impl Global {
    pub fn new(polynomials: [Polynomial; 3]) -> Self {
        let [packet, argument, sum] = polynomials.map(Crc::new);
        Self { packet, argument, sum }
    }

    /// The packet's part, taken once for all arguments.
    #[inline(always)]
    pub fn packet<const N: usize>(&self, identity: &[u8; N]) -> u32 {
        self.packet.hash(identity)
    }

    /// The argument's part: a hop number's or a switch's own is a constant of the switch.
    #[inline(always)]
    pub fn argument<const N: usize>(&self, argument: &[u8; N]) -> u32 {
        self.argument.hash(argument)
    }

    #[inline(always)]
    pub fn join(&self, packet: u32, argument: u32) -> u32 {
        self.sum.hash(&packet.wrapping_add(argument).to_be_bytes())
    }
}
