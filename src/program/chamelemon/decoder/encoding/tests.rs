use proptest::prelude::*;

use super::super::{Analysis, Delta, DownstreamParts, PARTS};
use super::*;
use crate::program::chamelemon::FlowId;
use crate::program::chamelemon::decoder::Verify;
use crate::program::chamelemon::names::Names;
use crate::wire::{Tuple4, Tuple6};

fn config() -> Config {
    let tower = "8x64+16x32".parse().unwrap();
    Config {
        tower,
        small: 2,
        upstream: 48,
        downstream: 40,
        hh: Some(16),
        hl: Some(20),
        ll: 8,
        names: 12,
        ..Config::default()
    }
}

fn reader(config: &Config) -> Reader {
    Reader::new(Form::of(config), &HashFamily::reproducible(5))
}

fn blank(config: &Config) -> Sketches {
    let (reader, parameters) = (reader(config), config.parameters());
    let part = |buckets| Fermat::new(reader.hashes.clone(), config.shape().sketch(buckets));
    let Partition { hh, hl, ll } = parameters.partition;
    let level =
        |level: &crate::program::chamelemon::Level| Level::new(level.width.bits(), vec![0; level.counters as usize]);
    // The epoch before was divided otherwise.
    let parts = [hh, hl, ll, hl, ll, hl / 2, 0].map(part);
    let tower = config.tower.0.iter().map(level).collect();
    let names = Reports::none(config.names as usize);
    Sketches { names, ..Sketches::new(parameters, config.shape(), tower, parts, reader.hashes) }
}

fn flow(n: u128) -> FlowId {
    FlowId::of_v4(Tuple4(n << 64 | n << 8 | 17))
}

/// A flow, its packets, and where they are put.
type Put = (u8, u16, i64);

fn filled(config: &Config, sizes: &[(usize, u32)], puts: &[Put]) -> Sketches {
    let mut sketches = blank(config);
    for &(at, size) in sizes {
        let counters = sketches.tower.iter().map(|level| level.sizes.len()).sum::<usize>();
        let counter = sketches.tower.iter_mut().flat_map(|level| &mut level.sizes).nth(at % counters);
        *counter.unwrap() = size;
    }
    for &(place, n, packets) in puts {
        let Sketches { hh, hl, ll, downstream_parts: [zero, one], .. } = &mut sketches;
        let parts = [hh, hl, ll, &mut zero.hl, &mut zero.ll, &mut one.hl];
        parts[usize::from(place) % 6].insert(flow(n.into()), packets);
    }
    sketches
}

/// The names of these flows, as far as there is room.
fn names(of: &[(u128, u128, u64)]) -> Reports<Name> {
    let (reader, mut names) = (reader(&config()), Names::with_room(config().names as usize));
    for &(src, dst, ports) in of {
        let tuple = Tuple6(src, dst, ports >> 24);
        names.see(reader.hashes.naming().digest(tuple).hash(), Name(tuple));
    }
    names.read()
}

