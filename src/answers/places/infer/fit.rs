//! The rates of all members for a given set of failed ones, by maximum likelihood: expectation maximisation
//! over the members that may have lost each packet, and over the paths that its flow may have taken.

use std::collections::BTreeMap;

use super::WRONG_PATHS;
use super::survivors::Survivors;
use super::trials::{FlowTrial, Trials};

/// Rounds of expectation maximisation. They start near the maximum.
const ROUNDS: usize = 6;
/// They end where the failed members' rates change by a smaller share,
const SETTLED: f64 = 0.003;
/// or where this number of further rounds, each with the gain of the last one, would make the set no match for another.
const FURTHER: f64 = 10.0;
/// A path that is believed explains losses so well that no other one is looked at: it lacks no more than this of
/// the log likelihood that any path could give at these rates.
const NO_OTHER: f64 = -2.0;
/// A path that is taken with a smaller share than this, in logarithms, is not looked at.
const NEGLIGIBLE: f64 = -14.0;
/// Most members that counted and lost more than the alarm rate. With those of a set they fit in the bits of
/// [`Survivors`].
const MOST_COUNTED: usize = 16;
/// Bounds of a rate.
const LEAST_RATE: f64 = 1e-9;
const LARGEST_RATE: f64 = 1.0 - 1e-6;

/// The trials, and what every fit takes from them.
pub struct Model<'a> {
    pub trials: &'a Trials,
    pub alarm_rate: f64,
    /// Members that counted, and lost more than the alarm rate: every set has them.
    pub counted: Vec<usize>,
    /// The fit without a failure.
    pub quiet: Fit,
    victims: Vec<Victims>,
    /// Flows that lost none: size and number, by path and, where that is not known, by pair of switches.
    pub on_path: Vec<&'a [(f64, f64)]>,
    pub between: Vec<&'a [(f64, f64)]>,
    /// Their packets by member.
    through: Vec<f64>,
    /// The pairs of switches that have a path across a member, and the paths.
    ends_of: Vec<Vec<usize>>,
    pub paths_of: Vec<Vec<usize>>,
}

/// Flows between two switches that lost packets.
struct Victims {
    ends: usize,
    /// Those whose path is believed, each with the largest log likelihood that any rate gives it.
    believed: Vec<(usize, FlowTrial, f64)>,
    /// Lost and sent packets of these by path.
    by_path: Vec<(usize, [f64; 2])>,
    /// The logarithm of the prior probability that one of these takes its path.
    log_prior: f64,
    /// The others.
    others: Vec<FlowTrial>,
    /// Packets of theirs that members lost, as the fit without a failure expects.
    quiet: Part,
}

impl Victims {
    fn new(ends: usize, trials: &Trials) -> Self {
        let (by_path, log_prior) = (Vec::new(), trials.log_prior(ends, WRONG_PATHS));
        let (believed, others, quiet) = (Vec::new(), Vec::new(), Part::default());
        Self { ends, believed, by_path, log_prior, others, quiet }
    }

