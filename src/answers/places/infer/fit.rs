//! The rates of all members for a given set of failed ones, by maximum likelihood: expectation maximisation
//! over the members that may have lost each packet, and over the paths that its flow may have taken.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::WRONG_PATHS;
use super::survivors::Survivors;
use super::trials::{FlowTrial, Trials};

/// Rounds of expectation maximisation. They start near the maximum.
const ROUNDS: usize = 6;
/// They end where the failed members' rates change by a smaller share.
const SETTLED: f64 = 0.003;
/// A path that is believed explains losses so well that no other one is looked at: of the log likelihood that any
/// path could give it lacks no more than this.
const NO_OTHER: f64 = -2.0;
/// Bounds of a rate.
const LEAST_RATE: f64 = 1e-9;
const LARGEST_RATE: f64 = 1.0 - 1e-6;

/// The trials, and what every fit takes from them.
pub struct Model<'a> {
    pub trials: &'a Trials,
    pub alarm_rate: f64,
    victims: Vec<Victims>,
    /// Flows that lost none: size and number, by path and, where that is not known, by pair of switches.
    pub on_path: Vec<&'a [(f64, f64)]>,
    pub between: Vec<&'a [(f64, f64)]>,
    /// Their packets by member.
    through: Vec<f64>,
    /// The pairs of switches that have a path across a member.
    ends_of: Vec<Vec<usize>>,
}

/// Flows between two switches that lost packets.
struct Victims {
    ends: usize,
    /// Those whose path is believed, each with the largest log likelihood that any rate gives it.
    believed: Vec<(usize, FlowTrial, f64)>,
    /// Lost and sent packets of these by path.
    by_path: Vec<(usize, [f64; 2])>,
    /// The others.
    others: Vec<FlowTrial>,
}

impl Victims {
    fn new(ends: usize) -> Self {
        Self { ends, believed: Vec::new(), by_path: Vec::new(), others: Vec::new() }
    }

    fn add(&mut self, flow: FlowTrial) {
        let Some(path) = flow.path else { return self.others.push(flow) };
        let is_alike = |(other, of, _): &&mut (usize, FlowTrial, f64)| {
            *other == path && of.lost == flow.lost && of.sent == flow.sent
        };
        match self.believed.iter_mut().find(is_alike) {
            Some((_, alike, _)) => alike.flows += flow.flows,
            None => {
                let share = |packets: f64| if packets > 0.0 { packets * (packets / flow.sent).ln() } else { 0.0 };
                self.believed.push((path, flow, share(flow.lost) + share(flow.sent - flow.lost)));
            }
        }
        let packets = [flow.flows * flow.lost, flow.flows * flow.sent];
        match self.by_path.iter_mut().find(|(other, _)| *other == path) {
            Some((_, sum)) => (0..2).for_each(|side| sum[side] += packets[side]),
            None => self.by_path.push((path, packets)),
        }
    }
}

/// Rates for a set of failed members.
#[derive(Clone, Debug, Default)]
pub struct Fit {
    pub rates: Vec<f64>,
    pub log_likelihood: f64,
    /// By member: expected packets that it lost, and that reached it.
    pub lost: Vec<f64>,
    pub reached: Vec<f64>,
    /// By member: packets that no failed member explains, of flows that cross it.
    pub unexplained: Vec<f64>,
}

impl<'a> Model<'a> {
    pub fn new(trials: &'a Trials, alarm_rate: f64) -> Self {
        let mut by_ends: BTreeMap<usize, Victims> = BTreeMap::new();
        for flow in &trials.victims {
            by_ends.entry(flow.ends).or_insert_with(|| Victims::new(flow.ends)).add(*flow);
        }
        let mut ends_of: Vec<Vec<usize>> = vec![Vec::new(); trials.members];
        for (ends, paths) in trials.ends.iter().enumerate() {
            for member in paths.iter().flat_map(|path| &trials.paths[*path]) {
                if ends_of[*member].last() != Some(&ends) {
                    ends_of[*member].push(ends);
                }
            }
        }
        let mut through = vec![0.0; trials.members];
        let (mut on_path, mut between) = (vec![&[][..]; trials.paths.len()], vec![&[][..]; trials.ends.len()]);
        for ((ends, path), classes) in &trials.survivors {
            match path {
                Some(path) => on_path[*path] = classes,
                None => between[*ends] = classes,
            }
            let packets: f64 = classes.iter().map(|(sent, flows)| sent * flows).sum();
            let paths = path.as_ref().map_or(&trials.ends[*ends][..], std::slice::from_ref);
            for member in paths.iter().flat_map(|path| &trials.paths[*path]) {
                through[*member] += packets / paths.len() as f64;
            }
        }
        Self { trials, alarm_rate, victims: by_ends.into_values().collect(), on_path, between, through, ends_of }
    }

