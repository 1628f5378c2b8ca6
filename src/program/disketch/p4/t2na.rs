//! DiSketch's P4 form for Tofino (`p4/disketch/t2na.p4`).

use super::super::config::{Config, SketchKind};
use super::super::hashes::LABEL;
use super::super::{DiSketch, Unit};
use crate::pisa::hash::HashLayout;
use crate::program::{Key, P4Crc, P4Entry, P4Form, P4Register, P4Request, Program, ProgramError};

/// Counters that the sources have.
const COUNTERS: u32 = 16_384;

/// Bits of `away` in the sources: the sub-epochs of an epoch at most.
const AWAY_BITS: u32 = 6;

/// The P4 form of a configuration. The number of sub-epochs is the switch's own decision: the entries are those of
/// epochs that are not cut.
///
/// # Errors
/// If the sources have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    let Config { sketch, counter_bits, count, single_hop, cover, key, .. } = of.config;
    let wrong = |key, value: String, right: &str| {
        let right = format!("{right} in the P4 sources for Tofino");
        Err(ProgramError::Value { program: DiSketch::NAME, key, value, right })
    };
    if sketch.levels() > 1 {
        return wrong("sketch", crate::program::word(sketch), "cs or cms");
    }
    if *counter_bits != u32::BITS {
        return wrong("counter_bits", counter_bits.to_string(), "32");
    }
    if of.config.width().get() != COUNTERS {
        return wrong("memory", of.config.memory.to_string(), "65536 bytes");
    }
    if *count != Unit::Packets || *key != Key::Tuple {
        return wrong("count", crate::program::word(count), "packets of five-tuples");
    }
    if *single_hop || *cover {
        return wrong("cover", cover.to_string(), "no single_hop and no cover");
    }
    let mut form = P4Form::default();
    for index in 0..3 {
        let polynomial = HashLayout::crc(LABEL, index).polynomial(of.hashes);
        form.crcs.push(P4Crc { action: format!("disketch.{index}"), polynomial });
    }
    form.registers.push(P4Register {
        register: "disketch.counters".into(),
        array: "counters".into(),
        index: 0,
        field: 0,
        shift: 0,
        bits: *counter_bits,
        cells: COUNTERS.into(),
    });
    let hashes = &DiSketch::shape(of.config, of.switch, of.hashes).hashes;
    for epoch in of.epochs.clone() {
        let entry = |table: &str, matches: Vec<String>, action: &str, data: Vec<u64>, priority| P4Entry {
            table: format!("disketch.{table}"),
            epoch: Some(epoch),
            matches: [vec![(epoch & 1).to_string()], matches].concat(),
            action: action.into(),
            data,
            priority,
        };
        let [a, b, _] = hashes.constants(epoch).words().map(u64::from);
        form.entries.push(entry("epoch_constants", vec![], "constants", vec![a, b], None));
        form.entries.extend(
            sub_epochs(*sketch, 0)
                .map(|(matches, weight)| entry("sub_epochs", matches, "count", vec![weight.into()], Some(1))),
        );
    }
    Ok(form)
}

/// The matches and the weights of flows that are counted now, of 2 to the power of `cuts` sub-epochs.
fn sub_epochs(sketch: SketchKind, cuts: u32) -> impl Iterator<Item = (Vec<String>, u32)> {
    let mask = !(u32::MAX << cuts.min(AWAY_BITS)) << (AWAY_BITS - cuts.min(AWAY_BITS));
    let weights = [(0u32, 1), (1, if sketch.is_signed() { u32::MAX } else { 1 })];
    weights.into_iter().map(move |(sign, weight)| (vec![format!("0&&&{mask}"), format!("{sign}&&&1")], weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow that is negative subtracts, and the highest bits of `away` are those that count.
    #[test]
    fn sub_epochs_are_the_highest_bits() {
        let of = |cuts| sub_epochs(SketchKind::Count, cuts).collect::<Vec<_>>();
        assert_eq!(of(0)[0], (vec!["0&&&0".into(), "0&&&1".into()], 1));
        assert_eq!(of(2)[1], (vec!["0&&&48".into(), "1&&&1".into()], u32::MAX));
        assert_eq!(of(6)[0].0[0], "0&&&63");
    }
}
