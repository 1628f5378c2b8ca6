//! The cases: each axis varied around one base case.

use std::fmt;

use weir::program::ProgramConfig;

use super::peers::Machine;

/// Cases of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// No programs: ports, huge pages, cores.
    Forwarding,
    /// Each program and all of them: flows, huge pages, cores.
    Programs,
    /// Length of frames, from a capture that all contenders read.
    Sizes,
    /// Traffic from outside: throughput, and latency under load.
    Load,
    /// Time to the first packet, and memory.
    Start,
}

impl Group {
    pub const ALL: [Self; 5] = [Self::Forwarding, Self::Programs, Self::Sizes, Self::Load, Self::Start];

    pub fn name(self) -> &'static str {
        match self {
            Self::Forwarding => "forwarding",
            Self::Programs => "programs",
            Self::Sizes => "sizes",
            Self::Load => "load",
            Self::Start => "start",
        }
    }
}

/// The program or kernel bridge that forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    /// `xconnect` with these programs.
    Weir(Vec<String>),
    /// The same without a program, and never asleep.
    WeirBusy,
    /// weir's switch, with MAC addresses swapped by the bench in front of it.
    WeirSwap,
    /// testpmd in this forwarding mode.
    Testpmd(&'static str),
    Ovs,
    /// A DPDK loop that counts flows by librte_member's sketch, with this sample rate in percent.
    Member(u8),
    /// DPDK's software switch pipeline, whose program forwards by the port.
    Swx,
    /// The kernel's bridge.
    Bridge,
}

impl Contender {
    pub fn is_weir(&self) -> bool {
        matches!(self, Self::Weir(_) | Self::WeirBusy | Self::WeirSwap)
    }

    /// Those that it is fairly compared with, the fairest first: what writes no byte with what
    /// writes none, everything else with the peer that touches each frame.
    pub fn fair_peers(&self) -> &'static [Self] {
        const IO: Contender = Contender::Testpmd("io");
        const MACSWAP: Contender = Contender::Testpmd("macswap");
        match self {
            Self::Testpmd(_) => &[],
            Self::Weir(programs) if programs.is_empty() => &[IO],
            Self::WeirBusy | Self::Bridge => &[IO],
            _ => &[MACSWAP, IO],
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weir(programs) if programs.is_empty() => f.write_str("weir"),
            Self::Weir(programs) if programs.len() > 1 && *programs == all_programs() => {
                f.write_str("weir + all programs")
            }
            Self::Weir(programs) => write!(f, "weir + {}", programs.join(" + ")),
            Self::WeirBusy => f.write_str("weir --busy-poll"),
            Self::WeirSwap => f.write_str("weir, MACs swapped"),
            Self::Testpmd(mode) => write!(f, "testpmd {mode}"),
            Self::Ovs => f.write_str("OVS-DPDK"),
            Self::Member(100) => f.write_str("librte_member sketch"),
            Self::Member(sample) => write!(f, "librte_member sketch, {sample} % sampled (NitroSketch)"),
            Self::Swx => f.write_str("SWX pipeline, no tables"),
            Self::Bridge => f.write_str("Linux bridge"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    Null,
    NullCopy,
    Ring,
    Pcap,
    Memif,
    Veth,
    /// AF_XDP at a veth pair.
    Xdp,
    Tap,
}

impl Port {
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::NullCopy => "null:copy=1",
            Self::Ring => "ring",
            Self::Pcap => "pcap",
            Self::Memif => "memif",
            Self::Veth => "veth",
            Self::Xdp => "xdp",
            Self::Tap => "tap",
        }
    }

    /// Whether it is between network namespaces, which needs root.
    pub fn is_of_the_kernel(self) -> bool {
        matches!(self, Self::Veth | Self::Xdp | Self::Tap)
    }
}

/// Lengths of frames, without FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Fixed(u16),
    Imix,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bytes) => write!(f, "{bytes}"),
            Self::Imix => f.write_str("imix"),
        }
    }
}

