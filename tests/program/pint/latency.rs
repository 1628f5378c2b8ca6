//! The latency query: hops are sampled uniformly, and what is answered is what the hops had.

use std::collections::BTreeSet;

use weir::answers::{Latency, Task};
use weir::pisa::hash::HashFamily;
use weir::program::pint::dataplane::Measured;
use weir::program::pint::query::{Queries, Query, Value};
use weir::program::pint::values::dataplane::ValueCode;
use weir::program::pint::{Config, Pint};
use weir::program::{Program, ProgramConfig};
use weir::sim::report::LatencyCounts;
use weir::sim::{Fault, Simulation};

use super::network::setup;

fn config(queries: &str) -> Config {
    Config { queries: queries.parse().unwrap(), ..Config::default() }
}

/// Each hop has the same share of the packets, on paths of every length, of which each is told by
/// chi-square: below the 99.9999th percentile of its distribution (Wilson and Hilferty). The shim counts
/// 62 hops, and the codes of values have no more.
#[test]
fn hops_are_sampled_uniformly() {
    const PACKETS: u32 = 10_000;
    let queries = [(0, Value::Latency), (1, Value::Latency), (2, Value::Queue), (3, Value::EgressPort)];
    let one = queries.into_iter().map(|(seed, value)| (seed, Query::new(value)));
    // Of several instances each is uniform by itself.
    let several = (4, "latency:bits=4:instances=4".parse().unwrap());
    let codes = |(seed, query): (u64, Query)| {
        ValueCode::all(&query, &HashFamily::reproducible(seed)).into_iter().map(move |code| (seed, code))
    };
    for (seed, code) in one.chain([several]).flat_map(codes) {
        assert!((0..PACKETS).all(|identity| code.writer(identity, 1) == Some(1)));
        for length in 2..=62 {
            let mut counts = vec![0u32; length];
            // As IPv4 identifications are: numbers in a row.
            for identity in 0..PACKETS {
                counts[code.writer(identity, length).expect("the first hop acts always") - 1] += 1;
            }
            let expected = f64::from(PACKETS) / length as f64;
            let square = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
            let (found, limit) = (counts.iter().map(square).sum::<f64>(), chi_square(length - 1));
            assert!(found < limit, "{length} hops, seed {seed}: {found:.1} of {limit:.1}");
        }
    }
}

/// The 99.9999th percentile of the distribution of chi-square (Wilson and Hilferty).
fn chi_square(freedom: usize) -> f64 {
    let freedom = freedom as f64;
    let spread = 2.0 / (9.0 * freedom);
    freedom * (1.0 - spread + 4.75 * spread.sqrt()).powi(3)
}

/// Chi-square of a table of counts against rows and columns that do not depend on each other, of which
/// none is empty.
fn dependence(counts: &[Vec<u32>]) -> f64 {
    let sum = |of: &mut dyn Iterator<Item = u32>| of.map(f64::from).sum::<f64>();
    let rows: Vec<_> = counts.iter().map(|row| sum(&mut row.iter().copied())).collect();
    let columns: Vec<_> = (0..counts[0].len()).map(|at| sum(&mut counts.iter().map(|row| row[at]))).collect();
    let all: f64 = rows.iter().sum();
    let square = |(row, column): (usize, usize)| {
        let expected = rows[row] * columns[column] / all;
        (f64::from(counts[row][column]) - expected).powi(2) / expected
    };
    (0..rows.len()).flat_map(|row| (0..columns.len()).map(move |column| (row, column))).map(square).sum()
}

/// Two instances of a query draw hops and round independently of each other: of the pairs of their hops
/// each is as frequent, and one rounds a value up as often where the other rounds it up as where it does
/// not.
#[test]
fn instances_are_independent() {
    const PACKETS: u32 = 20_000;
    for (seed, text) in [(0, "latency:bits=5:instances=3"), (1, "queue:bits=4:instances=3:to=60")] {
        let query: Query = text.parse().unwrap();
        let codes = ValueCode::all(&query, &HashFamily::reproducible(seed));
        assert_eq!(codes.len(), 3);
        // Codes are the two around this number.
        let value = if query.value == Value::Latency { 80_000 } else { 45 };
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            for length in [2, 5, 31] {
                let mut counts = vec![vec![0; length]; length];
                for identity in 0..PACKETS {
                    let [row, column] =
                        [one, other].map(|code: usize| codes[code].writer(identity, length).unwrap() - 1);
                    counts[row][column] += 1;
                }
                let (found, limit) = (dependence(&counts), chi_square((length - 1).pow(2)));
                assert!(found < limit, "{text}, {length} hops: {found:.1} of {limit:.1}");
            }
            let mut counts = vec![vec![0; 2]; 2];
            let least = (0..PACKETS).map(|identity| codes[0].encode(1, identity, value, 0)).min().unwrap();
            for identity in 0..PACKETS {
                let [row, column] = [one, other].map(|code: usize| codes[code].encode(1, identity, value, 0) - least);
                counts[usize::from(row)][usize::from(column)] += 1;
            }
            assert!(counts.iter().flatten().all(|count| *count > PACKETS / 50), "{text}: {counts:?}");
            let (found, limit) = (dependence(&counts), chi_square(1));
            assert!(found < limit, "{text}: {found:.1} of {limit:.1}");
        }
    }
}

