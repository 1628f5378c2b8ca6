use super::*;
use crate::answers::Between;
use crate::history::{Gap, Reason, SwitchGap};
use crate::pisa::hash::HashFamily;
use crate::program::pint::Config;
use crate::program::pint::dataplane::Measured;
use crate::program::pint::encoding::switch_id;
use crate::program::pint::query::Value;
use crate::program::pint::record::{Arrival, Room};
use crate::program::pint::recorder::packets::PacketRecorder;
use crate::program::pint::sample::Sample;
use crate::program::{Record, ReportBuffer};
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
            let record = Digests::of(&family, Room::of(&config), &buffer.read(), 0);
            let records = [("a".into(), &record)];
            paths.epoch(epoch, &coding, &records);
            let [flow] = &latency.epoch(epoch, &coding, &records, &paths, &Lack::default()).0[..] else {
                panic!("one flow")
            };
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
        let record = Digests::of(&family, Room::of(&config), &buffer.read(), 0);
        let records = [("b".into(), &record)];
        let contradictions = paths.epoch(epoch.into(), &coding, &records)[0].contradictions;
        let flow = &latency.epoch(epoch.into(), &coding, &records, &paths, &Lack::default()).0[0];
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
    Digests::of(family, Room::of(config), &buffer.read(), 0)
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
        let [flow] = &latency.epoch(1, &codes.1, &[("a".into(), &record)], &paths, &Lack::default()).0[..] else {
            panic!("one flow")
        };
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
                assert!(latency.epoch(epoch, &codes.1, &[], &paths, &Lack::default()).0.is_empty());
                continue;
            }
            // A latency tells when its packet came.
            let packets: Vec<_> = (0..40).map(|i| (clock + i * 200_000, 1000 + 20 * epoch as u32)).collect();
            all.extend(packets.iter().map(|(time, _)| (epoch, *time)));
            let record = record(&config, &codes, &packets);
            let newest = packets[39].0;
            let answer = latency.answers(epoch, Some(&codes.1), &[("a".into(), &record)], &paths, &Lack::default());
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
        let answer = latency.epoch(epoch, &codes.1, &[("a".into(), &record)], &paths, &Lack::default()).0;
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
        let gap = gap.then(|| SwitchGap { switch: "a".into(), gap: Gap::Overflow { reports: 1 } });
        let lack = Lack::of(gap.as_slice());
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
        let record = Digests::of(&family, Room::of(&config), &buffer.read(), 0);
        let records = [("d".into(), &record)];
        assert_eq!(paths.epoch(epoch.into(), &coding, &records).len(), 2);
        last = latency.epoch(epoch.into(), &coding, &records, &paths, &Lack::default()).0;
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
            let answer = recorder.answers(number, Some(&codes.1), &records, &paths, &Lack::default());
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
        let record = Digests::of(&family, Room::of(&config), &buffer.read(), 0);
        let records = [("a".into(), &record)];
        paths.epoch(1, &coding, &records);
        let found = values.epoch(1, &coding, &records, &paths, &Lack::default()).0;
        let [flow] = &found[..] else { panic!("{value}: {found:?}") };
        assert_eq!((flow.samples(), flow.checksum.is_some()), (64, true), "{value}");
    }
}

/// A flow of several connections, each on one switch's cores: of each packet its connection, the
/// core, how often that core halved its share, and a latency.
type Sent = (u64, usize, u8, u32);

/// The record of a switch with two cores, which saw these packets in this order.
fn of_cores(config: &Config, (family, coding): &(HashFamily, Coding), first: u32, sent: &[Sent]) -> Digests {
    let sample = Sample::new(family);
    let mut cores = [(); 2].map(|()| (ReportBuffer::with_capacity(sent.len()), 0));
    for (identity, &(port, core, halvings, latency_ns)) in (first..).zip(sent) {
        let (buffer, of_core) = &mut cores[core];
        *of_core = halvings;
        if sample.hash_of(identity) > u32::MAX >> halvings {
            continue;
        }
        let measured = Measured { hop: 1, identity, latency_ns, utilisation: latency_ns, ..Measured::default() };
        let digest = coding.scheme.encode(&coding.scheme.switch(switch_id("a")), measured, 0);
        let flow = FiveTuple([4 << 40 | port << 24, 0, 1, 0, 2]);
        let time_ns = identity.into();
        buffer.push(Arrival { time_ns, plan: coding.id, flow, hops: 1, identity, digest });
    }
    let mut sum = Digests::none(family, Room::of(config));
    for (buffer, halvings) in &cores {
        sum.merge(&Digests::of(family, Room::of(config), &buffer.read(), *halvings)).unwrap();
    }
    sum
}

/// Latencies that double ten times while a flow sends.
fn rising(at: u32, of: u32) -> u32 {
    (1000.0 * (10.0 * f64::from(at) / f64::from(of)).exp2()) as u32
}

