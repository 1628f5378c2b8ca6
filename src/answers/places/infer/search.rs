//! Sets of failed members, by posterior.

use std::f64::consts::TAU;

use rustc_hash::FxHashMap;

use super::fit::{Fit, Model, Room, each_share};
use super::trials::Trials;
use super::{BOTH_DIRECTIONS, FAILED, Inferred, Losing};
use crate::trace::SplitMix64;

/// Members that each step of the search tries.
const TRIED: usize = 8;
/// Of these, links that are tried in both directions.
const CABLES: usize = 4;
/// Of these, those of which two are tried in place of one.
const PAIRED: usize = 4;
/// Members that the sampler adds and removes.
const SAMPLED: usize = 24;
/// Sweeps of the sampler, and most sets that a search looks at.
const SWEEPS: usize = 20;
const MOST_SETS: usize = 300;
/// And most flows that lost packets in all of these. The more there are, the clearer is the answer.
const MOST_VICTIMS: usize = 1_000_000;
/// Most failed members of a set, beside those that counted.
const MOST_FAILED: usize = 16;
/// A healthy member's rate may be this much smaller than the alarm rate.
const BACKGROUND_SPAN: f64 = 1000.0;
/// A set that is less likely than another one by more than this, in logarithms, is of no account.
const NO_MATCH: f64 = 15.0;
/// Least rate from which a member that is new in a set starts.
const FIRST_RATE: f64 = 0.01;
/// Most sets over which flows' losses are averaged, and the least probability of one.
const AVERAGED: usize = 8;
const LEAST_AVERAGED: f64 = 1e-3;

/// A set of failed members, in increasing order.
type Failed = Vec<usize>;

/// A set to look at, and one whose fit is near its own.
struct Step {
    to: Failed,
    from: Failed,
}

/// A search for the failed members.
pub struct Search<'a> {
    model: Model<'a>,
    room: Room,
    /// The other direction of a link.
    reverse: FxHashMap<usize, usize>,
    seen: FxHashMap<Failed, (f64, Fit)>,
    /// The largest log posterior of them.
    most: f64,
    candidates: Vec<usize>,
    most_sets: usize,
}

impl<'a> Search<'a> {
    pub fn new(trials: &'a Trials, alarm_rate: f64) -> Self {
        let mut room = Room::new(trials);
        let model = Model::new(trials, alarm_rate, alarm_rate / BACKGROUND_SPAN.sqrt(), &mut room);
        let is_sought = |cable: &&[usize; 2]| cable.iter().all(|member| !trials.has_counted(*member));
        let reverse = trials.cables.iter().filter(is_sought).flat_map(|[a, b]| [(*a, *b), (*b, *a)]).collect();
        let most_sets = (MOST_VICTIMS / trials.victims.len().max(1)).clamp(MOST_SETS / 5, MOST_SETS);
        let (seen, candidates) = (FxHashMap::default(), Vec::new());
        Self { model, room, reverse, seen, most: f64::NEG_INFINITY, candidates, most_sets }
    }

    /// Log posterior of a set, but for a constant. Its rates are looked for from those of the set that it was made of.
    fn score(&mut self, failed: &Failed, from: &Failed) -> f64 {
        if let Some((score, _)) = self.seen.get(failed) {
            return *score;
        }
        if self.seen.len() >= self.most_sets || failed.len() > MOST_FAILED + self.model.counted.len() {
            return f64::NEG_INFINITY;
        }
        let (prior, start) = (self.log_prior(failed), self.start(failed, from));
        // Widths only make a set less likely.
        let fit = self.model.fit(failed, &start, self.most - NO_MATCH - prior, &mut self.room);
        let score = fit.log_likelihood + prior + self.log_widths(failed, &fit);
        self.most = self.most.max(score);
        self.seen.insert(failed.clone(), (score, fit));
        score
    }

    /// Rates to start from: those of the other set, and for what is new the share of lost packets that the
    /// other set does not explain. From a low rate, members on one path that lose all packets would come near their
    /// rates slowly.
    fn start(&self, failed: &Failed, from: &Failed) -> Vec<f64> {
        let seen = self.seen.get(from).map(|(_, fit)| fit);
        let fit = seen.unwrap_or(&self.model.quiet);
        let mut start = fit.rates.clone();
        let is_new = |member: &&usize| seen.is_none() || from.binary_search(member).is_err();
        for member in failed.iter().filter(is_new) {
            start[*member] = (fit.unexplained[*member] / fit.reached[*member].max(1.0)).max(FIRST_RATE);
        }
        start
    }

    fn log_prior(&self, failed: &Failed) -> f64 {
        let has_reverse = |member: &&usize| {
            self.reverse.get(member).is_some_and(|other| other > *member && failed.binary_search(other).is_ok())
        };
        let cables = failed.iter().filter(has_reverse).count() as f64;
        let number = failed.len() - self.model.counted.len();
        number as f64 * (FAILED / (1.0 - FAILED)).ln() + cables * (BOTH_DIRECTIONS / FAILED).ln()
    }