    fn add(&mut self, flow: FlowTrial) {
        let Some(path) = flow.path else {
            match self.others.iter_mut().find(|of| of.lost == flow.lost && of.sent == flow.sent) {
                Some(alike) => alike.flows += flow.flows,
                None => self.others.push(flow),
            }
            return;
        };
        let is_alike = |(other, of, _): &&mut (usize, FlowTrial, f64)| {
            *other == path && of.lost == flow.lost && of.sent == flow.sent
        };
        match self.believed.iter_mut().find(is_alike) {
            Some((_, alike, _)) => alike.flows += flow.flows,
            None => {
                self.believed.push((path, flow, flow.largest_log_likelihood()));
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
    /// `healthy` is the rate of all members from which the fit without a failure starts.
    pub fn new(trials: &'a Trials, alarm_rate: f64, healthy: f64, room: &mut Room) -> Self {
        let mut by_ends: BTreeMap<usize, Victims> = BTreeMap::new();
        for flow in &trials.victims {
            by_ends.entry(flow.ends).or_insert_with(|| Victims::new(flow.ends, trials)).add(*flow);
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
        let mut paths_of: Vec<Vec<usize>> = vec![Vec::new(); trials.members];
        for (path, members) in trials.paths.iter().enumerate() {
            members.iter().for_each(|member| paths_of[*member].push(path));
        }
        let (victims, quiet) = (by_ends.into_values().collect(), Fit::default());
        let counted = lossy(trials, alarm_rate);
        let mut model =
            Self { trials, alarm_rate, counted, quiet, victims, on_path, between, through, ends_of, paths_of };
        model.fit_quiet(healthy, room);
        model
    }

    /// Fits the rates without a failure. All other fits take from it what a failure does not touch.
    fn fit_quiet(&mut self, healthy: f64, room: &mut Room) {
        self.quiet = self.fit(&self.counted, &vec![healthy; self.trials.members], f64::NEG_INFINITY, room);
        let mut victims = std::mem::take(&mut self.victims);
        for of in &mut victims {
            let mut expected = Expected::new(vec![0.0; self.trials.members]);
            room.start(&self.quiet.rates, &[]);
            self.expect_of(of, true, &mut expected, room);
            expected.add_all(self, &[], room);
            of.quiet = expected.part();
        }
        self.victims = victims;
    }

    /// Bounds of a member's rate.
    fn bounds(&self, member: usize, has_failed: bool) -> (f64, f64) {
        if let Some(rate) = self.trials.known_rate(member) {
            let rate = rate.clamp(LEAST_RATE, LARGEST_RATE);
            return (rate, rate);
        }
        let alarm = self.alarm_rate.clamp(LEAST_RATE, LARGEST_RATE);
        if has_failed { (alarm, LARGEST_RATE) } else { (LEAST_RATE, alarm) }
    }

    /// The fit for these failed members, in increasing order. `start` has rates to start from. A set whose log
    /// likelihood cannot be expected to come up to `least` is left as it is then.
    pub fn fit(&self, failed: &[usize], start: &[f64], least: f64, room: &mut Room) -> Fit {
        let set = FailedSet::new(self, failed);
        let mut rates: Vec<f64> = start.to_vec();
        for (member, rate) in rates.iter_mut().enumerate() {
            let (lowest, largest) = self.bounds(member, set.has_failed[member]);
            *rate = rate.clamp(lowest, largest);
        }
        let (mut last, untouched) = (f64::NEG_INFINITY, self.untouched(&set));
        for _ in 0..ROUNDS {
            let expected = self.expect(&rates, &set, untouched.as_ref(), room);
            let now = self.log_likelihood(&rates, &set, &expected);
            if now + FURTHER * (now - last) < least {
                return expected.fit(rates, now);
            }
            last = now;
            let mut most = 0.0f64;
            for (member, rate) in rates.iter_mut().enumerate() {
                let (lowest, largest) = self.bounds(member, set.has_failed[member]);
                let next = (expected.lost[member] / expected.reached[member].max(1e-9)).clamp(lowest, largest);
                if set.has_failed[member] {
                    most = most.max((next / *rate).ln().abs());
                }
                *rate = next;
            }
            if most < SETTLED && failed != self.counted {
                break;
            }
        }
        let expected = self.expect(&rates, &set, None, room);
        let log_likelihood = self.log_likelihood(&rates, &set, &expected);
        expected.fit(rates, log_likelihood)
    }

    /// Of all that flows lost, and did not lose.
    fn log_likelihood(&self, rates: &[f64], set: &FailedSet<'_>, expected: &Expected) -> f64 {
        let members = rates.iter().zip(&self.through).zip(&set.has_failed);
        let healthy = members.filter(|(_, has_failed)| !**has_failed);
        let survive = -healthy.map(|((rate, packets), _)| rate * packets).sum::<f64>();
        expected.log_likelihood + survive + set.survivors.log_likelihood(&set.survive(rates))
    }

    /// Expected losses of each member at these rates, and the log likelihood of all that flows lost. Flows between
    /// switches without a path across a failed member lose packets at healthy ones alone, whose rates differ
    /// little from those without a failure: `untouched` has what is expected of them, if they are not looked at.
    fn expect(&self, rates: &[f64], set: &FailedSet<'_>, untouched: Option<&Expected>, room: &mut Room) -> Expected {
        let mut expected = untouched.cloned().unwrap_or_else(|| Expected::new(self.through.clone()));
        room.start(rates, set.failed);
        for of in self.victims.iter().filter(|of| untouched.is_none() || set.touched[of.ends]) {
            self.expect_of(of, !set.touched[of.ends], &mut expected, room);
        }
        expected.add_all(self, &set.has_failed, room);
        for (member, elsewhere) in set.failed.iter().zip(set.survivors.elsewhere(&set.survive(rates))) {
            expected.reached[*member] -= elsewhere;
        }
        expected
    }

    /// The share in the fit without a failure of flows that can have crossed no failed member; `None` of that fit.
    fn untouched(&self, set: &FailedSet<'_>) -> Option<Expected> {
        if set.failed == self.counted {
            return None;
        }
        let mut expected = Expected::new(self.through.clone());
        for of in self.victims.iter().filter(|of| !set.touched[of.ends]) {
            expected.log_likelihood += of.quiet.log_likelihood;
            for (member, [lost, reached, unexplained]) in &of.quiet.members {
                expected.lost[*member] += lost;
                expected.reached[*member] += reached;
                expected.unexplained[*member] += unexplained;
            }
        }
        Some(expected)
    }

    /// Puts what flows between two switches sent and lost on the paths that they may have taken.
    fn expect_of(&self, of: &Victims, is_quiet: bool, expected: &mut Expected, room: &mut Room) {
        if is_quiet {
            // All other paths explain the losses as well as the one that is believed.
            for (path, [lost, sent]) in &of.by_path {
                expected.log_likelihood += room.loss(self, *path).of(*lost, *sent);
                room.add(*path, [*lost, *sent]);
            }
        } else {
            for (path, flow, best) in &of.believed {
                let own = room.loss(self, *path).of(flow.lost, flow.sent);
                if own > room.largest(flow, *best) + NO_OTHER {
                    // The others explain them much worse.
                    expected.log_likelihood += flow.flows * (own + of.log_prior);
                    room.add(*path, [flow.flows * flow.lost, flow.flows * flow.sent]);
                } else {
                    expected.log_likelihood += self.share_out(flow, room);
                }
            }
        }
        for flow in &of.others {
            expected.log_likelihood += self.share_out(flow, room);
        }
    }

    /// Adds a flow's packets to the paths that it may have taken. Returns the log likelihood of its losses.
    fn share_out(&self, flow: &FlowTrial, room: &mut Room) -> f64 {
        let log_likelihood = self.weigh_paths(flow, room);
        for number in 0..room.shares.len() {
            let (path, share) = room.shares[number];
            let flows = flow.flows * share;
            room.add(path, [flows * flow.lost, flows * flow.sent]);
        }
        flow.flows * log_likelihood
    }

    /// Finds the paths that a flow that lost packets may have taken, with their shares. Returns the log likelihood
    /// of its losses.
    fn weigh_paths(&self, flow: &FlowTrial, room: &mut Room) -> f64 {
        let mut shares = std::mem::take(&mut room.shares);
        shares.clear();
        let paths = self.trials.candidates(flow, WRONG_PATHS);
        shares.extend(paths.map(|(path, prior)| (path, prior + room.loss(self, path).of(flow.lost, flow.sent))));
        let most = shares.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
        shares.retain_mut(|(_, log)| {
            *log -= most;
            *log > NEGLIGIBLE
        });
        shares.iter_mut().for_each(|(_, share)| *share = share.exp());
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        shares.iter_mut().for_each(|(_, share)| *share /= sum);
        room.shares = shares;
        most + sum.ln()
    }

    /// The paths that a flow that lost packets may have taken, with their shares, at the rates of the room: the one
    /// that is believed alone, where others would explain the losses no better.
    pub fn paths_taken<'r>(&self, flow: &FlowTrial, is_touched: bool, room: &'r mut Room) -> &'r [(usize, f64)] {
        let explains = |path: usize, room: &mut Room| {
            let own = room.loss(self, path).of(flow.lost, flow.sent);
            own > room.largest(flow, flow.largest_log_likelihood()) + NO_OTHER
        };
        match flow.path {
            Some(path) if !is_touched || explains(path, room) => {
                room.shares.clear();
                room.shares.push((path, 1.0));
            }
            _ => _ = self.weigh_paths(flow, room),
        }
        &room.shares
    }

    /// By pair of switches: whether it has a path across one of these members.
    pub fn touched(&self, failed: &[usize]) -> Vec<bool> {
        let mut touched = vec![false; self.trials.ends.len()];
        failed.iter().flat_map(|member| &self.ends_of[*member]).for_each(|ends| touched[*ends] = true);
        touched
    }
}

/// The members that counted, and lost more than the alarm rate, in increasing order. Of too many, those that lost the
/// largest shares.
fn lossy(trials: &Trials, alarm_rate: f64) -> Vec<usize> {
    let rates = (0..trials.members).filter_map(|member| Some((member, trials.counted_rate(member)?)));
    let mut lossy: Vec<(usize, f64)> = rates.filter(|(_, rate)| *rate > alarm_rate).collect();
    lossy.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut members: Vec<usize> = lossy.into_iter().take(MOST_COUNTED).map(|(member, _)| member).collect();
    members.sort_unstable();
    members
}

/// A set of failed members, in increasing order, and what every round of a fit takes from it.
struct FailedSet<'a> {
    failed: &'a [usize],
    /// By member.
    has_failed: Vec<bool>,
    /// By pair of switches: whether it has a path across one of them.
    touched: Vec<bool>,
    survivors: Survivors,
}

impl<'a> FailedSet<'a> {
    fn new(model: &Model<'_>, failed: &'a [usize]) -> Self {
        let touched = model.touched(failed);
        let pairs = touched.iter().enumerate().filter(|(_, touched)| **touched).map(|(ends, _)| ends);
        let survivors = Survivors::new(model, failed, pairs);
        let mut has_failed = vec![false; model.trials.members];
        failed.iter().for_each(|member| has_failed[*member] = true);
        Self { failed, has_failed, touched, survivors }
    }

