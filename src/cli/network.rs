//! `weir show heavy`, `losses`, `flows`, `changes`, `cardinality`, `entropy`, `attention`, `paths`,
//! `latency`, `loops`, `utilisation`, `values`: what programs found, by epochs.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Failure, attention, claim, help, latency, loops, output, paths, utilisation, values};
use crate::api::client::Client;
use crate::api::flows::CountedFlow;
use crate::api::view::{self, Claimed};
use crate::config::Length;
use crate::program::answers::Task;

/// How often a switch is asked whether an epoch has ended.
const FOLLOW_EVERY: Duration = Duration::from_millis(20);

/// Its group of options.
const EPOCHS: &str = "Flows and epochs";

/// The epochs asked for, and the number of flows.
#[derive(Debug, Args)]
pub struct Epochs {
    /// Name at most this many flows
    #[arg(long, default_value_t = 20, value_name = "K", help_heading = EPOCHS)]
    top: usize,
    /// Name only flows of at least this many packets (or bytes, where they are counted)
    #[arg(long, default_value_t = 1, value_name = "PACKETS", help_heading = EPOCHS)]
    threshold: u64,
    /// The epochs of this long; at least the last one
    #[arg(long, default_value = "10s", value_name = "LENGTH", conflicts_with = "each", help_heading = EPOCHS)]
    last: Length,
    /// Report each epoch once its answer is final, and again when late packets amend it, until
    /// interrupted; with --json one document a line
    #[arg(long, help_heading = EPOCHS)]
    each: bool,
    /// Answers that are not final yet as well: late packets may still change them
    #[arg(long, help_heading = EPOCHS)]
    provisional: bool,
    #[arg(
        long,
        value_name = "PROGRAM",
        help_heading = EPOCHS,
        help = help::of_programs("Ask this program; by default the first that can answer"),
        add = help::program_names(),
    )]
    program: Option<String>,
    /// With --each: stop after this many epochs
    #[arg(long, value_name = "N", requires = "each", help_heading = EPOCHS)]
    count: Option<u64>,
}

impl Epochs {
    /// Prints the document at `path`, as `text` or as JSON.
    pub fn show<A: DeserializeOwned + Serialize>(
        &self,
        client: &Client,
        json: bool,
        path: &str,
        text: fn(&Claimed<A>) -> String,
    ) -> Result<(), Failure> {
        let program = self.program.as_ref().map_or_else(String::new, |program| format!("&program={program}"));
        let Self { top, threshold, provisional, .. } = self;
        let query = format!("{path}?top={top}&threshold={threshold}&provisional={provisional}{program}");
        if !self.each {
            let document = client.get(&format!("{query}&seconds={}", self.last.0.as_secs_f64()))?;
            return output::document(json, &document, text);
        }
        let newest: Claimed<A> = client.get(&format!("{query}&seconds=0"))?;
        let mut seen = newest.claim.sequence;
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            let document: Claimed<A> = client.get(&format!("{query}&since={seen}"))?;
            if document.claim.last_epoch.is_none() {
                std::thread::sleep(FOLLOW_EVERY);
                continue;
            }
            (seen, left) = (document.claim.sequence, left - 1);
            let line = serde_json::to_string(&document).map_err(Failure::failed);
            let text = if json { line? } else { format!("{}\n", text(&document)) };
            if !output::print_while_read(&text)? {
                break;
            }
        }
        Ok(())
    }
}

/// The flows that an answer does not name.
fn unnamed_text(omitted_flows: u64, named_from: u64, what: &str) -> String {
    let omitted = match omitted_flows {
        0 => String::new(),
        1 => "\n1 flow is not named".into(),
        n => format!("\n{} flows are not named", output::grouped(n)),
    };
    let small = if named_from > 1 {
        format!("\n{what} fewer than {} packets are not named", output::grouped(named_from))
    } else {
        String::new()
    };
    omitted + &small
}

fn number(number: Option<f64>, digits: usize) -> String {
    number.map_or("too many to tell".into(), |number| format!("{number:.digits$}"))
}

/// Flows and their packets; `~` stands before a number that is not exact.
fn counted_table(flows: &[CountedFlow], heading: &str) -> String {
    let rows = flows.iter().map(|counted| {
        let about = if counted.exact { "" } else { "~" };
        [counted.name.to_string(), format!("{about}{}", output::grouped(counted.packets))]
    });
    output::table(["flow", heading], rows)
}

