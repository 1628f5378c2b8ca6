//! The page of the task.

use super::{Evidence, LossPlace, PlaceName, Places, UnknownPlace};
use crate::answers::{Claimed, Task};
use crate::output::{self, Cell, Page, Table, row};

/// A link as `a:p → b:q`, a switch by its name.
fn place_text(switch: &str, port: Option<&str>, to: [Option<&str>; 2]) -> String {
    match (port, to) {
        (Some(port), [Some(to_switch), Some(to_port)]) => format!("{switch}:{port} → {to_switch}:{to_port}"),
        (_, [Some(to_switch), _]) => format!("{switch} → {to_switch}"),
        _ => format!("in {switch}"),
    }
}

/// Members of a group that its short name lists at most.
const NAMED_MEMBERS: usize = 4;

impl LossPlace {
    /// The name of the place as a text has it, of a group with its first members.
    pub fn short_name(&self) -> String {
        let switches: Vec<_> = self.switch.split(", ").collect();
        let hidden = match self.members.len() {
            0 => switches.len().saturating_sub(NAMED_MEMBERS),
            members => members.saturating_sub(NAMED_MEMBERS),
        };
        if self.kind != "group" || hidden == 0 {
            return self.text();
        }
        let members = self.members.iter().take(NAMED_MEMBERS).cloned().collect();
        let switch = switches[..switches.len().min(NAMED_MEMBERS)].join(", ");
        let first = Self { kind: self.kind.clone(), members, switch, ..Self::default() };
        format!("{} or {hidden} more", first.text())
    }

    fn text(&self) -> String {
        if !self.members.is_empty() {
            let names = self.members.iter().map(|PlaceName { switch, port, to_switch, to_port }| {
                place_text(switch, port.as_deref(), [to_switch.as_deref(), to_port.as_deref()])
            });
            return names.collect::<Vec<_>>().join(" or ");
        }
        if self.kind == "group" {
            return format!("{} or a link there", self.switch);
        }
        place_text(&self.switch, self.port.as_deref(), [self.to_switch.as_deref(), self.to_port.as_deref()])
    }

    fn row(&self, epoch_ns: u64) -> Vec<Cell> {
        let about = if self.exact { "" } else { "~" };
        let lost = Cell::new(format!("{about}{}", output::grouped(self.lost_packets)), self.lost_packets);
        let reasons: Vec<_> =
            self.reasons.iter().map(|of| format!("{} {}", of.reason, output::grouped(of.packets))).collect();
        row![
            self.text(),
            if self.failed { "failed" } else { "" },
            match self.evidence {
                Evidence::Counted => Cell::new("", self.evidence.name()),
                Evidence::Inferred => {
                    Cell::new(format!("inferred, {}", output::percent(self.confidence)), self.evidence.name())
                }
            },
            Cell::new("", self.confidence),
            lost,
            reasons.join(", "),
            self.sent_packets,
            Cell::share(self.rate),
            Cell::between([Some(self.rate_low), Some(self.rate_high)], output::percent),
            Cell::new(output::epoch_start(self.since.number, epoch_ns), self.since.number),
            Cell::new("", self.exact),
        ]
    }
}

impl UnknownPlace {
    fn text(&self) -> String {
        place_text(&self.switch, self.port.as_deref(), [self.to_switch.as_deref(), self.to_port.as_deref()])
    }
}

const COLUMNS: [&str; 11] = [
    "where",
    "state?",
    "evidence?",
    "|confidence",
    ">lost|lost_packets",
    "known reasons?|reasons",
    ">of|sent_packets",
    ">rate",
    "between|rate_low,rate_high",
    "since|since_epoch",
    "|exact",
];

impl Places {
    pub fn page(places: &Claimed<Self>) -> Page {
        let claimed = places.claim.text(Task::Places.all());
        let epoch_ns = places.claim.epoch_ns;
        let rows = places.places.iter().map(|place| place.row(epoch_ns));
        let table = Table::new(COLUMNS, rows).beside(&places.claim.columns());
        let page = Page::default().table("places", table);
        if places.claim.last_epoch.is_none() {
            return page.text(claimed);
        }
        let page = page.table("victims", places.victims_table()).table("ports", places.ports_table());
        page.text(output::lines([places.sum_text(), places.victims_text(), places.unknown_text(), claimed]))
    }

    fn victims_table(&self) -> Table {
        let rows = self.places.iter().flat_map(|place| {
            place.victims.iter().enumerate().map(move |(number, victim)| {
                let about = if victim.exact { "" } else { "~" };
                row![
                    Cell::from(place.text()).repeated(number > 0),
                    victim.name.to_string(),
                    Cell::new(format!("{about}{}", output::grouped(victim.packets)), victim.packets),
                    Cell::share(victim.confidence),
                ]
            })
        });
        Table::new(["where", "flow", ">lost packets", ">confidence"], rows)
    }

    fn ports_table(&self) -> Table {
        let rows = self
            .ports
            .iter()
            .map(|drops| row![format!("{}:{}", drops.switch, drops.port), &drops.reason, drops.packets]);
        Table::new(["port", "dropped as they came in|reason", ">packets"], rows)
    }

    /// All losses in words.
    fn sum_text(&self) -> String {
        let packets = |number: u64| output::count(number, "packet");
        let [links, switches] = [self.compared_links, self.compared_switches].map(output::grouped);
        let lost = packets(self.lost_packets);
        let mut sum = format!("{lost} lost; compared: {links} link directions, {switches} switches");
        if self.known_packets > 0 {
            sum += &format!("\n{} of these dropped for known reasons", packets(self.known_packets));
        }
        if self.gained_packets > 0 {
            sum +=
                &format!("\n{} gained: a link doubles packets, or a switch makes some", packets(self.gained_packets));
        }
        if self.omitted_places > 0 {
            sum += &format!("\nand {} places more that lost packets", output::grouped(self.omitted_places));
        }
        sum
    }

    /// The lines about flows that lost packets.
    fn victims_text(&self) -> String {
        let (Some(lost), Some(unplaced)) = (self.victim_packets, self.unplaced_packets) else {
            return "no program names the flows that lost packets".into();
        };
        let mut text = format!("flows lost {}", output::count(lost, "packet"));
        if unplaced > 0 {
            text += &format!(", {} of them in no place that was compared", output::grouped(unplaced));
        }
        if self.unnamed_epochs > 0 {
            text += &format!("; of {} they are not known", output::count(self.unnamed_epochs, "epoch"));
        }
        if !self.wrong_paths.is_empty() {
            text += &format!(
                "\n{} cannot have taken the path that it is believed to take: nothing on it lost packets of its group",
                output::count(self.wrong_paths.len() as u64, "flow")
            );
        }
        text
    }

    /// The lines about unknown places.
    fn unknown_text(&self) -> String {
        const SHOWN: usize = 4;
        let mut lines: Vec<String> = Vec::new();
        for unknown in self.unknown.iter().take(SHOWN) {
            lines.push(format!("unknown in {}: {}", output::count(unknown.epochs, "epoch"), unknown.text()));
        }
        if self.unknown.len() > SHOWN {
            lines.push(format!("and {} more", self.unknown.len() - SHOWN));
        }
        if !self.unlinked_ports.is_empty() {
            let shown: Vec<_> = self.unlinked_ports.iter().take(SHOWN).map(ToString::to_string).collect();
            let more = self.unlinked_ports.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            lines.push(format!("fabric ports whose other end is not known: {}{more}", shown.join(", ")));
        }
        lines.join("\n")
    }
}
