//! How long frames are, in bytes with FCS as RFC 2544 counts them.

use std::fmt;
use std::str::FromStr;

use arrayvec::ArrayVec;
use weir::trace::SplitMix64;

use super::FCS;

/// Smallest and largest frame with FCS.
const MIN: u16 = 64;
const MAX: u16 = 9216;
/// Different lengths of one mix.
const PARTS: usize = 16;
/// An Ethernet frame's length that RFC 6985's simple IMIX is made of, and its part of twelve.
const IMIX: [(u16, u32); 3] = [(64, 7), (594, 4), (1518, 1)];

const STREAM: u64 = 0x706b_7467_0001;

/// A frame length or a mix of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Lengths without FCS, and the sum of the weights up to each.
    parts: ArrayVec<(u16, u32), PARTS>,
    total: u32,
}

impl Sizes {
    /// Length without FCS of the packet with this number.
    #[inline(always)]
    pub fn of(&self, seed: u64, packet: u64) -> u16 {
        if let [(length, _)] = self.parts[..] {
            return length;
        }
        let draw = SplitMix64::new(seed ^ STREAM).nth(packet);
        let at = ((u128::from(draw) * u128::from(self.total)) >> 64) as u32;
        self.parts.iter().find(|(_, below)| at < *below).map_or(MIN - FCS, |(length, _)| *length)
    }

    /// The length without FCS of all packets, if they have the same.
    pub fn single(&self) -> Option<u16> {
        match self.parts[..] {
            [(length, _)] => Some(length),
            _ => None,
        }
    }

    /// The longest, without FCS.
    pub fn longest(&self) -> u16 {
        self.parts.iter().map(|(length, _)| *length).max().unwrap_or(MIN - FCS)
    }

    /// Mean length with FCS.
    pub fn mean(&self) -> f64 {
        let mut below = 0;
        let weighted = self.parts.iter().map(|&(length, to)| {
            let weight = to - below;
            below = to;
            f64::from(length + FCS) * f64::from(weight)
        });
        weighted.sum::<f64>() / f64::from(self.total)
    }

    fn of_parts(parts: &[(u16, u32)]) -> Result<Self, String> {
        let mut sizes = Self { parts: ArrayVec::new(), total: 0 };
        for &(length, weight) in parts {
            if !(MIN..=MAX).contains(&length) {
                return Err(format!("a frame of {length} bytes: {MIN} to {MAX} with FCS"));
            }
            let total = sizes.total.checked_add(weight).filter(|_| weight > 0);
            sizes.total = total.ok_or_else(|| format!("{length}:{weight}: weights are 1 to 2³² in all"))?;
            let room = sizes.parts.try_push((length - FCS, sizes.total));
            room.map_err(|_| format!("more than {PARTS} lengths"))?;
        }
        if sizes.parts.is_empty() { Err("no length".into()) } else { Ok(sizes) }
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self::of_parts(&[(MIN, 1)]).expect("in range")
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "imix" {
            return Self::of_parts(&IMIX);
        }
        let wrong = || format!("{text:?}: write 64, imix, or lengths with weights such as 64:7,594:4,1518:1");
        let part = |part: &str| {
            let (length, weight) = part.split_once(':').unwrap_or((part, "1"));
            Some((length.parse().ok()?, weight.parse().ok()?))
        };
        let parts = text.split(',').map(part).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        Self::of_parts(&parts)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(length, _)] = self.parts[..] {
            return write!(f, "{}", length + FCS);
        }
        let mut below = 0;
        for (i, &(length, to)) in self.parts.iter().enumerate() {
            write!(f, "{}{}:{}", if i > 0 { "," } else { "" }, length + FCS, to - below)?;
            below = to;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_round() {
        for text in ["64", "9216", "64:7,594:4,1518:1", "100:1,200:1"] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
        assert_eq!("imix".parse::<Sizes>().unwrap().to_string(), "64:7,594:4,1518:1");
        for wrong in ["63", "9217", "", "64:0", "x", "64:", "64:4294967295,65:1"] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_are_as_their_weights() {
        let imix: Sizes = "imix".parse().unwrap();
        let mut counts = [0i32; 3];
        for packet in 0..120_000 {
            let length = imix.of(9, packet);
            counts[[60, 590, 1514].iter().position(|l| *l == length).unwrap()] += 1;
        }
        for (count, expected) in counts.into_iter().zip([70_000i32, 40_000, 10_000]) {
            assert!((count - expected).abs() < 700, "{counts:?}");
        }
        assert!((imix.mean() - (7.0 * 64.0 + 4.0 * 594.0 + 1518.0) / 12.0).abs() < 1e-9);
    }
}