/// Under which conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub port: Port,
    pub size: Size,
    /// Without flows a null port's frames are all zero, and nothing is written into them.
    pub flows: Option<u32>,
    pub cores: usize,
    pub huge_pages: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub group: Group,
    pub contender: Contender,
    pub setting: Setting,
}

/// Flows of the base case, and of the other points of that axis.
const FLOWS: u32 = 100_000;
const OTHER_FLOWS: [u32; 3] = [1_000, 10_000, 1_000_000];
/// Flows of the capture, and of traffic from outside.
const CAPTURED_FLOWS: u32 = 10_000;
/// Of two cores; one core is the base case.
const CORES: usize = 2;
const BASE_SIZE: Size = Size::Fixed(64);
pub const SIZES: [Size; 3] = [BASE_SIZE, Size::Imix, Size::Fixed(1500)];

impl Case {
    /// The seconds that it takes for each round, beside those in which it is measured.
    pub fn overhead(&self) -> f64 {
        match (self.group, &self.contender) {
            (Group::Load, Contender::Ovs) => 8.0,
            (Group::Load, _) => 3.0,
            (Group::Start, Contender::Ovs) => 6.0,
            (Group::Start, _) => 1.5,
            (_, Contender::Ovs) => 5.0,
            (_, Contender::Testpmd(_)) => 1.0,
            _ => 0.8,
        }
    }

    /// Its peer among the others: the fairest that is there in a setting that differs in nothing
    /// that the peer notices.
    pub fn peer(&self, all: &[Self]) -> Option<usize> {
        let alike = |other: &Self| {
            let (mine, theirs) = (self.setting, other.setting);
            let same = (mine.port, mine.size, mine.cores, mine.huge_pages)
                == (theirs.port, theirs.size, theirs.cores, theirs.huge_pages);
            same && self.group.is_compared_with(other.group)
        };
        let find = |peer: &Contender| all.iter().position(|other| other.contender == *peer && alike(other));
        self.contender.fair_peers().iter().find_map(find)
    }

    pub fn matches(&self, words: &[String]) -> bool {
        let text = format!("{} {} {}", self.group.name(), self.setting.port.name(), self.contender);
        words.is_empty() || words.iter().any(|word| text.contains(word.as_str()))
    }
}

impl Group {
    /// Programs stand beside peers that run in the group without programs: these do not look at
    /// flows.
    fn is_compared_with(self, other: Self) -> bool {
        self == other || (self, other) == (Self::Programs, Self::Forwarding)
    }
}

/// All programs of the registry.
pub fn all_programs() -> Vec<String> {
    ProgramConfig::names().map(str::to_owned).collect()
}

/// None, each program alone, and all together if they are several.
fn program_sets() -> Vec<Vec<String>> {
    let all = all_programs();
    let mut sets = vec![Vec::new()];
    sets.extend(all.iter().map(|program| vec![program.clone()]));
    if all.len() > 1 {
        sets.push(all);
    }
    sets
}

/// The cases that this machine can run.
pub fn cases(machine: &Machine) -> Vec<Case> {
    let (base_huge, cpus) = (machine.huge_pages, machine.cpus);
    let base = Setting { port: Port::Null, size: BASE_SIZE, flows: None, cores: 1, huge_pages: base_huge };
    let mut cases = Vec::new();
    forwarding(&mut cases, base);
    programs(&mut cases, Setting { flows: Some(FLOWS), ..base });
    sizes(&mut cases, Setting { port: Port::Pcap, flows: Some(CAPTURED_FLOWS), ..base });
    load(&mut cases, Setting { flows: Some(CAPTURED_FLOWS), ..base });
    start(&mut cases, Setting { port: Port::Veth, ..base });
    cases.retain(|case| case.setting.cores <= cpus && machine.can(case));
    cases
}

