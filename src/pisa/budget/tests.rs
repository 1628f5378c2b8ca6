use std::num::NonZeroU32;

use super::*;
use crate::pisa::hash::{HashLayout, SlotRange};
use crate::pisa::{Added, ArrayUse, ChipForm, ChipStep, HashUse, LookupUse, Side, StageUse, StepTable, range_entries};

/// An SRAM block, and the table that finds the copy of the registers.
const BLOCK: u64 = 128 * 1024;
const COPIES: u64 = 64 * 18;

fn table(entries: u64, key_bits: u32, ternary: bool) -> TableNeed {
    TableNeed { table: "t", entries, key_bits, action_bits: 16, ternary, before_programs: ternary }
}

fn program() -> Layout {
    of_array(ArrayUse {
        name: "a",
        cells: 1024,
        cell_bits: 32,
        outputs: 1,
        field_bits: vec![32],
        slot: HashLayout::crc("p/a", 0).within(SlotRange::Modulo(NonZeroU32::new(1024).unwrap())).into(),
        decides: false,
        keys: 1,
        is_grouped: false,
        is_halved: false,
        beyond_chips: None,
    })
}

/// Hash units by stage.
fn units(placement: &Placement) -> Vec<u32> {
    placement.stages.iter().map(|stage| stage.hash_units(&placement.target)).collect()
}

fn of_array(array: ArrayUse) -> Layout {
    Layout::new("p").with(Side::Ingress, vec![StageUse::of(vec![array])])
}

#[test]
fn tables_are_spread_over_stages_and_programs_stand_behind() {
    let wide = [table(512, 44 * 20, true), table(512, 44 * 5, true), table(100_000, 64, false)];
    let placement = Placement::with_tables(Target::TOFINO, &[program()], &wide).unwrap();
    let blocks: Vec<_> = placement.stages.iter().map(PhysicalStage::tcam_blocks).collect();
    assert_eq!(blocks[..3], [20, 5, 0]);
    assert_eq!(placement.stages[2].arrays.len(), 1, "behind both");
    assert_eq!(placement.tcam_blocks_used(), 25);
    let tables = placement.stages.iter().flat_map(|stage| &stage.tables);
    let hashed: u64 = tables.filter(|of| of.table == "t" && of.tcam_blocks == 0).map(|of| of.entries).sum();
    assert_eq!(hashed, 100_000);
    assert_eq!(placement.register_bits_used(), 1024 * 32);
    assert_eq!(placement.sram_bits_used(), 2 * BLOCK + COPIES + 1024 * 16 + 100_000 * 80);
}

#[test]
fn a_table_that_does_not_fit_is_refused() {
    let error = Placement::with_tables(Target::TOFINO, &[], &[table(512 * 13, 44 * 24, true)]).unwrap_err();
    assert_eq!(error.to_string(), "t: 512 of 6656 entries find no TCAM in the 12 stages of tofino");
    let error = Placement::with_tables(Target::RMT, &[], &[table(1 << 24, 64, false)]).unwrap_err();
    assert!(error.to_string().contains("entries find no SRAM in the 16 stages of rmt"), "{error}");
    assert!(Placement::with_tables(Target::TOFINO, &[], &[table(1, 44 * 25, true)]).is_err(), "wider than a stage");
}

/// What no chip computes fits none, whatever its size.
#[test]
fn what_no_chip_computes_is_placed_on_software_alone() {
    let [StageUse { arrays, .. }] = &program().chains[0].stages[..] else { panic!("one stage") };
    let array = ArrayUse { beyond_chips: Some("takes a root"), ..arrays[0].clone() };
    let program = of_array(array);
    assert!(program.is_beyond_chips() && !self::program().is_beyond_chips());
    for target in Target::ALL {
        let placed = Placement::new(target, std::slice::from_ref(&program)).map_err(|error| error.to_string());
        let refused = "p.a of stage 1: its stateful ALU takes a root, which no stateful ALU of a chip does".to_owned();
        assert_eq!(placed.map(|_| ()), if target == Target::SOFTWARE { Ok(()) } else { Err(refused) });
    }
}

