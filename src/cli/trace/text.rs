//! A traced packet, to be read by a person.

use crate::api::view::packet::{Lookup, Output, Packet, PacketHeaders};
use crate::cli::output::{at_least, grouped, time_of};
use crate::observe::ProgramTrace;
use crate::pisa::AccessTrace;

/// Widths of the two columns in front.
const PART: usize = 11;
const STEP: usize = 12;

/// Bytes shown of a frame that was rewritten.
const SHOWN: usize = 32;

/// Colours, on a terminal alone.
struct Page {
    text: String,
    colours: bool,
    part: String,
}

impl Page {
    fn new() -> Self {
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
        let colours = terminal && std::env::var_os("NO_COLOR").is_none();
        Self { text: String::new(), colours, part: String::new() }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }

    fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Begins a part of the pipeline.
    fn part(&mut self, name: &str) {
        self.text += "\n";
        self.part = name.into();
    }

    /// One line: the part's name before its first, the step, and what there is to say.
    fn line(&mut self, step: &str, what: &str) {
        let mut part = std::mem::take(&mut self.part);
        if part.len() >= PART {
            part.push(' ');
        }
        let (part, step) = (self.bold(&format!("{part:PART$}")), self.dim(&format!("{step:STEP$}")));
        let line = format!("{part}{step}{what}");
        self.text += line.trim_end();
        self.text += "\n";
    }
}

/// The whole way. `what` begins the first sentence.
pub fn text(packet: &Packet, what: &str) -> String {
    let mut page = Page::new();
    let bytes = grouped(packet.wire_bytes);
    let at = if packet.at_ns == 0 { String::new() } else { format!(", {}", time_of(packet.at_ns)) };
    page.text += &page.bold(&format!("{what}: {bytes} bytes in by port {}{at}", packet.port));
    page.text += "\n";
    parsed(&mut page, packet.headers.as_ref());
    if let Some(inner) = &packet.inner {
        page.line("inner", &format!("{inner}, the flow inside the tunnel, which programs have"));
    }
    looked_up(&mut page, "access", packet.lookups.iter().filter(|lookup| lookup.table == "acl"));
    // A program with egress stages alone is shown there.
    let here = packet.programs.iter().filter(|program| !program.stages.is_empty() || program.egress_stages.is_empty());
    here.for_each(|program| measured(&mut page, program));
    looked_up(&mut page, "forward", packet.lookups.iter().filter(|lookup| lookup.table != "acl"));
    for program in packet.programs.iter().filter(|program| !program.egress_stages.is_empty()) {
        page.part("egress");
        page.line("program", &program.program);
        drawn(&mut page, program.egress_draw);
        stages(&mut page, &program.egress_stages);
    }
    ended(&mut page, packet);
    page.text.trim_end().into()
}

fn parsed(page: &mut Page, headers: Option<&PacketHeaders>) {
    page.part("parse");
    let Some(h) = headers else { return page.line("runt", "shorter than an Ethernet header") };
    page.line("ethernet", &format!("{} → {}, type 0x{:04x}", h.src_mac, h.dst_mac, h.ethertype));
    if h.shim {
        page.line("shim", "from another weir");
    }
    for vlan in &h.vlans {
        page.line("vlan", &vlan.to_string());
    }
    if let (Some(net), Some(src), Some(dst), Some(proto)) = (&h.net, h.src, h.dst, h.proto) {
        let piece = match h.fragment.as_deref() {
            Some("first") => ", first fragment",
            Some("later") => ", later fragment: no ports",
            _ => "",
        };
        page.line(net, &format!("{src} → {dst}, protocol {proto}, TTL {}{piece}", h.ttl.unwrap_or_default()));
        if let (Some(sport), Some(dport)) = (h.sport, h.dport) {
            page.line(if proto == 6 { "tcp" } else { "udp" }, &format!("port {sport} → {dport}"));
        }
    }
}

fn measured(page: &mut Page, program: &ProgramTrace) {
    page.part(&program.program);
    if program.stages.is_empty() {
        return page.line("", "does not measure this packet");
    }
    drawn(page, program.draw);
    stages(page, &program.stages);
    if program.flow_estimate > 0 {
        let estimate = at_least(program.at_least) + &grouped(program.flow_estimate);
        page.line("estimate", &format!("{estimate} so far for the packet's own flow"));
    }
}

