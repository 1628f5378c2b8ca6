//! The closed loop: what a running switch or controller answers, held against what was really sent.

mod compare;
mod summary;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use weir::answers::{Claimed, HeavyFlows, Losses};
use weir::api::client::{Client, ClientError};
use weir::wire::Flow;

use super::EpochTruth;
use compare::{Counts, score_heavy, score_losses};
pub use summary::{HeavyScore, LossScore, ScoreSummary};

/// Epochs whose truth waits for an answer.
const KEPT: usize = 256;
/// Flows of all of them.
const KEPT_FLOWS: usize = 1 << 22;
/// Flows that an answer is asked for.
const ALL: usize = 1 << 20;
/// Answers that are asked for at once.
const AT_ONCE: usize = 64;

#[derive(Debug, Default)]
struct Known {
    flows: FxHashMap<Flow, Counts>,
    /// No truth: a core could not hand it over.
    unknown: bool,
    unscored: bool,
}

/// Asks a switch about the epochs that it is told of.
pub struct Scorer {
    client: Client,
    top: usize,
    truths: BTreeMap<u64, Known>,
    newest: Option<u64>,
    /// The newest epoch that is not kept any more.
    gone: Option<u64>,
    heavy_after: Option<u64>,
    losses_after: Option<u64>,
    /// Tasks that the switch answers; found out by the first question.
    has: [Option<bool>; 2],
    recall: f64,
    error: f64,
    summary: ScoreSummary,
}

impl Scorer {
    /// `top`: the number of heavy flows that are scored.
    pub fn new(client: Client, top: usize) -> Self {
        Self {
            client,
            top,
            truths: BTreeMap::new(),
            newest: None,
            gone: None,
            heavy_after: None,
            losses_after: None,
            has: [None, None],
            recall: 0.0,
            error: 0.0,
            summary: ScoreSummary::default(),
        }
    }

    /// Takes the truth of an epoch. The oldest one is forgotten when too many wait.
    pub fn learn(&mut self, truth: &EpochTruth) {
        if truth.flows.is_empty() {
            return;
        }
        let flows = truth.flows.iter().map(|flow| {
            let lost = flow.sent_packets.saturating_sub(flow.received_packets);
            (flow.flow, Counts { packets: flow.sent_packets, bytes: flow.sent_bytes, lost })
        });
        self.insert(truth.epoch, Known { flows: flows.collect(), ..Known::default() });
    }

    /// Takes note of an epoch of which nothing is known: no answer about it is scored.
    pub fn miss(&mut self, epoch: u64) {
        self.insert(epoch, Known { unknown: true, ..Known::default() });
    }

    fn insert(&mut self, epoch: u64, known: Known) {
        let before = epoch.saturating_sub(1);
        self.heavy_after.get_or_insert(before);
        self.losses_after.get_or_insert(before);
        self.newest = self.newest.max(Some(epoch));
        if self.gone >= Some(epoch) {
            self.summary.unscored_epochs += 1;
            return;
        }
        self.truths.insert(epoch, known);
        let flows = |truths: &BTreeMap<u64, Known>| truths.values().map(|known| known.flows.len()).sum::<usize>();
        while self.truths.len() > KEPT || self.truths.len() > 1 && flows(&self.truths) > KEPT_FLOWS {
            let Some((epoch, _)) = self.truths.pop_first() else { break };
            self.gone = self.gone.max(Some(epoch));
            self.summary.unscored_epochs += 1;
        }
    }

    /// Drops what all answers are about.
    fn drop_scored(&mut self) {
        let Some(done) = self.scored_until() else { return };
        let left = self.truths.split_off(&done.saturating_add(1));
        let scored = std::mem::replace(&mut self.truths, left);
        self.summary.unscored_epochs += scored.values().filter(|known| known.unscored).count() as u64;
        self.gone = self.gone.max(scored.last_key_value().map(|(epoch, _)| *epoch));
    }

    /// Epochs that an answer passed over.
    fn pass(&mut self, after: u64, until: u64) {
        let passed = self.truths.iter_mut().filter(|(epoch, _)| (after + 1..=until).contains(*epoch));
        passed.for_each(|(_, known)| known.unscored = true);
    }

    /// The newest epoch of which both the truth and all answers are known.
    pub fn scored_until(&self) -> Option<u64> {
        let after = [(self.has[0], self.heavy_after), (self.has[1], self.losses_after)];
        after.into_iter().filter(|(has, _)| *has != Some(false)).filter_map(|(_, after)| after).min()
    }

    pub fn summary(&self) -> ScoreSummary {
        let n = self.summary.heavy_epochs;
        let done = |epoch: u64| self.scored_until().is_some_and(|scored| epoch <= scored);
        let unscored = self.truths.iter().filter(|(epoch, known)| done(**epoch) && known.unscored).count() as u64;
        let mean = |sum: f64| (n > 0).then(|| sum / n as f64);
        ScoreSummary {
            mean_recall: mean(self.recall),
            mean_relative_error: mean(self.error),
            unanswered_epochs: self.truths.keys().filter(|epoch| !done(**epoch)).count() as u64,
            unscored_epochs: self.summary.unscored_epochs + unscored,
            ..self.summary.clone()
        }
    }

    /// Asks for what is new.
    ///
    /// # Errors
    /// If no switch answers, or it runs no program for either task.
    pub fn ask(&mut self) -> Result<(Vec<HeavyScore>, Vec<LossScore>), ClientError> {
        let (mut heavy, mut losses) = (Vec::new(), Vec::new());
        for _ in 0..AT_ONCE {
            let Some(score) = self.ask_heavy()? else { break };
            heavy.extend(score);
        }
        for _ in 0..AT_ONCE {
            let Some(score) = self.ask_losses()? else { break };
            losses.extend(score);
        }
        self.drop_scored();
        Ok((heavy, losses))
    }