/// A program's tables of numbers stand in the SRAM of one stage.
#[test]
fn lookups_take_sram() {
    let with = |entries| {
        let lookup = LookupUse { name: "log", entries, key_bits: 10, action_bits: 21 };
        let stage = StageUse { lookups: vec![lookup.clone(), lookup], ..StageUse::default() };
        let chain = vec![stage, program().chains[0].stages[0].clone()];
        Placement::new(Target::TOFINO, &[Layout::new("p").with(Side::Ingress, chain)])
    };
    let placement = with(1024).unwrap();
    let sram_bits = placement.stages[0].sram_bits(&Target::TOFINO);
    assert_eq!((sram_bits, placement.stages[2].arrays.len()), (2 * 1024 * 31 + COPIES, 1));
    assert_eq!(placement.stages[0].tables[1].program, Some("p"));
    let error = with(400_000).unwrap_err().to_string();
    assert!(error.contains("stages 1 to 12") && error.contains("SRAM for its 400000 entries of 10 bits"), "{error}");
}

/// A program's match stands in one stage, behind what it matches, and takes TCAM there.
#[test]
fn matches_have_their_stages() {
    let with = |entries, key_bits| {
        let hashes = StageUse::hashing(vec![HashUse::new("h", 16, Added::No, None)]);
        let chain = vec![hashes, StageUse::matching("m", entries, key_bits), program().chains[0].stages[0].clone()];
        Placement::new(Target::TOFINO, &[Layout::new("p").with(Side::Ingress, chain)])
    };
    let placement = with(513, 45).unwrap();
    let blocks: Vec<_> = placement.stages.iter().map(PhysicalStage::tcam_blocks).collect();
    assert_eq!((&blocks[..3], placement.stages[2].arrays.len()), (&[0, 4, 0][..], 1));
    let placed = &placement.stages[1].tables[0];
    assert_eq!((placed.program, placed.table, placed.logical), (Some("p"), "m", Some(2)));
    let error = with(513 * 24, 44).unwrap_err().to_string();
    assert!(error.starts_with("p.m of stage 2 does not fit: it may stand in stages 2 to 12"), "{error}");
    assert!(error.contains("none of these has TCAM for its 12312 entries of 44 bits"), "{error}");
}

/// A stage stands behind the hashes and matches that it needs of other chains, wherever these are.
#[test]
fn stages_stand_behind_what_they_need() {
    let hash = |name| HashUse::new(name, 16, Added::No, None);
    let chain = |name, hashes| vec![StageUse::hashing([vec![hash("other"); hashes], vec![hash(name)]].concat())];
    let place = |hashes| {
        let of_match = vec![StageUse::matching("set", 1, 8).behind(&["h"])];
        let last = vec![StageUse::default().behind(&["set", "unknown"]), StageUse::matching("m", 1, 8)];
        let chains = [chain("h", hashes), of_match, last];
        let layout = chains.into_iter().fold(Layout::new("p"), |layout, chain| layout.with(Side::Ingress, chain));
        Placement::new(Target::TOFINO, &[layout]).unwrap()
    };
    let stages = |placement: &Placement, name| {
        placement.stages.iter().position(|stage| stage.tables.iter().any(|table| table.table == name))
    };
    for (hashes, set) in [(0, 1), (5, 1), (6, 2), (12, 3)] {
        let placement = place(hashes);
        assert_eq!((stages(&placement, "set"), stages(&placement, "m")), (Some(set), Some(set + 2)), "{hashes}");
    }
}

/// The entries of a range are as few as can be: of all ranges of 5 bits, by dynamic programming.
#[test]
fn ranges_take_the_fewest_entries() {
    for first in 0..32u32 {
        let mut fewest = vec![0u64];
        for end in first + 1..=32 {
            let fits = |length: &u32| end - first >= *length && (end - length).is_multiple_of(*length);
            let lengths = (0..6).map(|bits| 1 << bits).filter(fits);
            let by_last = lengths.map(|length: u32| fewest[(end - length - first) as usize] + 1);
            fewest.push(by_last.min().unwrap());
            let [from, last] = [first << 27, ((u64::from(end) << 27) - 1) as u32];
            assert_eq!(range_entries(from, last), fewest[(end - first) as usize], "{first} to {end}");
        }
    }
}

