//! The same with hop counters in all switches and each packet simulated: a check of the networks that are
//! simulated at the level of flows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Context, Result};
use weir::answers::{Claimed, FlowName, Places};
use weir::sim::{Loss, Setup, Simulation};
use weir::trace::SplitMix64;

use super::net::{MEMORY, Net};
use super::{FAILURES, RATES};

/// One draw.
struct Draw {
    rate: f64,
    kind: &'static str,
    seed: u64,
}

/// The outcome of one draw of failures.
struct Found {
    precision: f64,
    recall: f64,
    lost_packets: u64,
    lost_packets_right: f64,
    is_exact: bool,
    /// Places with the exact number of lost packets, of those that lost some or are said to.
    places_right: f64,
    seconds: f64,
}

/// Adds the rows of some draws of each network.
pub fn run(nets: &[Net], draws: u64, csv: &mut String) -> Result<()> {
    let start = Instant::now();
    for net in nets {
        for kind in ["bidir", "switch"] {
            for (rate, seed) in RATES.into_iter().flat_map(|rate| (1..=draws).map(move |seed| (rate, seed))) {
                let found = run_draw(net, &Draw { rate, kind, seed })?;
                let Found { precision, recall, lost_packets, lost_packets_right, is_exact, places_right, seconds } =
                    found;
                let exact = u8::from(is_exact);
                writeln!(
                    csv,
                    "{},{FAILURES},{rate},{kind},packets,{MEMORY},{seed},{precision:.3},{recall:.3},{lost_packets},\
                     {lost_packets_right:.4},{exact},{places_right:.4},{seconds:.3}",
                    net.name,
                )?;
                eprintln!("{:7.1} s  {} {kind} {rate}, packets", start.elapsed().as_secs_f64(), net.name);
            }
        }
    }
    Ok(())
}

/// The places that fail: links by number and switches by name.
fn losses(setup: &Setup, draw: &Draw) -> Vec<Loss> {
    let mut random = SplitMix64::new(draw.seed ^ 0x10ca);
    let links = setup.topology.links().len() as u64;
    let background = (0..links).map(|link| {
        let rate = 1e-6 * (1.0 + 9.0 * (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64);
        format!("link={link},rate={rate:.9}")
    });
    let mut all: Vec<String> = background.collect();
    for _ in 0..FAILURES {
        let switches = setup.topology.switches();
        all.push(match draw.kind {
            "switch" => {
                format!("switch={},rate={}", switches[random.below(switches.len() as u64) as usize], text(draw.rate))
            }
            _ => format!("link={},rate={}", random.below(links), text(draw.rate)),
        });
    }
    all.iter().filter_map(|loss| loss.parse().ok()).collect()
}

fn text(rate: f64) -> String {
    format!("{}%", rate * 100.0)
}

/// Where flows lost packets: by flow, switch, and the port that a link begins at.
type Lost = BTreeMap<(FlowName, String, Option<String>), u64>;

fn run_draw(net: &Net, draw: &Draw) -> Result<Found> {
    let programs = ["chamelemon".to_owned(), format!("hopcounters:memory={MEMORY}B")];
    let programs = programs.iter().map(|program| program.parse()).collect::<Result<_, _>>()?;
    let mut setup = Setup { programs, workload: net.setup.workload.clone(), ..net.setup.clone() };
    setup.workload.seed = draw.seed;
    setup.losses = losses(&setup, draw);
    let mut simulation = Simulation::new(&setup)?;
    simulation.epoch(&setup.workload, None);
    simulation.finish();
    let network = simulation.network();
    let generation = network.generation(0);
    let mut truth = Lost::new();
    for ((flow, at), packets) in &generation.places {
        let Some((switch, port)) = network.named(*at) else { continue };
        let flow = FlowName::Flow(flow_of(generation, *flow));
        *truth.entry((flow, switch, port)).or_default() += u64::from(*packets);
    }
    let started = Instant::now();
    let answers = simulation.answers(1, 0).context("an epoch has closed")?;
    let answers = answers.with_surroundings(network, &simulation.histories());
    let found: Claimed<Places> = answers.answer(usize::MAX).context("hop counters answer")?;
    Ok(score(&setup, &found, &truth, started.elapsed().as_secs_f64()))
}

fn flow_of(generation: &weir::sim::Generation, flow: u32) -> weir::wire::Flow {
    use weir::wire::FlowKey;
    generation.flows[flow as usize].tuple.flow()
}

fn score(setup: &Setup, found: &Places, truth: &Lost, seconds: f64) -> Found {
    let mut by_place: BTreeMap<(String, Option<String>), u64> = BTreeMap::new();
    for ((_, switch, port), packets) in truth {
        *by_place.entry((switch.clone(), port.clone())).or_default() += packets;
    }
    let name = |place: &weir::answers::LossPlace| (place.switch.clone(), place.port.clone());
    let failing: BTreeSet<_> = by_place.keys().filter(|place| is_failure(setup, place)).cloned().collect();
    let named: BTreeSet<_> = found.places.iter().filter(|place| place.failed).map(name).collect();
    let right = named.intersection(&failing).count() as f64;
    let share = |of: f64, all: usize| if all == 0 { 1.0 } else { of / all as f64 };
    let told = found.places.iter().flat_map(|place| {
        let (switch, port) = name(place);
        place.victims.iter().map(move |victim| ((victim.name, switch.clone(), port.clone()), victim.packets))
    });
    let placed: u64 = told.map(|(key, packets)| packets.min(truth.get(&key).copied().unwrap_or(0))).sum();
    let lost: u64 = truth.values().sum();
    let counted: BTreeMap<_, _> = found.places.iter().map(|place| (name(place), place.lost_packets)).collect();
    let all: BTreeSet<_> = counted.keys().chain(by_place.keys()).collect();
    let exact = all.iter().filter(|place| counted.get(**place) == by_place.get(**place)).count();
    // A place that lost fewer than three packets is never named.
    let enough: BTreeSet<_> = failing.iter().filter(|place| by_place[*place] >= 3).cloned().collect();
    Found {
        precision: share(right, named.len()),
        recall: share(right, failing.len()),
        lost_packets: lost,
        lost_packets_right: if lost == 0 { 1.0 } else { placed as f64 / lost as f64 },
        is_exact: named == enough,
        places_right: share(exact as f64, all.len()),
        seconds,
    }
}

/// Whether a place is one of those that were made to fail.
fn is_failure(setup: &Setup, (switch, port): &(String, Option<String>)) -> bool {
    setup.losses.iter().rev().take(FAILURES).any(|loss| match (loss, port) {
        (Loss::Link { link, .. }, Some(port)) => *port == format!("l{link}"),
        (Loss::Switch { switch: failed, .. }, None) => {
            let number: usize = switch.trim_start_matches('s').parse().unwrap_or(usize::MAX);
            setup.topology.switches().get(number).is_some_and(|name| failed.is(name))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failing switch and a failing link of a small network are found, with the flows.
    #[test]
    fn failures_are_found() {
        let net = Net::new("k4".into(), &"fat-tree:4".parse().unwrap(), 2_000, 1_000_000).unwrap();
        for kind in ["bidir", "switch"] {
            let found = run_draw(&net, &Draw { rate: 0.02, kind, seed: 3 }).unwrap();
            assert!(found.lost_packets > 50, "{}", found.lost_packets);
            assert_eq!((found.precision, found.places_right, found.is_exact), (1.0, 1.0, true), "{kind}");
            assert!(found.lost_packets_right > 0.98, "{kind} {}", found.lost_packets_right);
        }
    }
}
