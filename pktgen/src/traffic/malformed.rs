//! Frames whose IP header is wrong on purpose.

use weir::trace::SplitMix64;

/// The source address of malformed frames, which no flow of a workload has (TEST-NET-2): where a
/// measurement counts them it does so apart.
pub const MALFORMED_SOURCE: u32 = 0xc633_6401;

const STREAM: u64 = 0x706b_7467_0002;

/// A fault of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A version that is neither 4 nor 6.
    Version,
    /// A header length below the shortest.
    HeaderLength,
    /// A length beyond the end of the frame.
    Length,
    /// A wrong header checksum.
    Checksum,
}

impl Malformed {
    pub const ALL: [Self; 4] = [Self::Version, Self::HeaderLength, Self::Length, Self::Checksum];

    /// The fault of the packet with this number, when a share `below` ÷ 2³² has one.
    #[inline(always)]
    pub fn of(seed: u64, packet: u64, below: u32) -> Option<Self> {
        if below == 0 {
            return None;
        }
        let draw = SplitMix64::new(seed ^ STREAM).nth(packet);
        (((draw >> 32) as u32) < below).then(|| Self::ALL[draw as usize % 4])
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::HeaderLength => "header_length",
            Self::Length => "length",
            Self::Checksum => "checksum",
        }
    }

    /// Damages an IPv4 header.
    pub fn apply(self, ip: &mut [u8]) {
        let Some(ip) = ip.first_chunk_mut::<20>() else { return };
        match self {
            Self::Version => ip[0] &= 0x0f,
            Self::HeaderLength => ip[0] = 0x44,
            Self::Length => ip[2] ^= 0x80,
            Self::Checksum => ip[10] ^= 0xff,
        }
    }
}