/// Hashes of the PHV take units beside those of arrays, and what needs them stands in a later
/// stage.
#[test]
fn hashes_have_their_stages() {
    let hash = |name| HashUse::new(name, 16, Added::No, None);
    let with = |hashes: u32| {
        let stages =
            vec![StageUse::hashing((0..hashes).map(|_| hash("h")).collect()), program().chains[0].stages[0].clone()];
        Layout::new("p").with(Side::Ingress, stages)
    };
    let placement = Placement::new(Target::TOFINO, &[with(7)]).unwrap();
    // The slot is a CRC for the PHV as well, and passes a unit again on its way to the register.
    assert_eq!((&units(&placement)[..4], placement.stages[2].arrays.len()), (&[6, 2, 1, 0][..], 1));
    assert_eq!((placement.hash_units_used(), placement.stages_used()), (9, 3));
    let error = Placement::new(Target::TOFINO, &[with(73)]).unwrap_err().to_string();
    assert!(error.contains("p.h of stage 1 does not fit") && error.contains("hash units"), "{error}");
    assert!(Placement::new(Target::TOFINO, &[with(72)]).is_err(), "no stage is left for the array");
    let mut behind_actions = program();
    behind_actions.chains[0].stages.insert(0, StageUse::default());
    let placement = Placement::new(Target::TOFINO, &[behind_actions]).unwrap();
    assert_eq!((placement.stages[0].arrays.len(), placement.stages[2].arrays.len()), (0, 1));
    let with_actions = |stages| {
        let mut before_actions = program();
        before_actions.chains[0].stages.extend(vec![StageUse::default(); stages]);
        Placement::new(Target::TOFINO, &[before_actions])
    };
    let [alone, more] = [0, 2].map(|stages| with_actions(stages).unwrap().stages_used());
    assert_eq!(more, alone + 2);
    assert!(with_actions(12).unwrap_err().to_string().contains("p.actions of stage"));
}

fn placed(target: Target, stages: Vec<StageUse>) -> Placement {
    Placement::new(target, &[Layout::new("p").with(Side::Ingress, stages)]).unwrap()
}

/// On Tofino a hash unit gives 16 bits to the PHV, so a word takes two units of one stage.
#[test]
fn words_take_two_hash_units() {
    for (bits, on_tofino) in [(1, 1), (16, 1), (17, 2), (32, 2)] {
        let stages = || vec![StageUse::hashing(vec![HashUse::new("h", bits, Added::No, None)])];
        let used = [Target::TOFINO, Target::RMT].map(|target| placed(target, stages()).hash_units_used());
        assert_eq!(used, [on_tofino, 1], "{bits}");
    }
    let words = vec![HashUse::new("h", 32, Added::No, None); 4];
    assert_eq!(units(&placed(Target::TOFINO, vec![StageUse::hashing(words)]))[..3], [6, 2, 0]);
}

/// The CRC of a sum with a field stands beside what computes the field, as far as units are left, and the sum
/// is there no later.
#[test]
fn crcs_of_sums_do_not_wait() {
    let hashes = |name, number, added| StageUse::hashing(vec![HashUse::new(name, 32, added, None); number]);
    let of = |target| {
        let stages = vec![hashes("field", 1, Added::No), hashes("sum", 3, Added::Field), StageUse::matching("m", 1, 8)];
        let placement = placed(target, stages);
        (units(&placement)[..3].to_vec(), placement.stages.iter().position(|stage| !stage.tables.is_empty()))
    };
    assert_eq!(of(Target::TOFINO), (vec![6, 2, 0], Some(2)));
    assert_eq!(of(Target::SOFTWARE), (vec![1, 3, 0], Some(2)));
    let constants = vec![hashes("one", 1, Added::No), hashes("other", 1, Added::Constant)];
    assert_eq!(units(&placed(Target::TOFINO, constants))[..2], [2, 2]);
}

