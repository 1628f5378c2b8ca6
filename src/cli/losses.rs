//! `weir show losses`: which flows of a network lost how many packets.

use clap::Args;

use super::show::FOLLOW_EVERY;
use super::{Failure, output};
use crate::config::Length;
use crate::control::client::Client;
use crate::control::flows::LostFlow;
use crate::control::view::{EpochLosses, Losses};

#[derive(Debug, Args)]
pub struct ShowLosses {
    /// Name at most this many flows
    #[arg(long, default_value_t = 20, value_name = "K")]
    top: usize,
    /// Add up the epochs of this long; at least the last one
    #[arg(long, default_value = "10s", value_name = "LENGTH", conflicts_with = "each")]
    last: Length,
    /// Report each epoch as it closes, until interrupted; with --json one document a line
    #[arg(long)]
    each: bool,
    /// With --each: stop after so many epochs
    #[arg(long, value_name = "N", requires = "each")]
    count: Option<u64>,
}

impl ShowLosses {
    pub fn run(self, client: &Client, json: bool) -> Result<(), Failure> {
        if self.each {
            return self.follow(client, json);
        }
        let query = format!("/v1/losses?top={}&seconds={}", self.top, self.last.0.as_secs_f64());
        let losses: Losses = client.get(&query)?;
        if json { output::json(&losses) } else { output::print(&text(&losses)) }
    }

    /// From the newest epoch on.
    fn follow(self, client: &Client, json: bool) -> Result<(), Failure> {
        let newest: Losses = client.get("/v1/losses?top=0&seconds=0")?;
        let mut seen = newest.epochs.last().map_or(0, |epoch| epoch.epoch);
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            let losses: Losses = client.get(&format!("/v1/losses?top={}&after={seen}", self.top))?;
            let Some(epoch) = losses.epochs.last() else {
                std::thread::sleep(FOLLOW_EVERY);
                continue;
            };
            (seen, left) = (epoch.epoch, left - 1);
            let text = if json { serde_json::to_string(epoch).map_err(Failure::failed)? } else { epoch_text(epoch) };
            if !output::print_while_read(&text)? {
                break;
            }
        }
        Ok(())
    }
}

fn flow_name(lost: &LostFlow) -> String {
    lost.ipv6_digest.as_ref().map_or_else(|| lost.flow.to_string(), |digest| format!("ipv6 flow {digest}"))
}

fn table(flows: &[LostFlow]) -> String {
    let row = |(i, lost): (usize, &LostFlow)| [format!("{}", i + 1), flow_name(lost), lost.packets.to_string()];
    output::table([">#", "flow", ">lost packets"], flows.iter().enumerate().map(row))
}

fn gaps_text(epoch: &EpochLosses) -> String {
    epoch.gaps.iter().map(|gap| format!("{}: {}", gap.switch, gap.gap)).collect::<Vec<_>>().join("; ")
}

/// What an epoch's losses are known to be.
fn summary(epoch: &EpochLosses) -> String {
    match (epoch.lost_packets, epoch.losses_complete) {
        (None, _) => format!("unknown ({})", gaps_text(epoch)),
        (Some(0), true) => "none".into(),
        (Some(packets), true) => format!("{packets} packets"),
        (Some(packets), false) if epoch.gaps.is_empty() => format!("{packets} packets, not all of their flows found"),
        (Some(packets), false) => format!("{packets} packets ({})", gaps_text(epoch)),
    }
}

fn epoch_text(epoch: &EpochLosses) -> String {
    let mut text = format!("epoch {}, {}: lost {}", epoch.epoch, epoch.state, summary(epoch));
    if !epoch.losses.is_empty() {
        text += &format!("\n{}\n", table(&epoch.losses));
    }
    text
}

fn text(losses: &Losses) -> String {
    let unknown: Vec<_> = losses.epochs.iter().filter(|epoch| epoch.lost_packets.is_none()).collect();
    let known = losses.epochs.len() - unknown.len();
    let mut text = String::new();
    if !losses.losses.is_empty() {
        text = format!("{}\n\n", table(&losses.losses));
    }
    let all = if losses.losses_complete { "these are all" } else { "there may be more" };
    let packets = losses.lost_packets;
    text += &format!("{packets} packets lost in {known} epochs of {} ms; {all}", losses.epoch_ns as f64 / 1e6);
    if let Some(last) = unknown.last() {
        let n = unknown.len();
        text += &format!("\nunknown in {n} epochs, the last of them {}: {}", last.epoch, gaps_text(last));
    }
    text
}
