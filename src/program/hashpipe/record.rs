//! Counts as a record: how they merge, and their byte form.
//!
//! The form: a version; the number of flows; and for each flow, in ascending order, a byte that
//! says which fields follow and whether the count is the least that it can be, the fields in network
//! order, and the count. docs/record-format.md describes it to others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Config, Counts, HashPipe};
use crate::program::bytes::{MAX_U64, Reader, Writer};
use crate::program::{Counted, DecodeError, MAX_REPLICAS, MergeError, Program, Record};
use crate::wire::Flow;

/// The first byte.
const VERSION: u8 = 1;
/// Fields that follow: two bits each for the addresses (4 or 6, none 0), one for each of the
/// others.
const SRC4: u8 = 1;
const SRC6: u8 = 2;
const DST4: u8 = 4;
const DST6: u8 = 8;
const SPORT: u8 = 16;
const DPORT: u8 = 32;
const PROTO: u8 = 64;
/// A cell of the flow was full.
const AT_LEAST: u8 = 128;

impl Record for Counts {
    const PROGRAM: &'static str = HashPipe::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        for (flow, count) in &other.0 {
            *self.0.entry(*flow).or_default() += *count;
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut flows: Vec<_> = self.0.iter().filter(|(_, count)| count.number > 0).collect();
        flows.sort_unstable();
        let mut to = Writer(vec![VERSION]);
        to.number(flows.len() as u64);
        for (flow, &count) in flows {
            let fields = to.0.len();
            write_flow(&mut to, flow);
            to.0[fields] |= if count.at_least { AT_LEAST } else { 0 };
            to.number(count.number);
        }
        to.0
    }
}

fn write_flow(to: &mut Writer, flow: &Flow) {
    let fields = to.0.len();
    to.0.push(0);
    for (ip, bits) in [(flow.src, [SRC4, SRC6]), (flow.dst, [DST4, DST6])] {
        match ip {
            Some(IpAddr::V4(ip)) => {
                to.0[fields] |= bits[0];
                to.bytes(&ip.octets());
            }
            Some(IpAddr::V6(ip)) => {
                to.0[fields] |= bits[1];
                to.bytes(&ip.octets());
            }
            None => {}
        }
    }
    for (port, bit) in [(flow.sport, SPORT), (flow.dport, DPORT)] {
        if let Some(port) = port {
            to.0[fields] |= bit;
            to.bytes(&port.to_be_bytes());
        }
    }
    if let Some(proto) = flow.proto {
        to.0[fields] |= PROTO;
        to.bytes(&[proto]);
    }
}

/// A flow, and whether its count is the least that it can be.
fn read_flow(from: &mut Reader<'_>) -> Result<(Flow, bool), DecodeError> {
    let [fields] = from.take("a flow's fields")?;
    let both = |bits: u8| fields & bits == bits;
    if both(SRC4 | SRC6) || both(DST4 | DST6) {
        return from.wrong("a flow's fields", "an address is of one family");
    }
    let mut ip = |v4: u8, v6: u8| -> Result<Option<IpAddr>, DecodeError> {
        Ok(match fields {
            fields if fields & v4 != 0 => Some(IpAddr::V4(Ipv4Addr::from(from.take::<4>("an address")?))),
            fields if fields & v6 != 0 => Some(IpAddr::V6(Ipv6Addr::from(from.take::<16>("an address")?))),
            _ => None,
        })
    };
    let (src, dst) = (ip(SRC4, SRC6)?, ip(DST4, DST6)?);
    let mut port = |bit: u8| -> Result<Option<u16>, DecodeError> {
        (fields & bit != 0).then(|| Ok(u16::from_be_bytes(from.take("a port")?))).transpose()
    };
    let (sport, dport) = (port(SPORT)?, port(DPORT)?);
    let proto = (fields & PROTO != 0).then(|| from.take::<1>("a protocol")).transpose()?;
    let flow = Flow { src, dst, sport, dport, proto: proto.map(|[proto]| proto) };
    Ok((flow, fields & AT_LEAST != 0))
}

/// Maximum number of flows in the record of a switch: its replicas' cells, each with a flow of its
/// own.
pub(super) fn most_flows(config: &Config) -> usize {
    config.stages as usize * (config.slots as usize + config.slots6() as usize) * MAX_REPLICAS
}

/// The length in bytes that no record of a switch exceeds.
pub(super) fn longest(config: &Config) -> usize {
    // Fields, two IPv6 addresses, two ports, protocol, count.
    const LONGEST_FLOW: usize = 1 + 32 + 4 + 1 + MAX_U64;
    most_flows(config).saturating_mul(LONGEST_FLOW).saturating_add(1 + MAX_U64)
}

impl Counts {
    /// Reads the byte form of at most `max` flows. Memory is taken for flows as they come.
    ///
    /// # Errors
    /// If these are not the bytes of counts, whole and without anything behind them.
    pub fn decode(bytes: &[u8], max: usize) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let flows = from.number("the number of flows")?;
        if flows > max as u64 {
            return from.wrong("the number of flows", "at most one for each cell of the switch");
        }
        let counts = from.ascending("a flow", flows, |from| {
            let ((flow, at_least), number) = (read_flow(from)?, from.number("a count")?);
            match number {
                0 => from.wrong("a count", "flows without any are not written"),
                _ if at_least && number < u32::MAX.into() => from.wrong("a count", "a cell that is full holds more"),
                _ => Ok((flow, Counted { number, at_least })),
            }
        })?;
        from.end()?;
        Ok(Self(counts.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flows() -> impl Strategy<Value = Flow> {
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
        fn what_is_written_is_read(counts in prop::collection::hash_map(flows(), (1..u64::MAX, any::<bool>()), 0..40)) {
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
