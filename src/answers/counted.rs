//! A count that says whether a register was full.

use std::fmt;
use std::ops::AddAssign;

/// A number that was counted, or the least that it can be because a register was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counted {
    pub number: u64,
    /// A register that the number comes from had its largest value, so that more may have come.
    pub at_least: bool,
}

impl Counted {
    /// The content of a register whose counts stay at the largest number.
    pub fn of_register(count: u32) -> Self {
        Self { number: count.into(), at_least: count == u32::MAX }
    }
}

/// A number without doubt.
impl From<u64> for Counted {
    fn from(number: u64) -> Self {
        Self { number, at_least: false }
    }
}

/// A sum is as uncertain as any of its parts.
impl AddAssign for Counted {
    fn add_assign(&mut self, more: Self) {
        let sum = self.number.checked_add(more.number);
        self.at_least |= more.at_least | sum.is_none();
        self.number = sum.unwrap_or(u64::MAX);
    }
}

/// "7", or "at least 7".
impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at_least {
            false => fmt::Display::fmt(&self.number, f),
            true => f.pad(&format!("at least {}", self.number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_register_marks_every_sum_with_it() {
        let full = Counted::of_register(u32::MAX);
        let mut sum = Counted::of_register(u32::MAX - 1);
        assert!(full.at_least && !sum.at_least);
        sum += 7.into();
        assert_eq!(sum, u64::from(u32::MAX).saturating_add(6).into(), "a sum may be as large and certain");
        sum += full;
        sum += 1.into();
        assert_eq!(sum, Counted { number: 2 * u64::from(u32::MAX) + 7, at_least: true });
        assert_eq!((sum.to_string(), format!("{:>3}", Counted::from(7))), ("at least 8589934597".into(), "  7".into()));
        sum += u64::MAX.into();
        assert_eq!(sum, Counted { number: u64::MAX, at_least: true });
    }
}