    /// The width of the likelihood's peak beside that of the prior, over all rates, in logarithms. A rate that
    /// rests on n lost packets is known to within a factor of about 1 / √n.
    fn log_widths(&self, failed: &Failed, fit: &Fit) -> f64 {
        let alarm_rate = self.model.alarm_rate;
        let width = |lost: f64, span: f64| (0.5 * (TAU / lost.max(1.0)).ln() - span.ln().ln()).min(0.0);
        let is_sought = |(member, _): &(usize, &f64)| !self.model.trials.has_counted(*member);
        let of = |(member, lost): (usize, &f64)| match failed.binary_search(&member) {
            Ok(_) => width(*lost, 1.0 / alarm_rate.min(0.3)),
            Err(_) => width(*lost, BACKGROUND_SPAN) * lost.min(1.0),
        };
        fit.lost.iter().enumerate().filter(is_sought).map(of).sum()
    }

    /// The members that would explain most of what the failed ones do not.
    fn proposals(&mut self, failed: &Failed, from: &Failed) -> Vec<usize> {
        self.score(failed, from);
        let Some((_, fit)) = self.seen.get(failed) else { return Vec::new() };
        let gain = |member: usize| {
            let (lost, expected) = (fit.unexplained[member], self.model.alarm_rate * fit.reached[member].max(1.0));
            let gain = lost * (lost / expected).ln() - lost + expected;
            let is_sought = failed.binary_search(&member).is_err() && !self.model.trials.has_counted(member);
            (is_sought && lost > expected).then_some((gain, member))
        };
        let mut gains: Vec<(f64, usize)> = (0..fit.lost.len()).filter_map(gain).collect();
        gains.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        gains.truncate(TRIED);
        gains.into_iter().map(|(_, member)| member).collect()
    }

    /// The most likely set: members are added one by one or with the other direction of their link, and removed
    /// and exchanged where that helps no more, as long as it makes the set more likely.
    pub fn most_likely(&mut self) -> Failed {
        let mut best = self.model.counted.clone();
        loop {
            let proposals = self.proposals(&best, &best);
            self.candidates.extend(&proposals);
            let both = |member: &usize| Some(with(&with(&best, *member), *self.reverse.get(member)?));
            let cables: Vec<Failed> = proposals.iter().take(CABLES).filter_map(both).collect();
            let more = proposals.iter().map(|member| with(&best, *member)).chain(cables);
            let more = more.map(|to| Step { to, from: best.clone() }).collect();
            if let Some(next) = self.better(&best, more) {
                best = next;
                continue;
            }
            let other = self.sought(&best).into_iter().flat_map(|member| self.instead(&best, member)).collect();
            match self.better(&best, other) {
                Some(next) => best = next,
                None => return best,
            }
        }
    }

    /// The members of a set that did not count.
    fn sought(&self, failed: &Failed) -> Vec<usize> {
        failed.iter().copied().filter(|member| !self.model.trials.has_counted(*member)).collect()
    }

    /// Sets with what explains a member's losses in its place, or beside it: one other member or link, or two.
    fn instead(&mut self, failed: &Failed, member: usize) -> Vec<Step> {
        let fewer = without(failed, member);
        let others: Vec<usize> = self.proposals(&fewer, failed).into_iter().filter(|other| *other != member).collect();
        self.candidates.extend(&others);
        let cable = |set: &Failed, member: usize| {
            let set = with(set, member);
            self.reverse.get(&member).map_or_else(|| set.clone(), |back| with(&set, *back))
        };
        let mut sets = vec![fewer.clone()];
        let mut steps = Vec::new();
        for (place, other) in others.iter().enumerate() {
            let (one, both) = (with(&fewer, *other), cable(&fewer, *other));
            for second in &others[..place.min(PAIRED)] {
                sets.extend([with(&one, *second), cable(&both, *second)]);
            }
            sets.extend([one, both]);
            steps.push(Step { to: with(failed, *other), from: failed.clone() });
        }
        steps.extend(sets.into_iter().map(|to| Step { to, from: fewer.clone() }));
        steps
    }

    /// The most likely of these sets, if it is more likely than another one.
    fn better(&mut self, than: &Failed, steps: Vec<Step>) -> Option<Failed> {
        let least = self.score(than, than) + 1e-6;
        let scored = steps.into_iter().map(|Step { to, from }| (self.score(&to, &from), to));
        let most = scored.max_by(|one, other| one.0.total_cmp(&other.0));
        most.filter(|(score, _)| *score > least).map(|(_, set)| set)
    }

