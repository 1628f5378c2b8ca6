//! `weir show heavy`, `losses`, `flows`, `changes`, `cardinality`, `entropy`, `attention`, `paths`,
//! `latency`, `loops`, `utilisation`, `values`: what programs found, by epochs.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::output::{self, Cell, Format, Page, Table, row};
use super::{Failure, attention, claim, help, latency, loops, paths, utilisation, values};
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
    /// Prints the document at `path`.
    pub fn show<A: DeserializeOwned + Serialize>(
        &self,
        client: &Client,
        format: &Format,
        path: &str,
        page: fn(&Claimed<A>) -> Page,
    ) -> Result<(), Failure> {
        let program = self.program.as_ref().map_or_else(String::new, |program| format!("&program={program}"));
        let Self { top, threshold, provisional, .. } = self;
        let query = format!("{path}?top={top}&threshold={threshold}&provisional={provisional}{program}");
        if !self.each {
            let document = client.get(&format!("{query}&seconds={}", self.last.0.as_secs_f64()))?;
            return output::page(format, &document, page);
        }
        let newest: Claimed<A> = client.get(&format!("{query}&seconds=0"))?;
        let mut seen = newest.claim.sequence;
        let mut left = self.count.unwrap_or(u64::MAX);
        let mut is_first = true;
        while left > 0 {
            let document: Claimed<A> = client.get(&format!("{query}&since={seen}"))?;
            if document.claim.last_epoch.is_none() {
                std::thread::sleep(FOLLOW_EVERY);
                continue;
            }
            (seen, left) = (document.claim.sequence, left - 1);
            if !output::next_page(format, &document, page, is_first)? {
                break;
            }
            is_first = false;
        }
        Ok(())
    }
}

/// The flows that an answer does not name; nothing where it names all.
fn unnamed_text(omitted_flows: u64, named_from: u64, what: &str) -> String {
    let omitted = match omitted_flows {
        0 => String::new(),
        1 => "1 flow is not named".into(),
        n => format!("{} flows are not named", output::grouped(n)),
    };
    let small = if named_from > 1 {
        format!("{what} fewer than {} packets are not named", output::grouped(named_from))
    } else {
        String::new()
    };
    lines([omitted, small])
}

fn number(number: Option<f64>, digits: usize) -> Cell {
    Cell::or("too many to tell", number.map(|number| Cell::number(number, digits)))
}

/// Flows and their packets; `~` stands before a number that is not exact.
fn counted_table(flows: &[CountedFlow], heading: &str) -> Table {
    let rows = flows.iter().map(|counted| {
        let about = if counted.exact { "" } else { "~" };
        let packets = Cell::new(format!("{about}{}", output::grouped(counted.packets)), counted.packets);
        row![counted.name.to_string(), packets, Cell::new("", counted.exact)]
    });
    Table::new(["flow", heading, "|exact"], rows)
}

pub fn heavy_page(flows: &Claimed<view::HeavyFlows>) -> Page {
    let claimed = claim::text(&flows.claim, claim::all_of(Task::Heavy));
    let table = output::heavy_table(&flows.heavy, flows.unit).claimed(&flows.claim);
    let page = Page::default().table("heavy", table);
    if flows.claim.last_epoch.is_none() {
        return page.text(claimed);
    }
    let digests = output::digests(flows.heavy.iter().map(|heavy| &heavy.name));
    let page = if flows.heavy.is_empty() { page.text("no flow") } else { page };
    page.text(lines([format!("{}, {claimed}", flows.program), unnamed_text(flows.omitted_flows, 0, ""), digests]))
}

