//! DiSketch's P4 form for BMv2 (`p4/disketch/v1model.p4`).

use super::super::config::{Config, SketchKind};
use super::super::hashes::{Hashes, LABEL, LEVEL_WORD};
use super::super::{DiSketch, Unit};
use crate::pisa::hash::{HashLayout, HighRange};
use crate::program::{P4Crc, P4Entry, P4Form, P4Register, P4Request};

/// Epochs are matched by these bits of their numbers.
const EPOCH_MASK: u64 = 0xffff;

/// The P4 form of a configuration. It has no number of sub-epochs: a switch decides that at run time.
pub fn form(of: &P4Request<'_, Config>) -> P4Form {
    let Config { sketch, counter_bits, count, .. } = of.config;
    let hashes = &DiSketch::shape(of.config, of.switch, of.hashes).hashes;
    let mut form = P4Form::default();
    form.constant("LEVELS", sketch.levels());
    form.constant("SIGNED", sketch.is_signed());
    form.constant("COUNT_BYTES", *count == Unit::Bytes);
    form.constant("MAX_WEIGHT", max_weight(*sketch, *counter_bits));
    form.constant("MAX_CUTS", of.config.max_sub_epochs.ilog2());
    form.constant("SINGLE_HOP", of.config.single_hop);
    form.constant("COVER", of.config.cover);
    form.constant("INDEX_SHIFT", index_shift(hashes.range()));
    form.constant("INDEX_SPARE", !hashes.range().slots().is_power_of_two());
    form.number("LEVEL_WORD", u32::BITS, LEVEL_WORD);
    masks(of.config, &mut form);
    for index in 0..3 {
        let polynomial = HashLayout::crc(LABEL, index).polynomial(of.hashes);
        form.crcs.push(P4Crc { action: format!("disketch.crcs.ipv4_{index}"), polynomial });
        form.crcs.push(P4Crc { action: format!("disketch.crcs.ipv6_{index}"), polynomial });
    }
    for level in 0..sketch.levels() {
        form.registers.push(P4Register {
            register: format!("disketch.level_{level}.counters"),
            array: "counters".into(),
            index: level,
            field: 0,
            shift: 0,
            bits: *counter_bits,
            cells: of.config.width().get().into(),
        });
        form.entries.extend(remainders(level, hashes.range()));
    }
    form.entries.extend(of.epochs.clone().map(|epoch| constants(hashes, epoch)));
    form
}

/// The largest number that a packet adds to a counter.
fn max_weight(sketch: SketchKind, counter_bits: u32) -> u64 {
    let bits = if sketch.is_signed() { counter_bits - 1 } else { counter_bits };
    (1 << bits) - 1
}

/// By how many bits an index hash is shifted. One counter needs no bit of it.
fn index_shift(range: HighRange) -> u32 {
    if range.slots() == 1 { u32::BITS } else { u32::BITS - range.bits() }
}

/// The bits of a flow's fields that name it.
fn masks(config: &Config, form: &mut P4Form) {
    let [ipv4, ipv6] = [false, true].map(|is_ipv6| config.naming().mask(is_ipv6));
    form.number("IPV4_SRC_MASK", u32::BITS, ipv4.src_ip as u32);
    form.number("IPV4_DST_MASK", u32::BITS, ipv4.dst_ip as u32);
    for (end, mask) in [("SRC", ipv6.src_ip), ("DST", ipv6.dst_ip)] {
        form.number(format!("IPV6_{end}_MASK_HIGH"), u64::BITS, (mask >> u64::BITS) as u64);
        form.number(format!("IPV6_{end}_MASK_LOW"), u64::BITS, mask as u64);
    }
    form.number("PORTS_MASK", u32::BITS, u32::from(ipv4.sport) << u16::BITS | u32::from(ipv4.dport));
    form.number("PROTO_MASK", u8::BITS, ipv4.proto);
}

/// The range match of a level whose length is no power of two. Values below the length match no entry.
fn remainders(level: u32, range: HighRange) -> impl Iterator<Item = P4Entry> {
    let slots = u64::from(range.slots());
    let values = if slots.is_power_of_two() { 0 } else { 1u64 << range.bits() };
    (slots..values).step_by(slots as usize).map(move |multiple| P4Entry {
        table: format!("disketch.level_{level}.remainder"),
        epoch: None,
        matches: vec![format!("{multiple}->{}", (multiple + slots).min(values) - 1)],
        action: "less".into(),
        data: vec![multiple],
        priority: Some(1),
    })
}

/// The constants of an epoch.
fn constants(hashes: &Hashes, epoch: u64) -> P4Entry {
    P4Entry {
        table: "disketch.epochs".into(),
        epoch: Some(epoch),
        matches: vec![(epoch & EPOCH_MASK).to_string()],
        action: "constants".into(),
        data: hashes.constants(epoch).words().map(u64::from).to_vec(),
        priority: None,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::program::disketch::counter::Counter;
    use crate::program::p4::limits;
    use proptest::prelude::*;

    #[test]
    fn counters_end_where_those_of_bmv2_do() {
        fn packets<C: Counter>(before: C, alone: i64, is_signed: bool) -> C {
            let add = |counter: C| if is_signed { counter.add(1, alone < 0) } else { counter.add_unsigned(1) };
            (0..alone.unsigned_abs()).fold(before, |counter, _| add(counter))
        }
        for of in limits::of("disketch") {
            let alone =
                if of.is_signed { (of.alone as i64) << (64 - of.bits) >> (64 - of.bits) } else { of.alone as i64 };
            let found: u64 = match of.bits {
                8 => packets(of.before as u8, alone, of.is_signed).into(),
                _ => packets(of.before as u32, alone, of.is_signed).into(),
            };
            assert_eq!(found, of.after, "{of:?}");
        }
    }

    proptest! {
        /// Shift and range match give the slot of an index hash.
        #[test]
        fn entries_are_the_remainder(hash: u32, slots in 1u32..1 << 20) {
            for slots in [slots, slots >> 10 | 1, slots.next_power_of_two()] {
                let range = HighRange::new(NonZeroU32::new(slots).unwrap(), 4);
                let value = u64::from(hash) >> index_shift(range);
                let mut multiples = vec![];
                for entry in remainders(0, range) {
                    let (low, high) = entry.matches[0].split_once("->").unwrap();
                    let [low, high] = [low, high].map(|end| end.parse::<u64>().unwrap());
                    if (low..=high).contains(&value) {
                        multiples.extend(entry.data);
                    }
                }
                prop_assert!(multiples.len() < 2);
                prop_assert_eq!(value - multiples.first().unwrap_or(&0), u64::from(range.slot(hash)));
            }
        }
    }

    #[test]
    fn weights_end_where_counters_do() {
        let weights = [SketchKind::Count, SketchKind::CountMin].map(|sketch| max_weight(sketch, 8));
        assert_eq!((weights, max_weight(SketchKind::CountMin, 32)), ([127, 255], u32::MAX.into()));
    }
}
