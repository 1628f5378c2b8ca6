//! A network of edge switches whose programs are driven without a switch around them.

mod claims;
mod clocks;
mod finality;
mod local;
mod refusals;
mod strays;
mod time;

use std::ops::Deref;

use super::*;
use crate::answers::{Claimed, Document, FlowSizes, HeavyChanges, Losses, Numbers, Query, Task};
use crate::history::{Entry, Gap, Reason, Reasons, SwitchGap, Window};
use crate::pisa::hash::HashFamily;
use crate::pisa::{BatchOrder as RunOrder, Disposition, Phv};
use crate::program::chamelemon::attention::State;
use crate::program::chamelemon::{ChameleMon, ChameleMonDataplane, Config, EncoderParameters, Schedule, Sketches};
use crate::program::hashpipe::HashPipe;
use crate::program::pint::{self, Pint};
use crate::program::{AnySchedule, Bank, Dataplane, Parameters, ProgramConfig};
use crate::wire::{Headers, Net, Shim};

const LENGTH: Nanos = 50_000_000;
const TRANSIT: Nanos = 10_000_000;

fn config() -> Config {
    Config {
        tower: "8x4096+16x2048".parse().unwrap(),
        upstream: 512,
        downstream: 384,
        hh_threshold: 20,
        ..Config::default()
    }
}

fn profile() -> NetworkProfile {
    profile_of(config())
}

fn profile_of(config: Config) -> NetworkProfile {
    let program = ProgramConfig::new::<ChameleMon>(config);
    let (header, key) = (crate::switch::TelemetryHeader::Shim, crate::switch::KeyHeaders::Outer);
    NetworkProfile { program, length: LENGTH, transit: TRANSIT, header, key }
}

fn settings() -> ControllerSettings {
    ControllerSettings::new(LENGTH, 3)
}

fn hashes() -> HashFamily {
    HashFamily::reproducible(9)
}

/// A flow's source. Neighbouring addresses are not spread at random by a CRC.
fn address(flow: u32) -> u32 {
    flow.wrapping_mul(0x9e37_79b1)
}

/// An edge switch.
struct Edge {
    name: String,
    program: ChameleMonDataplane,
    parameters: EncoderParameters,
    schedule: Schedule,
    spare: Box<dyn Bank>,
}

impl Edge {
    fn new(name: &str, epoch: u64, parameters: EncoderParameters) -> Self {
        let mut program = ChameleMonDataplane::new(&config(), &hashes()).unwrap();
        let schedule = Schedule::new(config(), parameters);
        program.allocate();
        program.follow(&schedule);
        program.enter(epoch, true);
        let spare = program.spare();
        Self { name: name.into(), program, parameters, schedule, spare }
    }

    fn request(&self, first_epoch: u64) -> JoinRequest {
        let parameters = self.parameters.encode();
        JoinRequest { name: self.name.clone(), profile: profile(), parameters, first_epoch }
    }

    fn update(&self, update: &ParameterUpdate) {
        self.schedule.update(update.epoch, EncoderParameters::decode(&update.parameters).unwrap()).unwrap();
    }

    /// A packet of a flow enters; what it carries through the network.
    fn enter(&mut self, flow: u32, epoch: u64) -> Phv {
        let headers =
            Headers { net: Net::Ipv4, src_ip: address(flow).into(), dst_ip: 7, proto: 17, ..Headers::default() };
        let mut phv = [Phv { headers, enters: true, shim: Shim::default().with_epoch(epoch as u32), ..Phv::default() }];
        self.program.ingress(&mut phv, RunOrder::PacketMajor);
        phv[0]
    }

    fn leave(&mut self, mut phv: Phv) {
        (phv.enters, phv.disposition) = (false, Disposition::ToHost);
        self.program.egress(&mut [phv], RunOrder::PacketMajor);
    }

    /// The epoch ends; `early` happens before the transit time is over.
    fn end(&mut self, epoch: u64, early: impl FnOnce(&mut Self)) -> Report {
        self.program.prepare(epoch + 1);
        self.end_prepared(epoch, early)
    }