fn forwarding(cases: &mut Vec<Case>, base: Setting) {
    use Contender::{Ovs, Testpmd, Weir, WeirSwap};
    let mut add = |contenders: &[Contender], setting: Setting| {
        let case = |contender: &Contender| Case { group: Group::Forwarding, contender: contender.clone(), setting };
        cases.extend(contenders.iter().map(case));
    };
    let weir = || Weir(Vec::new());
    let (io, macswap) = (Testpmd("io"), Testpmd("macswap"));
    let four = [weir(), WeirSwap, io.clone(), macswap.clone()];
    add(&[weir(), WeirSwap, io.clone(), macswap.clone(), Ovs], base);
    add(&[weir(), io.clone(), macswap.clone(), Ovs], Setting { port: Port::NullCopy, ..base });
    add(&[weir(), io, macswap], Setting { port: Port::Ring, ..base });
    if base.huge_pages {
        add(&four, Setting { huge_pages: false, ..base });
    }
    add(&four, Setting { cores: CORES, ..base });
}

fn programs(cases: &mut Vec<Case>, base: Setting) {
    let mut settings = vec![base];
    settings.extend(OTHER_FLOWS.map(|flows| Setting { flows: Some(flows), ..base }));
    settings.push(Setting { cores: CORES, ..base });
    let case = |programs, setting| Case { group: Group::Programs, contender: Contender::Weir(programs), setting };
    for setting in settings {
        cases.extend(program_sets().into_iter().map(|programs| case(programs, setting)));
    }
    if base.huge_pages {
        cases.push(case(all_programs(), Setting { huge_pages: false, ..base }));
    }
}

fn sizes(cases: &mut Vec<Case>, base: Setting) {
    for size in SIZES {
        let setting = Setting { size, ..base };
        let mut contenders: Vec<_> = program_sets().into_iter().map(Contender::Weir).collect();
        contenders.extend(["io", "macswap"].map(Contender::Testpmd));
        contenders.push(Contender::Ovs);
        if size == BASE_SIZE {
            contenders.extend([Contender::Member(100), Contender::Member(1), Contender::Swx]);
        }
        cases.extend(contenders.into_iter().map(|contender| Case { group: Group::Sizes, contender, setting }));
    }
}

fn load(cases: &mut Vec<Case>, base: Setting) {
    use Contender::{Bridge, Ovs, Testpmd, Weir, WeirBusy};
    let io = || Testpmd("io");
    let weir = || Weir(Vec::new());
    let all = || Weir(all_programs());
    for (port, contenders) in [
        (Port::Memif, vec![WeirBusy, weir(), all(), io()]),
        (Port::Veth, vec![WeirBusy, weir(), all(), io(), Ovs, Bridge]),
        (Port::Xdp, vec![weir(), all(), io()]),
        (Port::Tap, vec![weir(), all(), io()]),
    ] {
        let setting = Setting { port, ..base };
        cases.extend(contenders.into_iter().map(|contender| Case { group: Group::Load, contender, setting }));
    }
}