    /// Visits the sets beside the most likely one. Returns the last.
    pub fn sample(&mut self, mut at: Failed) -> Failed {
        let mut random = SplitMix64::new(0x9b5);
        let reverse: Vec<usize> = at.iter().filter_map(|member| self.reverse.get(member).copied()).collect();
        let mut candidates = self.sought(&at);
        for member in reverse.into_iter().chain(std::mem::take(&mut self.candidates)) {
            if !candidates.contains(&member) {
                candidates.push(member);
            }
        }
        candidates.truncate(SAMPLED.max(2 * at.len()));
        for _ in 0..SWEEPS {
            for member in &candidates {
                let (out, within) = (without(&at, *member), with(&at, *member));
                let (with_it, without_it) = (self.score(&within, &at), self.score(&out, &at));
                let drawn = random.unit();
                // Sets beyond the most that are looked at have no score.
                if with_it.is_finite() && without_it.is_finite() {
                    at = if drawn < 1.0 / (1.0 + (without_it - with_it).exp()) { within } else { out };
                }
            }
            // One failed member for another.
            for member in self.sought(&at) {
                let other = candidates[random.below(candidates.len() as u64) as usize];
                if at.contains(&other) || !at.contains(&member) {
                    continue;
                }
                let fewer = without(&at, member);
                let exchanged = with(&fewer, other);
                if random.unit() < (self.score(&exchanged, &fewer) - self.score(&at, &fewer)).exp() {
                    at = exchanged;
                }
            }
        }
        at
    }

    /// The posterior of the sets visited.
    pub fn posterior(mut self) -> Posterior<'a> {
        let best = self.most_likely();
        self.sample(best);
        let mut sets: Vec<(f64, Failed, Fit)> =
            self.seen.into_iter().map(|(failed, (score, fit))| (score, failed, fit)).collect();
        sets.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        let most = sets.first().map_or(0.0, |(score, ..)| *score);
        sets.iter_mut().for_each(|(score, ..)| *score = (*score - most).exp());
        let sum: f64 = sets.iter().map(|(weight, ..)| weight).sum();
        sets.iter_mut().for_each(|(weight, ..)| *weight /= sum);
        Posterior { model: self.model, room: self.room, sets }
    }
}

fn with(failed: &Failed, member: usize) -> Failed {
    let mut more = failed.clone();
    if let Err(place) = more.binary_search(&member) {
        more.insert(place, member);
    }
    more
}

fn without(failed: &Failed, member: usize) -> Failed {
    failed.iter().copied().filter(|other| *other != member).collect()
}

/// Sets of failed members with their probabilities, the most likely first.
pub struct Posterior<'a> {
    model: Model<'a>,
    room: Room,
    sets: Vec<(f64, Failed, Fit)>,
}

impl Posterior<'_> {
    /// The probability that a member has failed.
    pub fn confidence(&self, member: usize) -> f64 {
        let having = self.sets.iter().filter(|(_, failed, _)| failed.binary_search(&member).is_ok());
        having.map(|(weight, ..)| weight).sum::<f64>().min(1.0)
    }

    /// What members and flows lost, averaged over the most likely sets.
    pub fn inferred(mut self, trials: &Trials) -> Inferred {
        let likely = self.sets.iter().take(AVERAGED).take_while(|(weight, ..)| *weight >= LEAST_AVERAGED).count();
        let averaged = &self.sets[..likely.max(1).min(self.sets.len())];
        let all: f64 = averaged.iter().map(|(weight, ..)| weight).sum();
        let mut members = vec![Losing::default(); trials.members];
        for (weight, _, fit) in averaged {
            for (member, losing) in members.iter_mut().enumerate() {
                losing.packets += weight / all * fit.lost[member];
                losing.reached += weight / all * fit.reached[member];
            }
        }
        let mut variances = vec![0.0; trials.members];
        for (weight, _, fit) in averaged {
            for (member, losing) in members.iter().enumerate() {
                variances[member] += weight / all * (fit.lost[member] - losing.packets).powi(2);
            }
        }
        // By flow: members, expected packets, and the probability of none.
        let mut flows: Vec<Vec<(usize, f64, f64)>> = vec![Vec::new(); trials.victims.len()];
        let mut own: Vec<(usize, f64)> = Vec::new();
        for (weight, failed, fit) in averaged {
            let touched = self.model.touched(failed);
            self.room.start(&fit.rates, failed);
            for (flow, shares) in trials.victims.iter().zip(&mut flows) {
                own.clear();
                for (path, taken) in self.model.paths_taken(flow, touched[flow.ends], &mut self.room) {
                    each_share(&trials.paths[*path], &fit.rates, |member, share| {
                        match own.iter_mut().find(|(other, _)| *other == member) {
                            Some((_, sum)) => *sum += taken * share,
                            None => own.push((member, taken * share)),
                        }
                    });
                }
                for (member, share) in &own {
                    let share = share.clamp(0.0, 1.0);
                    let place = shares.iter().position(|(other, ..)| other == member).unwrap_or_else(|| {
                        shares.push((*member, 0.0, 1.0));
                        shares.len() - 1
                    });
                    let (_, packets, none) = &mut shares[place];
                    *packets += weight / all * flow.lost * share;
                    *none -= weight / all * (1.0 - (1.0 - share).powf(flow.lost));
                    variances[*member] += weight / all * flow.flows * flow.lost * share * (1.0 - share);
                }
            }
        }
        for (member, losing) in members.iter_mut().enumerate() {
            (losing.confidence, losing.deviation) = (self.confidence(member), variances[member].sqrt());
        }
        flows.iter_mut().flatten().for_each(|(.., none)| *none = none.clamp(0.0, 1.0));
        Inferred { members, flows }
    }
}