    /// The same when the next epoch was prepared before, or is when it begins.
    fn end_prepared(&mut self, epoch: u64, early: impl FnOnce(&mut Self)) -> Report {
        let mut bank = std::mem::replace(&mut self.spare, self.program.spare());
        self.program.exchange(bank.as_mut());
        self.program.enter(epoch + 1, true);
        early(self);
        self.program.exchange_egress(bank.as_mut());
        Report { first_epoch: epoch, epoch, whole: true, late: 0, record: bank.record() }
    }
}

/// An epoch of the history, and the answers about it.
struct Shown {
    entry: Entry<()>,
    history: Arc<dyn Queryable>,
}

impl Deref for Shown {
    type Target = Entry<()>;

    fn deref(&self) -> &Entry<()> {
        &self.entry
    }
}

impl Shown {
    fn answer<A: Document>(&self) -> Claimed<A> {
        let query = Query::new(A::TASK, Window::Epoch(self.epoch));
        self.history.ask(&query).unwrap().into_document().unwrap()
    }

    /// `None` when they are unknown.
    fn losses(&self) -> Option<Losses> {
        let losses = self.answer::<Losses>();
        (losses.unknown_epochs == 0).then(|| Losses { last_loss: None, late_packets: 0, ..Losses::clone(&losses) })
    }

    /// Why losses are not complete, whether they are final or not.
    fn losses_lack(&self) -> Reasons {
        self.answer::<Losses>().claim.incomplete.clone().without(Reason::Provisional)
    }

    fn has_all_losses(&self) -> bool {
        self.losses_lack().is_empty()
    }

    /// Why flows are missing among the heavy ones, whatever their size.
    fn flows_lack(&self) -> Reasons {
        let lack = self.answer::<FlowSizes>().claim.incomplete.clone();
        lack.without(Reason::Provisional).without(Reason::BelowThreshold)
    }

    /// Why the parameters change after the epoch.
    fn why(&self) -> String {
        self.adaptation.as_ref().map_or_else(String::new, |adaptation| adaptation.why.clone())
    }
}

/// The epochs of a controller's history, the oldest first.
fn shown(controller: &Controller) -> Vec<Shown> {
    let history = controller.history();
    history.outlines().into_iter().map(|entry| Shown { entry, history: history.clone() }).collect()
}

/// The answer to a task about a window.
fn asked<A: Document>(controller: &Controller, query: Query) -> Claimed<A> {
    controller.history().ask(&query).unwrap().into_document().unwrap()
}

fn last(task: Task, seconds: f64) -> Query {
    Query::new(task, Window::Last { seconds })
}

struct Network {
    controller: Controller,
    edges: Vec<Edge>,
    parameters: EncoderParameters,
    transit: Nanos,
    epoch: u64,
}

impl Network {
    fn new(names: &[&str], epoch: u64) -> Self {
        Self::with(settings(), config().parameters(), TRANSIT, names, epoch)
    }

    fn with(
        settings: ControllerSettings,
        parameters: EncoderParameters,
        transit: Nanos,
        names: &[&str],
        epoch: u64,
    ) -> Self {
        let controller = Controller::new(&profile().program, settings);
        let mut network = Self { controller, edges: Vec::new(), parameters, transit, epoch };
        names.iter().for_each(|name| network.join(name));
        network
    }

    fn join(&mut self, name: &str) {
        let edge = Edge::new(name, self.epoch, self.parameters);
        let first = if self.epoch == 0 { 0 } else { self.epoch + 1 };
        let profile = NetworkProfile { transit: self.transit, ..profile() };
        let request = JoinRequest { profile, ..edge.request(first) };
        let updates = self.controller.join(&request, self.epoch * LENGTH + 1).unwrap();
        updates.iter().for_each(|update| edge.update(update));
        self.edges.push(edge);
    }

    /// Flows enter at one switch and leave at the next: of every tenth flow the first packet is
    /// lost, and the last packets leave when the epoch is over.
    fn traffic(&mut self, flows: u32) -> Vec<Vec<Phv>> {
        let (edges, epoch) = (self.edges.len(), self.epoch);
        let mut late = vec![Vec::new(); edges];
        for flow in 0..flows {
            let packets = 1 + flow % 40;
            let (from, to) = (flow as usize % edges, (flow as usize + 1) % edges);
            for packet in 0..packets {
                let phv = self.edges[from].enter(flow, epoch);
                match packet {
                    0 if flow % 10 == 0 => {}
                    _ if packet + 2 > packets => late[to].push(phv),
                    _ => self.edges[to].leave(phv),
                }
            }
        }
        late
    }