/// Steps around a stage take hash units, tables and stages on Tofino, and nothing on other targets.
#[test]
fn stages_are_taken_apart() {
    let joined = ChipStep::joining(&[("joined", 16), ("whole", 32)]);
    let numbers = ChipStep::looking_up(StepTable::direct("numbers", 1, 64));
    let chip = ChipForm::behind_steps(vec![ChipStep::actions(), numbers]).then(vec![joined]);
    let stages = || {
        let hash = StageUse::hashing(vec![HashUse::new("h", 16, Added::No, None)]).on_chips(chip.clone());
        let apart = StageUse::matching("apart", 1, 8).behind(&["whole"]);
        let apart = apart.on_chips(ChipForm::waiting_for(&["numbers"]));
        let nothing = StageUse::default().on_chips(ChipForm::steps_alone(Vec::new()));
        vec![hash, nothing, apart, StageUse::matching("last", 1, 8)]
    };
    let place = |placement: &Placement, name| {
        placement.stages.iter().position(|stage| stage.tables.iter().any(|table| table.table == name))
    };
    let placement = placed(Target::TOFINO, stages());
    assert_eq!(units(&placement)[..5], [0, 1, 1, 3, 0]);
    let places = ["numbers", "apart", "last"].map(|name| place(&placement, name));
    assert_eq!(places, [Some(1), Some(2), Some(4)]);
    assert_eq!(placement.stages[1].tables[0].sram_bits, 2 * 64);
    let placement = placed(Target::SOFTWARE, stages());
    assert_eq!((placement.hash_units_used(), placement.stages_used()), (1, 4));
    assert_eq!((place(&placement, "numbers"), place(&placement, "apart")), (None, Some(2)));
}

/// A register array has two copies on Tofino, unless it has halves, in blocks, and one block more.
#[test]
fn registers_stand_twice() {
    let [StageUse { arrays, .. }] = &program().chains[0].stages[..] else { panic!("one stage") };
    let array = ArrayUse { cells: 4096, ..arrays[0].clone() };
    let halved = ArrayUse { cells: 8192, is_halved: true, ..array.clone() };
    for (target, bits) in [(Target::TOFINO, [3 * BLOCK; 2]), (Target::RMT, [BLOCK, 2 * BLOCK])] {
        assert_eq!([&array, &halved].map(|array| target.register_bits(array)), bits, "{}", target.name);
    }
    // Which half counts is known from the packet.
    let placement = Placement::new(Target::TOFINO, &[of_array(halved)]).unwrap();
    assert_eq!((placement.stages[1].arrays.len(), &placement.stages[0].tables[..]), (1, &[][..]));
}

/// Arrays of a group share their address in a stage, and others do not.
#[test]
fn groups_share_an_address() {
    let [StageUse { arrays, .. }] = &program().chains[0].stages[..] else { panic!("one stage") };
    let array = |at: u32| ArrayUse { slot: "slot".into(), is_grouped: !at.is_multiple_of(5), ..arrays[0].clone() };
    let placement = placed(Target::TOFINO, vec![StageUse::of((0..10).map(array).collect())]);
    assert_eq!(units(&placement)[..5], [0, 1, 2, 1, 0]);
}

/// Where a stage decides which of two keys goes on, the slots of both are hashed in the stage of the decision.
#[test]
fn slots_of_all_keys_are_hashed() {
    let [StageUse { arrays, .. }] = &program().chains[0].stages[..] else { panic!("one stage") };
    let decides = |keys| StageUse::of(vec![ArrayUse { decides: true, keys, ..arrays[0].clone() }]);
    let placement = placed(Target::TOFINO2, vec![decides(1), decides(2), decides(2)]);
    assert_eq!(units(&placement)[..8], [1, 0, 1, 1, 1, 2, 1, 0]);
    assert_eq!(units(&placed(Target::RMT, vec![decides(1), decides(2), decides(2)]))[..4], [1, 1, 1, 0]);
}

/// On Tofino the program with the longest chain of stages is placed first, on others the first one.
#[test]
fn long_chains_are_placed_first() {
    // All hash units of a stage.
    for (target, words, first) in [(Target::TOFINO, 3, "long"), (Target::RMT, 1, "short")] {
        let stage = StageUse::hashing(vec![HashUse::new("h", 32, Added::No, None); words]);
        let of = |name, stages| Layout::new(name).with(Side::Ingress, vec![stage.clone(); stages]);
        let programs = [of("short", 1), of("long", 2)];
        let placement = Placement::new(target, &programs).unwrap();
        let placed: Vec<_> = placement.stages.iter().flat_map(|stage| &stage.hashes).map(|of| of.program).collect();
        assert_eq!((placed[0], placement.stages_used()), (first, 3), "{}", target.name);
        let [of_short, of_long] = ["short", "long"].map(|program| placement.hash_units_of(program));
        assert_eq!(of_long, 2 * of_short);
    }
}