pub fn heavy_text(flows: &Claimed<view::HeavyFlows>) -> String {
    let claimed = claim::text(&flows.claim, claim::all_of(Task::Heavy));
    if flows.claim.last_epoch.is_none() {
        return claimed;
    }
    let digests = output::digests(flows.heavy.iter().map(|heavy| &heavy.name));
    let unnamed = unnamed_text(flows.omitted_flows, 0, "") + &digests;
    if flows.heavy.is_empty() {
        return format!("no flow\n\n{}, {claimed}{unnamed}", flows.program);
    }
    format!("{}\n\n{}, {claimed}{unnamed}", output::heavy_table(&flows.heavy, flows.unit), flows.program)
}

pub fn losses_text(losses: &Claimed<view::Losses>) -> String {
    let claimed = claim::text(&losses.claim, claim::all_of(Task::Losses));
    if losses.claim.last_epoch.is_none() {
        return claimed;
    }
    let unknown = match losses.unknown_epochs {
        0 => String::new(),
        1 => "; 1 epoch is unknown".into(),
        n => format!("; {n} epochs are unknown"),
    };
    let packets = |number: u64| output::count(number, "packet");
    let flows = |number: u64| output::count(number, "flow");
    let or_later = losses
        .claim
        .lost_after_ns
        .map_or_else(String::new, |after| format!(" or later than {:.0} ms", after as f64 / 1e6));
    let (lost, victims) = (packets(losses.lost_packets), flows(losses.victims));
    let mut sum = format!("{lost} lost{or_later}, {victims} found{unknown}");
    if losses.late_packets > 0 {
        sum += &format!("\nof these, {} left later and are not lost", packets(losses.late_packets));
    }
    if losses.gained_packets > 0 {
        let (packets, flows) = (packets(losses.gained_packets), flows(losses.gained_flows));
        sum += &format!("\n{packets} gained, {flows} found: more left than entered");
    }
    if losses.lost_packets == losses.late_packets {
        sum += &last_loss_text(losses);
    }
    let digests = output::digests(losses.losses.iter().chain(&losses.gains).map(|counted| &counted.name));
    sum += &format!("{}{digests}\n{claimed}", unnamed_text(losses.omitted_flows, 1, ""));
    let mut parts = Vec::new();
    if !losses.losses.is_empty() {
        parts.push(counted_table(&losses.losses, ">lost packets"));
    }
    if !losses.gains.is_empty() {
        parts.push(counted_table(&losses.gains, ">gained packets"));
    }
    parts.push(sum);
    parts.join("\n\n")
}

/// When packets were lost before the epochs that were asked for.
fn last_loss_text(losses: &Claimed<view::Losses>) -> String {
    let (Some(last), Some(first)) = (&losses.last_loss, losses.claim.first_epoch) else { return String::new() };
    let epoch_ns = losses.claim.epoch_ns;
    format!(
        "\nthe last loss before: {} in the epoch from {} UTC, {:.1} s earlier",
        output::count(last.lost_packets, "packet"),
        output::epoch_start(last.epoch.number, epoch_ns),
        first.saturating_sub(last.epoch.number).saturating_mul(epoch_ns) as f64 / 1e9
    )
}

