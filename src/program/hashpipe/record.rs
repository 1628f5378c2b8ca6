//! Counts as a record: how they merge, and their byte form.
//!
//! The form: a version; the number of flows; and the flows (`flows.rs`) in ascending order.
//! docs/record-format.md describes it to others.

use super::{Config, Counts, HashPipe};
use crate::program::bytes::{MAX_U64, Reader, Writer};
use crate::program::{DecodeError, MAX_REPLICAS, MergeError, Program, Record, flows};

/// The first byte.
const VERSION: u8 = 1;

impl Record for Counts {
    const PROGRAM: &'static str = HashPipe::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        for (flow, count) in &other.0 {
            *self.0.entry(*flow).or_default() += *count;
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut counts: Vec<_> = self.0.iter().filter(|(_, count)| count.number > 0).collect();
        counts.sort_unstable();
        let mut to = Writer(vec![VERSION]);
        to.number(counts.len() as u64);
        for (flow, &count) in counts {
            flows::write(&mut to, flow, count);
        }
        to.0
    }
}

/// Maximum number of flows in the record of a switch: its replicas' cells, each with a flow of its
/// own.
pub(super) fn most_flows(config: &Config) -> usize {
    config.stages as usize * (config.slots as usize + config.slots6() as usize) * MAX_REPLICAS
}

/// The length in bytes that no record of a switch exceeds.
pub(super) fn longest(config: &Config) -> usize {
    most_flows(config).saturating_mul(flows::LONGEST).saturating_add(1 + MAX_U64)
}

impl Counts {
    /// Reads the byte form of at most `max` flows. Memory is taken for flows as they come.
    ///
    /// # Errors
    /// If these are not the bytes of counts, whole and without anything behind them.
    pub fn decode(bytes: &[u8], max: usize) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let number = from.number("the number of flows")?;
        if number > max as u64 {
            return from.wrong("the number of flows", "at most one for each cell of the switch");
        }
        let counts = from.ascending("a flow", number, |from| {
            let (flow, count) = flows::read(from)?;
            match count.number {
                0 => from.wrong("a count", "flows without any are not written"),
                number if count.at_least && number < u32::MAX.into() => {
                    from.wrong("a count", "a cell that is full holds more")
                }
                _ => Ok((flow, count)),
            }
        })?;
        from.end()?;
        Ok(Self(counts.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::program::Counted;
    use crate::wire::Flow;

    fn flow() -> impl Strategy<Value = Flow> {
        let ip = || prop::option::of(any::<IpAddr>());
        let port = || prop::option::of(any::<u16>());
        (ip(), ip(), port(), port(), prop::option::of(any::<u8>())).prop_map(|(src, dst, sport, dport, proto)| Flow {
            src,
            dst,
            sport,
            dport,
            proto,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(counts in prop::collection::hash_map(flow(), (1..u64::MAX, any::<bool>()), 0..40)) {
            let counted = |(number, full): (u64, bool)| Counted { number, at_least: full && number >= u32::MAX.into() };
            let counts = Counts(counts.into_iter().map(|(flow, count)| (flow, counted(count))).collect());
            prop_assert_eq!(Counts::decode(&counts.encode(), 40), Ok(counts));
        }

        /// Any bytes are counts or an error, and counts have one encoding.
        #[test]
        fn other_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0..40usize) {
            let bytes = [vec![VERSION, 1], bytes].concat();
            if let Ok(counts) = Counts::decode(&bytes, 9) {
                prop_assert_eq!(counts.encode(), bytes);
            }
            let good = Counts([(Flow { sport: Some(7), ..Flow::default() }, 300.into())].into_iter().collect()).encode();
            let cut = cut % good.len();
            prop_assert!(Counts::decode(&good[..cut], 9).is_err());
        }
    }

    #[test]
    fn a_golden_vector() {
        let flow = |src: [u8; 4], port| Flow {
            src: Some(IpAddr::from(src)),
            dst: Some(IpAddr::from([10, 0, 0, 2])),
            sport: Some(port),
            dport: Some(80),
            proto: Some(6),
        };
        let wide = Flow { src: Some(IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 1])), ..Flow::default() };
        let counts = [(flow([10, 0, 0, 1], 0x1234), 300.into()), (wide, 1.into())].into_iter().collect();
        let bytes = Counts(counts).encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "0102750a0000010a0000021234005006ac0202fe80000000000000000000000000000101");
        let full = Counts([(flow([10, 0, 0, 1], 0x1234), Counted::of_register(u32::MAX))].into_iter().collect());
        assert_eq!(full.encode(), [&[1, 1, 0xf5][..], &bytes[3..16], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat());
        let refused = |at: usize, byte| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Counts::decode(&bytes, 3).unwrap_err().to_string()
        };
        assert_eq!(refused(0, 2), "version 2, and 1 is understood");
        assert_eq!(refused(2, 0x77), "a flow's fields before byte 3: an address is of one family");
        assert_eq!(refused(2, 0xf5), "a count before byte 18: a cell that is full holds more");
        assert_eq!(refused(1, 3), "it ends after 36 bytes, in a flow's fields");
        assert!(refused(bytes.len() - 1, 0).ends_with("flows without any are not written"));
        let descending = [&bytes[..2], &bytes[17..], &bytes[2..17]].concat();
        let error = Counts::decode(&descending, 2).unwrap_err().to_string();
        assert!(error.ends_with("each once, in ascending order"), "{error}");
        assert_eq!(
            Counts::decode(&bytes, 1).unwrap_err().to_string(),
            "the number of flows before byte 2: at most one for each cell of the switch"
        );
    }
}
