//! Scores of answers, one by one and over a run.

use serde::Serialize;
use weir::answers::Score;

/// One answer about heavy flows beside the truth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeavyScore {
    pub program: String,
    pub first_epoch: u64,
    pub last_epoch: u64,
    #[serde(flatten)]
    pub score: Score,
}

/// One answer about losses beside the truth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LossScore {
    pub epoch: u64,
    pub true_lost_packets: u64,
    pub lost_packets: u64,
    /// Flows that lost packets.
    pub true_victims: u64,
    /// Of them, those that were named.
    pub named_victims: u64,
    /// Of these, those with their exact number.
    pub exact_victims: u64,
    /// Flows that were named and lost nothing.
    pub wrong_flows: u64,
    /// What the switch says of its own answer.
    pub complete: bool,
}

impl LossScore {
    /// All victims and no other flows are named, each with its number.
    pub fn is_exact(&self) -> bool {
        self.true_victims == self.exact_victims && self.wrong_flows == 0 && self.lost_packets == self.true_lost_packets
    }
}

/// Means over all epochs that were scored.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScoreSummary {
    pub heavy_epochs: u64,
    pub mean_recall: Option<f64>,
    pub mean_relative_error: Option<f64>,
    pub loss_epochs: u64,
    /// Of these, epochs whose losses were told exactly.
    pub exact_loss_epochs: u64,
    pub true_lost_packets: u64,
    pub lost_packets: u64,
    /// Epochs that were sent and that no answer came about.
    pub unanswered_epochs: u64,
    /// Epochs that were sent and that an answer passed over, or whose truth is not known.
    pub unscored_epochs: u64,
}

impl ScoreSummary {
    /// In words.
    pub fn line(&self) -> String {
        let mut words = Vec::new();
        if let (Some(recall), Some(error)) = (self.mean_recall, self.mean_relative_error) {
            words.push(format!("heavy: recall {recall:.4}, error {error:.4} in {} epochs", self.heavy_epochs));
        }
        if self.loss_epochs > 0 {
            let (told, lost) = (self.lost_packets, self.true_lost_packets);
            words.push(format!(
                "losses: {told} of {lost}, exact in {} of {} epochs",
                self.exact_loss_epochs, self.loss_epochs
            ));
        }
        if self.unscored_epochs > 0 {
            words.push(format!("{} epochs not scored", self.unscored_epochs));
        }
        if words.is_empty() { "no answer yet".into() } else { words.join("; ") }
    }

    /// The larger error of heavy flows and of lost packets in all.
    pub fn error(&self) -> Option<f64> {
        let lost = self.true_lost_packets.abs_diff(self.lost_packets) as f64 / self.true_lost_packets.max(1) as f64;
        let losses = (self.loss_epochs > 0).then_some(lost);
        self.mean_relative_error.into_iter().chain(losses).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_the_larger_one() {
        let summary = ScoreSummary { mean_relative_error: Some(0.1), ..ScoreSummary::default() };
        assert_eq!(summary.error(), Some(0.1));
        let lossy = ScoreSummary { loss_epochs: 1, true_lost_packets: 10, lost_packets: 5, ..summary };
        assert_eq!(lossy.error(), Some(0.5));
        assert_eq!(ScoreSummary::default().error(), None);
    }
}
