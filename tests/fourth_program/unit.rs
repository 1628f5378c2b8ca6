//! The dataplane beside a naive one, the record, and the analysis.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir::answers::{Claimed, HeavyFlows, Query, Task};
use weir::history::{Gap, Reason, Window};
use weir::pisa::hash::HashFamily;
use weir::pisa::{BatchOrder, Phv};
use weir::program::*;
use weir::replay::Replayer;
use weir::switch::TelemetryHeader;
use weir::trace::{Frames, Workload};
use weir::wire::{FiveTuple, parse};

use crate::frames;
use crate::program::{Bursts, Config, DEPTHS, Fragment, Microbursts, Settings, Thinning, Waited, install, slots};
use crate::records::Records;

const FAMILY: u64 = 11;
const SWITCH: &str = "s";

/// What happens to a switch.
#[derive(Clone, Debug)]
enum Step {
    /// Packets of flows, each with the depth of its queue.
    Packets(Vec<(u16, u16)>),
    /// A sub-epoch begins, with a spare or without.
    SubEpoch(bool),
    /// The next epoch begins, with a spare or without, and these settings are decided for it.
    Epoch(bool, Settings),
}

fn step() -> impl Strategy<Value = Step> {
    let settings =
        (1..DEPTHS as u32, 1..=MAX_SUB_EPOCHS).prop_map(|(depth, sub_epochs)| Settings { depth, sub_epochs });
    let packets = prop::collection::vec((0..40u16, 0..100u16), 0..90);
    prop_oneof![
        4 => packets.prop_map(Step::Packets),
        3 => any::<bool>().prop_map(Step::SubEpoch),
        1 => (any::<bool>(), settings).prop_map(|(fresh, settings)| Step::Epoch(fresh, settings)),
    ]
}

fn phv(flow: u16, depth: u16, now: u64) -> Phv {
    let frame = frames::udp(1, 2, frames::host_mac(2), flow, 10);
    let mut phv = Phv { wire_bytes: frame.len() as u32, ..Phv::of_port(0) };
    parse(&frame, &mut phv.headers).unwrap();
    (phv.queue_depth, phv.egress, phv.egress_ns) = (depth, flow % 3, now);
    phv
}

/// The program without batches, banks and stages.
struct Naive {
    config: Config,
    settings: Settings,
    owners: BTreeMap<u32, (FiveTuple, Counted)>,
    depths: [u64; DEPTHS],
    waited: Vec<Waited>,
    thinning: Thinning,
    /// Packets in deep queues.
    deep: u64,
    coverage: Coverage,
}

impl Naive {
    fn packet(&mut self, phv: &Phv) {
        let tuple = FiveTuple::of(&phv.headers).unwrap();
        let [slot] = slots(&self.config, SWITCH, &HashFamily::reproducible(FAMILY)).slots(tuple.bytes());
        self.owners.entry(slot).or_insert((tuple, 0.into())).1 += 1.into();
        self.depths[usize::from(phv.queue_depth).min(DEPTHS - 1)] += 1;
        if u32::from(phv.queue_depth) >= self.settings.depth {
            let (time_ns, port, depth) = (phv.egress_ns, phv.egress, phv.queue_depth);
            if self.deep.is_multiple_of(2u64.pow(self.thinning.0)) {
                self.waited.push(Waited { time_ns, port, depth, wire_bytes: phv.wire_bytes });
            }
            self.deep += 1;
        }
    }

    /// Holds a record against what was counted, and forgets that.
    fn check(&mut self, record: &Bursts) {
        let owners = std::mem::take(&mut self.owners);
        let packets = owners.values().map(|(_, count)| count.number).sum();
        assert_eq!(record.flows, owners.into_values().collect());
        let depths = std::mem::replace(&mut self.depths, [0; DEPTHS]);
        assert_eq!(record.fragments, [Fragment { coverage: self.coverage, packets, depths }]);
        let waited = std::mem::take(&mut self.waited);
        let (kept, surplus) = waited.split_at(waited.len().min(self.config.reports as usize));
        assert_eq!((record.reports.kept(), record.reports.overflow()), (kept, surplus.len() as u64));
        assert_eq!(record.thinning, self.thinning);
        self.deep = 0;
    }
}

