//! Counters of 8, 16 and 32 bits.

use crate::pisa::Word;

/// A counter. With a sign it is in two's complement.
pub trait Counter: Word {
    /// The counter after an addition or subtraction. It stays at its largest and smallest number.
    fn add(self, weight: u32, is_negative: bool) -> Self;

    /// The counter without a sign after an addition. It stays at its largest number.
    fn add_unsigned(self, weight: u32) -> Self;

    /// The number, and whether the counter may be full.
    fn held(self, is_signed: bool) -> (i64, bool);
}

macro_rules! counters {
    ($($unsigned:ident, $signed:ident;)*) => {$(
        impl Counter for $unsigned {
            #[inline(always)]
            fn add(self, weight: u32, is_negative: bool) -> Self {
                let weight = weight.min($signed::MAX as u32) as $signed;
                let weight = if is_negative { -weight } else { weight };
                (self as $signed).saturating_add(weight) as $unsigned
            }

            #[inline(always)]
            fn add_unsigned(self, weight: u32) -> Self {
                self.saturating_add(weight.min(u32::from($unsigned::MAX)) as $unsigned)
            }

            fn held(self, is_signed: bool) -> (i64, bool) {
                let signed = self as $signed;
                match is_signed {
                    true => (signed.into(), signed == $signed::MAX || signed == $signed::MIN),
                    false => (self.into(), self == $unsigned::MAX),
                }
            }
        }
    )*};
}

counters! {
    u8, i8;
    u16, i16;
    u32, i32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stay_at_their_ends() {
        assert_eq!(0u8.add(100, true).held(true), (-100, false));
        assert_eq!(0u8.add(100, true).add(100, true).held(true), (-128, true));
        assert_eq!(0u16.add(70_000, false).held(true), (32_767, true));
        assert_eq!(250u8.add_unsigned(9).held(false), (255, true));
        assert_eq!(7u32.add_unsigned(9).held(false), (16, false));
        assert_eq!(3u32.add(4, true).held(true), (-1, false));
        assert_eq!(3u32.add(4, true).add(u32::MAX, false).held(true), (i64::from(i32::MAX) - 1, false));
    }
}