    /// Logarithms of the probabilities that its members let a packet through.
    fn survive(&self, rates: &[f64]) -> Vec<f64> {
        self.failed.iter().map(|member| (1.0 - rates[*member]).ln()).collect()
    }
}

/// Logarithms of the probabilities that a path loses a packet, and does not.
#[derive(Clone, Copy, Default)]
struct Loss {
    lose: f64,
    survive: f64,
}

impl Loss {
    /// Of the probability that a path loses no packet.
    fn of_survival(survive: f64) -> Self {
        Self { lose: (1.0 - survive).max(LEAST_RATE).ln(), survive: survive.ln() }
    }

    /// Log likelihood of losing these of the packets sent.
    fn of(self, lost: f64, sent: f64) -> f64 {
        lost * self.lose + (sent - lost) * self.survive
    }
}

/// Room for a round of the fit, by path, which the next round takes again.
pub struct Room {
    rates: Vec<f64>,
    loss: Vec<Option<Loss>>,
    /// Lost and sent packets of victims.
    packets: Vec<[f64; 2]>,
    /// The paths that this round has looked at.
    used: Vec<usize>,
    /// Of one flow, the paths that it may have taken.
    shares: Vec<(usize, f64)>,
    /// The largest probability with which any path loses a packet, and its logarithms.
    worst: (f64, Loss),
    /// Members on the longest path.
    longest: usize,
}

impl Room {
    pub fn new(trials: &Trials) -> Self {
        let paths = trials.paths.len();
        let (loss, packets) = (vec![None; paths], vec![[0.0; 2]; paths]);
        let longest = trials.paths.iter().map(Vec::len).max().unwrap_or_default();
        let worst = (1.0, Loss::default());
        Self { rates: Vec::new(), loss, packets, used: Vec::new(), shares: Vec::new(), worst, longest }
    }

