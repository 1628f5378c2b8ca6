//! ChameleMon's P4 form for Tofino (`p4/chamelemon/t2na.p4`).

use super::super::dataplane::{COUNTERS, ClassTable, Part, class};
use super::super::parameters::Shape;
use super::super::{ChameleMon, Config, EncoderParameters, POWERS, Parts, hashes};
use super::{parameters, register};
use crate::pisa::hash::{HashLayout, Which};
use crate::program::{P4Crc, P4Entry, P4Form, P4Register, P4Request, Program, ProgramError, word};
use crate::wire::shim;

/// Rows of an encoder, and buckets of each, that the sources have.
const ROWS: u32 = 3;
const BUCKETS: u32 = 4096;
/// The sources' counter arrays.
const TOWER: &str = "8x32768+16x16384";

/// The registers of a row, in the order of its arrays.
const ARRAYS: [&str; COUNTERS] = ["source", "destination", "ports", "rest", "count"];

/// The P4 form of a configuration.
///
/// # Errors
/// If the sources have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    let shape = of.config.shape();
    let parameters = parameters(of)?;
    check(of.config, &shape)?;
    let mut form = P4Form::default();
    form.constant("UPSTREAM_CELLS", shape.upstream);
    form.constant("DOWNSTREAM_CELLS", shape.downstream);
    form.crcs = crcs(of);
    form.registers = registers(of.config);
    form.entries = of.epochs.clone().flat_map(|epoch| entries(&parameters, &shape, epoch)).collect();
    form.entries.extend((0..16).map(|epoch| P4Entry {
        table: "chamelemon.downstream_parts".into(),
        epoch: None,
        matches: vec![class::NONE.to_string(), epoch.to_string()],
        action: "skip".into(),
        data: Vec::new(),
        priority: None,
    }));
    Ok(form)
}

/// Whether the sources have this shape. They have an action for each length of a part.
fn check(config: &Config, shape: &Shape) -> Result<(), ProgramError> {
    let wrong = |key, value: String, right: String| {
        let right = format!("{right} in the P4 sources for Tofino");
        Err(ProgramError::Value { program: ChameleMon::NAME, key, value, right })
    };
    // Parts that are powers of two by chance would not stay so when the controller moves memory.
    if config.parts != Parts::Powers {
        return wrong(
            "parts",
            word(&config.parts),
            "powers, as a bucket is bits of a hash behind bits of the part,".into(),
        );
    }
    if config.tower.to_string() != TOWER {
        return wrong("tower", config.tower.to_string(), TOWER.into());
    }
    for (key, value, right) in [
        ("arrays", shape.arrays, ROWS),
        ("small", shape.small, 0),
        ("upstream", shape.upstream, BUCKETS),
        ("downstream", shape.downstream, BUCKETS),
    ] {
        if value != right {
            return wrong(key, value.to_string(), right.to_string());
        }
    }
    Ok(())
}

/// The action that encodes in a part, and the bits of the bucket above those of the hash.
fn place_of(offset: u32, length: u32, copy: u32) -> Option<(String, u64)> {
    let fits = POWERS.contains(&length) && offset.is_multiple_of(length);
    fits.then(|| (format!("encode_{length}"), u64::from((copy * BUCKETS + offset) / length)))
}

fn crcs(of: &P4Request<'_, Config>) -> Vec<P4Crc> {
    let index = |name: String, hash: HashLayout| P4Crc {
        action: format!("chamelemon.{name}"),
        polynomial: hash.polynomial(of.hashes),
    };
    let shared = hashes::fingerprint().shared_polynomial(of.hashes);
    let rows = (0..ROWS).map(|row| index(format!("row_{row}"), hashes::row(row)));
    let levels = (0..of.config.tower.0.len() as u32).map(|i| index(format!("level_{i}"), hashes::tower(i)));
    [P4Crc { action: "chamelemon.shared".into(), polynomial: shared }]
        .into_iter()
        .chain([index("fingerprint".into(), hashes::fingerprint()), index("sample".into(), hashes::sample())])
        .chain(rows)
        .chain(levels)
        .collect()
}

fn registers(config: &Config) -> Vec<P4Register> {
    let levels = (0..)
        .zip(&config.tower.0)
        .map(|(i, level)| register(format!("tower.level_{i}"), "tower", i, level.width.bits(), level.counters));
    let encoder = |name: &'static str, buckets: u32| {
        (0..ROWS).flat_map(move |row| {
            (0..).zip(ARRAYS).map(move |(array, of)| {
                let index = row * COUNTERS as u32 + array;
                register(format!("{name}_row_{row}_{of}"), name, index, u32::BITS, buckets)
            })
        })
    };
    levels.chain(encoder("upstream", config.upstream)).chain(encoder("downstream", config.downstream)).collect()
}