    /// The traffic of an epoch, and each switch's record of it.
    fn records(&mut self, flows: u32) -> Vec<Report> {
        let late = self.traffic(flows);
        let epoch = self.epoch;
        let end = |(edge, late): (&mut Edge, Vec<Phv>)| {
            let leave = |edge: &mut Edge| late.into_iter().for_each(|phv| edge.leave(phv));
            if self.transit < LENGTH / 2 {
                return edge.end(epoch, leave);
            }
            // The transit time is over just when the next epoch is prepared.
            let report = edge.end_prepared(epoch, leave);
            edge.program.prepare(epoch + 2);
            report
        };
        self.edges.iter_mut().zip(late).map(end).collect()
    }

    /// Runs an epoch. The switches named in `silent` report nothing.
    fn epoch(&mut self, flows: u32, silent: &[&str]) -> Vec<Result<Option<ParameterUpdate>, ReportError>> {
        let reports = self.records(flows);
        let now = (self.epoch + 1) * LENGTH + self.transit;
        let mut results = Vec::new();
        for (edge, report) in self.edges.iter().zip(reports) {
            if !silent.contains(&edge.name.as_str()) {
                results.push(self.controller.report(&edge.name, report, now));
            }
        }
        let update = results.iter().rev().find_map(|result| result.clone().ok().flatten());
        let update = update.or_else(|| self.controller.tick(now + LENGTH / 4));
        for edge in &self.edges {
            update.iter().for_each(|update| edge.update(update));
        }
        self.controller.keep();
        self.epoch += 1;
        results
    }

    fn newest(&self) -> Shown {
        shown(&self.controller).pop().unwrap()
    }

    fn gaps(&self) -> Vec<(String, Gap)> {
        self.newest().gaps.iter().map(|gap| (gap.switch.to_string(), gap.gap)).collect()
    }

    /// The flows that lost one packet each, and no others.
    fn assert_exact(&self, flows: u32) {
        let newest = self.newest();
        assert!(newest.has_all_losses() && newest.gaps.is_empty(), "{:?} {:?}", newest.entry, newest.losses_lack());
        let losses = newest.losses().unwrap();
        let mut lost: Vec<_> = losses.losses.iter().map(|loss| (loss.name.flow().unwrap().src, loss.packets)).collect();
        lost.sort_unstable();
        let mut expected: Vec<_> =
            (0..flows).step_by(10).map(|flow| (Some(std::net::Ipv4Addr::from(address(flow)).into()), 1)).collect();
        expected.sort_unstable();
        assert_eq!(lost, expected);
        assert_eq!((losses.lost_packets, losses.gained_packets), (expected.len() as u64, 0));
    }
}

/// From the epoch after the first on, all is known: losses across switches and epoch ends, and
/// every flow.
#[test]
fn losses_of_a_network_are_exact() {
    let mut network = Network::new(&["a", "b", "c"], 6);
    network.epoch(200, &[]);
    assert_eq!(network.gaps(), ["a", "b", "c"].map(|name| (name.to_owned(), Gap::Started)));
    assert_eq!((network.newest().epoch, network.newest().losses()), (6, None));
    for _ in 0..4 {
        network.epoch(200, &[]);
        network.assert_exact(200);
        let flows = network.newest().answer::<FlowSizes>().flows;
        assert!((flows.unwrap() - 200.0).abs() < 15.0, "{flows:?}");
        assert_eq!(network.newest().switches.len(), 3);
    }
    let newest = network.newest();
    let measured = &newest.adaptation.as_ref().unwrap().measured;
    assert_eq!(measured.state, State::Healthy.name());
    assert_eq!(measured.parameters["hh_threshold_packets"], 1, "all flows fit: {}", newest.why());
    assert_eq!((newest.answer::<FlowSizes>().heavy_candidates, newest.flows_lack().is_empty()), (200, true));
    assert_eq!(newest.answer::<HeavyChanges>().changes, []);
}