    /// Bounds of a member's rate.
    fn bounds(&self, has_failed: bool) -> (f64, f64) {
        let alarm = self.alarm_rate.clamp(LEAST_RATE, LARGEST_RATE);
        if has_failed { (alarm, LARGEST_RATE) } else { (LEAST_RATE, alarm) }
    }

    /// The fit for these failed members, in increasing order. `start` has rates to start from.
    pub fn fit(&self, failed: &[usize], start: &[f64]) -> Fit {
        let set = FailedSet::new(self, failed);
        let is_failed = |member: usize| failed.binary_search(&member).is_ok();
        let mut rates: Vec<f64> = start.to_vec();
        for (member, rate) in rates.iter_mut().enumerate() {
            let (least, most) = self.bounds(is_failed(member));
            *rate = rate.clamp(least, most);
        }
        for _ in 0..ROUNDS {
            let expected = self.expect(&rates, &set);
            let mut most = 0.0f64;
            for (member, rate) in rates.iter_mut().enumerate() {
                let (least, largest) = self.bounds(is_failed(member));
                let next = (expected.lost[member] / expected.reached[member].max(1e-9)).clamp(least, largest);
                if is_failed(member) {
                    most = most.max((next / *rate).ln().abs());
                }
                *rate = next;
            }
            if most < SETTLED && !failed.is_empty() {
                break;
            }
        }
        let Expected { lost, reached, unexplained, log_likelihood } = self.expect(&rates, &set);
        let healthy = rates.iter().zip(&self.through).enumerate().filter(|(member, _)| !is_failed(*member));
        let survive = -healthy.map(|(_, (rate, packets))| rate * packets).sum::<f64>();
        let log_likelihood = log_likelihood + survive + set.survivors.log_likelihood(&set.survive(&rates));
        Fit { rates, log_likelihood, lost, reached, unexplained }
    }

    /// Expected losses of each member at these rates, and the log likelihood of all that flows lost.
    fn expect(&self, rates: &[f64], set: &FailedSet<'_>) -> Expected {
        let mut expected = Expected::new(self);
        let mut loss = PathLoss::new(self, rates);
        let mut by_path: FxHashMap<usize, [f64; 2]> = FxHashMap::default();
        let mut add = |path: usize, packets: [f64; 2]| {
            let sum = by_path.entry(path).or_default();
            (0..2).for_each(|side| sum[side] += packets[side]);
        };
        for of in &self.victims {
            if !set.touched[of.ends] {
                // No other path explains the losses better than the one that is believed.
                for (path, [lost, sent]) in &of.by_path {
                    expected.log_likelihood += loss.of(*path, *lost, *sent);
                    add(*path, [*lost, *sent]);
                }
            }
            let believed = if set.touched[of.ends] { &of.believed[..] } else { &[] };
            for (path, flow, best) in believed {
                let own = loss.of(*path, flow.lost, flow.sent);
                if own > best + NO_OTHER {
                    expected.log_likelihood += flow.flows * own;
                    add(*path, [flow.flows * flow.lost, flow.flows * flow.sent]);
                } else {
                    expected.log_likelihood += self.share_out(flow, &mut loss, &mut add);
                }
            }
            for flow in &of.others {
                expected.log_likelihood += self.share_out(flow, &mut loss, &mut add);
            }
        }
        for (path, packets) in by_path {
            expected.add(self, rates, set.failed, path, packets);
        }
        for (member, elsewhere) in set.failed.iter().zip(set.survivors.elsewhere(&set.survive(rates))) {
            expected.reached[*member] -= elsewhere;
        }
        expected
    }

    /// Adds a flow's packets to the paths that it may have taken. Returns the log likelihood of its losses.
    fn share_out(&self, flow: &FlowTrial, loss: &mut PathLoss<'_>, mut add: impl FnMut(usize, [f64; 2])) -> f64 {
        let PathsTaken { log_likelihood, paths } = self.paths_taken(flow, true, loss);
        for (path, share) in paths {
            let flows = flow.flows * share;
            add(path, [flows * flow.lost, flows * flow.sent]);
        }
        flow.flows * log_likelihood
    }