prop_compose! {
    fn any_sketches()(
        sizes in prop::collection::vec((any::<usize>(), prop_oneof![Just(INFINITE), 0..300u32, any::<u32>()]), 0..60),
        puts in prop::collection::vec((any::<u8>(), any::<u16>(), prop_oneof![-3..9i64, any::<i32>().prop_map(i64::from)]), 0..60),
        bit: bool,
        strays in prop::collection::btree_map(0..1u32 << EPOCH_BITS, 1u64.., 0..MAX_STRAY_EPOCHS),
        elsewhere: u64,
        unmarked: u64,
        unfollowed: u64,
        named in prop::collection::vec(any::<(u128, u128, u64)>(), 0..20),
        mixed: bool,
    ) -> Sketches {
        let mut all = Strays::default();
        strays.into_iter().for_each(|(epoch, packets)| assert!(all.add(epoch, packets)));
        all.add_elsewhere(elsewhere);
        let names = names(&named);
        Sketches { bit, strays: all, unmarked, unfollowed, names, mixed, ..filled(&config(), &sizes, &puts) }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(sketches in any_sketches()) {
        let bytes = sketches.encode();
        prop_assert!(bytes.len() <= Form::of(&config()).longest());
        prop_assert_eq!(reader(&config()).read(&bytes), Ok(sketches));
    }

    /// Each record has one encoding: what is read at all is what would be written.
    #[test]
    fn damage_is_noticed_or_makes_another_record(sketches in any_sketches(), at: prop::sample::Index, with: u8) {
        let mut bytes = sketches.encode();
        let at = at.index(bytes.len());
        bytes[at] = with;
        if let Ok(read) = reader(&config()).read(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes: Vec<u8>, head in 0..16usize) {
        let start = blank(&config()).encode();
        let bytes = [&start[..head], &bytes].concat();
        if let Ok(read) = reader(&config()).read(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}

#[test]
fn every_beginning_is_too_short_and_every_end_too_long() {
    let sketches = filled(&config(), &[(3, 7), (70, INFINITE)], &[(0, 1, 5), (3, 2, 700), (5, 9, -1)]);
    let mut bytes = sketches.encode();
    for end in 0..bytes.len() {
        let error = reader(&config()).read(&bytes[..end]).unwrap_err();
        assert!(matches!(error, DecodeError::Short { length, .. } if length == end), "{end}: {error}");
    }
    bytes.push(0);
    assert_eq!(reader(&config()).read(&bytes), Err(DecodeError::Long(1)));
}

/// The bytes that docs/record-format.md describes.
#[test]
fn the_format_is_pinned() {
    let tower = "8x4".parse().unwrap();
    let config =
        Config { tower, upstream: 2, downstream: 1, arrays: 2, hh: Some(1), hl: Some(1), ll: 0, ..Config::default() };
    let mut sketches = blank(&config);
    sketches.downstream_parts[1] =
        DownstreamParts { hl: sketches.downstream_parts[0].ll.clone(), ll: sketches.downstream_parts[0].ll.clone() };
    sketches.tower[0].sizes = vec![0, INFINITE, 200, 0];
    let bucket = Bucket { ids: [1, 2, 3, 0x0102_0304], count: -2 };
    sketches.hh.row_mut(0)[0] = bucket;
    (sketches.bit, sketches.unmarked) = (true, 5);
    assert!(sketches.strays.add(300, 258) && sketches.strays.add(7, 1));
    sketches.strays.add_elsewhere(9);
    let strays = [2, 7, 1, 0xac, 2, 130, 2, 9];
    // A flow of IPv6, and no packets of others.
    sketches.names = crate::program::Reports::none(config.names as usize);
    sketches.names.merge(&names(&[(1 << 120, 2, 3 << 48 | 4 << 32 | 17 << 24)]));
    let name = [&[1, 1][..], &[0; 30], &[2, 0, 3, 0, 4, 17, 0]].concat();
    let head = [&[4, 1, 1, 1, 0, 0xfa, 1, 1, 0x80, 0x80, 4, 0][..], &strays, &[5, 0], &name, &[1, 0, 0, 0]].concat();
    let tower = [1, 2, 0, 0xc8, 1, 1, 0];
    let hh = [&[0, 1, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 3, 2, 1, 3][..], &[1, 0]].concat();
    let rest = [1, 0, 1, 0, 1, 0, 1, 0];
    assert_eq!(sketches.encode(), [&head[..], &tower, &hh, &rest].concat());
    assert_eq!(reader(&config).read(&sketches.encode()), Ok(sketches));
}

#[test]
fn what_breaks_a_rule_is_named() {
    let good = blank(&config()).encode();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        reader(&config()).read(&bytes).unwrap_err().to_string()
    };
    assert_eq!(refused(&|b| b[0] = 1), "version 1, and 4 is understood");
    assert!(refused(&|b| b[1] = 4).contains("only bits 0 and 1"));
    // HH, HL and LL do not fit together.
    assert!(refused(&|b| b[2] = 21).contains("hh = 21 is out of range, it may be 0 to 20"));
    let after_the_counts = 2 + 5 + 4 + 5 + 2;
    let strays = after_the_counts - 6;
    let named = |bytes: &[u8]| {
        refused(&|b| {
            b.splice(strays + 4..after_the_counts, bytes.iter().copied());
        })
    };
    // More than there is room for, whatever follows; not in order; missed while there is room.
    assert!(named(&[13, 0]).contains("no more than there is room for"));
    assert!(named(&[0xff, 0xff, 0xff, 0xff, 0x7f]).contains("no more than there is room for"));
    assert!(named(&[&[2, 1][..], &[0; 73], &[0]].concat()).contains("in ascending order"));
    assert!(named(&[0, 1]).contains("0 while there is room"));
    let stray = |bytes: &[u8]| {
        refused(&|b| {
            b.splice(strays..=strays, bytes.iter().copied());
        })
    };
    assert!(stray(&[1, 0x80, 0x80, 0x40, 1]).contains("they have 20 bits"));
    assert!(stray(&[2, 7, 1, 7, 1]).contains("the lowest comes first"));
    assert!(stray(&[1, 7, 0]).contains("up to 64 epochs have any"));
    let many: Vec<u8> = (0..65).flat_map(|epoch| [epoch, 1]).collect();
    assert!(stray(&[&[65][..], &many].concat()).contains("up to 64 epochs have any"));
    assert!(refused(&|b| b[after_the_counts] = 41).contains("fit into the downstream encoder"));
    let tower = after_the_counts + 4;
    assert!(refused(&|b| b[tower] = 65).contains("it ends with the cells"));
    assert!(
        refused(&|b| {
            b[tower] = 60;
        })
        .contains("only the last no filled ones")
    );
    assert!(
        refused(&|b| {
            b.splice(tower..=tower, [0xc0, 0x00]);
        })
        .contains("no zeros in front")
    );
    assert!(
        refused(&|b| {
            b.splice(tower..tower + 2, [63, 1, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        })
        .contains("stands for infinity")
    );
    assert!(
        refused(&|b| {
            b.splice(tower..tower, [0xff; 9]);
        })
        .contains("64 bits at the most")
    );
}

/// No switch counts more packets in a bucket than its cores' registers hold.
#[test]
fn counts_are_bounded_by_registers() {
    let of = |count| {
        let mut sketches = blank(&config());
        sketches.hh.row_mut(0)[0].count = count;
        reader(&config()).read(&sketches.encode()).map(|read| assert_eq!(read, sketches))
    };
    let most = 128 * i64::from(u32::MAX);
    assert_eq!([most, -most].map(of), [Ok(()), Ok(())]);
    for count in [most + 1, -most - 1, i64::MAX, i64::MIN] {
        let refused = of(count).unwrap_err().to_string();
        assert!(refused.ends_with("32 bits from each of up to 128 cores"), "{refused}");
    }
}

proptest! {
    /// Whatever buckets hold, also as if each had one flow: sums and decoding end without an overflow.
    #[test]
    fn counts_of_any_size_are_decoded(
        buckets in prop::collection::vec(
            (0..PARTS, 0..4usize, 0..12u16, prop_oneof![Just(i64::MAX), Just(i64::MIN), any::<i64>(), -9..9i64]),
            0..200,
        ),
    ) {
        let mut sketches = blank(&config());
        for (part, row, n, count) in buckets {
            let part = sketches.parts_mut().into_iter().nth(part).unwrap();
            let key = part.key(flow(n.into()));
            let pure = part.bucket(flow(n.into()), &key, count);
            if row < part.rows.len() {
                let at = part.places(&key)[row] as usize;
                part.buckets[at] = pure;
            }
        }
        let analysis = Analysis::new(sketches.clone());
        analysis.losses();
        analysis.heavy_hitters(0);
        let mut delta = Delta::entered(&analysis).unwrap();
        for _ in 0..3 {
            delta.enter(&analysis).unwrap();
        }
        delta.left(&sketches, false).unwrap();
        delta.decode();
        sketches.merge(&sketches.clone()).unwrap();
    }
}

/// Two switches' records make the same answer after the way over the wire.
#[test]
fn losses_survive_the_way() {
    let config = config();
    let mut entered = blank(&config);
    let mut left = blank(&config);
    for n in 0..6 {
        entered.hl.insert(flow(n), 10);
        left.downstream_parts[0].hl.insert(flow(n), if n == 3 { 8 } else { 10 });
    }
    let [entered, left] = [entered, left].map(|sketches| reader(&config).read(&sketches.encode()).unwrap());
    let mut delta = entered.hl;
    delta.subtract(&left.downstream_parts[0].hl).unwrap();
    let lost = delta.decode(Verify::Fingerprint);
    assert!(lost.complete);
    assert_eq!(lost.flows.into_iter().collect::<Vec<_>>(), [(flow(3), 2)]);
}
