//! Counts as a record: how they merge, and their byte form.
//!
//! The form: a version; the number of flows; and the flows (`flows.rs`) in ascending order. Of slots
//! that hold digests, behind another version: the number of digests of IPv4, each as four bytes, a byte
//! that says whether a register was full, and the count, in ascending order; the same of IPv6; and the
//! reports. docs/record-format.md describes it to others.

use std::collections::HashMap;

use super::key::Name;
use super::{Config, Counts, Digests, HashPipe, Key};
use crate::answers::Counted;
use crate::program::bytes::{MAX_U64, Reader, Writer};
use crate::program::{DecodeError, MAX_REPLICAS, MergeError, Program, Record, Reports, flows};

/// The first byte: of counts by flow, and by digest.
const VERSION: u8 = 1;
const DIGESTS: u8 = 2;

/// Maximum length of a digest with its count.
const LONGEST_DIGEST: usize = 4 + 1 + MAX_U64;

impl Record for Counts {
    const PROGRAM: &'static str = HashPipe::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        match (&mut self.digests, &other.digests) {
            (Some(digests), Some(others)) => digests.merge(others),
            (None, None) => {}
            _ => return Err(MergeError::Shape { program: Self::PROGRAM, what: "keys" }),
        }
        for (flow, count) in &other.flows {
            *self.flows.entry(*flow).or_default() += *count;
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        if let Some(digests) = &self.digests {
            return digests.encode();
        }
        let mut counts: Vec<_> = self.flows.iter().filter(|(_, count)| count.number > 0).collect();
        counts.sort_unstable();
        let mut to = Writer(vec![VERSION]);
        to.number(counts.len() as u64);
        for (flow, &count) in counts {
            flows::write(&mut to, flow, count);
        }
        to.0
    }
}

impl Digests {
    fn merge(&mut self, others: &Self) {
        for (counts, others) in self.counts.iter_mut().zip(&others.counts) {
            for (digest, count) in others {
                *counts.entry(*digest).or_default() += *count;
            }
        }
        self.names.merge_distinct(&others.names);
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = Writer(vec![DIGESTS]);
        for counts in &self.counts {
            let mut counts: Vec<_> = counts.iter().filter(|(_, count)| count.number > 0).collect();
            counts.sort_unstable();
            to.number(counts.len() as u64);
            for (digest, count) in counts {
                to.bytes(&digest.to_be_bytes());
                to.bytes(&[count.at_least.into()]);
                to.number(count.number);
            }
        }
        self.names.encode(&mut to);
        to.0
    }

    fn decode(from: &mut Reader<'_>, max: usize, names: usize) -> Result<Self, DecodeError> {
        from.version(DIGESTS)?;
        let mut counts: [HashMap<u32, Counted>; 2] = Default::default();
        for of_family in &mut counts {
            let number = number(from, max)?;
            let counts = from.ascending("a digest", number, |from| {
                let digest = u32::from_be_bytes(from.take("a digest")?);
                let at_least = match from.take("a count")? {
                    [0] => false,
                    [1] => true,
                    _ => return from.wrong("a count", "whether a register was full is 0 or 1"),
                };
                let number = from.number("a count")?;
                Ok((digest, checked(from, Counted { number, at_least })?))
            })?;
            of_family.extend(counts);
        }
        Ok(Self { counts, names: Reports::decode(from, names)? })
    }
}

/// The bounds of a switch's record.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Flows, or digests: the cells of its replicas, each with one of its own.
    flows: usize,
    /// Reported names; none where slots hold fields.
    names: Option<usize>,
}

impl Room {
    pub fn of(config: &Config) -> Self {
        let flows = config.stages as usize * (config.slots as usize + config.slots6() as usize) * MAX_REPLICAS;
        Self { flows, names: (config.key == Key::Digest32).then(|| config.names() as usize) }
    }
}

/// The length in bytes that no record of a switch exceeds.
pub(super) fn longest(config: &Config) -> usize {
    let Room { flows, names } = Room::of(config);
    let digests = names.map(|names| flows.saturating_mul(LONGEST_DIGEST) + MAX_U64 + Reports::<Name>::max_bytes(names));
    digests.unwrap_or_else(|| flows.saturating_mul(flows::LONGEST)).saturating_add(1 + MAX_U64)
}