/// A replica and the naive program, which take the same steps.
struct Both {
    replica: Box<dyn Dataplane>,
    naive: Naive,
    bank: Box<dyn Bank>,
    schedule: Schedule<Microbursts>,
    epoch: u64,
    sub_epoch: SubEpoch,
    now: u64,
    order: BatchOrder,
    /// What the switch decides alone from its records, if it does.
    settled: Option<Thinning>,
}

impl Both {
    fn new(config: &Config, order: BatchOrder, settled: Option<Thinning>) -> Self {
        let start = Microbursts::start(config);
        let schedule = Schedule::<Microbursts>::new(config.clone(), start);
        let mut replica = Microbursts::dataplane(config, SWITCH, &HashFamily::reproducible(FAMILY), &schedule).unwrap();
        replica.allocate();
        let naive = Naive {
            config: config.clone(),
            settings: start,
            owners: BTreeMap::new(),
            depths: [0; DEPTHS],
            waited: Vec::new(),
            thinning: Thinning::default(),
            deep: 0,
            coverage: Coverage::default(),
        };
        let (bank, sub_epoch) = (replica.spare(), SubEpoch::WHOLE);
        let mut both = Self { replica, naive, bank, schedule, epoch: 0, sub_epoch, now: 0, order, settled };
        both.enter(true);
        both
    }

    fn enter(&mut self, fresh: bool) {
        self.replica.enter(self.epoch, fresh);
        self.sub_epoch = SubEpoch::WHOLE;
        if fresh {
            self.naive.settings = self.schedule.at(self.epoch);
            self.naive.thinning = self.settled.unwrap_or_default();
            assert_eq!(self.replica.sub_epochs(), self.naive.settings.sub_epochs);
            self.sub_epoch.of = self.replica.sub_epochs();
        }
        self.enter_sub_epoch(fresh);
    }

    fn enter_sub_epoch(&mut self, fresh: bool) {
        self.replica.enter_sub_epoch(self.sub_epoch, fresh);
        self.naive.coverage.enter(self.sub_epoch, fresh);
    }

    fn rotate(&mut self) -> Bursts {
        self.bank.clear();
        self.replica.exchange(self.bank.as_mut());
        self.replica.exchange_egress(self.bank.as_mut());
        let record = *self.bank.record().into::<Bursts>().unwrap();
        self.naive.check(&record);
        if let Some(settled) = &mut self.settled {
            self.schedule.settle(self.epoch, &record);
            *settled = Microbursts::settle(&record, &self.naive.settings);
        }
        record
    }

    /// The record of the bank that ended, if one did.
    fn step(&mut self, step: &Step) -> Option<Bursts> {
        match step {
            Step::Packets(packets) => {
                let mut phvs: Vec<_> =
                    (self.now..).zip(packets).map(|(now, &(flow, depth))| phv(flow, depth, now)).collect();
                self.now += packets.len() as u64;
                phvs.iter().for_each(|phv| self.naive.packet(phv));
                self.replica.ingress(&mut phvs, self.order);
                self.replica.egress(&mut phvs, self.order);
                None
            }
            Step::SubEpoch(_) if self.sub_epoch.index + 1 == self.sub_epoch.of => None,
            Step::SubEpoch(fresh) => {
                let record = fresh.then(|| self.rotate());
                self.sub_epoch.index += 1;
                self.enter_sub_epoch(*fresh);
                record
            }
            Step::Epoch(fresh, settings) => {
                let record = fresh.then(|| self.rotate());
                self.epoch += 1;
                self.schedule.update(self.epoch, *settings).unwrap();
                self.enter(*fresh);
                record
            }
        }
    }
}

fn small() -> Config {
    Config { slots: 16, reports: 20, ..Config::default() }
}

