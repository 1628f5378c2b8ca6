//! What each driver's histories have of the same epochs, and what documents about them must say.
//!
//! The records of the first two drivers are empty. The simulated network and the replay have traffic.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::answers::{
    Attention, Claimed, FlowSizes, Frequency, HeavyChanges, HeavyFlows, Latency, Loops, Losses, Numbers, Paths, Places,
    Query, Queryable, Task, Utilisation, Values,
};
use crate::config::{Config, ForwardMode, PortConfig};
use crate::history::{Gap, Window};
use crate::network::controller::{
    Controller, ControllerSettings, JoinRequest, LocalAnswers, LocalControllers, LocalSettings, NetworkProfile, Report,
    local_room,
};
use crate::output::{Page, Style};
use crate::pisa::hash::HashFamily;
use crate::port::Dev;
use crate::program::{AnyRecord, ProgramConfig, SubEpoch};
use crate::replay::Replayer;
use crate::sim::{Setup, Shape, Simulation};
use crate::telemetry::epoch::Nanos;
use crate::telemetry::{Closed, Sink};
use crate::trace::{Frames, Workload};

const MISSING: (Lack, &str) = (Lack::Record, "no record came in time");
const BEFORE: (Lack, &str) = (Lack::Losses, "nothing is known of the epoch before");

const LENGTH: Nanos = 1_000_000_000;
const TRANSIT: Nanos = 10_000_000;
/// Number of the first epoch of live switches. It has not begun by the system's clock, so that the
/// records alone move their time.
pub const FIRST: u64 = 4_000_000_000;

pub type Programs = Vec<(ProgramConfig, Arc<dyn Queryable>)>;

/// Something of an epoch that is missing.
#[derive(Clone)]
struct Missing {
    epoch: u64,
    switch: &'static str,
    gap: &'static str,
    lack: Lack,
}

/// What is missing.
#[derive(Clone, Copy, PartialEq)]
enum Lack {
    /// The switch's record.
    Record,
    /// A part of the record.
    Part,
    /// What answers about losses need.
    Losses,
    /// The same until the answers are final.
    Waiting,
}

/// What answers about a window must claim.
#[derive(Clone, Default)]
struct Claims {
    /// The epochs; `None` where none has ended.
    window: Option<RangeInclusive<u64>>,
    /// First epoch of the newest record.
    newest_from: Option<u64>,
    not_analysed: Option<RangeInclusive<u64>>,
    missing: Vec<Missing>,
    switches: &'static [&'static str],
    /// Epochs from this one on are not final.
    provisional_from: Option<u64>,
    /// Epochs that were final when something was found to be missing.
    amended: Option<RangeInclusive<u64>>,
}

impl Claims {
    fn of(window: RangeInclusive<u64>, switches: &'static [&'static str]) -> Self {
        Self { window: Some(window), switches, ..Self::default() }
    }

    /// This is missing of these switches.
    fn lack(mut self, epoch: u64, switches: &'static [&'static str], (lack, gap): (Lack, &'static str)) -> Self {
        self.missing.extend(switches.iter().map(|switch| Missing { epoch, switch, gap, lack }));
        self
    }

    /// The same if `losses`.
    fn lack_if(self, losses: bool, epoch: u64, switches: &'static [&'static str], of: (Lack, &'static str)) -> Self {
        if losses { self.lack(epoch, switches, of) } else { self }
    }

    /// The switches of which a record is in the window.
    fn reported(&self, window: &RangeInclusive<u64>) -> Vec<&'static str> {
        let is_there = |epoch: u64, switch: &str| {
            let of = |missing: &Missing| (missing.epoch, missing.switch, missing.lack) == (epoch, switch, Lack::Record);
            !self.missing.iter().any(of)
        };
        self.switches.iter().copied().filter(|switch| window.clone().any(|epoch| is_there(epoch, switch))).collect()
    }

    /// The epochs that a task's answer is about.
    fn window_of(&self, task: Task, adds_sizes: bool) -> Option<RangeInclusive<u64>> {
        let window = self.window.clone()?;
        let newest = self.newest_from.unwrap_or(*window.end());
        Some(match task {
            Task::Flows if !adds_sizes => newest..=*window.end(),
            Task::Changes => newest.saturating_sub(1)..=*window.end(),
            _ => window,
        })
    }
}