    /// The paths that a flow that lost packets may have taken. Where no path between its two switches has a
    /// failed member, a flow whose path is believed took that one: others would explain its losses no better.
    pub fn paths_taken(&self, flow: &FlowTrial, is_touched: bool, loss: &mut PathLoss<'_>) -> PathsTaken {
        if let (Some(path), false) = (flow.path, is_touched) {
            return PathsTaken { log_likelihood: loss.of(path, flow.lost, flow.sent), paths: vec![(path, 1.0)] };
        }
        let mut paths: Vec<(usize, f64)> = self
            .trials
            .candidates(flow, WRONG_PATHS)
            .map(|(path, prior)| (path, prior.ln() + loss.of(path, flow.lost, flow.sent)))
            .collect();
        let most = paths.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
        paths.iter_mut().for_each(|(_, log)| *log = (*log - most).exp());
        let sum: f64 = paths.iter().map(|(_, share)| share).sum();
        paths.iter_mut().for_each(|(_, share)| *share /= sum);
        paths.retain(|(_, share)| *share > 1e-6);
        PathsTaken { log_likelihood: most + sum.ln(), paths }
    }

    /// By pair of switches: whether it has a path across one of these members.
    pub fn touched(&self, failed: &[usize]) -> Vec<bool> {
        let mut touched = vec![false; self.trials.ends.len()];
        failed.iter().flat_map(|member| &self.ends_of[*member]).for_each(|ends| touched[*ends] = true);
        touched
    }
}

/// The paths that a flow may have taken, by posterior, and the log likelihood of its losses.
pub struct PathsTaken {
    pub log_likelihood: f64,
    pub paths: Vec<(usize, f64)>,
}

/// A set of failed members, in increasing order, and what every round of a fit takes from it.
struct FailedSet<'a> {
    failed: &'a [usize],
    /// By pair of switches: whether it has a path across one of them.
    touched: Vec<bool>,
    survivors: Survivors,
}

impl<'a> FailedSet<'a> {
    fn new(model: &Model<'_>, failed: &'a [usize]) -> Self {
        let touched = model.touched(failed);
        let pairs = touched.iter().enumerate().filter(|(_, touched)| **touched).map(|(ends, _)| ends);
        let survivors = Survivors::new(model, failed, pairs);
        Self { failed, touched, survivors }
    }

    /// Logarithms of the probabilities that its members let a packet through.
    fn survive(&self, rates: &[f64]) -> Vec<f64> {
        self.failed.iter().map(|member| (1.0 - rates[*member]).ln()).collect()
    }
}

/// Logarithms of the probabilities that a path loses a packet, and does not.
pub struct PathLoss<'a> {
    model: &'a Model<'a>,
    rates: &'a [f64],
    known: FxHashMap<usize, [f64; 2]>,
}

impl<'a> PathLoss<'a> {
    pub fn new(model: &'a Model<'a>, rates: &'a [f64]) -> Self {
        Self { model, rates, known: FxHashMap::default() }
    }

    /// Log likelihood of a path's losing these of the packets sent.
    fn of(&mut self, path: usize, lost: f64, sent: f64) -> f64 {
        let [lose, survive] = *self.known.entry(path).or_insert_with(|| {
            let survive = survival(&self.model.trials.paths[path], self.rates);
            [(1.0 - survive).max(LEAST_RATE).ln(), survive.ln()]
        });
        lost * lose + (sent - lost) * survive
    }
}

/// Expected numbers of packets by member.
struct Expected {
    lost: Vec<f64>,
    reached: Vec<f64>,
    unexplained: Vec<f64>,
    log_likelihood: f64,
}

impl Expected {
    fn new(model: &Model<'_>) -> Self {
        let none = vec![0.0; model.trials.members];
        Self { lost: none.clone(), reached: model.through.clone(), unexplained: none, log_likelihood: 0.0 }
    }

    /// Adds packets that a path lost, and that went in.
    fn add(&mut self, model: &Model<'_>, rates: &[f64], failed: &[usize], path: usize, [lost, sent]: [f64; 2]) {
        let members = &model.trials.paths[path];
        let (mut before, mut explained) = (0.0, 0.0);
        each_share(members, rates, |member, share| {
            self.lost[member] += lost * share;
            self.reached[member] += sent - lost * before;
            before += share;
            explained += if failed.binary_search(&member).is_ok() { share } else { 0.0 };
        });
        members.iter().for_each(|member| self.unexplained[*member] += lost * (1.0 - explained));
    }
}

/// The probability that a path loses no packet.
fn survival(members: &[usize], rates: &[f64]) -> f64 {
    members.iter().map(|member| 1.0 - rates[*member]).product()
}

/// The share of a path's lost packets that each of its members lost.
pub fn each_share(members: &[usize], rates: &[f64], mut each: impl FnMut(usize, f64)) {
    let all = (1.0 - survival(members, rates)).max(LEAST_RATE);
    let mut reaches = 1.0;
    for member in members {
        each(*member, reaches * rates[*member] / all);
        reaches *= 1.0 - rates[*member];
    }
}
