//! The promises of the inference from the edges, held against many draws: a lone failure is found; sure names are
//! right; nothing is named without a failure.

use std::fmt::Write as _;

use anyhow::Result;
use weir::answers::Places;
use weir::trace::SplitMix64;

use super::net::{At, Drawn, Known, Net, inferred};
use super::score::{Score, Told};
use super::{Kind, background};

/// A failure must have lost this number of packets to be found.
const ENOUGH: u64 = 10;
/// Names of this confidence must be right.
const SURE: f64 = 0.95;
const EPOCHS: u64 = 60;
/// Paths as an operator has them: some are wrong, and those of small flows are not known.
const HARD: Known = Known { wrong: 0.01, from: 20, named_from: 0 };

/// Runs that hold, of all.
#[derive(Default)]
struct Held {
    right: usize,
    all: usize,
}

impl Held {
    fn add(&mut self, holds: bool) {
        self.right += usize::from(holds);
        self.all += 1;
    }
}

/// The checks as CSV.
pub fn run(nets: &[Net], runs: u64) -> Result<String> {
    let mut csv = String::from("topology,check,right,of\n");
    for net in nets.iter().filter(|_| runs > 0) {
        let mut line = |check: &str, held: &Held| {
            eprintln!("           {} {check}: {} of {}", net.name, held.right, held.all);
            writeln!(csv, "{},{check},{},{}", net.name, held.right, held.all)
        };
        for (known, name) in [(Known::default(), "paths known"), (HARD, "paths from 20 packets, 1 % wrong")] {
            let (mut found, mut exact) = (Held::default(), Held::default());
            lone(net, runs, known, &mut found, &mut exact)?;
            line(&format!("a lone failure found; {name}"), &found)?;
            line(&format!("a lone failure and nothing else; {name}"), &exact)?;
        }
        for dying in [false, true] {
            let name = if dying { "whole flows die" } else { "packets are lost" };
            line(&format!("names with 95 % right; {name}"), &sure(net, runs + runs / 4, dying)?)?;
        }
        let (single, together) = quiet(net, runs.min(EPOCHS))?;
        line("no name in an epoch of background", &single)?;
        line("no name in these epochs together", &together)?;
    }
    Ok(csv)
}

/// A rate between 0.1 % and 100 %.
fn rate(random: &mut SplitMix64) -> f64 {
    10f64.powf(-3.0 * random.unit())
}

fn lone(net: &Net, runs: u64, known: Known, found: &mut Held, exact: &mut Held) -> Result<()> {
    for seed in 0..runs {
        let mut random = SplitMix64::new(seed ^ 0x10e);
        let mut rates = background(net, &mut random);
        let kind = if seed % 2 == 0 { Kind::Link } else { Kind::Switch };
        let failing = kind.draw(net, 1, &mut random);
        rates.insert(failing[0], rate(&mut random));
        let mut drawn = net.draw(1000 + seed)?;
        drawn.lose(&rates, seed);
        if drawn.truth().get(&failing[0]).is_none_or(|lost| *lost < ENOUGH) {
            continue;
        }
        let told = Told::of_places(&inferred(&[&drawn], known, seed)?, &[&drawn]);
        let Score { recall, is_exact, .. } = Score::new(&told, &drawn, &failing);
        found.add(recall == 1.0);
        exact.add(is_exact);
    }
    Ok(())
}

/// Names of two failures of any kind.
fn sure(net: &Net, runs: u64, dying: bool) -> Result<Held> {
    let mut held = Held::default();
    for seed in 0..runs {
        let mut random = SplitMix64::new(seed ^ 0x5e);
        let mut rates = background(net, &mut random);
        let kind = Kind::ALL[seed as usize % Kind::ALL.len()];
        let failing = kind.draw(net, 2, &mut random);
        let rate = rate(&mut random);
        let mut drawn = net.draw(2000 + seed)?;
        if dying {
            drawn.lose(&rates, seed);
            failing.iter().for_each(|at| kill(&mut drawn, *at, rate.min(0.3), &mut random));
        } else {
            rates.extend(failing.iter().map(|at| (*at, rate)));
            drawn.lose(&rates, seed);
        }
        let told = Told::of_places(&inferred(&[&drawn], HARD, seed)?, &[&drawn]);
        for (own, confidence) in &told.named {
            if *confidence >= SURE {
                held.add(own.iter().any(|at| failing.contains(at)));
            }
        }
    }
    Ok(held)
}

/// A share of the flows that cross a place lose all packets there that come so far.
fn kill(drawn: &mut Drawn<'_>, at: At, share: f64, random: &mut SplitMix64) {
    for sent in drawn.flows.iter_mut().filter(|sent| sent.path.contains(&at)) {
        if random.unit() < share {
            let place = sent.path.iter().position(|own| *own == at).unwrap_or_default();
            let before = &sent.path[..place];
            sent.lost.retain(|(own, _)| before.contains(own));
            let left = sent.packets - sent.lost();
            if left > 0 {
                sent.lost.push((at, left));
            }
        }
    }
}

/// Epochs without a failure, one by one and together.
fn quiet(net: &Net, epochs: u64) -> Result<(Held, Held)> {
    let names = |places: &Places| places.places.iter().any(|place| place.failed);
    let rates = background(net, &mut SplitMix64::new(0xb6));
    let mut drawn = Vec::new();
    let (mut single, mut together) = (Held::default(), Held::default());
    for seed in 0..epochs {
        let mut epoch = net.draw(3000 + seed)?;
        epoch.lose(&rates, seed);
        single.add(!names(&inferred(&[&epoch], HARD, seed)?));
        drawn.push(epoch);
    }
    together.add(!names(&inferred(&drawn.iter().collect::<Vec<_>>(), HARD, 1)?));
    Ok((single, together))
}
