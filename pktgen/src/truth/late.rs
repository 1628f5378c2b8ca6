//! Frames that came when the bank of their epoch was closed.

/// Most of them that wait to be handed over, on each core.
const WAITING: usize = 1 << 20;

/// Late frames of a core since it handed some over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// The epoch and the flow's number of each.
    pub frames: Vec<(u64, u32)>,
    /// Frames for which there was no room: of these only the number is known.
    pub more: u64,
}

impl Late {
    pub fn push(&mut self, epoch: u64, flow: u32) {
        if self.frames.len() < WAITING {
            self.frames.push((epoch, flow));
        } else {
            self.more += 1;
        }
    }

    /// All of them.
    pub fn packets(&self) -> u64 {
        self.frames.len() as u64 + self.more
    }
}

/// The epoch of a frame with these low bits that was sent `age_ns` before `now` (both in
/// nanoseconds): the nearest one with these bits, as clocks of cores differ a little.
pub fn epoch_of(now: u64, age_ns: u64, length_ns: u64, low: u8) -> u64 {
    let near = now.saturating_sub(age_ns) / length_ns;
    // From 128 below to 127 above.
    let off = low.wrapping_sub(near as u8) as i8;
    near.saturating_add_signed(off.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_known_by_age_and_low_bits() {
        let length = 1_000;
        for (sent, age) in [(70_300_500u64, 0u64), (70_300_500, 5_000), (70_300_500, 300_000), (70_300_001, 9_000_000)]
        {
            let epoch = sent / length;
            for skew in [-90_000i64, -600, 0, 600, 90_000] {
                let now = (sent + age).saturating_add_signed(skew);
                assert_eq!(epoch_of(now, age, length, epoch as u8), epoch, "{sent} {age} {skew}");
            }
        }
        assert_eq!(epoch_of(5, 1_000, 10, 0), 0, "before 1970");
    }

    #[test]
    fn what_waits_is_bounded_and_counted() {
        let mut late = Late::default();
        (0..WAITING as u64 + 7).for_each(|epoch| late.push(epoch, 1));
        assert_eq!((late.frames.len(), late.more, late.packets()), (WAITING, 7, WAITING as u64 + 7));
    }
}