    /// Starts a round with these rates, of which those of failed members are the largest.
    pub fn start(&mut self, rates: &[f64], failed: &[usize]) {
        self.rates.clear();
        self.rates.extend_from_slice(rates);
        let healthy = rates.iter().enumerate().filter(|(member, _)| failed.binary_search(member).is_err());
        let healthy = healthy.map(|(_, rate)| *rate).fold(0.0, f64::max);
        let survive = survival(failed, rates) * (1.0 - healthy).powf(self.longest as f64);
        self.worst = (1.0 - survive, Loss::of_survival(survive.max(f64::MIN_POSITIVE)));
        for path in self.used.drain(..) {
            self.loss[path] = None;
            self.packets[path] = [0.0; 2];
        }
    }

    /// The largest log likelihood that any path could give a flow's losses. `best` is that of any probability.
    fn largest(&self, flow: &FlowTrial, best: f64) -> f64 {
        let (most, loss) = self.worst;
        if flow.lost <= most * flow.sent { best } else { loss.of(flow.lost, flow.sent) }
    }

    fn loss(&mut self, model: &Model<'_>, path: usize) -> Loss {
        if let Some(loss) = self.loss[path] {
            return loss;
        }
        let survive = survival(&model.trials.paths[path], &self.rates);
        let loss = Loss::of_survival(survive);
        self.loss[path] = Some(loss);
        self.used.push(path);
        loss
    }