/// Those of these lines that say something.
fn lines<const N: usize>(lines: [String; N]) -> String {
    lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

pub fn losses_page(losses: &Claimed<view::Losses>) -> Page {
    let claimed = claim::text(&losses.claim, claim::all_of(Task::Losses));
    let [lost, gained] = [(&losses.losses, ">lost packets"), (&losses.gains, ">gained packets")]
        .map(|(flows, heading)| counted_table(flows, heading).claimed(&losses.claim));
    let page = Page::default().table("losses", lost).table("gains", gained);
    if losses.claim.last_epoch.is_none() {
        return page.text(claimed);
    }
    let digests = output::digests(losses.losses.iter().chain(&losses.gains).map(|counted| &counted.name));
    page.text(lines([losses_sum(losses), unnamed_text(losses.omitted_flows, 1, ""), digests, claimed]))
}

/// All losses in words.
fn losses_sum(losses: &Claimed<view::Losses>) -> String {
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
    sum
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

pub fn flows_page(sizes: &Claimed<view::FlowSizes>) -> Page {
    let claimed = claim::text(&sizes.claim, claim::all_of(Task::Flows));
    let rows = sizes
        .heavy
        .iter()
        .map(|heavy| row![heavy.name.to_string(), output::heavy_count(heavy), Cell::new("", heavy.at_least)]);
    let unit = if sizes.heavy.iter().any(|heavy| heavy.bytes.is_some()) { ">bytes" } else { ">packets" };
    let page = Page::default()
        .table("flows", Table::new(["flow", unit, "|at_least"], rows).claimed(&sizes.claim))
        .table("sizes", sizes_table(sizes).claimed(&sizes.claim));
    if sizes.claim.last_epoch.is_none() {
        return page.text(claimed);
    }
    if sizes.distribution.is_empty() && sizes.named_from_packets == 0 {
        // The program finds heavy flows alone.
        return page.text(lines([claimed, unnamed_text(sizes.omitted_flows, 0, "")]));
    }
    let (flows, entropy) = (number(sizes.flows, 0).text, number(sizes.entropy_bits, 3).text);
    let unnamed = unnamed_text(sizes.omitted_flows, sizes.named_from_packets, "flows of");
    let digests = output::digests(sizes.heavy.iter().map(|heavy| &heavy.name));
    page.text(lines([format!("{flows} flows, entropy {entropy} bits"), unnamed, digests, claimed]))
}

/// How many flows there are of each size, by powers of two.
fn sizes_table(sizes: &view::FlowSizes) -> Table {
    let mut classes = std::collections::BTreeMap::<u32, f64>::new();
    for class in &sizes.distribution {
        *classes.entry(class.packets.max(1).ilog2()).or_default() += class.flows;
    }
    let row = |(power, flows): (u32, f64)| {
        let (from, to) = (1u64 << power, (2u64 << power) - 1);
        let text = if from == to { format!("{from}") } else { format!("{from} to {to}") };
        row![Cell { text, values: vec![from.to_string(), to.to_string()] }, Cell::number(flows, 0)]
    };
    Table::new([">packets|from_packets,to_packets", ">flows"], classes.into_iter().map(row))
}

pub fn changes_page(changes: &Claimed<view::HeavyChanges>) -> Page {
    let claimed = claim::text(&changes.claim, claim::all_of(Task::Changes));
    let row = |change: &view::ChangedFlow| row![change.name.to_string(), change.before_packets, change.after_packets];
    let columns = ["flow", ">packets before|before_packets", ">and after|after_packets"];
    let table = Table::new(columns, changes.changes.iter().map(row)).claimed(&changes.claim);
    let unnamed = unnamed_text(changes.omitted_flows, changes.named_from_packets, "changes by");
    let digests = output::digests(changes.changes.iter().map(|change| &change.name));
    Page::default().table("changes", table).text(lines([claimed, unnamed, digests]))
}

/// Epochs that are shown of those that an answer has.
const ROWS: usize = 20;

/// One column of numbers, of the network and of each switch.
fn numbers_page(
    name: &str,
    numbers: &Claimed<view::Numbers>,
    heading: &str,
    of: impl Fn(Option<f64>, Option<f64>) -> Cell,
) -> Page {
    let all = if name == "cardinality" { claim::all_of(Task::Cardinality) } else { "of all flows" };
    let mut rows = Vec::new();
    for epoch in numbers.epochs.iter().rev().take(ROWS).rev() {
        let time = output::epoch(epoch.epoch.number, numbers.claim.epoch_ns);
        rows.push(row![time.clone(), "all", of(epoch.flows, epoch.entropy_bits)]);
        if epoch.switches.len() > 1 {
            let switch =
                |s: &view::SwitchNumbers| row![time.clone().repeated(true), &s.switch, of(s.flows, s.entropy_bits)];
            rows.extend(epoch.switches.iter().map(switch));
        }
    }
    let table = Table::new([output::EPOCH_START, "switch", heading], rows).keyed(2).claimed(&numbers.claim);
    Page::default().table(name, table).text(claim::text(&numbers.claim, all))
}

pub fn cardinality_page(numbers: &Claimed<view::Numbers>) -> Page {
    numbers_page("cardinality", numbers, ">flows", |flows, _| number(flows, 0))
}

pub fn entropy_page(numbers: &Claimed<view::Numbers>) -> Page {
    numbers_page("entropy", numbers, ">entropy, bits", |_, entropy| number(entropy, 4))
}

pub fn attention_page(attention: &Claimed<view::Attention>) -> Page {
    let claimed = claim::text(&attention.claim, claim::all_of(Task::Attention));
    let newest = &attention.epochs[attention.epochs.len().saturating_sub(ROWS)..];
    let table = attention::attention_table(newest, Some(attention.claim.epoch_ns), false);
    Page::default().table("attention", table.claimed(&attention.claim)).text(claimed)
}

/// The text in place of rows for tasks that packets answer only when a query asks. Empty where there
/// are rows, or no epoch has ended.
fn why_none(claim: &view::Claim, asked: Result<bool, &str>, none: &str) -> String {
    match asked {
        _ if claim.last_epoch.is_none() => String::new(),
        Err(what) => format!("not asked for: no query for {what} ran in these epochs"),
        Ok(true) => String::new(),
        Ok(false) => none.into(),
    }
}

pub fn paths_page(found: &Claimed<view::Paths>) -> Page {
    let claimed = claim::text(&found.claim, claim::all_of(Task::Paths));
    let asked = found.asked.then_some(!found.paths.is_empty()).ok_or("paths");
    let others = if asked == Ok(true) { others_text(found.omitted_flows, found.evicted_flows) } else { String::new() };
    Page::default()
        .table("paths", paths::paths_table(&found.paths).claimed(&found.claim))
        .text(why_none(&found.claim, asked, "no flow left the network"))
        .text(lines([claimed, others]))
}

pub fn latency_page(found: &Claimed<view::Latency>) -> Page {
    let claimed = claim::text(&found.claim, claim::all_of(Task::Latency));
    let asked = found.query.is_some().then_some(!found.latencies.is_empty()).ok_or("latencies");
    let table = latency::latency_table(&found.latencies).claimed(&found.claim);
    let page = Page::default().table("latency", table).text(why_none(&found.claim, asked, "no flow left the network"));
    if asked != Ok(true) {
        return page.text(claimed);
    }
    let query = found.query.as_deref().unwrap_or_default();
    let error = match values::off_text("ns", found.error_ns as f64, found.error_factor) {
        Some(off) => format!("{query}; times are {off}"),
        None => query.to_owned(),
    };
    let error = error + &latency::largest_text(found.largest_ns, &found.latencies);
    let window = found.window_seconds.map(|seconds| format!("samples are of the last {seconds} s of a flow"));
    let others = others_text(found.omitted_flows, found.evicted_flows);
    page.text(lines([error, window.unwrap_or_default(), claimed, others]))
}

pub fn loops_page(found: &Claimed<view::Loops>) -> Page {
    let claimed = claim::text(&found.claim, claim::all_of(Task::Loops));
    let asked = found.asked.then_some(!found.loops.is_empty()).ok_or("loops");
    let page = Page::default().table("loops", loops::loops_table(&found.loops).claimed(&found.claim)).text(why_none(
        &found.claim,
        asked,
        "no packet came back to a switch",
    ));
    if asked != Ok(true) {
        return page.text(claimed);
    }
    let told = |number, what: &str, how: &str| match number {
        0 => String::new(),
        number => format!("{} {how}", output::count(number, what)),
    };
    page.text(lines([
        claimed,
        told(found.omitted_loops, "loop", "not named"),
        told(found.evicted_loops, "loop", "made place for others"),
        told(found.missing_reports, "report", "of packets in loops found no room"),
    ]))
}

pub fn utilisation_page(found: &Claimed<view::Utilisation>) -> Page {
    let claimed = claim::text(&found.claim, claim::all_of(Task::Utilisation));
    let asked = found.query.is_some().then_some(!found.utilisations.is_empty()).ok_or("utilisations");
    let page = Page::default()
        .table("utilisation", utilisation::utilisation_table(&found.utilisations).claimed(&found.claim))
        .text(why_none(&found.claim, asked, "no packet told of a utilisation"));
    if asked != Ok(true) {
        return page.text(claimed);
    }
    let query = found.query.as_deref().unwrap_or_default();
    let error = format!("{query}; utilisations are off by a factor of {:.3} at most", found.error_factor);
    let error = error + &utilisation::largest_text(found.largest, &found.utilisations);
    page.text(lines([error, claimed, others_text(found.omitted_flows, found.evicted_flows)]))
}

pub fn values_page(found: &Claimed<view::Values>) -> Page {
    let claimed = claim::text(&found.claim, claim::all_of(Task::Values));
    let asked = (!found.values.is_empty()).then_some(true).ok_or("other values");
    let sum = |of: fn(&view::Value) -> u64| found.values.iter().map(of).sum();
    let others = others_text(sum(|value| value.omitted_flows), sum(|value| value.evicted_flows));
    values::values_page(&found.values)
        .claimed(&found.claim)
        .text(why_none(&found.claim, asked, ""))
        .text(lines([claimed, others]))
}

/// Flows that are not named, and those that made place for others; nothing where there are none.
fn others_text(omitted_flows: u64, evicted_flows: u64) -> String {
    let evicted = match evicted_flows {
        0 => String::new(),
        flows => format!("{} made place for others", output::count(flows, "flow")),
    };
    lines([unnamed_text(omitted_flows, 0, ""), evicted])
}

#[cfg(test)]
mod tests;