impl Counts {
    /// Reads the byte form of counts that there is room for. Memory is taken as they come.
    ///
    /// # Errors
    /// If these are not the bytes of counts, whole and without anything behind them.
    pub fn decode(bytes: &[u8], room: &Room) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        let counts = match room.names {
            None => Self::decode_flows(&mut from, room.flows)?,
            Some(names) => {
                let digests = Digests::decode(&mut from, room.flows, names)?;
                Self { digests: Some(digests), ..Self::default() }
            }
        };
        from.end()?;
        Ok(counts)
    }

    fn decode_flows(from: &mut Reader<'_>, max: usize) -> Result<Self, DecodeError> {
        from.version(VERSION)?;
        let number = number(from, max)?;
        let counts = from.ascending("a flow", number, |from| {
            let (flow, count) = flows::read(from)?;
            Ok((flow, checked(from, count)?))
        })?;
        Ok(counts.into_iter().collect())
    }
}

/// The number of flows or digests that follow.
fn number(from: &mut Reader<'_>, max: usize) -> Result<u64, DecodeError> {
    let number = from.number("the number of flows")?;
    if number > max as u64 {
        return from.wrong("the number of flows", "at most one for each cell of the switch");
    }
    Ok(number)
}

/// A count, if a table can have it.
fn checked(from: &Reader<'_>, count: Counted) -> Result<Counted, DecodeError> {
    match count.number {
        0 => from.wrong("a count", "flows without any are not written"),
        number if count.at_least && number < u32::MAX.into() => from.wrong("a count", "a cell that is full holds more"),
        _ => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::program::ReportBuffer;
    use crate::wire::{FiveTuple, Flow, Headers, Net};

    const NAMES: usize = 8;

    fn room(flows: usize, names: Option<usize>) -> Room {
        Room { flows, names }
    }

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
            let counts: Counts = counts.into_iter().map(|(flow, count)| (flow, counted(count))).collect();
            prop_assert_eq!(Counts::decode(&counts.encode(), &room(40, None)), Ok(counts));
        }

        /// Any bytes are counts or an error, and counts have one encoding.
        #[test]
        fn other_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0..40usize) {
            let bytes = [vec![VERSION, 1], bytes].concat();
            if let Ok(counts) = Counts::decode(&bytes, &room(9, None)) {
                prop_assert_eq!(counts.encode(), bytes);
            }
            let flows = [(Flow { sport: Some(7), ..Flow::default() }, 300.into())];
            let good = flows.into_iter().collect::<Counts>().encode();
            let cut = cut % good.len();
            prop_assert!(Counts::decode(&good[..cut], &room(9, None)).is_err());
        }
    }

    /// Digests with the reports of flows, and bytes that are none.
    #[derive(Clone, Debug)]
    struct Written {
        counts: Counts,
        bytes: Vec<u8>,
    }

    fn digests() -> impl Strategy<Value = Written> {
        let counts = || prop::collection::hash_map(any::<u32>(), 1..u64::MAX, 0..20);
        let tuple = (any::<bool>(), any::<u128>(), any::<u128>(), 0u64..1 << 40);
        let names = prop::collection::vec(tuple, 0..9);
        (counts(), counts(), names).prop_map(|(v4, v6, names)| {
            let mut reported = ReportBuffer::with_capacity(NAMES);
            for (is_ipv6, src_ip, dst_ip, ports) in names {
                let (net, mask) = if is_ipv6 { (Net::Ipv6, u128::MAX) } else { (Net::Ipv4, u32::MAX.into()) };
                let (src_ip, dst_ip, sport, dport) = (src_ip & mask, dst_ip & mask, (ports >> 24) as u16, ports as u16);
                let headers = Headers { net, src_ip, dst_ip, sport, dport, proto: 6, ..Headers::default() };
                reported.push(Name(FiveTuple::of(&headers).unwrap()));
            }
            let counted = |(digest, number): (u32, u64)| {
                (digest, Counted { number, at_least: number >= u32::MAX.into() && digest & 1 == 1 })
            };
            let counts = [v4, v6].map(|counts| counts.into_iter().map(counted).collect());
            let digests = Digests { counts, names: reported.read() };
            let counts = Counts { digests: Some(digests), ..Counts::default() };
            Written { bytes: counts.encode(), counts }
        })
    }

    proptest! {
        #[test]
        fn digests_that_are_written_are_read(written in digests()) {
            let Written { counts, bytes } = written;
            prop_assert_eq!(Counts::decode(&bytes, &room(20, Some(NAMES))), Ok(counts));
        }

        /// Any bytes are digests or an error, and digests have one encoding.
        #[test]
        fn other_bytes_of_digests_are_refused(written in digests(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let Written { mut bytes, .. } = written;
            prop_assert!(Counts::decode(&bytes[..cut.index(bytes.len())], &room(20, Some(NAMES))).is_err());
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(counts) = Counts::decode(&bytes, &room(20, Some(NAMES))) {
                prop_assert_eq!(counts.encode(), bytes);
            }
        }

        /// The record of two replicas has the counts and the names of both.
        #[test]
        fn digests_add_up(one in digests(), other in digests()) {
            let mut sum = one.counts.clone();
            sum.merge(&other.counts).unwrap();
            let [sum, one, other] = [sum, one.counts, other.counts].map(|counts| counts.digests.unwrap());
            for family in 0..2 {
                for digest in one.counts[family].keys().chain(other.counts[family].keys()) {
                    let of = |digests: &Digests| digests.counts[family].get(digest).copied().unwrap_or_default();
                    let mut both = of(&one);
                    both += of(&other);
                    prop_assert_eq!(of(&sum), both);
                }
            }
            let kept = |name: &Name| sum.names.kept().contains(name);
            prop_assert!(one.names.kept().iter().chain(other.names.kept()).all(kept) || sum.names.overflow() > 0);
        }
    }

    #[test]
    fn counts_of_other_keys_do_not_add_up() {
        let digests = Some(Digests::named(Reports::none(3)));
        let mut counts = Counts { digests, ..Counts::default() };
        assert!(counts.merge(&Counts::default()).is_err() && Counts::default().merge(&counts).is_err());
    }

    #[test]
    fn a_golden_vector_of_digests() {
        let headers = Headers {
            net: Net::Ipv4,
            src_ip: 0x0a00_0001,
            dst_ip: 0x0a00_0002,
            sport: 0x1234,
            dport: 80,
            proto: 6,
            ..Headers::default()
        };
        let mut names = ReportBuffer::with_capacity(2);
        names.push(Name(FiveTuple::of(&headers).unwrap()));
        let counts = [[(0x0102_0304, 300.into())].into(), [(5, Counted::of_register(u32::MAX))].into()];
        let counts = Counts { digests: Some(Digests { counts, names: names.read() }), ..Counts::default() };
        let hex: String = counts.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        let name = "0000041234005006 0000000000000000 000000000a000001 0000000000000000 000000000a000002";
        let expected = format!("02 01 01020304 00 ac02 01 00000005 01 ffffffff0f 01 {name} 00");
        assert_eq!(hex, expected.replace(' ', ""));
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
        let counts = [(flow([10, 0, 0, 1], 0x1234), 300.into()), (wide, 1.into())];
        let bytes = counts.into_iter().collect::<Counts>().encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "0102750a0000010a0000021234005006ac0202fe80000000000000000000000000000101");
        let full = [(flow([10, 0, 0, 1], 0x1234), Counted::of_register(u32::MAX))].into_iter().collect::<Counts>();
        assert_eq!(full.encode(), [&[1, 1, 0xf5][..], &bytes[3..16], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat());
        let refused = |at: usize, byte| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Counts::decode(&bytes, &room(3, None)).unwrap_err().to_string()
        };
        assert_eq!(refused(0, 2), "version 2, and 1 is understood");
        assert_eq!(refused(2, 0x77), "a flow's fields before byte 3: an address is of one family");
        assert_eq!(refused(2, 0xf5), "a count before byte 18: a cell that is full holds more");
        assert_eq!(refused(1, 3), "it ends after 36 bytes, in a flow's fields");
        assert!(refused(bytes.len() - 1, 0).ends_with("flows without any are not written"));
        let descending = [&bytes[..2], &bytes[17..], &bytes[2..17]].concat();
        let error = Counts::decode(&descending, &room(2, None)).unwrap_err().to_string();
        assert!(error.ends_with("each once, in ascending order"), "{error}");
        assert_eq!(
            Counts::decode(&bytes, &room(1, None)).unwrap_err().to_string(),
            "the number of flows before byte 2: at most one for each cell of the switch"
        );
    }
}