/// The records of the banks of some steps, the last one's included. With `settles` each decides how many
/// packets of the next epoch are reported.
fn records(config: &Config, order: BatchOrder, steps: &[Step], settles: bool) -> Vec<Bursts> {
    let mut both = Both::new(config, order, settles.then(Thinning::default));
    let mut records: Vec<_> = steps.iter().filter_map(|step| both.step(step)).collect();
    records.push(both.rotate());
    records
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whenever banks rotate, and in both orders of a burst.
    #[test]
    fn registers_equal_a_naive_oracle(steps in prop::collection::vec(step(), 1..40)) {
        let [a, b] = [BatchOrder::PacketMajor, BatchOrder::StageMajor].map(|order| records(&small(), order, &steps, true));
        prop_assert_eq!(a, b);
    }

    /// Replicas, sub-epochs and epochs add up whatever their order; fragments stay apart and are
    /// bounded, and the byte form is canonical.
    #[test]
    fn records_add_up(steps in prop::collection::vec(step(), 1..30), at: prop::sample::Index, byte: u8) {
        let records = records(&small(), BatchOrder::PacketMajor, &steps, false);
        let any = |record: &Bursts| -> AnyRecord { Box::new(record.clone()) };
        let mut sum = any(&records[0]);
        records[1..].iter().for_each(|record| sum.merge(&any(record)).unwrap());
        let mut reversed = records[records.len() - 1].clone();
        records.iter().rev().skip(1).for_each(|record| reversed.merge(record).unwrap());
        let sum = *sum.into::<Bursts>().unwrap();
        prop_assert!(sum.fragments.len() <= MAX_SUB_EPOCHS as usize);
        let total = |of: fn(&Bursts) -> u64| (of(&sum), records.iter().map(of).sum::<u64>());
        let totals = [
            total(|record| record.fragments.iter().map(|fragment| fragment.packets).sum()),
            total(|record| record.left(0)),
            total(|record| record.flows.values().map(|count| count.number).sum()),
            total(|record| record.reports.kept().len() as u64 + record.reports.overflow()),
        ];
        prop_assert!(totals.iter().all(|(sum, parts)| sum == parts), "{:?}", totals);
        prop_assert_eq!((&sum.flows, &sum.reports), (&reversed.flows, &reversed.reports));

        let read = Microbursts::reader(&small(), SWITCH, &HashFamily::reproducible(FAMILY));
        let mut bytes = sum.encode();
        prop_assert!(bytes.len() <= Microbursts::longest(&small()));
        prop_assert_eq!(read(&bytes), Ok(sum));
        let at = at.index(bytes.len());
        prop_assert!(read(&bytes[..at]).is_err());
        bytes[at] = byte;
        if let Ok(other) = read(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
        }
    }
}

/// All sub-epochs of all epochs through a whole switch: no packet is missing. In a replay none waits
/// for another, so none is reported.
#[test]
fn a_switch_counts_every_packet() {
    install();
    let config = Config { slots: 1 << 16, reports: 100, depth: 1, sub_epochs: 7, adapt: false, ..Config::default() };
    let mut switch = weir::config::Config {
        programs: vec![ProgramConfig::new::<Microbursts>(config)],
        ports: ["a", "b"].map(|name| weir::config::PortConfig::new(name, weir::port::Dev::Memory)).into(),
        ..weir::config::Config::default()
    };
    switch.switch.forward = weir::config::ForwardMode::Xconnect;
    switch.switch.epoch = "7ms".parse().unwrap();
    let mut replayer = Replayer::new(switch).unwrap();
    let records = subscribed(&mut replayer);
    let trace = "isp/burst,flows=300,packets=20000,seed=3".parse::<Workload>().unwrap().generate();
    let taken: Result<(), std::convert::Infallible> = trace.for_each_frame(&Frames::default(), |at, frame| {
        replayer.packet(0, at, frame);
        Ok(())
    });
    taken.unwrap();
    replayer.finish();
    let record: Bursts = records.sum().unwrap();
    assert_eq!((record.left(0), record.flows.values().map(|count| count.number).sum::<u64>()), (20_000, 20_000));
    assert_eq!((record.reports.kept().len(), record.reports.overflow(), record.left(1)), (0, 0, 0));
    let indexes: Vec<_> =
        record.fragments.iter().map(|fragment| fragment.coverage.sub_epochs.trailing_zeros()).collect();
    assert_eq!(indexes, (0..7).collect::<Vec<_>>(), "an epoch is cut into seven");
    assert!(record.fragments.iter().all(|fragment| fragment.packets > 1000));
    let heavy: Claimed<HeavyFlows> = replayer.histories()[0].answer(&Query::new(Task::Heavy, Window::All)).unwrap();
    assert_eq!(heavy.claim.incomplete.contains(Reason::Overflow), record.reports.overflow() > 0);
    assert_eq!(heavy.heavy.iter().map(|flow| flow.count()).sum::<u64>(), 20_000);
}

