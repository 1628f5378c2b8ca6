use super::*;
use crate::pisa::hash::HashFamily;
use crate::program::ReportBuffer;
use crate::program::answers::Reason;
use crate::program::pint::Config;
use crate::program::pint::dataplane::Measured;
use crate::program::pint::encoding::switch_id;
use crate::program::pint::query::Value;
use crate::program::pint::record::{Arrival, Room};
use crate::wire::FiveTuple;

fn coding(config: &Config) -> (HashFamily, Coding) {
    let family = HashFamily::reproducible(3);
    (family.clone(), Coding::new(config.parameters(), &family))
}

fn recorders(config: &Config) -> (Recorder, HopRecorder) {
    let query = config.parameters().query(Value::Latency).unwrap();
    (Recorder::new(config), HopRecorder::new(Meaning::new(query).unwrap(), config.flows as usize))
}

/// Flows are bounded: those that have been silent longest go, counted. Flows are what the query
/// means by them, and hops have names only where the path means the same.
#[test]
fn flows_are_bounded() {
    for (definition, kept, named) in [("5tuple", 5, true), ("src", 1, false)] {
        let queries = format!("path:bits=8+latency:bits=8:flow={definition}").parse().unwrap();
        let config = Config { queries, flows: 5, ..Config::default() };
        let (mut paths, mut latency) = recorders(&config);
        paths.name(&"a".into());
        let (family, coding) = coding(&config);
        let scheme = &coding.scheme;
        for epoch in 0..12 {
            let mut buffer = ReportBuffer::with_capacity(64);
            for identity in 0..64 {
                let flow = FiveTuple([4 << 40 | epoch << 8, 0, 1, 0, 2]);
                let measured = Measured { hop: 1, identity, latency_ns: 1 << 20, ..Measured::default() };
                let digest = scheme.encode(&scheme.switch(switch_id("a")), measured, 0);
                buffer.push(Arrival { time_ns: identity.into(), plan: coding.id, flow, hops: 1, identity, digest });
            }
            let record = Digests::of(&family, Room::of(&config), &buffer.read());
            let records = [("a".into(), &record)];
            paths.epoch(epoch, &coding, &records);
            let [flow] = &latency.epoch(epoch, &coding, &records, &paths)[..] else { panic!("one flow") };
            let hop = &flow.told[0];
            let epochs = if definition == "src" { epoch + 1 } else { 1 };
            assert_eq!((hop.samples, hop.switch.is_some()), (64 * epochs, named), "{flow:?}");
            let off = hop.quantiles.unwrap().p50 / f64::from(1 << 20);
            assert!((0.9..1.1).contains(&off), "{hop:?}");
        }
        assert_eq!((latency.flows.len(), latency.flows.evicted()), (kept, if kept == 5 { 7 } else { 0 }));
    }
}

/// A switch that nobody knows contradicts the packets whenever a path is worked out. Samples
/// stay all the same: no path was sure before.
#[test]
fn samples_outlive_contradictions() {
    let config = Config { queries: "path:bits=8+latency:bits=8".parse().unwrap(), ..Config::default() };
    let (mut paths, mut latency) = recorders(&config);
    paths.name(&"b".into());
    let (family, coding) = coding(&config);
    let scheme = &coding.scheme;
    for epoch in 0..20u32 {
        let mut buffer = ReportBuffer::with_capacity(64);
        for identity in 64 * epoch..64 * (epoch + 1) {
            let flow = FiveTuple([4 << 40, 0, 1, 0, 2]);
            let digest = (1..).zip(["unknown", "b"]).fold(0, |digest, (hop, name)| {
                let measured = Measured { hop, identity, latency_ns: 1 << 20, ..Measured::default() };
                scheme.encode(&scheme.switch(switch_id(name)), measured, digest)
            });
            buffer.push(Arrival { time_ns: identity.into(), plan: coding.id, flow, hops: 2, identity, digest });
        }
        let record = Digests::of(&family, Room::of(&config), &buffer.read());
        let records = [("b".into(), &record)];
        let contradictions = paths.epoch(epoch.into(), &coding, &records)[0].contradictions;
        let flow = &latency.epoch(epoch.into(), &coding, &records, &paths)[0];
        assert_eq!(flow.samples(), 64 * u64::from(epoch + 1));
        assert!(epoch == 0 || contradictions > 0);
    }
}