pub fn flows_text(sizes: &Claimed<view::FlowSizes>) -> String {
    let claimed = claim::text(&sizes.claim, claim::all_of(Task::Flows));
    if sizes.claim.last_epoch.is_none() {
        return claimed;
    }
    let rows = sizes.heavy.iter().map(|heavy| [heavy.name.to_string(), output::heavy_count(heavy)]);
    let unit = if sizes.heavy.iter().any(|heavy| heavy.bytes.is_some()) { ">bytes" } else { ">packets" };
    let heavy = output::table(["flow", unit], rows);
    let digests = output::digests(sizes.heavy.iter().map(|heavy| &heavy.name));
    if sizes.distribution.is_empty() && sizes.named_from_packets == 0 {
        // The program finds heavy flows alone.
        return format!("{heavy}\n\n{claimed}{}", unnamed_text(sizes.omitted_flows, 0, ""));
    }
    // Sizes by powers of two.
    let mut classes = std::collections::BTreeMap::<u32, f64>::new();
    for class in &sizes.distribution {
        *classes.entry(class.packets.max(1).ilog2()).or_default() += class.flows;
    }
    let row = |(power, flows): (u32, f64)| {
        let (from, to) = (1u64 << power, (2u64 << power) - 1);
        [if from == to { format!("{from}") } else { format!("{from} to {to}") }, format!("{flows:.0}")]
    };
    let distribution = output::table([">packets", ">flows"], classes.into_iter().map(row));
    let (flows, entropy) = (number(sizes.flows, 0), number(sizes.entropy_bits, 3));
    let unnamed = unnamed_text(sizes.omitted_flows, sizes.named_from_packets, "flows of");
    format!("{heavy}\n\n{distribution}\n\n{flows} flows, entropy {entropy} bits{unnamed}{digests}\n{claimed}")
}

pub fn changes_text(changes: &Claimed<view::HeavyChanges>) -> String {
    let claimed = claim::text(&changes.claim, claim::all_of(Task::Changes));
    let row = |change: &view::ChangedFlow| {
        [change.name.to_string(), output::grouped(change.before_packets), output::grouped(change.after_packets)]
    };
    let unnamed = unnamed_text(changes.omitted_flows, changes.named_from_packets, "changes by");
    if changes.changes.is_empty() {
        return format!("{claimed}{unnamed}");
    }
    let table = output::table(["flow", ">packets before", ">and after"], changes.changes.iter().map(row));
    let digests = output::digests(changes.changes.iter().map(|change| &change.name));
    format!("{table}\n\n{claimed}{unnamed}{digests}")
}

/// Epochs that are shown of those that an answer has.
const ROWS: usize = 20;

/// One column of numbers, of the network and of each switch.
fn numbers_text(
    numbers: &Claimed<view::Numbers>,
    heading: &str,
    of: impl Fn(Option<f64>, Option<f64>) -> String,
) -> String {
    let all = if heading == "flows" { claim::all_of(Task::Cardinality) } else { "of all flows" };
    let claimed = claim::text(&numbers.claim, all);
    let mut rows = Vec::new();
    for epoch in numbers.epochs.iter().rev().take(ROWS).rev() {
        let time = output::epoch_start(epoch.epoch.number, numbers.claim.epoch_ns);
        rows.push([time, "all".into(), of(epoch.flows, epoch.entropy_bits)]);
        if epoch.switches.len() > 1 {
            let switch = |s: &view::SwitchNumbers| [String::new(), s.switch.clone(), of(s.flows, s.entropy_bits)];
            rows.extend(epoch.switches.iter().map(switch));
        }
    }
    if rows.is_empty() {
        return claimed;
    }
    format!("{}\n\n{claimed}", output::table([output::EPOCH_START, "switch", &format!(">{heading}")], rows))
}

pub fn cardinality_text(numbers: &Claimed<view::Numbers>) -> String {
    numbers_text(numbers, "flows", |flows, _| number(flows, 0))
}

pub fn entropy_text(numbers: &Claimed<view::Numbers>) -> String {
    numbers_text(numbers, "entropy, bits", |_, entropy| number(entropy, 4))
}

pub fn attention_text(attention: &Claimed<view::Attention>) -> String {
    let claimed = claim::text(&attention.claim, claim::all_of(Task::Attention));
    if attention.epochs.is_empty() {
        return claimed;
    }
    let newest = &attention.epochs[attention.epochs.len().saturating_sub(ROWS)..];
    let table = attention::attention_table(newest, Some(attention.claim.epoch_ns), false);
    format!("{table}\n\n{claimed}")
}

/// An answer without any number, because nothing asks packets for these.
fn not_asked(what: &str, claimed: &str) -> String {
    format!("not asked for: no query for {what} ran in these epochs\n\n{claimed}")
}

