//! ChameleMon's P4 form for BMv2 (`p4/chamelemon/v1model.p4`).

use super::super::dataplane::{COUNTERS, ClassTable, Part, Place, class};
use super::super::field::P;
use super::super::id::FRAGMENTS;
use super::super::parameters::{Shape, counter_slots};
use super::super::{ChameleMon, Config, EncoderParameters, hashes, id};
use super::{parameters, register};
use crate::pisa::hash::HashLayout;
use crate::program::{P4Crc, P4Entry, P4Form, P4Halves, P4Register, P4Request, Program, ProgramError};
use crate::wire::shim;

/// Counter arrays that the sources have.
const MAX_LEVELS: usize = 4;

/// The registers of a row, in the order of its arrays.
const ARRAYS: [&str; COUNTERS] = ["source", "destination", "ports", "rest", "count"];

/// The P4 form of a configuration.
///
/// # Errors
/// If the sources have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    let levels = &of.config.tower.0;
    if levels.len() > MAX_LEVELS {
        return Err(ProgramError::Value {
            program: ChameleMon::NAME,
            key: "tower",
            value: of.config.tower.to_string(),
            right: "the P4 sources have at most 4 counter arrays".into(),
        });
    }
    let shape = of.config.shape();
    let mut form = P4Form::default();
    form.constant("LEVELS", levels.len() as u64);
    for (i, level) in levels.iter().enumerate() {
        form.constant(format!("TOWER_{i}_SHIFT"), u32::BITS - counter_slots(level.counters).range().bits());
        form.number(format!("TOWER_{i}_INFINITY"), u32::BITS, level.width.max());
    }
    form.constant("ARRAYS", shape.arrays);
    form.constant("SMALL", shape.small > 0);
    // Of the downstream encoder, the two halves are copies.
    for (encoder, buckets) in [("UPSTREAM", shape.upstream), ("DOWNSTREAM", shape.downstream)] {
        form.constant(format!("{encoder}_CELLS"), shape.cells(0, buckets));
        form.constant(format!("{encoder}_SMALL_CELLS"), shape.cells(shape.arrays, buckets));
    }
    form.crcs = crcs(of);
    form.registers = registers(of.config);
    let arrays = (0..shape.rows() as usize * COUNTERS).map(|array| P4Halves {
        array: "downstream".into(),
        index: array as u32,
        modulus: if array % COUNTERS < FRAGMENTS { P.into() } else { 1 << u32::BITS },
    });
    form.halves = arrays.collect();
    let parameters = parameters(of)?;
    form.entries = of.epochs.clone().flat_map(|epoch| entries(&parameters, &shape, epoch)).collect();
    Ok(form)
}

/// The name of a row in the sources.
fn row_name(shape: &Shape, row: u32) -> String {
    if row < shape.arrays { format!("row_{row}") } else { "small_row".into() }
}

fn crcs(of: &P4Request<'_, Config>) -> Vec<P4Crc> {
    let crc = |action: &str, polynomial| P4Crc { action: format!("chamelemon.hashes.{action}"), polynomial };
    let shape = of.config.shape();
    let index = |name: &str, hash: HashLayout| crc(&format!("{name}.crc"), hash.polynomial(of.hashes));
    let digests = (0..).zip(id::digests());
    let rows = (0..shape.rows()).map(|row| index(&row_name(&shape, row), hashes::row(row)));
    let levels = (0..of.config.tower.0.len() as u32).map(|i| index(&format!("level_{i}"), hashes::tower(i)));
    digests
        .map(|(i, hash): (u32, _)| crc(&format!("ipv6_id.crc_{i}"), hash.polynomial(of.hashes)))
        .chain([crc("shared_crc", hashes::fingerprint().shared_polynomial(of.hashes))])
        .chain([index("fingerprint", hashes::fingerprint()), index("sample", hashes::sample())])
        .chain(rows)
        .chain(levels)
        .collect()
}

fn registers(config: &Config) -> Vec<P4Register> {
    let shape = config.shape();
    let levels = (0..).zip(&config.tower.0).map(|(i, level)| {
        register(format!("tower.level_{i}.counters"), "tower", i, level.width.bits(), level.counters)
    });
    let encoder = |name: &'static str, buckets: u32| {
        (0..shape.rows()).flat_map(move |row| {
            let cells = shape.cells(row, buckets);
            (0..).zip(ARRAYS).map(move |(array, of)| {
                let index = row * COUNTERS as u32 + array;
                register(format!("{name}.{}.{of}", row_name(&shape, row)), name, index, u32::BITS, cells)
            })
        })
    };
    levels.chain(encoder("upstream", shape.upstream)).chain(encoder("downstream", shape.downstream)).collect()
}