    /// The length of the switch's epochs, in nanoseconds.
    ///
    /// # Errors
    /// If no switch answers, or it runs no program for either task.
    pub fn epoch_ns(&mut self) -> Result<u64, ClientError> {
        let heavy = self.answered::<Claimed<HeavyFlows>>(0, "/v1/heavy?seconds=0")?.map(|answer| answer.claim.epoch_ns);
        let losses = self.answered::<Claimed<Losses>>(1, "/v1/losses?seconds=0")?.map(|answer| answer.claim.epoch_ns);
        Ok(heavy.or(losses).unwrap_or_default())
    }

    /// The newest epoch that is to be scored.
    pub fn waits_for(&self) -> Option<u64> {
        self.newest()
    }

    fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// `None` when there is nothing new; `Some(None)` of an answer that cannot be scored.
    fn ask_heavy(&mut self) -> Result<Option<Option<HeavyScore>>, ClientError> {
        let (Some(after), Some(newest)) = (self.heavy_after, self.newest()) else { return Ok(None) };
        if self.has[0] == Some(false) || after >= newest {
            return Ok(None);
        }
        let query = format!("/v1/heavy?after={after}&top={ALL}");
        let Some(answer) = self.answered::<Claimed<HeavyFlows>>(0, &query)? else { return Ok(None) };
        let covered = answer.claim.first_epoch.zip(answer.claim.last_epoch);
        let Some((first, last)) = covered.filter(|covered| is_new(*covered, after, newest)) else { return Ok(None) };
        self.heavy_after = Some(last);
        self.pass(after, first.saturating_sub(1));
        let Some(truth) = self.truth(first, last) else {
            self.pass(after, last);
            return Ok(Some(None));
        };
        let score = score_heavy(&answer, &truth, self.top);
        self.summary.heavy_epochs += 1;
        self.recall += score.recall;
        self.error += score.average_relative_error;
        Ok(Some(Some(HeavyScore { program: answer.program.clone(), first_epoch: first, last_epoch: last, score })))
    }

    fn ask_losses(&mut self) -> Result<Option<Option<LossScore>>, ClientError> {
        let (Some(after), Some(newest)) = (self.losses_after, self.newest()) else { return Ok(None) };
        if self.has[1] == Some(false) || after >= newest {
            return Ok(None);
        }
        let query = format!("/v1/losses?after={after}&top={ALL}");
        let Some(answer) = self.answered::<Claimed<Losses>>(1, &query)? else { return Ok(None) };
        let covered = answer.claim.first_epoch.zip(answer.claim.last_epoch);
        let Some((first, last)) = covered.filter(|covered| is_new(*covered, after, newest)) else { return Ok(None) };
        self.losses_after = Some(last);
        self.pass(after, first.saturating_sub(1));
        let Some(truth) = self.truth(first, last).filter(|_| answer.unknown_epochs == 0) else {
            self.pass(after, last);
            return Ok(Some(None));
        };
        let score = score_losses(last, &answer, &truth);
        self.summary.loss_epochs += 1;
        self.summary.exact_loss_epochs += u64::from(score.is_exact());
        self.summary.true_lost_packets += score.true_lost_packets;
        self.summary.lost_packets += score.lost_packets;
        Ok(Some(Some(score)))
    }

    /// `None` when the switch has no program for the task.
    fn answered<T: serde::de::DeserializeOwned>(&mut self, task: usize, query: &str) -> Result<Option<T>, ClientError> {
        match self.client.get(query) {
            Ok(answer) => {
                self.has[task] = Some(true);
                Ok(Some(answer))
            }
            // It has a program for this: the refusal passes.
            Err(ClientError::Refused { .. }) if self.has[task] == Some(true) => Ok(None),
            Err(ClientError::Refused { error }) => {
                self.has[task] = Some(false);
                if self.has == [Some(false); 2] { Err(ClientError::Refused { error }) } else { Ok(None) }
            }
            Err(error) => Err(error),
        }
    }

    /// The sums over these epochs; epochs in which nothing was sent count as empty. `None` when the
    /// truth of one is not known, or not any more.
    fn truth(&self, first: u64, last: u64) -> Option<FxHashMap<Flow, Counts>> {
        let mut known = self.truths.range(first..=last).map(|(_, known)| known);
        if self.gone >= Some(first) || known.any(|known| known.unknown) {
            return None;
        }
        let mut sums: FxHashMap<Flow, Counts> = FxHashMap::default();
        for known in self.truths.range(first..=last).map(|(_, known)| known) {
            for (flow, counts) in &known.flows {
                let sum = sums.entry(*flow).or_default();
                sum.packets += counts.packets;
                sum.bytes += counts.bytes;
                sum.lost += counts.lost;
            }
        }
        (!sums.is_empty()).then_some(sums)
    }
}

/// Whether an answer is about epochs that were not asked for before, and all of which were sent.
fn is_new((first, last): (u64, u64), after: u64, newest: u64) -> bool {
    first <= last && last > after && last <= newest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A switch may answer with any numbers.
    #[test]
    fn answers_about_no_new_epoch_are_left_out() {
        assert!(is_new((6, 9), 5, 9) && is_new((9, 9), 5, 9));
        for covered in [(9, 8), (3, 5), (6, 10), (u64::MAX, 0)] {
            assert!(!is_new(covered, 5, 9), "{covered:?}");
        }
    }
}