/// The records that a replayer closes from now on.
pub fn subscribed(replayer: &mut Replayer) -> Records {
    let records = Records::default();
    replayer.subscribe(Box::new(records.clone()));
    records
}

/// A switch in memory with this forwarding and more, whose program reports every packet.
fn reporting(forward: &str, port: &str) -> Replayer {
    install();
    let config = Config { slots: 1 << 10, reports: 4000, depth: 0, sub_epochs: 3, adapt: false, ..Config::default() };
    let ports: String = ["a", "b"].map(|name| frames::port(name, "host", 1500, port)).concat();
    let switch = format!("[switch]\nreproducible = 1\nforward = \"{forward}\"\n{ports}");
    let mut switch = weir::config::Config::parse(&switch).unwrap();
    switch.programs = vec![ProgramConfig::new::<Microbursts>(config)];
    Replayer::new(switch).unwrap()
}

/// Packets that pass the switch as one burst have times of their own.
#[test]
fn each_replayed_packet_has_its_own_time() {
    let mut replayer = reporting("xconnect", "");
    let records = subscribed(&mut replayer);
    let start = 1_790_000_000_000_000_000;
    let times: Vec<u64> = (0..200).map(|n| start + 10_000 * n).collect();
    for &at in &times {
        replayer.packet(0, at, &frames::udp(1, 2, frames::host_mac(2), 80, 10));
    }
    replayer.finish();
    let record: Bursts = records.sum().unwrap();
    assert_eq!(record.reports.kept().iter().map(|report| report.time_ns).collect::<Vec<_>>(), times);
}

/// Nanoseconds between packets: of bursts, of what a rate limit lets through, and of epochs.
fn gaps() -> impl Strategy<Value = i64> {
    prop_oneof![2 => Just(0), 2 => 1..30_000i64, 6 => 1..3_000_000i64, 1 => 1..400_000_000i64, 1 => -9_000..0i64]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bursts change nothing: a replay measures and counts what it does packet by packet, times
    /// included, whatever looks at the time.
    #[test]
    fn a_replay_in_bursts_is_one_packet_by_packet(
        packets in prop::collection::vec((0..8u16, 0..20u16, gaps()), 1..80),
        forward in prop::sample::select(vec!["xconnect", "learn"]),
        limit in prop::sample::select(vec!["", "rx_limit = \"1Mbps,burst=10KB\""]),
    ) {
        let [mut bursts, mut single] = [(); 2].map(|()| reporting(forward, limit));
        let [of_bursts, of_single] = [&mut bursts, &mut single].map(subscribed);
        let mut at = 1_790_000_000_000_000_000i64;
        for (port, flow, gap) in packets {
            at += gap;
            let port = u16::from(port == 0);
            let (from, to) = (port as u8 + 1, 2 - port as u8);
            let frame = frames::udp(from, to, frames::host_mac(to), flow, 1400);
            bursts.packet(port, at as u64, &frame);
            single.packet(port, at as u64, &frame);
            single.flush();
        }
        bursts.finish();
        single.finish();
        // All but the depths of queues, which a burst fills by itself.
        let record = |records: &Records| {
            let bursts: Bursts = records.sum().unwrap();
            let reports = bursts.reports.kept().iter().map(|report| (report.time_ns, report.port, report.wire_bytes));
            let fragments = bursts.fragments.iter().map(|of| (of.coverage, of.packets, of.depths.iter().sum::<u64>()));
            (bursts.flows.clone(), reports.collect::<Vec<_>>(), fragments.collect::<Vec<_>>())
        };
        prop_assert_eq!(record(&of_bursts), record(&of_single));
        prop_assert_eq!(bursts.ports(), single.ports());
    }
}