/// The table entries of an epoch with these parameters.
fn entries(parameters: &EncoderParameters, shape: &Shape, epoch: u64) -> Vec<P4Entry> {
    let entry = |table: &str, matches: Vec<u64>, action: &str, data: Vec<u64>| P4Entry {
        table: format!("chamelemon.{table}"),
        epoch: Some(epoch),
        matches: matches.iter().map(u64::to_string).collect(),
        action: action.into(),
        data,
        priority: None,
    };
    let running = epoch & 0xffff;
    let EncoderParameters { hh_threshold, hl_threshold, sample, sample_seed, .. } = *parameters;
    let thresholds = vec![hh_threshold.into(), hl_threshold.into(), sample.into(), sample_seed.into()];
    let parts = parameters.upstream(shape);
    let carried = ClassTable::carried(&parts);
    let upstream = [class::LL, class::HL, class::HH].into_iter().filter_map(|class| {
        let place = places(&parts[usize::from(class)], shape)?;
        let carried = carried.choose(crate::pisa::hash::Which::of(class.into()));
        let data = [vec![carried.into()], place].concat();
        Some(entry("upstream_parts", vec![running, class.into()], "encode", data))
    });
    // Each copy of the downstream encoder begins at 0.
    let parts = parameters.downstream(shape, false);
    let entered = shim::epoch_of(epoch).into();
    let downstream = [class::LL, class::HL].into_iter().filter_map(|class| {
        let place = places(&parts[usize::from(class)], shape)?;
        Some(entry("downstream_parts", vec![entered, class.into()], "encode", place))
    });
    let several = vec![entered, class::SEVERAL.into()];
    [entry("classes.parameters", vec![running], "set", thresholds)]
        .into_iter()
        .chain(upstream)
        .chain(downstream)
        .chain([entry("downstream_parts", several, "count_unfollowed", vec![])])
        .collect()
}

/// Where a part lies in the full rows and in the small one; `None` for a part without memory.
fn places(part: &Part, shape: &Shape) -> Option<Vec<u64>> {
    let place = |place: &Place| [place.offset, u32::BITS - place.range.bits(), place.range.slots()].map(u64::from);
    let full = place(part.first()?);
    // Without a small row, what the sources do not read.
    let small = part.get(shape.arrays as usize).map_or([0, 0, 1], place);
    Some([full, small].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pisa::GroupSalu;
    use crate::pisa::Layout;
    use crate::pisa::hash::HashFamily;
    use crate::program::Dataplane;
    use crate::program::P4Target;
    use crate::program::Parameters as _;
    use crate::program::chamelemon::ChameleMonDataplane;
    use crate::program::chamelemon::dataplane::{self, Counter, Meta, Row};
    use crate::program::p4::limits::{self, Limited};

    #[test]
    fn counters_end_where_those_of_bmv2_do() {
        fn increments<C: Counter>(before: C, packets: u64) -> C {
            (0..packets).fold(before, |counter, _| counter.incremented())
        }
        let found = |of: &Limited| -> u64 {
            let count = |count, _| Row(0).rmw(FRAGMENTS, count, &Meta::default());
            match (of.register.split('.').next_back(), of.bits) {
                (Some("counters"), 8) => increments(of.before as u8, of.alone).into(),
                (Some("counters"), 16) => increments(of.before as u16, of.alone).into(),
                (Some("counters"), _) => increments(of.before as u32, of.alone).into(),
                (Some("count"), _) => (0..of.alone).fold(of.before as u32, count).into(),
                // Sums modulo p: the packets together add what they make of a zero.
                _ => dataplane::add(of.before as u32, P - of.alone as u32).into(),
            }
        };
        limits::of("chamelemon").iter().for_each(|of| assert_eq!(found(of), of.after, "{of:?}"));
    }

    fn form_of(config: &Config) -> (Layout, Result<P4Form, ProgramError>) {
        let hashes = HashFamily::reproducible(7);
        let layout = ChameleMonDataplane::new(config, &hashes).unwrap().layout();
        let target = P4Target::V1model;
        let (epochs, parameters) = (5..=6, ChameleMon::start(config).encode());
        let parameters = &parameters;
        let form =
            form(&P4Request { config, parameters, switch: "s", hashes: &hashes, layout: &layout, target, epochs });
        (layout, form)
    }

    /// Each array has one register of its bits, and of its cells or, with halves, of half of them.
    #[test]
    fn registers_are_the_arrays() {
        let tower = "8x1000+16x70+32x3".parse().unwrap();
        for config in [Config::default(), Config { tower, arrays: 4, small: 2, ..Config::default() }] {
            let (layout, form) = form_of(&config);
            let form = form.unwrap();
            let halves = |name, index| form.halves.iter().any(|half| half.array == name && half.index == index);
            let arrays = layout.arrays().into_iter().map(|of| {
                let cells = of.usage.cells / if halves(of.usage.name, of.index) { 2 } else { 1 };
                (of.usage.name.to_owned(), of.index, of.usage.cell_bits, cells)
            });
            let registers = form.registers.iter().map(|of| (of.array.clone(), of.index, of.bits, of.cells));
            assert_eq!(registers.collect::<Vec<_>>(), arrays.collect::<Vec<_>>());
        }
    }

    #[test]
    fn further_counter_arrays_have_no_form() {
        let tower = "8x8+8x8+8x8+8x8+8x8".parse().unwrap();
        let (_, form) = form_of(&Config { tower, hh_threshold: 9, ..Config::default() });
        assert!(form.is_err());
    }

    proptest! {
        /// The sources compute from an entry the bucket that the match-action table gives.
        #[test]
        fn places_name_buckets(offset in 0..9u32, width in 1..5000u32, index_hash: u32) {
            let place = Place::new(offset, width).unwrap();
            let part: Part = std::iter::once(place).collect();
            let entry = places(&part, &Config::default().shape()).unwrap();
            let bucket = entry[0] + (u64::from(index_hash) >> entry[1]) % entry[2];
            prop_assert_eq!(u64::from(place.bucket(index_hash)), bucket);
        }
    }
}