/// A latency of each packet of a flow over one switch, in nanoseconds, at its time.
fn record(config: &Config, (family, coding): &(HashFamily, Coding), packets: &[(u64, u32)]) -> Digests {
    let mut buffer = ReportBuffer::with_capacity(packets.len());
    for &(time_ns, latency_ns) in packets {
        let (flow, identity) = (FiveTuple([4 << 40, 0, 1, 0, 2]), time_ns as u32);
        let measured = Measured { hop: 1, identity, latency_ns, ..Measured::default() };
        let digest = coding.scheme.encode(&coding.scheme.switch(switch_id("a")), measured, 0);
        buffer.push(Arrival { time_ns, plan: coding.id, flow, hops: 1, identity, digest });
    }
    Digests::of(family, Room::of(config), &buffer.read())
}

/// A packet that was doubled on its way counts once, as it came first.
#[test]
fn doubled_packets_count_once() {
    for window in ["", ":window=1s"] {
        let config = Config { queries: format!("latency:bits=8{window}").parse().unwrap(), ..Config::default() };
        let (paths, mut latency) = recorders(&config);
        let codes = coding(&config);
        let copies = (0..100).flat_map(|time_ns| [(time_ns, 1 << 10), (time_ns, 1 << 20)]);
        let record = record(&config, &codes, &copies.collect::<Vec<_>>());
        let [flow] = &latency.epoch(1, &codes.1, &[("a".into(), &record)], &paths)[..] else { panic!("one flow") };
        assert_eq!(flow.samples(), 100, "{flow:?}");
        assert!(flow.told[0].quantiles.unwrap().max < 1100.0, "{flow:?}");
    }
}

/// A naive window: an answer has all samples of the last seven eighths of it, and none that is
/// older than it. The clock is set back, an epoch is empty, and samples are exact or sketched.
#[test]
fn a_window_has_the_newest_samples() {
    const WINDOW: u64 = 80_000_000;
    for space in ["", ":space=400"] {
        let queries = format!("latency:bits=8:window=80ms{space}").parse().unwrap();
        let config = Config { queries, packets: 4096, ..Config::default() };
        let (paths, mut latency) = recorders(&config);
        let codes = coding(&config);
        let (mut all, mut clock) = (Vec::new(), 1_000_000_000u64);
        for epoch in 0..40u64 {
            clock = if epoch == 25 { clock - 500_000_000 } else { clock + 7_000_000 * (epoch % 5) };
            if epoch % 7 == 6 {
                assert!(latency.epoch(epoch, &codes.1, &[], &paths).is_empty());
                continue;
            }
            // A latency tells when its packet came.
            let packets: Vec<_> = (0..40).map(|i| (clock + i * 200_000, 1000 + 20 * epoch as u32)).collect();
            all.extend(packets.iter().map(|(time, _)| (epoch, *time)));
            let record = record(&config, &codes, &packets);
            let newest = packets[39].0;
            let answer = latency.answers(epoch, Some(&codes.1), &[("a".into(), &record)], &paths, &Reasons::default());
            assert_eq!(answer.window_ns, Some(WINDOW));
            let within = |length| all.iter().filter(|(_, time)| (newest - length + 1..=newest).contains(time)).count();
            let samples = answer.flows[0].told[0].samples as usize;
            assert!((within(WINDOW / 8 * 7)..=within(WINDOW)).contains(&samples), "{epoch}: {samples}");
            clock = newest + 1;
            if epoch == 24 {
                all.clear();
            }
        }
    }
}