pub fn paths_text(found: &Claimed<view::Paths>) -> String {
    let claimed = claim::text(&found.claim, claim::all_of(Task::Paths));
    if found.claim.last_epoch.is_none() {
        return claimed;
    }
    if !found.asked {
        return not_asked("paths", &claimed);
    }
    if found.paths.is_empty() {
        return format!("no flow left the network\n\n{claimed}");
    }
    let evicted = evicted_text(found.evicted_flows);
    let unnamed = unnamed_text(found.omitted_flows, 0, "");
    format!("{}\n\n{claimed}{unnamed}{evicted}", paths::paths_table(&found.paths))
}

pub fn latency_text(found: &Claimed<view::Latency>) -> String {
    let claimed = claim::text(&found.claim, claim::all_of(Task::Latency));
    if found.claim.last_epoch.is_none() {
        return claimed;
    }
    if found.query.is_none() {
        return not_asked("latencies", &claimed);
    }
    if found.latencies.is_empty() {
        return format!("no flow left the network\n\n{claimed}");
    }
    let evicted = evicted_text(found.evicted_flows);
    let unnamed = unnamed_text(found.omitted_flows, 0, "");
    let query = found.query.as_deref().unwrap_or_default();
    let error = match values::off_text("ns", found.error_ns as f64, found.error_factor) {
        Some(off) => format!("{query}; times are {off}"),
        None => query.to_owned(),
    };
    let error = error + &latency::largest_text(found.largest_ns, &found.latencies);
    let window = found.window_seconds.map(|seconds| format!("\nsamples are of the last {seconds} s of a flow"));
    let window = window.unwrap_or_default();
    format!("{}\n\n{error}{window}\n{claimed}{unnamed}{evicted}", latency::latency_table(&found.latencies))
}

pub fn loops_text(found: &Claimed<view::Loops>) -> String {
    let claimed = claim::text(&found.claim, claim::all_of(Task::Loops));
    if found.claim.last_epoch.is_none() {
        return claimed;
    }
    if !found.asked {
        return not_asked("loops", &claimed);
    }
    if found.loops.is_empty() {
        return format!("no packet came back to a switch\n\n{claimed}");
    }
    let told = |number, what: &str, how: &str| match number {
        0 => String::new(),
        number => format!("\n{} {how}", output::count(number, what)),
    };
    let unnamed = told(found.omitted_loops, "loop", "not named");
    let evicted = told(found.evicted_loops, "loop", "made place for others");
    let missing = told(found.missing_reports, "report", "of packets in loops found no room");
    format!("{}\n\n{claimed}{unnamed}{evicted}{missing}", loops::loops_table(&found.loops))
}

pub fn utilisation_text(found: &Claimed<view::Utilisation>) -> String {
    let claimed = claim::text(&found.claim, claim::all_of(Task::Utilisation));
    if found.claim.last_epoch.is_none() {
        return claimed;
    }
    if found.query.is_none() {
        return not_asked("utilisations", &claimed);
    }
    if found.utilisations.is_empty() {
        return format!("no packet told of a utilisation\n\n{claimed}");
    }
    let evicted = evicted_text(found.evicted_flows);
    let unnamed = unnamed_text(found.omitted_flows, 0, "");
    let query = found.query.as_deref().unwrap_or_default();
    let error = format!("{query}; utilisations are off by a factor of {:.3} at most", found.error_factor);
    let error = error + &utilisation::largest_text(found.largest, &found.utilisations);
    format!("{}\n\n{error}\n{claimed}{unnamed}{evicted}", utilisation::utilisation_table(&found.utilisations))
}

pub fn values_text(found: &Claimed<view::Values>) -> String {
    let claimed = claim::text(&found.claim, claim::all_of(Task::Values));
    if found.claim.last_epoch.is_none() {
        return claimed;
    }
    if found.values.is_empty() {
        return not_asked("other values", &claimed);
    }
    let sum = |of: fn(&view::Value) -> u64| found.values.iter().map(of).sum();
    let evicted = evicted_text(sum(|value| value.evicted_flows));
    let unnamed = unnamed_text(sum(|value| value.omitted_flows), 0, "");
    format!("{}\n\n{claimed}{unnamed}{evicted}", values::values_tables(&found.values))
}

/// Flows that made place for others, on a line of their own; nothing where there are none.
fn evicted_text(evicted: u64) -> String {
    match evicted {
        0 => String::new(),
        flows => format!("\n{} made place for others", output::count(flows, "flow")),
    }
}

#[cfg(test)]
mod tests;