/// The very first epoch has none before it.
#[test]
fn nothing_is_missing_of_epoch_zero() {
    let mut network = Network::new(&["a", "b"], 0);
    network.epoch(100, &[]);
    network.assert_exact(100);
}

#[test]
fn one_switch_alone() {
    let mut network = Network::new(&["alone"], 3);
    for _ in 0..3 {
        network.epoch(120, &[]);
    }
    network.assert_exact(120);
    let numbers = network.newest().answer::<Numbers>();
    let epoch = &numbers.epochs[0];
    assert_eq!((epoch.flows, epoch.entropy_bits), (epoch.switches[0].flows, epoch.switches[0].entropy_bits));
}

/// A switch that says nothing hides the losses of its epoch and of the next, and no other answers.
#[test]
fn a_silent_switch_is_a_gap_by_name() {
    let mut network = Network::new(&["a", "b", "c"], 6);
    network.epoch(90, &[]);
    network.epoch(90, &[]);
    network.assert_exact(90);
    network.epoch(90, &["b"]);
    assert_eq!(network.gaps(), [("b".to_owned(), Gap::Missing)]);
    assert_eq!(network.newest().losses(), None);
    assert_eq!(network.newest().switches.len(), 2, "the flows of a and c");
    assert!(!network.newest().flows_lack().is_empty());
    assert!(network.newest().why().contains("unknown"), "{}", network.newest().why());
    network.epoch(90, &[]);
    assert_eq!(network.gaps(), [("b".to_owned(), Gap::Before)]);
    assert_eq!((network.newest().losses(), network.newest().switches.len()), (None, 3));
    network.epoch(90, &[]);
    network.assert_exact(90);
}

/// A record that comes too late still tells what left early, so it costs one epoch and not two.
#[test]
fn a_late_record() {
    let mut network = Network::new(&["a", "b"], 6);
    network.epoch(90, &[]);
    network.epoch(90, &[]);
    let [a, b] = network.records(90).try_into().unwrap();
    let end = 9 * LENGTH;
    assert_eq!(network.controller.report("a", a, end + TRANSIT), Ok(None), "it waits for b");
    assert_eq!(network.controller.deadline(), Some(end + TRANSIT + LENGTH / 4));
    assert_eq!(network.controller.tick(end + TRANSIT + 1), None);
    let update = network.controller.tick(end + TRANSIT + LENGTH / 4).unwrap();
    assert_eq!(update.epoch, 10, "epoch 9 is running");
    network.edges.iter().for_each(|edge| edge.update(&update));
    let late = network.controller.report("b", b, end + TRANSIT + LENGTH / 2);
    assert_eq!(late, Err(ReportError::Late { name: "b".into(), epoch: 8 }));
    network.controller.keep();
    assert_eq!(network.gaps(), [("b".to_owned(), Gap::Missing)]);
    network.epoch += 1;
    network.epoch(90, &[]);
    network.assert_exact(90);
}

/// A switch that cannot be reached is not waited for; one that starts again spoils the epoch in
/// which it does.
#[test]
fn leaving_and_starting_again() {
    let mut network = Network::new(&["a", "b"], 6);
    network.epoch(90, &[]);
    network.epoch(90, &[]);
    network.controller.leave("b");
    let results = network.epoch(90, &["b"]);
    assert!(matches!(results[..], [Ok(Some(_))]), "closed by a's report alone: {results:?}");
    assert_eq!(network.gaps(), [("b".to_owned(), Gap::Missing)]);
    network.edges.pop();
    network.join("b");
    network.epoch(90, &[]);
    assert_eq!(network.gaps()[0], ("b".to_owned(), Gap::Started));
    network.epoch(90, &[]);
    network.assert_exact(90);
    assert_eq!(network.controller.evict("b"), Err(EvictError::Connected("b".into())));
    network.controller.leave("b");
    assert_eq!(network.controller.evict("b"), Ok(()));
    assert_eq!(network.controller.evict("b"), Err(EvictError::Unknown("b".into())));
    assert_eq!(network.controller.switches().collect::<Vec<_>>(), [("a", true)]);
}