/// The quantiles of a window are those of its samples: a slow time shows as long as the window
/// holds it, and not longer.
#[test]
fn a_slow_time_leaves_the_window() {
    let config = Config { queries: "latency:bits=8:window=1s".parse().unwrap(), ..Config::default() };
    let (paths, mut latency) = recorders(&config);
    let codes = coding(&config);
    let mut medians = Vec::new();
    for epoch in 0..40u64 {
        let slow = if epoch < 20 { 1 << 24 } else { 1 << 14 };
        let packets: Vec<_> = (0..50).map(|i| ((10 + epoch) * 100_000_000 + i, slow)).collect();
        let record = record(&config, &codes, &packets);
        let answer = latency.epoch(epoch, &codes.1, &[("a".into(), &record)], &paths);
        medians.push(answer[0].told[0].quantiles.unwrap().p50 > f64::from(1 << 19));
    }
    let last_slow = medians.iter().rposition(|slow| *slow).unwrap();
    assert!((23..=25).contains(&last_slow), "half a second after epoch 19: {last_slow}");
    assert!(medians[..last_slow].iter().all(|slow| *slow));
}

/// A window says what is missing in it as long as it is in it, and has packets of one plan alone.
#[test]
fn a_window_knows_its_gaps_and_its_plan() {
    let of = |text: &str| Config { queries: text.parse().unwrap(), ..Config::default() };
    let config = of("latency:bits=8:window=1s");
    let (paths, mut latency) = recorders(&config);
    let codes = coding(&config);
    let epoch = |latency: &mut HopRecorder, number: u64, codes: &(HashFamily, Coding), gap: bool| {
        let record = record(&config, codes, &[(number * 100_000_000, 1 << 20)]);
        let lack = gap.then_some(Reason::Overflow).into_iter().collect();
        let answer = latency.answers(number, Some(&codes.1), &[("a".into(), &record)], &paths, &lack);
        (answer.flows[0].samples(), answer.lack.contains(Reason::Overflow))
    };
    let found: Vec<_> = (10..30).map(|number| epoch(&mut latency, number, &codes, number == 12)).collect();
    let last = found.iter().rposition(|(_, lacks)| *lacks).unwrap();
    assert!((8..=11).contains(&last) && found[2..last].iter().all(|(_, lacks)| *lacks), "{found:?}");
    assert!(!found[1].1 && found[19].0 >= 8);
    // Half as many packets carry the query: the samples of before count for another share.
    let half = of("latency:bits=8:window=1s:frequency=1/2");
    let mut latency = latency.change(Meaning::new(half.parameters().query(Value::Latency).unwrap()).unwrap());
    let codes = coding(&half);
    assert_eq!(epoch(&mut latency, 31, &codes, false).0, 1);
    assert_eq!(latency.flows.evicted(), 1);
}

/// The packets of one flow by two ways, of which one has a slow switch: it shows on that way alone,
/// under its name, and a hop has samples of its own switch alone.
#[test]
fn latencies_are_those_of_a_path() {
    let config = Config {
        queries: "path:bits=8:checksum=3+latency:bits=5".parse().unwrap(),
        packets: 4096,
        ..Config::default()
    };
    let (mut paths, mut latency) = recorders(&config);
    ["a", "b", "c", "d"].iter().for_each(|name| paths.name(&(*name).into()));
    let (family, coding) = coding(&config);
    let scheme = &coding.scheme;
    let mut last = Vec::new();
    for epoch in 1..4u32 {
        let mut buffer = ReportBuffer::with_capacity(1000);
        for identity in 1000 * epoch..1000 * (epoch + 1) {
            let middle = if identity.count_ones() % 2 == 0 { "b" } else { "c" };
            let digest = (1..).zip(["a", middle, "d"]).fold(0, |digest, (hop, name)| {
                let latency_ns = if name == "b" { 1 << 24 } else { 1 << 14 };
                let measured = Measured { hop, identity, latency_ns, ..Measured::default() };
                scheme.encode(&scheme.switch(switch_id(name)), measured, digest)
            });
            let flow = FiveTuple([4 << 40, 0, 1, 0, 2]);
            buffer.push(Arrival { time_ns: identity.into(), plan: coding.id, flow, hops: 3, identity, digest });
        }
        let record = Digests::of(&family, Room::of(&config), &buffer.read());
        let records = [("d".into(), &record)];
        assert_eq!(paths.epoch(epoch.into(), &coding, &records).len(), 2);
        last = latency.epoch(epoch.into(), &coding, &records, &paths);
    }
    assert_eq!(last.len(), 2);
    for flow in &last {
        let names: String = flow.told.iter().map(|hop| hop.switch.as_deref().unwrap_or("?")).collect();
        assert!(["abd", "acd"].contains(&&*names) && flow.samples() > 1000, "{flow:?}");
        for hop in &flow.told {
            let slow = if hop.switch.as_deref() == Some("b") { 1 << 24 } else { 1 << 14 };
            for ns in [hop.quantiles.map(|of| of.p50), hop.quantiles.map(|of| of.p99)] {
                let off = ns.unwrap() / f64::from(slow);
                assert!((0.3..3.0).contains(&off), "{flow:?}");
            }
        }
    }
    assert_ne!(last[0].told[1].switch, last[1].told[1].switch);
}