/// A flow with more packets in an epoch than are kept, with connections of very different sizes,
/// and on cores that report different shares: the percentiles are those of all its packets, of the
/// whole epoch, within the error that the answer states. So are the medians of whole ways.
#[test]
fn large_flows_tell_of_the_whole_epoch() {
    let large: Vec<Sent> = (0..4000).map(|at| (1, 0, 0, rising(at, 4000))).collect();
    // A small connection that is slow, all of it kept.
    let beside: Vec<Sent> = (0..4000).flat_map(|at| [(1, 0, 0, rising(at, 4000)), (2, 1, 0, 1 << 20)]).collect();
    let beside: Vec<Sent> =
        beside.into_iter().enumerate().filter(|(at, _)| at % 2 == 0 || at % 64 == 1).map(|(_, sent)| sent).collect();
    // The second half comes in by a core that reports a quarter.
    let halves = |port| {
        (0..4000)
            .map(move |at| (port * (at / 2000) as u64, at as usize / 2000, 2 * (at / 2000) as u8, rising(at, 4000)))
    };
    let cases = [(large, 200), (beside, 200), (halves(0).collect(), 4096), (halves(1).collect(), 4096)];
    for aggregation in ["quantiles", "max"] {
        for (sent, packets) in &cases {
            let queries = format!("latency:bits=8:aggregation={aggregation}:flow=dst").parse().unwrap();
            let config = Config { queries, packets: *packets, ..Config::default() };
            let meaning = || Meaning::new(config.parameters().query(Value::Latency).unwrap()).unwrap();
            let (codes, paths) = (coding(&config), Recorder::new(&config));
            let mut truth: Vec<_> = sent.iter().map(|(_, _, _, latency)| f64::from(*latency)).collect();
            truth.sort_by(f64::total_cmp);
            let mut wrong = 0;
            for epoch in 0..20 {
                let record = of_cores(&config, &codes, 10_000 * epoch, sent);
                let records = [("a".into(), &record)];
                let lack = Lack::default();
                let flows = match aggregation {
                    "quantiles" => HopRecorder::new(meaning(), 9).epoch(1, &codes.1, &records, &paths, &lack).0,
                    _ => PacketRecorder::new(meaning(), 9).answers(Some(&codes.1), &records, &paths, &lack).flows,
                };
                let told = &flows[0].told[0];
                assert!(flows.len() == 1 && (150..1200).contains(&told.samples), "{told:?}");
                let Between { low, high } = told.quantiles.unwrap().p50_between;
                // A code stands for the latencies of a step around it.
                let rank = |latency: f64| truth.partition_point(|of| *of <= latency) as f64 / truth.len() as f64;
                let (low, high) = (rank(low.unwrap() / 1.07), rank(high.unwrap() * 1.07));
                wrong += u32::from(!(low..=high).contains(&0.5));
            }
            assert!(wrong <= 2, "{aggregation}, {packets}: {wrong} of 20");
        }
    }
}

/// What an epoch lacked, the samples of its flows lack as long as they are kept: an overflow, a
/// share of a large flow, a record that is missing. Flows at other switches do not, nor later ones.
#[test]
fn samples_remember_what_they_lack() {
    let config = Config { queries: "latency:bits=8".parse().unwrap(), packets: 1, ..Config::default() };
    let (paths, mut latency) = recorders(&config);
    let codes = coding(&config);
    let mut epoch = |number: u64, sinks: &[&str], flow: u64, gap: Option<Gap>| {
        let packets = if matches!(gap, Some(Gap::LargeFlows { .. })) { 2 } else { 1 };
        let record = of_cores(&config, &codes, 100 * number as u32, &[(flow, 0, 0, 1 << 20); 2][..packets]);
        let records: Vec<_> = sinks.iter().map(|sink| ((*sink).into(), &record)).collect();
        let lack = Lack::of(gap.map(|gap| SwitchGap { switch: "a".into(), gap }).as_slice());
        latency.answers(number, Some(&codes.1), &records, &paths, &lack).lack.iter().collect::<Vec<_>>()
    };
    // A flow says nothing of the time before its switch started.
    assert_eq!(epoch(1, &["a", "b"], 1, Some(Gap::Started)), [Reason::Gap]);
    assert_eq!(epoch(2, &["a", "b"], 1, None), []);
    assert_eq!(epoch(3, &["a"], 1, Some(Gap::Overflow { reports: 1 })), [Reason::Overflow]);
    assert_eq!((epoch(4, &["a"], 1, None), epoch(5, &["b"], 1, None)), (vec![Reason::Overflow], vec![]));
    assert_eq!(epoch(6, &["b"], 1, Some(Gap::Missing)), [Reason::Gap]);
    assert_eq!(epoch(7, &["a"], 1, None), [Reason::Gap, Reason::Overflow]);
    assert_eq!(epoch(8, &["a"], 2, Some(Gap::LargeFlows { packets: 1 })), [Reason::LargeFlows]);
    assert_eq!((epoch(9, &["a"], 2, None), epoch(10, &["a"], 3, None)), (vec![Reason::LargeFlows], vec![]));
}