fn start(cases: &mut Vec<Case>, base: Setting) {
    let contenders = [
        Contender::Weir(Vec::new()),
        Contender::Weir(all_programs()),
        Contender::Testpmd("io"),
        Contender::Ovs,
        Contender::Bridge,
    ];
    let mut add = |contender: Contender, setting| cases.push(Case { group: Group::Start, contender, setting });
    for contender in contenders {
        if base.huge_pages && matches!(contender, Contender::Weir(_) | Contender::Testpmd(_)) {
            add(contender.clone(), Setting { huge_pages: false, ..base });
        }
        add(contender, base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(huge_pages: bool, cpus: usize) -> Vec<Case> {
        cases(&Machine { huge_pages, cpus, ..Machine::complete() })
    }

    fn find(cases: &[Case], group: Group, name: &str, setting: impl Fn(&Setting) -> bool) -> Case {
        let found = cases
            .iter()
            .find(|case| case.group == group && case.contender.to_string() == name && setting(&case.setting));
        found.unwrap_or_else(|| panic!("no {name} among {group:?}")).clone()
    }

    #[test]
    fn every_program_of_the_registry_is_measured_alone_and_with_all_others() {
        let cases = all(true, 2);
        for program in ProgramConfig::names() {
            let name = format!("weir + {program}");
            for flows in [1_000, 10_000, 100_000, 1_000_000] {
                find(&cases, Group::Programs, &name, |setting| setting.flows == Some(flows));
            }
            find(&cases, Group::Programs, &name, |setting| setting.cores == 2);
            for size in SIZES {
                find(&cases, Group::Sizes, &name, |setting| setting.size == size);
            }
        }
        find(&cases, Group::Programs, "weir + all programs", |setting| setting.flows == Some(FLOWS));
        find(&cases, Group::Programs, "weir + all programs", |setting| !setting.huge_pages);
    }

    #[test]
    fn no_case_is_there_twice() {
        let cases = all(true, 2);
        for (i, case) in cases.iter().enumerate() {
            assert!(!cases[..i].contains(case), "{case:?}");
        }
    }

    #[test]
    fn what_writes_nothing_is_compared_with_io_and_programs_with_macswap() {
        let cases = all(true, 2);
        let peer = |case: &Case| case.peer(&cases).map(|at| cases[at].clone());
        let huge = |setting: &Setting| setting.huge_pages && setting.cores == 1 && setting.port == Port::Null;
        let weir = find(&cases, Group::Forwarding, "weir", huge);
        assert_eq!(peer(&weir).unwrap().contender, Contender::Testpmd("io"));
        let swapped = find(&cases, Group::Forwarding, "weir, MACs swapped", |setting| !setting.huge_pages);
        let beside = peer(&swapped).unwrap();
        assert_eq!((beside.contender, beside.setting.huge_pages), (Contender::Testpmd("macswap"), false));
        let both = find(&cases, Group::Programs, "weir + all programs", |setting| setting.cores == 2);
        let beside = peer(&both).unwrap();
        assert_eq!((beside.contender, beside.setting.cores), (Contender::Testpmd("macswap"), 2));
        let long = find(&cases, Group::Sizes, "weir", |setting| setting.size == Size::Fixed(1500));
        assert_eq!(peer(&long).unwrap().setting, long.setting);
        assert_eq!(peer(&find(&cases, Group::Forwarding, "testpmd io", huge)), None);
    }

    #[test]
    fn what_a_machine_lacks_is_left_out() {
        let small = all(false, 1);
        assert!(small.iter().all(|case| !case.setting.huge_pages && case.setting.cores == 1));
        assert!(small.iter().all(|case| case.contender != Contender::Ovs), "it needs huge pages");
        let plain = Machine { testpmd: false, root: false, ..Machine::complete() };
        let plain = cases(&plain);
        assert!(plain.iter().all(|case| !matches!(case.contender, Contender::Testpmd(_))));
        assert!(plain.iter().all(|case| !case.setting.port.is_of_the_kernel()));
        assert!(plain.iter().any(|case| case.group == Group::Load), "memif needs no root");
    }

    #[test]
    fn words_choose_groups_ports_and_contenders() {
        let cases = all(true, 2);
        let chosen = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            cases.iter().filter(|case| case.matches(&words)).count()
        };
        assert_eq!(chosen(&[]), cases.len());
        assert_eq!(chosen(&["start"]), cases.iter().filter(|case| case.group == Group::Start).count());
        assert!(chosen(&["Linux bridge"]) == 2 && chosen(&["veth"]) > 2);
        assert_eq!(chosen(&["start", "sizes"]), chosen(&["start"]) + chosen(&["sizes"]));
        assert_eq!(chosen(&["no such"]), 0);
    }
}
