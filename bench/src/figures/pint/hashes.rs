//! Two hashes of 8 bits against one, for the path's part of PINT's Figure 11: of one hop or of a hop
//! each, among all switches or among those of the path alone.

use std::fmt::Write as _;

use anyhow::Result;
use weir::program::pint::encoding::Layers;

use super::super::experiment::Trials;
use super::runs::{Pint, random_path};

/// Switches on a path, and seeds.
const HOPS: usize = 5;
const SEEDS: usize = 5;

/// Candidates for each hop: the path's own switches, as the authors' script has them; a fat tree of
/// K = 4, one of K = 8, and Kentucky Datalink.
const CANDIDATES: [usize; 4] = [HOPS, 20, 80, 753];

/// Bits and instances on a packet. Two hashes of 8 bits of one hop tell what one of 16 does.
const HASHES: [(&str, u32, u32); 3] = [("one", 8, 1), ("two of one hop", 16, 1), ("two of two hops", 8, 2)];

/// The mean packets of a path, by seed, for each of the hashes.
pub fn table(runs: usize, progress: impl Fn(&str)) -> Result<String> {
    let theirs = Layers { baseline: 0.5, xor: vec![0.1] };
    let layers = [("weir's", None), ("the authors'", Some(theirs))];
    let mut lines = String::from("layers,candidates,hashes_of_8_bits,packets_mean,mean_min,mean_max,");
    lines += "one_over_this_percent,over_min,over_max,wrong_paths,runs,seeds\n";
    for (of, layers) in layers {
        for switches in CANDIDATES {
            let of_hashes = |&(_, bits, instances): &(_, u32, u32)| {
                let own = || Layers::of_length(HOPS as u32, bits);
                let layers = layers.clone().unwrap_or_else(own);
                let pint = Pint { bits, instances, layers, switches, links: None };
                let path = random_path(switches, HOPS);
                (0..SEEDS).map(|seed| pint.run_seeded(seed, runs, &path)).collect::<Vec<_>>()
            };
            let found: Vec<_> = HASHES.iter().map(of_hashes).collect();
            for ((name, ..), packets) in HASHES.iter().zip(&found) {
                let means: Vec<_> = packets.iter().map(super::runs::Packets::mean).collect();
                let over: Vec<_> =
                    found[0].iter().zip(&means).map(|(one, mean)| 100.0 * (one.mean() / mean - 1.0)).collect();
                let (Some(mean), Some(over)) = (Trials::of(&means), Trials::of(&over)) else { continue };
                let wrong: usize = packets.iter().map(|packets| packets.wrong).sum();
                write!(lines, "{of},{switches},{name},{:.3},{:.3},{:.3},", mean.mean, mean.min, mean.max)?;
                write!(lines, "{:.2},{:.2},{:.2},", over.mean, over.min, over.max)?;
                writeln!(lines, "{wrong},{},{SEEDS}", runs * SEEDS)?;
            }
            progress(&format!("{of} layers, {switches} candidates"));
        }
    }
    Ok(lines)
}
