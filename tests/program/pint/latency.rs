//! The latency query: hops are sampled uniformly, and what is answered is what the hops had.

use weir::pisa::hash::HashFamily;
use weir::program::answers::Task;
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
    for (seed, value) in [(0, Value::Latency), (1, Value::Latency), (2, Value::Queue), (3, Value::EgressPort)] {
        let code = ValueCode::new(&Query::new(value), &HashFamily::reproducible(seed)).unwrap();
        assert!((0..PACKETS).all(|identity| code.writer(identity, 1) == Some(1)));
        for length in 2..=62 {
            let mut counts = vec![0u32; length];
            // As IPv4 identifications are: numbers in a row.
            for identity in 0..PACKETS {
                counts[code.writer(identity, length).expect("the first hop acts always") - 1] += 1;
            }
            let expected = f64::from(PACKETS) / length as f64;
            let square = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
            let (found, freedom) = (counts.iter().map(square).sum::<f64>(), (length - 1) as f64);
            let spread = 2.0 / (9.0 * freedom);
            let limit = freedom * (1.0 - spread + 4.75 * spread.sqrt()).powi(3);
            assert!(found < limit, "{length} hops, seed {seed}: {found:.1} of {limit:.1}");
        }
    }
}

/// What a path of switches writes, the sink reads: the hop, and the time that it had.
#[test]
fn a_sink_reads_what_the_hop_wrote() {
    for queries in ["path:bits=8+latency:bits=8:frequency=15/16", "latency:bits=12+path:bits=4:frequency=1/4"] {
        let config = config(queries);
        let scheme = config.scheme(&HashFamily::reproducible(7));
        let switches: Vec<_> = (1..=9).map(|id| scheme.switch(id)).collect();
        let value = scheme.value(&config.parameters().query(Value::Latency).unwrap()).unwrap();
        let codes = value.code().codes();
        let mut carriers = 0;
        for identity in 0..4000 {
            let latency = |hop: usize| 1000 << hop;
            let digest = (1..).zip(&switches).fold(0xffff, |digest, (hop, switch)| {
                let measured = Measured { hop, identity, latency_ns: latency(hop.into()), ..Measured::default() };
                scheme.encode(switch, measured, digest)
            });
            let Some((hop, code)) = value.hop(identity, 9, digest) else { continue };
            let off = codes.number(Value::Latency, code) / f64::from(latency(hop));
            let (_, factor) = codes.errors(Value::Latency);
            assert!(off.max(1.0 / off) <= factor + 1e-3, "hop {hop}: {off}");
            carriers += 1;
            // The path's part is what the path alone would have.
            if let Some(part) = scheme.path_part(identity, digest) {
                assert_eq!(part, scheme.path().unwrap().digest(&switches, identity));
            }
        }
        assert!(carriers >= 3700, "{carriers}");
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
    let answers = simulation.last(0).unwrap().of_task(Task::Latency).next().unwrap();
    let hops = answers.flows.iter().flat_map(|flow| &flow.told);
    let times: Vec<_> = hops.filter_map(|hop| Some(hop.quantiles?.p99)).collect();
    assert!(times.len() > 20 && times.iter().all(|time| *time == 256.0), "{times:?}");
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