/// The packet's random number.
fn drawn(page: &mut Page, draw: Option<u32>) {
    if let Some(draw) = draw {
        page.line("draw", &format!("{draw:#010x}, the packet's random number"));
    }
}

fn stages(page: &mut Page, stages: &[Vec<AccessTrace>]) {
    let untouched =
        |stage: &Vec<AccessTrace>| stage.iter().all(|access| access.cell.is_none() && access.computed.is_none());
    let number = |stage: &Vec<AccessTrace>| stage.first().and_then(|access| access.logical);
    for alike in stages.chunk_by(|one, next| untouched(one) && untouched(next)) {
        let mut name = match (alike.first().and_then(number), alike.last().and_then(number)) {
            (Some(first), Some(last)) if first < last => format!("stages {first}-{last}"),
            (Some(only), _) => format!("stage {only}"),
            (None, _) => "no array".into(),
        };
        if alike.iter().all(untouched) {
            page.line(&name, "no match: memory is not touched");
            continue;
        }
        for access in alike.iter().flatten() {
            touched(page, &std::mem::take(&mut name), access);
        }
    }
}

fn touched(page: &mut Page, stage: &str, access: &AccessTrace) {
    if let Some(computed) = &access.computed {
        return page.line(stage, &format!("{}: {computed}", access.array));
    }
    let Some(cell) = &access.cell else {
        return page.line(stage, &format!("{}: no match, memory is not touched", access.array));
    };
    let array = page.bold(&format!("{}[{}]", access.array, cell.slot));
    // Without a hash a field of the packet names the slot.
    let by = match access.hash_bits {
        0 => String::new(),
        bits => format!(", slot by {bits} bits of hash"),
    };
    page.line(stage, &format!("{array}{by}"));
    if cell.before == cell.after {
        page.line("  keeps", &cell.before);
    } else {
        page.line("  before", &page.paint("31", &cell.before));
        page.line("  after", &page.paint("32", &cell.after));
    }
    page.line("  output", &cell.output);
}

fn looked_up<'a>(page: &mut Page, part: &str, lookups: impl Iterator<Item = &'a Lookup>) {
    for (i, lookup) in lookups.enumerate() {
        if i == 0 {
            page.part(part);
        }
        let found = match (&lookup.entry, &lookup.port) {
            (Some(entry), Some(port)) => format!("{entry}, port {port}"),
            (Some(entry), None) => entry.clone(),
            (None, _) => page.paint("33", "miss"),
        };
        page.line(&lookup.table, &format!("{}: {found}", lookup.key));
        page.line("  action", &lookup.action);
    }
}

fn ended(page: &mut Page, packet: &Packet) {
    page.part("verdict");
    match packet.verdict.as_deref() {
        None => page.line("none", "it was not let in"),
        Some("flood") => page.line("flood", "to every other port that is up"),
        Some(verdict) => page.line(verdict, packet.egress.as_deref().unwrap_or_default()),
    }
    for output in &packet.outputs {
        sent(page, packet, output);
    }
    for drop in &packet.drops {
        let copies = if drop.packets > 1 { format!(", {} copies", drop.packets) } else { String::new() };
        page.line("dropped", &page.paint("31", &format!("{}{copies}", drop.reason)));
    }
}

fn sent(page: &mut Page, packet: &Packet, output: &Output) {
    let port = page.paint("32", &format!("port {}", output.port));
    if !output.rewritten {
        return page.line("out", &format!("{port}, as it came in"));
    }
    page.line("out", &format!("{port}, {} bytes, rewritten", grouped(output.frame.len() as u64 / 2)));
    page.line("  from", &start(&packet.frame));
    page.line("  to", &start(&output.frame));
}

/// The first bytes of a frame, the addresses and what follows apart.
fn start(hex: &str) -> String {
    let shown = hex.get(..2 * SHOWN).unwrap_or(hex);
    let mut text = String::new();
    for (i, digit) in shown.chars().enumerate() {
        if matches!(i, 12 | 24) || (i > 24 && i % 4 == 0) {
            text.push(' ');
        }
        text.push(digit);
    }
    if shown.len() < hex.len() { text + " …" } else { text }
}