    /// Adds to the packets of a path whose loss has been asked for.
    fn add(&mut self, path: usize, packets: [f64; 2]) {
        (0..2).for_each(|side| self.packets[path][side] += packets[side]);
    }
}

/// Expected numbers of packets by member.
#[derive(Clone)]
struct Expected {
    lost: Vec<f64>,
    reached: Vec<f64>,
    unexplained: Vec<f64>,
    log_likelihood: f64,
}

/// The same of a few members: lost, reached and unexplained packets.
#[derive(Default)]
struct Part {
    members: Vec<(usize, [f64; 3])>,
    log_likelihood: f64,
}

impl Expected {
    /// `through` are packets of flows that lost none.
    fn new(through: Vec<f64>) -> Self {
        let none = vec![0.0; through.len()];
        Self { lost: none.clone(), reached: through, unexplained: none, log_likelihood: 0.0 }
    }

    /// Adds what the paths of a round lost, and what went in. `has_failed` is empty where no member has.
    fn add_all(&mut self, model: &Model<'_>, has_failed: &[bool], room: &Room) {
        for path in &room.used {
            let [lost, sent] = room.packets[*path];
            if sent > 0.0 {
                self.add(&model.trials.paths[*path], &room.rates, has_failed, [lost, sent]);
            }
        }
    }

    fn add(&mut self, members: &[usize], rates: &[f64], has_failed: &[bool], [lost, sent]: [f64; 2]) {
        let (mut before, mut explained) = (0.0, 0.0);
        each_share(members, rates, |member, share| {
            self.lost[member] += lost * share;
            self.reached[member] += sent - lost * before;
            before += share;
            explained += if has_failed.get(member) == Some(&true) { share } else { 0.0 };
        });
        members.iter().for_each(|member| self.unexplained[*member] += lost * (1.0 - explained));
    }

    fn part(&self) -> Part {
        let members = (0..self.lost.len()).filter(|member| self.reached[*member] > 0.0);
        let of = |member: usize| (member, [self.lost[member], self.reached[member], self.unexplained[member]]);
        Part { members: members.map(of).collect(), log_likelihood: self.log_likelihood }
    }

    fn fit(self, rates: Vec<f64>, log_likelihood: f64) -> Fit {
        let Self { lost, reached, unexplained, .. } = self;
        Fit { rates, log_likelihood, lost, reached, unexplained }
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