/// What a path of switches writes, the sink reads: the hop, and the time that it had.
#[test]
fn a_sink_reads_what_the_hop_wrote() {
    for queries in [
        "path:bits=8+latency:bits=8:frequency=15/16",
        "latency:bits=12+path:bits=4:frequency=1/4",
        "path:bits=4+latency:bits=6:instances=2:frequency=15/16",
        "latency:bits=4:instances=4:frequency=15/16+path:bits=8:frequency=1/16:instances=2",
    ] {
        let config = config(queries);
        let scheme = config.scheme(&HashFamily::reproducible(7));
        let switches: Vec<_> = (1..=9).map(|id| scheme.switch(id)).collect();
        let value = scheme.value(&config.parameters().query(Value::Latency).unwrap()).unwrap();
        let codes = value.code().codes();
        let (mut carriers, mut hops) = (0, 0);
        for identity in 0..4000 {
            let latency = |hop: usize| 1000 << hop;
            let digest = (1..).zip(&switches).fold(0xffff, |digest, (hop, switch)| {
                let measured = Measured { hop, identity, latency_ns: latency(hop.into()), ..Measured::default() };
                scheme.encode(switch, measured, digest)
            });
            let told: Vec<_> = value.hops(identity, 9, digest).collect();
            assert_eq!(told.first().copied(), value.hop(identity, 9, digest));
            for (hop, code) in &told {
                let off = codes.number(Value::Latency, *code) / f64::from(latency(*hop));
                let (_, factor) = codes.errors(Value::Latency);
                assert!(off.max(1.0 / off) <= factor + 1e-3, "hop {hop}: {off}");
            }
            let distinct: BTreeSet<_> = told.iter().map(|(hop, _)| *hop).collect();
            assert_eq!(distinct.len(), told.len(), "{told:?}");
            (carriers, hops) = (carriers + u32::from(!told.is_empty()), hops + told.len());
            // The path's part is what the path alone would have.
            if let Some(part) = scheme.path_part(identity, digest) {
                assert_eq!(part, scheme.path().unwrap().digest(&switches, identity));
            }
        }
        assert!(carriers >= 3700, "{carriers}");
        // Nine hops, of which as many instances draw so many different ones.
        let expected = f64::from(carriers) * 9.0 * (1.0 - (8f64 / 9.0).powi(value.instances() as i32));
        assert!((hops as f64 / expected - 1.0).abs() < 0.02, "{queries}: {hops}, not {expected}");
    }
}

/// Switches of a simulated network take no time, but one that stands still: its packets wait there.
#[test]
fn a_switch_that_stands_still_shows() {
    let queries = "path:bits=8+latency:bits=8:frequency=15/16:space=1000";
    let mut setup = setup("line:5", "isp/uniform,flows=20,packets=20000,seed=3", config(queries));
    setup.faults = vec!["pause=s2,at=20ms,for=8ms".parse::<Fault>().unwrap()];
    let mut simulation = Simulation::new(&setup).unwrap();
    for _ in 0..3 {
        simulation.epoch(&setup.workload, None);
    }
    let reports = simulation.finish();
    let latencies = reports.iter().filter_map(|report| report.programs["pint"].latency.clone());
    let latencies: Vec<_> = latencies.filter(|latency| latency.samples > 0).collect();
    // It is in the first epoch, and each epoch has flows of its own.
    let [first, rest @ ..] = &latencies[..] else { panic!("no epoch") };
    assert!(first.samples > 1000 && first.slowest_switch.as_deref() == Some("s2"), "{first:?}");
    assert!((1_000_000..8_500_000).contains(&first.slowest_p99_ns.unwrap()), "{first:?}");
    let is_quick = |latency: &&LatencyCounts| latency.samples > 1000 && latency.slowest_p99_ns == Some(256);
    assert_eq!(rest.iter().filter(is_quick).count(), 2, "{rest:?}");
    // Without it there is no slow one.
    setup.faults.clear();
    let mut simulation = Simulation::new(&setup).unwrap();
    simulation.epoch(&setup.workload, None);
    simulation.finish();
    let answers = simulation.answers(0, 0).unwrap().answer::<Latency>(usize::MAX).unwrap();
    let hops = answers.latencies.iter().flat_map(|flow| &flow.hops);
    let times: Vec<_> = hops.filter_map(|hop| hop.p99_ns).collect();
    assert!(times.len() > 20 && times.iter().all(|time| *time == 256), "{times:?}");
}

/// Conflicting demands are refused, with the nearest that fit.
#[test]
fn conflicts_are_refused() {
    let refused = |text: &str| text.parse::<ProgramConfig>().unwrap_err().to_string();
    let error = refused("pint:budget=8,queries=path:bits=8+latency:bits=8:frequency=1/4");
    let nearest = "path:bits=8:frequency=13107/16384+latency:bits=8:frequency=13107/65536";
    assert!(error.ends_with(&format!("path and latency fit with frequencies times 0.800: {nearest}")), "{error}");
    assert!(format!("pint:budget=8,queries={nearest}").parse::<ProgramConfig>().is_ok());
    let error = refused("pint:budget=7,queries=latency:bits=8");
    assert!(error.ends_with("no more than the budget of 7 bits, latency has 8"), "{error}");
    assert!(refused("pint:budget=4").ends_with("at least bits × instances, 16"));
    assert!(refused("pint:bits=4,queries=path").contains("bits and instances are those of the query path"));
    assert!(
        refused("pint:queries=loop").ends_with("written like path:bits=8+latency:bits=8:frequency=15/16:space=100")
    );
    let program = ProgramConfig::new::<Pint>(config("latency"));
    assert!(program.rank(Task::Latency).is_some() && Pint::validate(&config("latency")).is_ok());
    let queries: Queries = nearest.parse().unwrap();
    assert_eq!(queries.to_string(), nearest);
}