/// Packets of several flows over as many switches, each with a time of its own in each: what is
/// recorded of each flow with these queries, and the times of each hop in order.
fn with_instances(queries: &str, hops: u8, flows: u64, packets: u32) -> (Vec<FlowValues>, Vec<Vec<u32>>) {
    let config = Config { queries: queries.parse().unwrap(), packets: 1 << 14, ..Config::default() };
    let (paths, mut latency) = recorders(&config);
    let (family, coding) = coding(&config);
    let scheme = &coding.scheme;
    let switches: Vec<_> = (0..u32::from(hops)).map(|id| scheme.switch(id)).collect();
    let mut buffer = ReportBuffer::with_capacity(flows as usize * packets as usize);
    // Alike in all flows: each is another sample of these.
    let mut truth = vec![Vec::new(); hops.into()];
    for flow in 0..flows {
        for number in 0..packets {
            let identity = flow as u32 * packets + number;
            let digest = (1..).zip(&switches).fold(0, |digest, (hop, switch)| {
                // Each hop has as many short times as long ones, in an order of its own.
                let place = (number + 7 * u32::from(hop)).wrapping_mul(2_654_435_761) % packets;
                let latency_ns = 1000 * u32::from(hop) + 1000 * 64 * place / packets;
                if flow == 0 {
                    truth[usize::from(hop) - 1].push(latency_ns);
                }
                scheme.encode(switch, Measured { hop, identity, latency_ns, ..Measured::default() }, digest)
            });
            let flow = FiveTuple([4 << 40 | flow << 8, 0, 1, 0, 2]);
            buffer.push(Arrival { time_ns: number.into(), plan: coding.id, flow, hops, identity, digest });
        }
    }
    truth.iter_mut().for_each(|times| times.sort_unstable());
    let record = Digests::of(&family, Room::of(&config), &buffer.read(), 0);
    let (found, _, _) = latency.epoch(1, &coding, &[("a".into(), &record)], &paths, &Lack::default());
    (found, truth)
}

/// With n instances a packet is a sample of 1 - (1 - 1/k)ⁿ of the k hops on average, and of each once
/// at most. Medians are in their intervals in 95 of 100 cases, however many instances there are, and
/// these are narrower the more there are.
#[test]
fn instances_are_samples_of_several_hops() {
    const FLOWS: u64 = 200;
    const PACKETS: u32 = 300;
    for hops in [1u8, 2, 5] {
        let mut widths = Vec::new();
        for instances in [1, 2, 4] {
            // Of so few bits that errors of codes do not matter beside those of ranks.
            let bits = if instances == 4 { ":bits=4" } else { ":bits=8" };
            let text = format!("latency{bits}:instances={instances}:from=1us:to=70us:compression=additive");
            let (found, truth) = with_instances(&text, hops, FLOWS, PACKETS);
            assert_eq!(found.len(), FLOWS as usize);
            let told = || found.iter().flat_map(|flow| flow.told.iter().zip(&truth));
            let share = 1.0 - (1.0 - 1.0 / f64::from(hops)).powi(instances);
            let samples: u64 = told().map(|(told, _)| told.samples).sum();
            let all = f64::from(hops) * FLOWS as f64 * f64::from(PACKETS);
            assert!((samples as f64 / all - share).abs() < 0.005, "{text}, {hops} hops: {samples} of {all}");
            assert!(told().all(|(told, _)| told.samples <= PACKETS.into()));
            let mut off = Vec::new();
            for (told, times) in told() {
                let Between { low, high } = told.quantiles.unwrap().p50_between;
                let (low, high) = (low.unwrap(), high.unwrap());
                // A step of codes is an interval of ranks.
                let step = 1000.0 * if bits == ":bits=4" { 8.2 } else { 0.52 };
                let rank = |time: f64| times.partition_point(|of| f64::from(*of) < time) as f64 / f64::from(PACKETS);
                off.push((rank(low - step)..=rank(high + step)).contains(&0.5));
                widths.push((instances, high - low));
            }
            let within = off.iter().filter(|is_within| **is_within).count() as f64 / off.len() as f64;
            assert!(within >= 0.95, "{text}, {hops} hops: {within}");
        }
        // It goes with the root of the packets that told, not of the values that they carried.
        let mean = |instances: i32| {
            let of = widths.iter().filter(|(of, _)| *of == instances).map(|(_, width)| *width);
            of.clone().sum::<f64>() / of.count() as f64
        };
        let share = |instances| 1.0 - (1.0 - 1.0 / f64::from(hops)).powi(instances);
        let (gain, found) = ((share(2) / share(1)).sqrt(), mean(1) / mean(2));
        assert!((found / gain - 1.0).abs() < 0.05, "{hops} hops: {found}, {gain}");
    }
}
