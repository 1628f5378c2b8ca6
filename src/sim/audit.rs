//! Whether answers that were called complete were right, whatever went wrong.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::ledger::Ledger;
use super::report::nets;
use crate::program::ProgramConfig;
use crate::program::answers::{EpochAnswers, FlowName, Reason, Task};

/// Answers about losses beside the truth, after the last record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    pub epochs: u64,
    /// Those that are called complete, and of these the ones that are wrong: a flow's packets are
    /// not its exact net, or a flow is missing.
    pub complete_epochs: u64,
    pub wrong_epochs: Vec<u64>,
    /// Epochs that are not, by reason and by kind of gap. One may have several.
    pub incomplete: BTreeMap<Reason, u64>,
    pub gaps: BTreeMap<String, u64>,
    /// Flows whose number of lost packets is called exact, and those of them for which it is not.
    pub exact_flows: u64,
    pub miscalled_flows: u64,
}

impl Audit {
    /// Adds an epoch of a program, if it answers the task.
    pub(super) fn add(&mut self, program: &ProgramConfig, answers: &EpochAnswers, ledger: &Ledger) {
        if program.rank(Task::Losses).is_none() {
            return;
        }
        let truth = nets(program, ledger.nets(answers.epoch as u32));
        self.epochs += 1;
        let exact = answers.losses_lack.leave_counts_exact();
        for loss in answers.losses.iter().flat_map(|losses| &losses.flows).filter(|loss| exact && loss.exact) {
            self.exact_flows += 1;
            let net = truth.get(&loss.flow).copied().unwrap_or_default();
            self.miscalled_flows += u64::from(loss.lost as i64 - loss.gained as i64 != net);
        }
        if answers.has_all_losses() {
            self.complete_epochs += 1;
            if !is_right(answers, &truth) || ledger.is_torn(answers.epoch as u32) {
                self.wrong_epochs.push(answers.epoch);
            }
        }
        answers.losses_lack.iter().for_each(|reason| *self.incomplete.entry(reason).or_default() += 1);
        let kind = |gap: String| gap.split([' ', '{']).next().unwrap_or_default().to_lowercase();
        let kinds: BTreeSet<_> = answers.gaps.iter().map(|gap| kind(format!("{:?}", gap.gap))).collect();
        kinds.into_iter().for_each(|kind| *self.gaps.entry(kind).or_default() += 1);
    }
}

/// Whether these are the nets of all flows, and none was gained.
fn is_right(answers: &EpochAnswers, truth: &FxHashMap<FlowName, i64>) -> bool {
    let Some(losses) = &answers.losses else { return false };
    let told: FxHashMap<_, _> = losses.flows.iter().map(|loss| (loss.flow, loss.lost as i64)).collect();
    let sum: i64 = truth.values().sum();
    told == *truth && losses.lost_packets as i64 == sum && losses.gained_packets == 0
}