/// The sizes of `threshold` and more, of a counter of this many bits. All ones is infinity.
fn at_least(threshold: u32, bits: u32) -> String {
    let last = u32::MAX >> (u32::BITS - bits);
    format!("{}->{last}", threshold.min(last))
}

/// The table entries of an epoch with these parameters.
fn entries(parameters: &EncoderParameters, shape: &Shape, epoch: u64) -> Vec<P4Entry> {
    let copy = (epoch & 1) as u32;
    let EncoderParameters { hh_threshold, hl_threshold, sample, sample_seed, .. } = *parameters;
    let entry = |table: &str, matches: Vec<String>, action: String, data: Vec<u64>, priority: Option<u32>| P4Entry {
        table: format!("chamelemon.{table}"),
        epoch: Some(epoch),
        matches,
        action,
        data,
        priority,
    };
    let seed = entry("hashes.sample_seeds", vec![copy.to_string()], "seed".into(), vec![sample_seed.into()], None);
    let parts = parameters.upstream(shape);
    let carried = ClassTable::carried(&parts);
    let place = |part: &Part| part.first().and_then(|place| place_of(place.offset, place.range.slots(), copy));
    let sizes = |threshold: u32| [at_least(threshold, 8), at_least(threshold, 16)];
    let all = format!("0->{}", u16::MAX);
    // The most special class first: the least priority wins.
    let classes = [
        (class::HH, sizes(hh_threshold), Some(all.clone())),
        (class::HL, sizes(hl_threshold), Some(all)),
        (class::LL, sizes(0), sample.checked_sub(1).map(|last| format!("0->{last}"))),
    ];
    let upstream = (1..).zip(classes).filter_map(|(priority, (class, [size_0, size_1], sampled))| {
        let (action, data) = match place(&parts[usize::from(class)]) {
            Some((action, top)) => (action, vec![carried.choose(Which::of(class.into())).into(), top]),
            None => ("skip".into(), Vec::new()),
        };
        let matches = vec![copy.to_string(), size_0, size_1, sampled?];
        Some(entry("classes.classes", matches, action, data, Some(priority)))
    });
    // Each copy of the downstream encoder begins at 0.
    let parts = parameters.downstream(shape, false);
    let entered = shim::epoch_of(epoch) & 15;
    let downstream = [class::LL, class::HL].into_iter().filter_map(|class| {
        let (action, top) = place(&parts[usize::from(class)])?;
        Some(entry("downstream_parts", vec![class.to_string(), entered.to_string()], action, vec![top], None))
    });
    [seed].into_iter().chain(upstream).chain(downstream).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pisa::hash::index_hash;

    proptest! {
        /// The sources compute from an entry the bucket that weir has: the part's own bits, and behind
        /// them the highest bits of the joined halves.
        #[test]
        fn entries_name_weirs_buckets(
            lengths in prop::array::uniform3(prop::sample::select(&POWERS[..])),
            crcs: [u32; 2],
            epoch in 4..6u64,
        ) {
            prop_assume!(lengths.iter().sum::<u32>() <= BUCKETS);
            let [hh, hl, ll] = lengths;
            let config = Config {
                parts: Parts::Powers,
                downstream: BUCKETS,
                hh: Some(hh),
                hl: Some(hl),
                ll,
                ..Config::default()
            };
            let (shape, parameters) = (config.shape(), config.parameters());
            prop_assert_eq!(check(&config, &shape).and(config.validate()), Ok(()));
            let (sum, index) = (crcs[0].wrapping_add(crcs[1]), index_hash(crcs[0], crcs[1]));
            let joined = u64::from(sum >> 16 ^ sum & 0xffff);
            let entries = entries(&parameters, &shape, epoch);
            for (table, parts) in
                [("classes.classes", parameters.upstream(&shape)), ("downstream_parts", parameters.downstream(&shape, false))]
            {
                let table = format!("chamelemon.{table}");
                // Upstream the entries are those of the classes from the highest on, downstream from the lowest.
                let mut parts: Vec<_> = parts.iter().filter_map(|part| part.first()).collect();
                if table.ends_with("classes") {
                    parts.reverse();
                }
                let of_table: Vec<_> = entries.iter().filter(|entry| entry.table == table).collect();
                prop_assert_eq!(of_table.len(), parts.len());
                for (entry, place) in of_table.iter().zip(parts) {
                    let length: u64 = entry.action.strip_prefix("encode_").unwrap().parse().unwrap();
                    let bits = length.ilog2();
                    let bucket = entry.data.last().unwrap() << bits | joined >> (16 - bits);
                    let copy = epoch % 2 * u64::from(BUCKETS);
                    prop_assert_eq!(bucket, copy + u64::from(place.bucket(index)));
                }
            }
        }
    }
}
