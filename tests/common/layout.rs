//! That a program is as its layout describes it.

use std::collections::BTreeMap;

use weir::observe::{Observer, Recorder};
use weir::pisa::hash::{Derived, HashFamily, HashLayout, SlotRange};
use weir::pisa::{AccessTrace, BatchOrder, Disposition, Layout, Phv, Side, SlotSource};
use weir::program::ProgramConfig;
use weir::wire::{Headers, KeyField, Net};

/// The switch that runs the programs.
const SWITCH: &str = "s1";

/// The arrays of a layout are those that a bank has, and its polynomials those that are derived.
pub fn is_what_is_built(program: &ProgramConfig) -> Layout {
    let layout = program.layout(SWITCH).unwrap();
    let recorder = HashFamily::reproducible(11).recorder();
    let mut built = program.build(SWITCH, &recorder).unwrap();
    assert_eq!(built.layout(), layout, "{program:?}: it does not depend on the secret");
    let whole = |of: &Derived| of.switch.as_ref().map_or(of.label.clone(), |switch| format!("{}/{switch}", of.label));
    let mut derived: Vec<_> = recorder.derived().iter().map(|of| (whole(of), of.index)).collect();
    derived.sort();
    derived.dedup();
    assert_eq!(derived, layout.polynomials(), "{program:?}");

    built.allocate();
    let described = layout.arrays();
    let described: Vec<_> =
        described.iter().map(|place| (place.usage.cells, place.usage.sram_bits(), &place.usage.field_bits)).collect();
    let bank = built.spare().arrays();
    let of_bank: Vec<_> = bank.iter().map(|array| (array.cells, array.bits(), &array.field_bits)).collect();
    assert_eq!(described, of_bank, "{program:?}");
    for array in &bank {
        let bytes: u64 = array.field_bits.iter().map(|bits| u64::from(bits.div_ceil(8))).sum();
        assert_eq!(array.bytes.len() as u64, array.cells * bytes, "{program:?}");
    }
    for place in layout.arrays() {
        match &place.usage.slot {
            SlotSource::Field(field) => {
                assert!(!field.is_empty(), "{program:?}: {} is not described", place.usage.name)
            }
            SlotSource::Hash(hash) => assert!(!hash.key.is_empty(), "{program:?}: {} has no key", hash.label),
        }
    }
    layout
}

/// The bytes of a key; `None` where a field is no header's.
pub fn key(fields: &[KeyField], headers: &Headers) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for &KeyField { field, bits, kept_bits } in fields {
        let value = match field {
            "zero" => 0,
            "ip.version" => {
                if headers.net == Net::Ipv4 {
                    4
                } else {
                    6
                }
            }
            "ip.src" => headers.src_ip,
            "ip.dst" => headers.dst_ip,
            "l4.sport" => headers.sport.into(),
            "l4.dport" => headers.dport.into(),
            "ip.proto" => headers.proto.into(),
            _ => return None,
        };
        let cut = value >> (bits - kept_bits).min(127) << (bits - kept_bits).min(127);
        let value = if kept_bits == 0 { 0 } else { cut };
        bytes.extend(&value.to_be_bytes()[16 - bits as usize / 8..]);
    }
    Some(bytes)
}

/// Traces packets and holds each slot, of an array that `checks`, to what the layout says of the key
/// that `key_of` gives. Returns how many slots were compared.
pub fn names_slots(
    program: &ProgramConfig,
    packets: &[Headers],
    key_of: impl Fn(&Layout, &HashLayout, &Headers) -> Option<Vec<u8>>,
    checks: impl Fn(&str, u32) -> bool,
) -> usize {
    let family = HashFamily::reproducible(23);
    let (layout, mut replica) = (program.layout(SWITCH).unwrap(), program.build(SWITCH, &family).unwrap());
    replica.allocate();
    replica.enter(0, true);
    let mut compared = 0;
    for headers in packets {
        let mut recorder = Recorder::default();
        let disposition = Disposition::ToHost;
        let mut phv = Phv { headers: *headers, enters: true, wire_bytes: 100, disposition, ..Phv::default() };
        recorder.program(replica.as_mut(), std::slice::from_mut(&mut phv), BatchOrder::PacketMajor);
        recorder.egress(0, replica.as_mut(), std::slice::from_mut(&mut phv), false, BatchOrder::PacketMajor);
        let traced = recorder.programs.remove(0);
        for (side, stages) in [(Side::Ingress, traced.stages), (Side::Egress, traced.egress_stages)] {
            let mut met = BTreeMap::<String, usize>::new();
            let arrays = stages.into_iter().flatten().filter(|access| access.computed.is_none());
            for AccessTrace { array, logical, hash_bits, cell, .. } in arrays {
                let number = met.entry(format!("{array} {logical:?}")).or_default();
                let places = layout.arrays();
                let mut its = places
                    .iter()
                    .filter(|place| (place.usage.name, Some(place.stage), place.side) == (&*array, logical, side));
                let place = its.nth(*number).unwrap_or_else(|| panic!("{array} of stage {logical:?} in {layout:?}"));
                *number += 1;
                assert_eq!(hash_bits, place.usage.slot.hash_bits(), "{array}");
                let (Some(cell), SlotSource::Hash(hash)) = (cell, &place.usage.slot) else { continue };
                if !checks(&array, place.index) {
                    continue;
                }
                let key = key_of(&layout, hash, headers).unwrap();
                assert_eq!(Some(cell.slot), hash.slot_of_key(&family, &key), "{array}[{}]", place.index);
                assert!(matches!(hash.range, Some(SlotRange::Modulo(_) | SlotRange::High(_) | SlotRange::Parts(_))));
                compared += 1;
            }
        }
    }
    compared
}

/// Packets of many flows of both address families.
pub fn packets() -> Vec<Headers> {
    let packet = |n: u16| {
        let (net, high) = if n.is_multiple_of(3) { (Net::Ipv6, 0xfe80u128 << 112) } else { (Net::Ipv4, 0) };
        let (src_ip, dst_ip) = (high | 0x0a00_0000 | u128::from(n), high | 0xc633_6400 | u128::from(n % 7));
        Headers {
            net,
            src_ip,
            dst_ip,
            proto: if n.is_multiple_of(2) { 6 } else { 17 },
            sport: 40_000 + n,
            dport: 443,
            ..Headers::default()
        }
    };
    (0..120).map(packet).collect()
}