/// Parameters that nothing else changes are changed on demand, from an epoch on that every switch
/// can know; what the network has in common stays.
#[test]
fn parameters_are_changed_on_demand() {
    let fixed = ControllerSettings { shifts: false, ..settings() };
    let mut network = Network::with(fixed, config().parameters(), TRANSIT, &["a", "b"], 6);
    network.epoch(90, &[]);
    let wanted = Config { hh_threshold: config().hh_threshold + 9, ..config() };
    let program = |config: &Config| ProgramConfig::new::<ChameleMon>(config.clone());
    let now = network.epoch * LENGTH + 1;
    let from = network.controller.change(&program(&wanted), now).unwrap();
    assert_eq!(from, network.epoch + 1, "it is known in time");
    let end = (network.epoch + 1) * LENGTH - 1;
    assert_eq!(network.controller.change(&program(&wanted), end), Ok(network.epoch + 2), "it would come too late");
    let revision = network.controller.revision();
    assert_eq!(network.controller.change(&program(&wanted), end), Ok(network.epoch + 2));
    assert_eq!(network.controller.revision(), revision, "nothing new is to be saved");
    let updates = network.controller.updates(network.epoch);
    assert_eq!(updates.iter().map(|update| update.epoch).collect::<Vec<_>>(), [0, from, from + 1]);
    for update in &updates {
        network.edges.iter().for_each(|edge| edge.update(update));
    }
    for _ in 0..4 {
        network.epoch(90, &[]);
        network.assert_exact(90);
        assert_eq!(network.gaps(), []);
    }
    let measured = network.newest().adaptation.clone().unwrap().measured;
    assert_eq!(Some(measured), wanted.parameters().describe());

    let refused = |network: &mut Network, program| network.controller.change(&program, now).unwrap_err().to_string();
    let larger = program(&Config { arrays: config().arrays + 1, ..config() });
    assert!(refused(&mut network, larger).contains("arrays"), "shapes stay");
    let other = ProgramConfig::new::<HashPipe>(Default::default());
    assert_eq!(refused(&mut network, other.clone()), "the network does not run hashpipe");
    let mut shifting = Network::new(&["a"], 6);
    assert!(refused(&mut shifting, program(&wanted)).contains("shift = false"));
    assert_eq!(Controller::new(&other, fixed).change(&other, now), Err(ChangeError::Unknown("hashpipe".into())));
}

/// A configuration that comes by the API is checked as one of a file is.
#[test]
fn wrong_parameters_are_not_sent() {
    let program = |config: pint::Config| ProgramConfig::new::<Pint>(config);
    let right = program(pint::Config::default());
    let mut controller = Controller::new(&right, ControllerSettings { shifts: false, ..settings() });
    let profile = NetworkProfile { program: right.clone(), ..profile() };
    let request = JoinRequest { name: "a".into(), profile, parameters: right.start(), first_epoch: 7 };
    controller.join(&request, 6 * LENGTH).unwrap();
    for [bits, instances] in [[0, 1], [8, 0], [1 << 16, 1 << 16], [9, 2]] {
        let wrong = program(pint::Config { bits, instances, ..pint::Config::default() });
        let refused = controller.change(&wrong, 6 * LENGTH);
        assert!(matches!(refused, Err(ChangeError::Parameters(_))), "{bits} {instances}: {refused:?}");
    }
    assert!(controller.change(&right, 6 * LENGTH).is_ok());
}

/// Switches measure with the parameters of an update from the epoch that it names on.
#[test]
fn updates_are_for_the_epoch_after_the_running_one() {
    let mut network = Network::new(&["a", "b"], 6);
    for _ in 0..6 {
        let epoch = network.epoch;
        let results = network.epoch(2000, &[]);
        let update = results.iter().find_map(|result| result.clone().ok().flatten()).unwrap();
        assert_eq!(update.epoch, epoch + 2);
        let updated = network.newest().adaptation.clone().unwrap().update;
        assert_eq!(
            updated,
            EncoderParameters::decode(&update.parameters)
                .unwrap()
                .describe()
                .map(|described| (update.epoch, described))
        );
        assert!(network.gaps().iter().all(|(_, gap)| *gap != Gap::Parameters));
    }
    let adaptation = |answers: &Shown| answers.adaptation.clone().unwrap();
    let measured: Vec<_> =
        shown(&network.controller).iter().map(|answers| (answers.epoch, adaptation(answers).measured)).collect();
    for answers in shown(&network.controller) {
        let (from, updated) = adaptation(&answers).update.unwrap();
        let followed = measured.iter().find(|(epoch, _)| *epoch == from);
        assert!(followed.is_none_or(|(_, measured)| *measured == updated));
    }
    assert!(network.newest().flows_lack().is_empty(), "{:?}", network.newest().why());
}

