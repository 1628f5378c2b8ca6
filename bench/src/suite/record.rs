//! The record: the machine and a table for each group, as Markdown.

use std::fmt::Write;

use super::case::{Contender, Group, Setting, Size};
use super::generate::LOADS;
use super::measure::{Footprint, Outcome};
use super::results::{Measured, latency, lost, packets_per_second};
use crate::throughput::Spread;

/// The mean length of frames of the simple IMIX, without FCS.
const IMIX_MEAN: f64 = (7.0 * 60.0 + 4.0 * 590.0 + 1514.0) / 12.0;
/// Bytes of the frame check sequence.
const FCS: f64 = 4.0;
/// Loads whose latencies stand in a table; the picture has all.
const SHOWN: [u32; 4] = [10, 50, 90, 100];

/// What stands above the tables.
pub struct Head<'a> {
    pub date: &'a str,
    pub command: &'a str,
    /// Name and value.
    pub facts: &'a [(String, String)],
    pub missing: &'a [String],
    pub rounds: usize,
    /// Pictures by their file names, and what they show.
    pub pictures: &'a [(String, &'static str)],
}

/// The whole record.
pub fn record(head: &Head, all: &[Measured]) -> String {
    let mut text = format!("# Benchmarks, {}\n\n`{}`\n\n", head.date, head.command);
    text += "| | |\n| --- | --- |\n";
    for (name, value) in head.facts {
        text += &format!("| {name} | {} |\n", cell(value));
    }
    if !head.missing.is_empty() {
        text += "\nNot measured:\n\n";
        head.missing.iter().for_each(|words| text += &format!("- {words}\n"));
    }
    let rounds = super::rounds(head.rounds);
    text += &format!(
        "\nMedian (least–most) of {rounds}; in each, all cases run in turns. Ratios are to the peer named\n\
         beside them, in the same round. Frame lengths are without FCS; one core and huge pages unless the\n\
         table says otherwise, and each process was seen to have the pages that it says. Higher is\n\
         better, but for times and memory.\n"
    );
    for group in Group::ALL {
        let rows: Vec<_> = all.iter().filter(|measured| measured.case.group == group).collect();
        if !rows.is_empty() {
            text += &format!("\n## {}\n\n{}\n\n", title(group), explanation(group));
            for (picture, what) in head.pictures.iter().filter(|(name, _)| name.contains(group.name())) {
                text += &format!("![{what}]({picture})\n\n");
            }
            text += &table(group, &rows, all);
        }
    }
    text
}

fn title(group: Group) -> &'static str {
    match group {
        Group::Forwarding => "Forwarding without programs",
        Group::Programs => "Programs",
        Group::Sizes => "Length of frames",
        Group::Load => "Load from outside: throughput and latency",
        Group::Start => "Start and memory",
    }
}

fn explanation(group: Group) -> &'static str {
    match group {
        Group::Forwarding => {
            "64-byte frames; both directions added. `null` ports make packets from nothing and throw them away,\n\
             `null:copy=1` also copies each, a `ring` passes buffers round. weir joins the ports (`xconnect`) and\n\
             does not look into packets, as testpmd io. *MACs swapped* is weir's switch with a swap in front of\n\
             it in the bench's own loop: what testpmd macswap does. OVS finds a flow entry for each packet."
        }
        Group::Programs => {
            "64-byte frames from null ports, in which the bench writes the headers of the flows (`isp/burst`; this\n\
             costs about 5 cycles a packet and is counted); default parameters. The peer, testpmd on null ports,\n\
             writes no headers and sees no flows."
        }
        Group::Sizes => {
            "From an endless capture of 32 768 packets and 10 000 flows, which the pcap driver copies, to a null\n\
             port, for all contenders. The sketch keeps the 1000 heaviest flows at 1 % error in a DPDK loop of the\n\
             bench's; the SWX pipeline forwards by the port and is interpreted. Gbit/s count the FCS."
        }
        Group::Load => {
            "pktgen on a core of its own sends frames of 10 000 flows by one port and takes them back by the\n\
             other. *Throughput* is what comes back when it sends as fast as its port takes them; the generator\n\
             may be the limit. Then it sends at parts of that. Latency includes the generator's ports and its\n\
             bursts. testpmd has DPDK's drivers: af_packet for `veth`, af_xdp for `xdp`, which is AF_XDP at\n\
             the same veth pairs, and tap. The switch has one core but for what the kernel does for it."
        }
        Group::Start => {
            "From the start of the program to the first frame from veth to veth, with frames arriving 2000 times a\n\
             second; OVS with its empty database and configuration. Memory is that of the process 0.3 s later:\n\
             resident pages, and huge pages. The bridge is three `ip` commands."
        }
    }
}