/// Each of several queries for one value goes on with its own samples, whichever come and go, and
/// whatever their order and their frequencies.
#[test]
fn queries_go_on_with_their_own_samples() {
    use crate::program::pint::query::Queries;
    use crate::program::pint::recorder::values::{ValueRecorder, change};
    let mut recorders = Vec::new();
    let mut samples = |number: u64, queries: &str| {
        let queries: Queries = queries.parse().unwrap();
        let config = Config { queries: queries.clone(), ..Config::default() };
        recorders = change(std::mem::take(&mut recorders), &queries, 9);
        let (codes, paths) = (coding(&config), Recorder::new(&config));
        let record = record(&config, &codes, &[(number * 100_000_000, 1 << 20)]);
        let sums = recorders.iter_mut().map(|recorder: &mut ValueRecorder| {
            let records = [("a".into(), &record)];
            let answer = recorder.answers(number, Some(&codes.1), &records, &paths, &Reasons::default());
            answer.flows.iter().map(FlowValues::samples).sum::<u64>()
        });
        sums.collect::<Vec<_>>()
    };
    assert_eq!(samples(1, "latency:bits=8"), [1]);
    assert_eq!(samples(2, "latency:bits=8:flow=dst+latency:bits=8"), [1, 2]);
    assert_eq!(samples(3, "latency:bits=8+latency:bits=8:aggregation=max+latency:bits=8:flow=dst"), [3, 1, 2]);
    // A query of a whole way has samples of one epoch.
    assert_eq!(samples(4, "latency:bits=8:aggregation=max+latency:bits=8:flow=dst"), [1, 3]);
    assert_eq!(samples(5, "latency:bits=8:flow=dst+latency:bits=8:flow=src"), [4, 1]);
}

/// Beside a path with a checksum all packets that carry a value of a hop count, whatever the value.
#[test]
fn every_value_counts_beside_a_checksum() {
    for value in ["latency:bits=5", "queue:bits=6", "egress_port:bits=8", "ingress_time:bits=8", "congestion:bits=5"] {
        let queries = format!("path:bits=5:checksum=3+{value}").parse().unwrap();
        let config = Config { queries, ..Config::default() };
        let query = config.queries.0[1];
        let mut paths = Recorder::new(&config);
        let mut values = HopRecorder::new(Meaning::new(query).unwrap(), 9);
        paths.name(&"a".into());
        let (family, coding) = coding(&config);
        let scheme = &coding.scheme;
        let mut buffer = ReportBuffer::with_capacity(64);
        for identity in 0..64 {
            let digest =
                scheme.encode(&scheme.switch(switch_id("a")), Measured { hop: 1, identity, ..Measured::default() }, 0);
            let flow = FiveTuple([4 << 40, 0, 1, 0, 2]);
            buffer.push(Arrival { time_ns: 1 << 40, plan: coding.id, flow, hops: 1, identity, digest });
        }
        let record = Digests::of(&family, Room::of(&config), &buffer.read());
        let records = [("a".into(), &record)];
        paths.epoch(1, &coding, &records);
        let found = values.epoch(1, &coding, &records, &paths);
        let [flow] = &found[..] else { panic!("{value}: {found:?}") };
        assert_eq!((flow.samples(), flow.checksum.is_some()), (64, true), "{value}");
    }
}