/// A program's history, the window that is asked for, and what is expected.
pub struct Case {
    name: String,
    program: ProgramConfig,
    history: Arc<dyn Queryable>,
    seconds: f64,
    provisional: bool,
    claims: Claims,
}

impl Case {
    /// Every document about it, and its page, say what is expected.
    pub fn hold(&self) -> usize {
        let tasks = Task::ALL.into_iter().filter(|task| self.program.rank(*task).is_some());
        tasks.map(|task| self.hold_of(task)).count()
    }

    fn hold_of(&self, task: Task) {
        let query = Query { provisional: self.provisional, ..query(task, self.seconds) };
        let document = serde_json::to_value(self.history.ask(&query).unwrap()).unwrap();
        let text = text(task, &document);
        let context = format!("{}, {} of {}: {document}\n{text}", self.name, task.name(), self.program.name());
        let strings = |key: &str| {
            let all = document[key].as_array().unwrap_or_else(|| panic!("{context}"));
            all.iter().map(|one| one.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let (incomplete, complete) = (strings("incomplete"), document["complete"] == true);
        assert_eq!(complete, incomplete.is_empty(), "{context}");
        let lacks = |reason: &str| incomplete.iter().any(|own| own == reason);
        let Some(window) = self.claims.window_of(task, self.history.adds_sizes()) else {
            assert!(document["first_epoch"].is_null() && document["last_epoch"].is_null(), "{context}");
            assert!(!complete && lacks("not_analysed") && text.contains("no epoch has ended yet"), "{context}");
            return;
        };
        assert_eq!([&document["first_epoch"], &document["last_epoch"]], [window.start(), window.end()], "{context}");
        let within = |epoch: &u64| window.contains(epoch);
        let number = |epochs: &Option<RangeInclusive<u64>>| epochs.clone().into_iter().flatten().filter(within).count();
        let not_analysed = number(&self.claims.not_analysed);
        assert_eq!(document["missing_epochs"], not_analysed, "{context}");

        let missing: Vec<_> = self.claims.missing.iter().filter(|missing| within(&missing.epoch)).collect();
        let gap = |missing: &&Missing| (Some(missing.epoch), missing.switch.to_owned(), missing.gap.to_owned());
        let mut expected: Vec<_> = missing.iter().map(gap).collect();
        let told = document["gaps"].as_array().unwrap_or_else(|| panic!("{context}"));
        let word = |gap: &Value, key: &str| gap[key].as_str().unwrap_or_default().to_owned();
        let told = told.iter().map(|gap| (gap["epoch"].as_u64(), word(gap, "switch"), word(gap, "gap")));
        let mut told: Vec<_> = told.collect();
        expected.sort();
        told.sort();
        assert_eq!(told, expected, "{context}");
        let lacked = missing.iter().any(|missing| match missing.lack {
            Lack::Record | Lack::Part => true,
            Lack::Losses => matches!(task, Task::Losses | Task::Places),
            Lack::Waiting => false,
        });
        assert_eq!(lacks("gap"), lacked, "{context}");
        // A program says so too where it has no record, or nothing to compare an epoch with.
        let has_nothing = !missing.is_empty() || task == Task::Changes && window.start() == window.end();
        assert!(lacks("not_analysed") || not_analysed == 0, "{context}");
        assert!(!lacks("not_analysed") || not_analysed > 0 || has_nothing, "{context}");

        let is_final = self.claims.provisional_from.is_none_or(|from| *window.end() < from);
        assert_eq!((document["final"] == true, lacks("provisional")), (is_final, !is_final), "{context}");
        assert!(["outdated", "forgotten", "edges_unnamed"].iter().all(|reason| !lacks(reason)), "{context}");
        assert_eq!(strings("switches"), self.claims.reported(&window), "{context}");
        assert_eq!(document["amendments"], number(&self.claims.amended), "{context}");

        let says = |what: &str| text.contains(what);
        assert!(says(task.all()) && says(&format!("not {}", task.all())) != complete, "{context}");
        for Missing { switch, gap, .. } in missing.iter().rev().take(5) {
            let gap = if document["epoch_ns"] == 0 { format!("gap: {gap}") } else { format!("{switch}: {gap}") };
            assert!(says(&gap), "{context}");
        }
        match not_analysed {
            0 => assert!(!says("of these w"), "{context}"),
            1 => assert!(says("1 epoch of these was not analysed"), "{context}"),
            epochs => assert!(says(&format!("{epochs} epochs of these were not analysed")), "{context}"),
        }
        assert_eq!(says("late packets may still change it"), !is_final, "{context}");
    }
}

/// A question about the last seconds. Frequencies are those of one flow.
pub fn query(task: Task, seconds: f64) -> Query {
    let flow = (task == Task::Frequency).then(|| super::FLOW.parse().unwrap());
    Query { flow, provisional: false, ..Query::new(task, Window::Last { seconds }) }
}

/// The page of a document.
fn text(task: Task, document: &Value) -> String {
    fn of<A: DeserializeOwned>(document: &Value, page: fn(&Claimed<A>) -> Page) -> String {
        let claimed = serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{error}: {document}"));
        page(&claimed).to_text(Style::Plain)
    }
    match task {
        Task::Heavy => of(document, HeavyFlows::page),
        Task::Frequency => of(document, Frequency::page),
        Task::Flows => of(document, FlowSizes::page),
        Task::Cardinality => of(document, Numbers::cardinality_page),
        Task::Losses => of(document, Losses::page),
        Task::Changes => of(document, HeavyChanges::page),
        Task::Attention => of(document, Attention::page),
        Task::Paths => of(document, Paths::page),
        Task::Latency => of(document, Latency::page),
        Task::Loops => of(document, Loops::page),
        Task::Utilisation => of(document, Utilisation::page),
        Task::Values => of(document, Values::page),
        Task::Places => of(document, Places::page),
    }
}

/// A record without packets.
fn record(program: &ProgramConfig, switch: &str) -> AnyRecord {
    let mut replica = program.build(switch, &HashFamily::reproducible(1)).unwrap();
    replica.enter(FIRST, true);
    replica.enter_sub_epoch(SubEpoch::WHOLE, true);
    replica.allocate();
    let mut bank = replica.spare();
    replica.exchange(bank.as_mut());
    replica.exchange_egress(bank.as_mut());
    bank.record()
}

/// Whether the losses of an epoch rest on the records of others.
fn counts_losses(program: &ProgramConfig) -> bool {
    program.rank(Task::Losses).or(program.rank(Task::Places)).is_some()
}

/// A record of a live switch: the epochs after the first that it covers, whether it is whole, and by
/// how much it is late.
type Taken = (u64, u64, bool, Nanos);

/// A live switch whose collector hands over these records.
fn live(program: &ProgramConfig, records: &[Taken]) -> Arc<dyn Queryable> {
    let (length, transit) = (LENGTH, TRANSIT);
    let settings = LocalSettings { length, transit, history: local_room(99), fabric: false, replays: false };
    let (answers, settings) = (LocalAnswers::default(), Arc::new(Mutex::new(settings)));
    let schedules = [program.schedule()];
    let mut local = LocalControllers::new("alone", settings, &schedules, false, answers.clone(), 1);
    let record = record(program, "alone");
    for &(first, last, whole, late) in records {
        let epoch = Closed { program: 0, first: FIRST + first, last: FIRST + last, late, record: &record };
        if whole { local.closed(epoch) } else { local.partial(epoch) }
    }
    answers.all().remove(0)
}

/// The programs with parameters that stay, as the records have them.
fn steady() -> impl Iterator<Item = ProgramConfig> {
    let steady = |program: ProgramConfig| match program.adapts() {
        true => program.with("attention=fixed").unwrap(),
        false => program,
    };
    ProgramConfig::for_all_tasks().map(steady)
}

/// A live switch's programs after four epochs.
pub fn programs() -> Programs {
    let history = |program: ProgramConfig| {
        let history = live(&program, &[0, 1, 2, 3].map(whole));
        (program, history)
    };
    steady().map(history).collect()
}

/// A record of one epoch.
fn whole(epoch: u64) -> Taken {
    (epoch, epoch, true, 0)
}

fn live_cases() -> Vec<Case> {
    const ALONE: &[&str] = &["alone"];
    const PART: &str = "its record is of a part of the epoch, or of some of its cores";
    const SPANS: &str = "its record covers earlier epochs as well";
    let mut cases = Vec::new();
    for program in steady() {
        let losses = counts_losses(&program);
        let mut add = |name: &str, records: &[Taken], claims: Claims| {
            let seconds = claims.window.as_ref().map_or(9.0, |window| (window.end() - window.start() + 1) as f64);
            let (history, name) = (live(&program, records), format!("live, {name}"));
            cases.push(Case { name, program: program.clone(), history, seconds, provisional: false, claims });
        };
        let window = |from: u64, to: u64| Claims::of(FIRST + from..=FIRST + to, ALONE);
        // Counts that add are answered of any part. Others are not there.
        let part = |gap| (if losses { Lack::Record } else { Lack::Part }, gap);
        add("no epoch", &[], Claims::default());
        add("nothing missing", &[0, 1, 2, 3].map(whole), window(1, 3));
        let lost = window(1, 3).lack(FIRST + 2, ALONE, MISSING).lack_if(losses, FIRST + 3, ALONE, BEFORE);
        add("a record lost", &[0, 1, 3].map(whole), lost.clone());
        let late = Claims { amended: Some(FIRST + 2..=FIRST + 2), ..window(1, 3) };
        let late = if losses { lost } else { late.lack(FIRST + 2, ALONE, part(PART)) };
        add("a late record", &[0, 1, 3, 2].map(whole), late);
        let partial = window(1, 3).lack(FIRST + 2, ALONE, part(PART)).lack_if(losses, FIRST + 3, ALONE, BEFORE);
        add("a part", &[whole(0), whole(1), (2, 2, false, 0), whole(3)], partial);
        let spans = Claims { newest_from: (!losses).then_some(FIRST + 2), ..window(1, 3) };
        let spans = spans.lack(FIRST + 3, ALONE, part(SPANS)).lack_if(losses, FIRST + 2, ALONE, part(SPANS));
        add("a record of two epochs", &[whole(0), whole(1), (2, 3, true, 0)], spans);
        let stopped = Claims { not_analysed: Some(FIRST + 2..=FIRST + 38), ..window(1, 40) };
        let stopped = stopped.lack(FIRST + 39, ALONE, MISSING).lack_if(losses, FIRST + 40, ALONE, BEFORE);
        add("a stopped collector", &[0, 1, 40].map(whole), stopped);
        // A packet leaves the switch in the burst in which it enters, so none waited.
        add("a switch stood still", &[whole(0), whole(1), (2, 2, true, 30_000_000), whole(3)], window(1, 3));
    }
    cases
}

/// The controller of three switches.
struct Net {
    program: ProgramConfig,
    controller: Controller,
}

const SWITCHES: &[&str] = &["a", "b", "c"];

impl Net {
    fn new(program: &ProgramConfig) -> Self {
        let settings = ControllerSettings { shifts: false, ..ControllerSettings::new(LENGTH, 1) };
        let mut controller = Controller::new(program, settings);
        for name in SWITCHES {
            let (name, program, header) = (name.to_string(), program.clone(), Default::default());
            let (parameters, length, transit) = (program.start(), LENGTH, TRANSIT);
            let profile = NetworkProfile { program, length, transit, header, key: Default::default() };
            controller.join(&JoinRequest { name, profile, parameters, first_epoch: 0 }, 1).unwrap();
        }
        Self { program: program.clone(), controller }
    }

    /// A switch's record comes at this time.
    fn report(&mut self, switch: &str, epoch: u64, change: impl FnOnce(&mut Report), now: Nanos) {
        let record = record(&self.program, switch);
        let mut report = Report { first_epoch: epoch, epoch, whole: true, late: 0, record };
        change(&mut report);
        self.controller.report(switch, report, now).ok();
        self.controller.keep();
    }

    /// All switches but these report an epoch, and its deadline passes.
    fn epoch(&mut self, epoch: u64, silent: &[&str]) {
        let end = (epoch + 1) * LENGTH + TRANSIT;
        for switch in SWITCHES.iter().filter(|switch| !silent.contains(switch)) {
            self.report(switch, epoch, |_| {}, end);
        }
        self.controller.tick(end + LENGTH / 4);
        self.controller.keep();
    }
}

fn network_cases() -> Vec<Case> {
    const UNCONFIRMED: (Lack, &str) =
        (Lack::Losses, "a later record of it, which would count packets that left late, did not come");
    const B: &[&str] = &["b"];
    let mut cases = Vec::new();
    let program = |program: ProgramConfig| match program.local_only() {
        Some(_) => program.with("scope=network").unwrap(),
        None => program,
    };
    for program in ProgramConfig::for_all_tasks().map(program) {
        let losses = counts_losses(&program);
        // Losses are final two epochs later.
        let horizon = if losses { 2 } else { 0 };
        let mut add = |name: &str, drive: &dyn Fn(&mut Net), claims: Claims| {
            let mut net = Net::new(&program);
            drive(&mut net);
            let window = claims.window.clone().unwrap();
            let seconds = (window.end() - window.start() + 1) as f64;
            let (name, history) = (format!("network, {name}"), net.controller.history().clone());
            let provisional = claims.provisional_from.is_some();
            cases.push(Case { name, program: program.clone(), history, seconds, provisional, claims });
        };
        let window = |from: u64, to: u64| Claims::of(from..=to - horizon, SWITCHES);
        let epochs = |net: &mut Net, epochs: RangeInclusive<u64>| epochs.for_each(|epoch| net.epoch(epoch, &[]));
        add("nothing missing", &|net| epochs(net, 0..=7), window(2, 7));
        let provisional = Claims { provisional_from: losses.then_some(6), ..Claims::of(4..=7, SWITCHES) };
        add("not final yet", &|net| epochs(net, 0..=7), provisional);

        let silent = |net: &mut Net| {
            epochs(net, 0..=4);
            net.epoch(5, B);
        };
        let late = window(2, 9).lack(5, B, MISSING);
        let late = late.lack_if(losses, 3, B, UNCONFIRMED).lack_if(losses, 4, B, UNCONFIRMED);
        let drive = |net: &mut Net| {
            silent(net);
            epochs(net, 6..=9);
        };
        add("a switch missing", &drive, late.clone().lack_if(losses, 6, B, BEFORE));
        let drive = |net: &mut Net| {
            silent(net);
            net.report("b", 5, |_| {}, 6 * LENGTH + LENGTH / 2);
            epochs(net, 6..=9);
        };
        // The late record has the first packets of the next epoch all the same.
        add("a late record", &drive, late);

        let stopped = Claims { not_analysed: Some(5..=39), ..window(1, 42) };
        let stopped = stopped.lack_if(losses, 3, SWITCHES, UNCONFIRMED).lack_if(losses, 4, SWITCHES, UNCONFIRMED);
        let drive = |net: &mut Net| {
            epochs(net, 0..=4);
            epochs(net, 40..=42);
        };
        add("a stopped controller", &drive, stopped.lack_if(losses, 40, SWITCHES, BEFORE));
        let still = |net: &mut Net| {
            epochs(net, 0..=4);
            net.report("b", 5, |report| report.late = 30_000_000, 6 * LENGTH + TRANSIT);
            net.epoch(5, B);
        };
        let waiting = (Lack::Waiting, "it stood still for 30 ms more than packets may take");
        let claims = Claims { provisional_from: losses.then_some(4), ..Claims::of(2..=5, SWITCHES) };
        add("a switch stood still", &still, claims.lack_if(losses, 5, B, waiting));
        let drive = |net: &mut Net| {
            still(net);
            epochs(net, 6..=9);
        };
        add("a switch has counted what it delayed", &drive, window(2, 9));
        let drive = |net: &mut Net| {
            epochs(net, 0..=6);
            let stray = |report: &mut Report| {
                report.record.strays_mut().into_iter().for_each(|strays| assert!(strays.add(6, 3)));
            };
            net.report("b", 7, stray, 8 * LENGTH + TRANSIT);
            net.epoch(7, B);
            epochs(net, 8..=9);
        };
        let strays = (Lack::Losses, "3 packets left too late to be counted");
        add("late packets", &drive, window(2, 9).lack_if(losses, 6, B, strays));
    }
    cases
}

/// Three switches in a row, of which the middle one has no hosts, for some epochs of 50 ms.
fn simulated(program: &ProgramConfig, faults: &[&str], epochs: u64) -> Arc<dyn Queryable> {
    let topology = "line:3".parse::<Shape>().unwrap().build().unwrap();
    let workload: Workload = "keyvalue/uniform,flows=100,seed=7".parse().unwrap();
    let faults = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    let (wait, everywhere, shifts) = (Some(10_000_000), true, false);
    let setup = Setup { faults, wait, everywhere, shifts, ..Setup::new(topology, vec![program.clone()], workload) };
    let mut simulation = Simulation::new(&setup).unwrap();
    (0..epochs).for_each(|_| drop(simulation.epoch(&setup.workload, None)));
    simulation.finish();
    simulation.histories().remove(0)
}

fn simulated_cases() -> Vec<Case> {
    const ALL: &[&str] = &["s0", "s1", "s2"];
    const S2: &[&str] = &["s2"];
    /// Number of the first epoch where there are faults.
    const FIRST: u64 = (1 << 20) - 16;
    let mut cases = Vec::new();
    for program in ProgramConfig::for_all_tasks() {
        let losses = counts_losses(&program);
        let mut add = |name: &str, history: Arc<dyn Queryable>, from: u64, claims: &dyn Fn(Claims) -> Claims| {
            let (window, name) = (from..=history.newest().unwrap(), format!("simulated, {name}"));
            let seconds = (window.end() - from) as f64 * 0.05 + 0.01;
            // Late packets are waited for until the end of the simulation.
            let claims = claims(Claims { provisional_from: losses.then_some(0), ..Claims::of(window, ALL) });
            cases.push(Case { name, program: program.clone(), history, seconds, provisional: true, claims });
        };
        add("nothing missing", simulated(&program, &[], 4), 2, &|claims| claims);
        // The record of the third epoch comes a transit time after its end, but for packets that are
        // counted where they enter.
        // A program that counts late packets by their epoch has no strays.
        let strayed = program.rank(Task::Losses).is_some();
        let entering = program.rank(Task::Paths).is_none() && !losses;
        let paused = simulated(&program, &["pause=s2,at=160ms,for=120ms"], 8);
        let strays = ["41 packets left too late to be counted", "49 packets left too late to be counted"];
        let strays = strays.map(|gap| (Lack::Losses, gap));
        add("a switch stood still", paused, FIRST + 1, &|claims| {
            let claims = claims.lack_if(!entering, FIRST + 2, S2, MISSING);
            let claims = claims.lack(FIRST + 3, S2, MISSING).lack(FIRST + 4, S2, MISSING);
            let claims = claims.lack_if(strayed, FIRST + 3, S2, strays[0]).lack_if(strayed, FIRST + 4, S2, strays[1]);
            claims.lack_if(losses, FIRST + 5, S2, BEFORE)
        });
        let delayed = simulated(&program, &["delay=all,rate=1%,by=30ms"], 8);
        let stray = (Lack::Losses, "1 packets left too late to be counted");
        add("late packets", delayed, FIRST + 1, &|claims| claims.lack_if(strayed, FIRST + 7, S2, stray));
    }
    cases
}

/// A replay of packets of these times.
fn replayed(program: &ProgramConfig, epoch: Option<&str>, times: &[Nanos]) -> Replayer {
    let mut config = Config {
        programs: vec![program.clone()],
        ports: ["a", "b"].map(|name| PortConfig::new(name, Dev::Memory)).into(),
        ..Config::default()
    };
    config.switch.forward = ForwardMode::Xconnect;
    config.switch.reproducible = Some(1);
    config.switch.transit = "10ms".parse().unwrap();
    if let Some(epoch) = epoch {
        config.switch.epoch = epoch.parse().unwrap();
    }
    let replayer = if epoch.is_some() { Replayer::new(config) } else { Replayer::single_epoch(config) };
    let mut replayer = replayer.unwrap();
    let trace = "isp/uniform,flows=50,packets=500,seed=3".parse::<Workload>().unwrap().generate();
    for at in times {
        let taken: Result<(), std::convert::Infallible> = trace.for_each_frame(&Frames::default(), |_, frame| {
            replayer.packet(0, *at, frame);
            Ok(())
        });
        taken.unwrap();
    }
    replayer.finish();
    replayer
}

fn replayed_cases() -> Vec<Case> {
    const WEIR: &[&str] = &[LocalControllers::RUN];
    let mut cases = Vec::new();
    for program in ProgramConfig::for_all_tasks() {
        let mut add = |name: &str, replayer: Replayer, claims: Claims| {
            let (name, history) = (format!("replayed, {name}"), replayer.histories().remove(0));
            cases.push(Case { name, program: program.clone(), history, seconds: 1e12, provisional: false, claims });
        };
        let times = |epochs: &[u64]| epochs.iter().map(|epoch| epoch * 100_000_000 + 1).collect::<Vec<_>>();
        let of = |epochs: &[u64]| replayed(&program, Some("100ms"), &times(epochs));
        add("all in one epoch", replayed(&program, None, &times(&[7, 8, 30])), Claims::of(0..=0, WEIR));
        add("nothing missing", of(&[7, 8, 9]), Claims::of(7..=9, WEIR));
        // The next epoch stands for those without packets.
        add("quiet epochs", of(&[7, 8, 30]), Claims { newest_from: Some(9), ..Claims::of(7..=30, WEIR) });
        let cut = of(&[7, 8, 9]);
        cut.lacks(Gap::NotCaptured { packets: 3 });
        let gap = (Lack::Part, "3 packets are missing from the captures, as these say");
        let lacking = (7..=9).fold(Claims::of(7..=9, WEIR), |claims, epoch| claims.lack(epoch, WEIR, gap));
        add("a capture with losses", cut, Claims { amended: Some(7..=9), ..lacking });
    }
    cases
}

/// Every case of every driver, of every program.
pub fn cases() -> impl Iterator<Item = Case> {
    [live_cases, network_cases, simulated_cases, replayed_cases].into_iter().flat_map(|cases| cases())
}

/// A document as the API has it.
pub fn expected(history: &Arc<dyn Queryable>, task: Task) -> Value {
    let query = Query { now: Some(0), ..query(task, 3.0) }.limited(20, 1);
    json!(history.ask(&query).unwrap())
}
