//! The hardware resources of ChameleMon.

use super::dataplane::{Meta, class};
use super::hashes;
use super::id::digests;
use super::names::Name;
use super::replica::{Encoder, TowerStage};
use crate::pisa::hash::HashLayout;
use crate::pisa::{Added, COPY, ChipForm, ChipStep, HashUse, Layout, Pipeline, Repeat, Side, StageUse, StepTable};
use crate::program::ReportBuffer;

/// Fields of packets that are read beside the key.
const READS: &[&str] = &["ip.version", "phv.enters", "phv.disposition", "shim.class", "shim.epoch"];

const SHARED: &str = "shared hash";
const COUNTER_HASH: &str = "hash of a counter array";
const ROW_HASH: &str = "hash of a row";
const FINGERPRINT: &str = "fingerprint";
const SAMPLE: &str = "sampling hash";
const SEEDS: &str = "seeds of the sampling hash";
const PARTS: &str = "parts of the downstream encoder";

/// Bits of a row's and of the sampling hash that are used, and of the last fragment of an ID.
const INDEX_BITS: u32 = 16;
const FRAGMENT_BITS: u32 = 32;
/// Bits of the shim that name a class, and those of an epoch by which a chip finds the part.
const CLASS_BITS: u32 = 2;
const EPOCH_BITS: u32 = 4;
/// Bits of a bucket above those of the hash.
const TOP_BITS: u32 = 4;

/// Of these arrays, with room for the names of IPv6 flows.
pub fn of(tower: &Repeat<TowerStage>, upstream: &Encoder, downstream: &Encoder, names: u32) -> Layout {
    let reports = (names > 0).then(|| ReportBuffer::<Name>::usage(names));
    let layout = Layout::new("chamelemon")
        .with(Side::Ingress, vec![seeds()])
        .with(Side::Ingress, ingress(tower, upstream))
        .with(Side::Egress, vec![egress(downstream)])
        .with(Side::Egress, vec![strays()]);
    Layout {
        other_hashes: digests().into(),
        reads: READS.into(),
        writes: &["shim.class", "phv.flow_estimate"],
        reports: reports.into_iter().collect(),
        ..layout
    }
}

/// An index hash takes three stages: the CRC that all share, the sum, and its halves joined. Those of
/// the encoders' rows come a stage later than those of the classifier, and go along to egress. A chip
/// joins those of the classifier on the way to the registers, and then a table of ranges finds the class.
fn ingress(tower: &Repeat<TowerStage>, upstream: &Encoder) -> Vec<StageUse> {
    let sum = |name, of: &HashLayout| HashUse::new(name, u32::BITS, Added::Field, Some(of));
    let counters = (0..tower.0.len() as u32).map(|level| sum(COUNTER_HASH, &hashes::tower(level)));
    let rows = (0..upstream.0.len() as u32).map(|row| sum(ROW_HASH, &hashes::row(row)));
    let others = [sum(FINGERPRINT, &hashes::fingerprint()), sum(SAMPLE, &hashes::sample())];
    let joined_rows = vec![("bucket of a row", INDEX_BITS); upstream.0.len()];
    let joined = [joined_rows, vec![("sample", INDEX_BITS), ("fragment", FRAGMENT_BITS)]].concat();
    let tower = side_by_side(tower);
    let sizes: u32 = tower.arrays.iter().map(|array| array.cell_bits).sum();
    // Of each copy of the registers, for each class; inverses of fragments are computed beside.
    let classes = StepTable::ternary("classes", 2 * u64::from(class::HH), 1 + sizes + INDEX_BITS);
    vec![
        StageUse::hashing(vec![HashUse::new(SHARED, u32::BITS, Added::No, None)]),
        StageUse::hashing(counters.collect()),
        StageUse::hashing(rows.chain(others).collect())
            .on_chips(ChipForm::waiting_for(&[SHARED]).then(vec![ChipStep::joining(&joined).behind(&[SEEDS])])),
        tower.on_chips(ChipForm::waiting_for(&[COUNTER_HASH])),
        side_by_side(upstream).on_chips(ChipForm::behind_steps(vec![ChipStep::looking_up(classes)])),
    ]
}

/// A seed for each copy, that lets epochs sample other flows.
fn seeds() -> StageUse {
    let table = StepTable::new(SEEDS, 2, 1, INDEX_BITS);
    StageUse::default().on_chips(ChipForm::steps_alone(vec![ChipStep::looking_up(table).behind(&[COPY])]))
}

/// The downstream encoder has a half for each epoch bit. A table finds the part by class and epoch.
fn egress(downstream: &Encoder) -> StageUse {
    let key_bits = CLASS_BITS + EPOCH_BITS;
    let parts = ChipStep::looking_up(StepTable::new(PARTS, 1 << key_bits, key_bits, TOP_BITS));
    let mut stage = side_by_side(downstream).on_chips(ChipForm::behind_steps(vec![parts]));
    stage.arrays.iter_mut().for_each(|array| array.is_halved = true);
    stage
}

/// The counter of packets of a class that left in an epoch without a part.
fn strays() -> StageUse {
    let step = ChipStep::joining(&[("address of strays", EPOCH_BITS)]).behind(&[PARTS]);
    StageUse::default().on_chips(ChipForm::steps_alone(vec![step]))
}

/// The arrays of all these stages side by side, because none depends on another.
fn side_by_side(pipeline: &impl Pipeline<Meta>) -> StageUse {
    let mut stages = Vec::new();
    pipeline.usage(&mut stages);
    StageUse::of(stages.into_iter().flat_map(|stage| stage.arrays).collect())
}