/// Reports that found no room are a gap with their number, and what follows from an epoch is for a
/// later one.
#[test]
fn the_analysis_adapts() {
    let config = small();
    let mut analysis = Microbursts::analysis(&config, 0);
    let record = |packets: Vec<(u16, u16)>| {
        let steps = [Step::Packets(packets), Step::SubEpoch(true), Step::SubEpoch(true), Step::SubEpoch(true)];
        let records = records(&config, BatchOrder::PacketMajor, &steps, false);
        let mut sum = records[0].clone();
        records[1..].iter().for_each(|record| sum.merge(record).unwrap());
        sum
    };
    let epoch = |analysis: &mut <Microbursts as Program>::Analysis, record: Bursts| {
        let switch: Arc<str> = "s".into();
        let reported = Reported { switch, record: Ok(Box::new(record)), before: Before::Nothing };
        analysis.epoch(5, &Microbursts::start(&config), vec![reported])
    };
    let latest = Microbursts::start(&config);

    let long = epoch(&mut analysis, record((0..50).map(|n| (n, 60)).collect()));
    let decided = analysis.decide(&long, &latest, 7).parameters;
    assert_eq!(decided, Settings { depth: latest.depth + 1, sub_epochs: 2 * latest.sub_epochs });
    assert_eq!(long.gaps.iter().map(|gap| gap.gap).collect::<Vec<_>>(), [Gap::Overflow { reports: 30 }]);
    let lack = analysis.keep(long).found().lack;
    assert!(lack.contains(Reason::Overflow) && !lack.contains(Reason::Gap));

    let quiet = epoch(&mut analysis, record(Vec::new()));
    let decided = analysis.decide(&quiet, &latest, 7).parameters;
    assert_eq!(decided, Settings { depth: latest.depth - 1, sub_epochs: latest.sub_epochs / 2 });
    assert!(quiet.gaps.is_empty());
    let decoded = Settings::decode(&decided.encode()).unwrap();
    assert_eq!(decoded, decided);
    let wrong = Settings { sub_epochs: MAX_SUB_EPOCHS + 1, ..decided };
    assert!(Microbursts::fits(&config, &wrong).unwrap_err().to_string().contains("sub_epochs = 65"));
}

/// Its flows have another slot in each switch. A network has no two switches where they have the same.
#[test]
fn switches_hash_apart() {
    let (config, family) = (Config::default(), HashFamily::reproducible(FAMILY));
    let [one, other] = ["s1", "s2"].map(|switch| slots(&config, switch, &family));
    let alike = |flow: &u16| one.slots(flow.to_be_bytes()) == other.slots(flow.to_be_bytes());
    let shared = (0..100).filter(alike).count();
    assert!(shared < 10, "{shared} of 100");
    let clash = |names: &[&str]| ProgramConfig::new::<Microbursts>(Config::default()).clash(names);
    assert_eq!(clash(&["s1", "s8009", "s2"]), None);
    assert_eq!(
        clash(&["s1", "s8009", "s12744"]).unwrap().to_string(),
        "microbursts cannot tell switches s8009 and s12744 apart: an array hashes alike in both; rename one of them"
    );
}

/// Ingress and egress stages, and both kinds of slots.
#[test]
fn it_is_as_its_layout_describes_it() {
    use crate::layout_check;
    let program = ProgramConfig::new::<Microbursts>(Config { slots: 100, ..Config::default() });
    let layout = layout_check::is_what_is_built(&program);
    let sides: Vec<_> = layout.arrays().iter().map(|place| (place.usage.name, place.side)).collect();
    assert_eq!(sides[0], ("packets", weir::pisa::Side::Ingress));
    assert_eq!(sides.last(), Some(&("depths", weir::pisa::Side::Egress)));
    let packets = layout_check::packets();
    let key = |_: &_, hash: &weir::pisa::hash::HashLayout, headers: &_| layout_check::key(&hash.key, headers);
    assert_eq!(layout_check::names_slots(&program, &packets, key, |array, _| array == "packets"), packets.len());
}

/// Three bits of the DSCP have no room for a digest.
#[test]
fn a_digest_needs_the_shim() {
    install();
    let check = |digest, telemetry_header| {
        let programs = vec![ProgramConfig::new::<Microbursts>(Config { digest, ..Config::default() })];
        let mut config = weir::config::Config { programs, ..weir::config::Config::default() };
        config.switch.telemetry_header = telemetry_header;
        weir::assemble::place(&config, &HashFamily::reproducible(1)).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(check(true, TelemetryHeader::Shim), Ok(()));
    assert_eq!(check(false, TelemetryHeader::Dscp), Ok(()));
    let error = check(true, TelemetryHeader::Dscp).unwrap_err();
    assert!(error.starts_with("switch.telemetry_header = dscp: program microbursts needs a digest"), "{error}");
}