/// The cells of a case.
type Row = fn(&Measured, &[Measured]) -> Vec<String>;

fn table(group: Group, rows: &[&Measured], all: &[Measured]) -> String {
    let (columns, row): (&[&str], Row) = match group {
        Group::Forwarding => {
            (&["port", "huge pages", "cores", "forwards", "M packets/s", "÷ peer", "peer"], forwarding)
        }
        Group::Programs => (&["flows", "huge pages", "cores", "forwards", "M packets/s", "÷ peer", "peer"], programs),
        Group::Sizes => (&["bytes", "forwards", "M packets/s", "Gbit/s", "÷ peer", "peer"], sizes),
        Group::Load => return load(rows, all),
        Group::Start => (&["forwards", "huge pages", "first frame, ms", "resident, MB", "huge pages, MB"], start),
    };
    let rows: Vec<_> = rows.iter().map(|measured| row(measured, all)).collect();
    markdown(columns, &rows)
}

/// A Markdown table.
fn markdown<S: AsRef<str>>(columns: &[S], rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    let mut line = |cells: Vec<String>| writeln!(text, "| {} |", cells.join(" | ")).expect("a string takes all");
    line(columns.iter().map(|column| column.as_ref().to_owned()).collect());
    line(columns.iter().map(|_| "---".to_owned()).collect());
    rows.iter().for_each(|row| line(row.iter().map(|value| cell(value)).collect()));
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn millions(measured: &Measured) -> String {
    let spread = measured.spread(|outcome| Some(packets_per_second(outcome)? / 1e6));
    match (spread, measured.failure()) {
        (Some(spread), None) => rounded(&spread),
        (Some(spread), Some(_)) => format!("{}, of {}", rounded(&spread), measured.outcomes.len()),
        (None, Some(failure)) => format!("failed: {failure}"),
        (None, None) => "–".into(),
    }
}

/// With as many digits as its size asks for.
fn rounded(spread: &Spread) -> String {
    match spread.median {
        median if median >= 10.0 => format!("{spread:.1}"),
        median if median >= 1.0 => format!("{spread:.2}"),
        _ => format!("{spread:.3}"),
    }
}

fn beside(measured: &Measured, all: &[Measured]) -> [String; 2] {
    let ratio = measured.ratio(all, packets_per_second).map_or(String::new(), |ratio| format!("{ratio:.2}"));
    let peer = measured.peer.map_or(String::new(), |peer| all[peer].case.contender.to_string());
    if ratio.is_empty() { Default::default() } else { [ratio, peer] }
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.into()
}

fn thousands(number: u32) -> String {
    match number {
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{} M", n / 1_000_000),
        n if n >= 1000 && n % 1000 == 0 => format!("{} k", n / 1000),
        n => n.to_string(),
    }
}

fn forwarding(measured: &Measured, all: &[Measured]) -> Vec<String> {
    let Setting { port, huge_pages, cores, .. } = measured.case.setting;
    let mut row = vec![port.name().into(), yes(huge_pages), cores.to_string(), measured.case.contender.to_string()];
    row.push(millions(measured));
    row.extend(beside(measured, all));
    row
}

fn programs(measured: &Measured, all: &[Measured]) -> Vec<String> {
    let flows = measured.case.setting.flows.map_or(String::new(), thousands);
    let mut row = forwarding(measured, all);
    row[0] = flows;
    row
}

fn sizes(measured: &Measured, all: &[Measured]) -> Vec<String> {
    let size = measured.case.setting.size;
    let bytes = FCS
        + match size {
            Size::Fixed(bytes) => f64::from(bytes),
            Size::Imix => IMIX_MEAN,
        };
    let gigabits = measured.spread(|outcome| Some(packets_per_second(outcome)? * bytes * 8.0 / 1e9));
    let gigabits = gigabits.map_or(String::new(), |spread| format!("{:.1}", spread.median));
    let mut row = vec![size.to_string(), measured.case.contender.to_string(), millions(measured), gigabits];
    row.extend(beside(measured, all));
    row
}

fn load(rows: &[&Measured], all: &[Measured]) -> String {
    let mut first = Vec::new();
    let mut second = Vec::new();
    for measured in rows {
        let name = [measured.case.setting.port.name().to_owned(), measured.case.contender.to_string()];
        let mut row = name.to_vec();
        row.push(millions(measured));
        row.extend(beside(measured, all));
        let percent =
            |load| measured.spread(lost(load)).map_or("–".into(), |lost| format!("{:.2}", lost.median * 100.0));
        row.extend([50, 100].map(percent));
        first.push(row);
        let at = |load| {
            let quantiles =
                [0, 1, 2].map(|place| measured.spread(latency(load, place)).map(|spread| micros(spread.median)));
            match quantiles {
                [Some(p50), Some(p99), Some(p999)] => format!("{p50} / {p99} / {p999}"),
                _ => "–".into(),
            }
        };
        let mut row = name.to_vec();
        row.extend(LOADS.into_iter().filter(|load| SHOWN.contains(load)).map(at));
        second.push(row);
    }
    let columns =
        ["port", "forwards", "throughput, M packets/s", "÷ peer", "peer", "lost at 50 %, %", "lost at 100 %, %"];
    let mut text = markdown(&columns, &first);
    text += "\nLatency in µs at parts of its throughput, p50 / p99 / p99.9, medians of rounds:\n\n";
    let mut columns = vec!["port".to_owned(), "forwards".to_owned()];
    columns.extend(SHOWN.map(|load| format!("{load} %")));
    text + &markdown(&columns, &second)
}

fn micros(us: f64) -> String {
    if us >= 100.0 { format!("{us:.0}") } else { format!("{us:.1}") }
}

fn start(measured: &Measured, _: &[Measured]) -> Vec<String> {
    let of = |value: fn(&Footprint) -> Option<f64>| {
        let spread = measured.spread(|outcome| match outcome {
            Outcome::Start(footprint) => value(footprint),
            _ => None,
        });
        spread.map_or("–".into(), |spread| format!("{spread:.0}"))
    };
    let first = match measured.failure() {
        Some(failure) if measured.outcomes.iter().all(Result::is_err) => format!("failed: {failure}"),
        _ => of(|footprint| Some(footprint.first_frame_seconds * 1e3)),
    };
    // The kernel's bridge has no pages of its own.
    let huge_pages = match measured.case.contender {
        Contender::Bridge => "–".into(),
        _ => yes(measured.case.setting.huge_pages),
    };
    vec![
        measured.case.contender.to_string(),
        huge_pages,
        first,
        of(|footprint| Some(footprint.resident_bytes? as f64 / 1e6)),
        of(|footprint| Some(footprint.huge_bytes? as f64 / 1e6)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::example;
    use super::*;

    fn text() -> String {
        let facts = [("CPU".to_owned(), "any | other".to_owned())];
        let missing = ["BMv2: not installed".to_owned()];
        let pictures = [("2026-11-23-forwarding.svg".to_owned(), "bars")];
        let head = Head {
            date: "2026-11-23",
            command: "bench suite",
            facts: &facts,
            missing: &missing,
            rounds: 3,
            pictures: &pictures,
        };
        record(&head, &example())
    }

    #[test]
    fn the_record_has_a_table_for_each_group_that_ran() {
        let text = text();
        for line in [
            "# Benchmarks, 2026-11-23",
            "| CPU | any \\| other |",
            "- BMv2: not installed",
            "![bars](2026-11-23-forwarding.svg)",
            "| null | yes | 1 | weir | 90.0 (60.0–100.0) | 1.00 (0.90–1.20) | testpmd io |",
            "| null | yes | 1 | testpmd io | 100.0 (50.0–100.0) |  |  |",
            "| 64 | OVS-DPDK | failed: no bridge \\| today |  |  |  |",
            "| veth | weir | 0.300 (0.300–0.300) |  |  | 0.50 | 1.00 |",
            "| veth | weir | 10.0 / 20.0 / 30.0 | 50.0 / 100 / 150 | 90.0 / 180 / 270 | 100 / 200 / 300 |",
            "| weir | yes | 250 (250–250) | 52 (52–52) | 134 (134–134) |",
        ] {
            assert!(text.lines().any(|printed| printed == line), "no line\n{line}\nin\n{text}");
        }
        assert!(!text.contains("## Programs"), "{text}");
    }

    #[test]
    fn every_row_has_as_many_cells_as_its_head() {
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        for table in text().split("\n\n").filter(|block| block.starts_with('|')) {
            let counts: Vec<_> = table.lines().map(cells).collect();
            assert!(counts.iter().all(|count| *count == counts[0]), "{table}");
        }
    }

    #[test]
    fn what_failed_in_one_round_of_several_says_so() {
        let mut all = example();
        all[0].outcomes[2] = Err("gone".into());
        assert_eq!(millions(&all[0]), "95.0 (90.0–100.0), of 3");
    }

    #[test]
    fn numbers_have_the_digits_that_they_need() {
        assert_eq!([1000, 100_000, 1_000_000, 1234].map(thousands), ["1 k", "100 k", "1 M", "1234"]);
        assert_eq!(rounded(&Spread { min: 0.2, median: 0.41, max: 0.6 }), "0.410 (0.200–0.600)");
        assert_eq!([3.12, 250.4].map(micros), ["3.1", "250"]);
    }
}