/// Sketches of other parameters, of several epochs, of cores that disagree and of other hash
/// functions hide losses and are named.
#[test]
fn records_that_do_not_fit() {
    type Spoil = fn(&mut Report);
    fn sketches(report: &mut Report) -> &mut Sketches {
        (&mut *report.record as &mut dyn std::any::Any).downcast_mut().unwrap()
    }
    let cases: [(Spoil, Gap); 6] = [
        (|report| report.first_epoch -= 1, Gap::Spans { first_epoch: 7 }),
        (|report| sketches(report).mixed = true, Gap::Mixed),
        (|report| sketches(report).parameters.sample = 5, Gap::Parameters),
        (|report| assert!(sketches(report).strays.add(8, 3)), Gap::Strays { packets: 3 }),
        (|report| sketches(report).unmarked = 2, Gap::Unmarked { packets: 2 }),
        (|report| sketches(report).unfollowed = 4, Gap::Unfollowed { packets: 4 }),
    ];
    for (spoil, gap) in cases {
        let mut network = Network::new(&["a", "b"], 6);
        network.epoch(90, &[]);
        network.epoch(90, &[]);
        let mut reports: Vec<_> = network.edges.iter_mut().map(|edge| edge.end(8, |_| {})).collect();
        spoil(&mut reports[1]);
        for (edge, report) in network.edges.iter().zip(reports) {
            network.controller.report(&edge.name, report, 9 * LENGTH + TRANSIT).unwrap();
        }
        network.controller.keep();
        assert_eq!(network.gaps(), [("b".to_owned(), gap)]);
        assert!(!network.newest().has_all_losses());
        assert_eq!(network.newest().losses().is_some(), !gap.hides_flows());
    }
}

/// A flow of which more packets left than entered has lost none, and what it gained hides no
/// other's loss.
#[test]
fn only_flows_that_lost_packets_are_victims() {
    let mut network = Network::with(finality::waits(0), config().parameters(), TRANSIT, &["a"], 6);
    (0..2).for_each(|_| drop(network.epoch(90, &[])));
    let doubled = network.edges[0].enter(5000, 8);
    (0..3).for_each(|_| network.edges[0].leave(doubled));
    network.epoch(90, &[]);
    let told = network.newest().answer::<Losses>();
    assert_eq!((told.victims, told.lost_packets), (9, 9));
    assert_eq!((told.gained_flows, told.gained_packets), (1, 2));
    assert_eq!((told.losses.len(), told.gains.len()), (9, 1));
    assert_eq!((told.gains[0].packets, told.claim.complete), (2, false));
    assert!(told.claim.incomplete.contains(Reason::Gained));
}

#[test]
fn sizes_of_flows() {
    let mut network = Network::new(&["a", "b"], 6);
    (0..4).for_each(|_| drop(network.epoch(100, &[])));
    let sizes = network.newest().answer::<FlowSizes>();
    let number = |src: u32| (0..100).find(|flow| address(*flow) == src).unwrap();
    for flow in &sizes.heavy {
        let Some(std::net::IpAddr::V4(src)) = flow.name.flow().unwrap().src else { panic!("{flow:?}") };
        assert_eq!(flow.count(), u64::from(1 + number(src.to_bits()) % 40), "{flow:?}");
    }
    assert_eq!((sizes.heavy.len(), sizes.heavy.iter().filter(|flow| flow.count() > 39).count()), (100, 2));
    let tail =
        |size| sizes.distribution.iter().filter(|class| class.packets >= size).map(|class| class.flows).sum::<f64>();
    assert!((tail(40) - 2.0).abs() < 1e-9 && (tail(0) - 100.0).abs() < 1e-9);
}
