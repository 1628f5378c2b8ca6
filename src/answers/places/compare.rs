//! An epoch's rows at both ends of each link, and at all ports of each switch: what lies between them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::links::{Links, PortName};
use super::rows::{CountedPort, LatePacket, SwitchRows};
use crate::history::{Gap, SwitchGap};
use crate::pisa::{DropAt, PortId};

/// Where packets can be lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// A direction of a link.
    Link { from: PortName, to: PortName },
    /// A direction of a link between two switches, or of several, whose ports are not known.
    Hop([Arc<str>; 2]),
    /// Between the ports of a switch.
    Switch(Arc<str>),
    /// Switches that did not report, with all their links: what they lost is not told apart.
    Around(Vec<Arc<str>>),
}

impl Member {
    /// Whether a packet that crosses these switches, one after the other, crosses it.
    pub fn is_on(&self, path: &[Arc<str>]) -> bool {
        match self {
            Self::Switch(switch) => path.contains(switch),
            Self::Link { from, to } => path.windows(2).any(|pair| pair[0] == from.switch && pair[1] == to.switch),
            Self::Hop(ends) => path.windows(2).any(|pair| pair == ends),
            Self::Around(switches) => switches.iter().any(|switch| path.contains(switch)),
        }
    }

    /// Whether it is what lies around switches that do not report, and the other one is one of these or a link of
    /// theirs.
    pub fn surrounds(&self, other: &Self) -> bool {
        let Self::Around(switches) = self else { return false };
        match other {
            Self::Switch(switch) => switches.contains(switch),
            Self::Link { from, to } => switches.contains(&from.switch) || switches.contains(&to.switch),
            Self::Hop(ends) => ends.iter().any(|end| switches.contains(end)),
            Self::Around(others) => switches == others,
        }
    }
}

/// Losses of a member in an epoch.
#[derive(Clone, Debug)]
pub struct Compared {
    pub member: Member,
    /// By group: packets that went in and did not come out, of those that were not late.
    pub missing: Vec<i64>,
    pub lost: u64,
    /// Packets that came out and did not go in. They may hide as many lost ones.
    pub gained: u64,
    pub least: u64,
    /// `None` where packets that were gained may hide any number.
    pub most: Option<u64>,
    /// Packets that went in.
    pub sent: u64,
    /// Dropped there, by reason.
    pub known: BTreeMap<&'static str, u64>,
    pub is_full: bool,
}

/// Late packets of an epoch, by switch, whether they left, and port.
#[derive(Debug, Default)]
pub struct LateCounts(HashMap<(u64, Arc<str>, bool, PortId), u64>);

impl LateCounts {
    pub fn add(&mut self, switch: Arc<str>, late: LatePacket) {
        let LatePacket { epoch, leaves, port, packets } = late;
        *self.0.entry((epoch, switch, leaves, port)).or_default() += packets;
    }

    fn at(&self, epoch: u64, switch: &Arc<str>, leaves: bool, port: PortId) -> u64 {
        self.0.get(&(epoch, switch.clone(), leaves, port)).copied().unwrap_or_default()
    }

    /// Of all ports, and of the switch itself.
    fn of_switch(&self, epoch: u64, rows: &SwitchRows, leaves: bool) -> u64 {
        (0..=rows.own_port()).map(|port| self.at(epoch, &rows.switch, leaves, port)).sum()
    }
}

/// Packets of a switch that the rows of an epoch may lack.
pub fn uncertain(gaps: &[SwitchGap], switch: &str) -> u64 {
    let own = gaps.iter().filter(|gap| *gap.switch == *switch);
    own.map(|gap| match gap.gap {
        Gap::Strays { packets } | Gap::Unplaced { packets } | Gap::Unfollowed { packets } => packets,
        _ => 0,
    })
    .sum()
}

/// Whether what a switch counted in an epoch cannot be relied on.
fn is_doubtful(gaps: &[SwitchGap], switch: &str) -> bool {
    let is_reason = |gap: &Gap| matches!(gap, Gap::Repeated | Gap::Unconfirmed { .. });
    gaps.iter().any(|gap| *gap.switch == *switch && is_reason(&gap.gap))
}

/// The sums at both ends of a member.
struct Ends {
    member: Member,
    missing: Vec<i64>,
    sent: u64,
    known: BTreeMap<&'static str, u64>,
    /// Late packets where they went in, and where they came out.
    late: [u64; 2],
    uncertain: [u64; 2],
    is_doubtful: bool,
    is_full: bool,
}

impl Ends {
    /// Lost packets are those that went in and did not come out. Without doubled packets that is the sum over
    /// groups; where some group gained packets, they hide lost ones, and the groups that lost packets alone
    /// say how many these are at least.
    fn compared(self) -> Compared {
        let Self { member, missing, sent, known, late: [late_in, late_out], uncertain, is_doubtful, is_full } = self;
        let [late_in, late_out] = [late_in, late_out].map(|late| late.min(i64::MAX as u64) as i64);
        let net = missing.iter().sum::<i64>() + late_in - late_out;
        let positive = missing.iter().filter(|count| **count > 0).sum::<i64>() - late_out;
        let lost = net.max(positive).max(0);
        let gained = (lost - net) as u64;
        let lost = lost as u64;
        let [uncertain_in, uncertain_out] = uncertain;
        let is_certain = gained == 0 && !is_doubtful && !is_full;
        Compared {
            member,
            missing,
            lost,
            gained,
            least: if is_doubtful || is_full { 0 } else { lost.saturating_sub(uncertain_out) },
            most: is_certain.then(|| lost + uncertain_in),
            sent: sent.saturating_add(late_in as u64),
            known,
            is_full,
        }
    }
}

/// The members of a network in an epoch: those that can be compared, and those that cannot, because a switch
/// did not report the epoch, or not all of it.
#[derive(Default)]
pub struct Comparison {
    pub compared: Vec<Compared>,
    pub unknown: Vec<Member>,
}

impl Comparison {
    /// `ports` are those of all switches, as far as any epoch tells them.
    pub fn new(
        epoch: u64,
        all: &[SwitchRows],
        links: &Links,
        ports: &Ports,
        late: &LateCounts,
        gaps: &[SwitchGap],
    ) -> Self {
        let whole = || all.iter().filter(|rows| rows.is_whole);
        let by_name: HashMap<&str, &SwitchRows> = whole().map(|rows| (&*rows.switch, rows)).collect();
        let (mut compared, mut unknown) = (Vec::new(), Vec::new());
        for [from, to] in links.directions() {
            let end = |name: &PortName| {
                let rows = *by_name.get(&*name.switch)?;
                Some((rows, rows.port(&name.port)?))
            };
            match (end(from), end(to)) {
                (Some(near), Some(far)) => {
                    let member = Member::Link { from: from.clone(), to: to.clone() };
                    compared.push(link(epoch, member, [near, far], late, gaps).compared());
                }
                _ => unknown.push(Member::Link { from: from.clone(), to: to.clone() }),
            }
        }
        compared.extend(whole().map(|rows| switch(epoch, rows, late, gaps).compared()));
        compared.extend(silent(epoch, &by_name, links, ports, late, gaps).into_iter().map(Ends::compared));
        let partial = all.iter().filter(|rows| !rows.is_whole).map(|rows| Member::Switch(rows.switch.clone()));
        unknown.extend(partial);
        Self { compared, unknown }
    }
}

/// The ports of switches, by the switch.
pub type Ports = HashMap<Arc<str>, Arc<[CountedPort]>>;

/// Switches that did not report the epoch, those side by side together, with all their links: what the
/// switches around them sent there, less what these received from there. Known of switches all of whose ports
/// lead to other switches. Packets that such a switch took itself seem lost, so no number is certain.
fn silent(
    epoch: u64,
    by_name: &HashMap<&str, &SwitchRows>,
    links: &Links,
    ports: &Ports,
    late: &LateCounts,
    gaps: &[SwitchGap],
) -> Vec<Ends> {
    let is_silent = |end: &PortName| !by_name.contains_key(&*end.switch);
    let names: BTreeSet<&Arc<str>> =
        links.0.iter().flatten().filter(|end| is_silent(end)).map(|end| &end.switch).collect();
    let (mut left, mut found) = (names, Vec::new());
    while let Some(first) = left.pop_first() {
        let mut group = vec![first.clone()];
        while let Some([_, to]) =
            links.directions().find(|[from, to]| group.contains(&from.switch) && left.contains(&to.switch))
        {
            left.remove(&to.switch);
            group.push(to.switch.clone());
        }
        let is_closed = |switch: &Arc<str>| {
            ports.get(switch).is_some_and(|ports| ports.iter().all(|port| links.has(switch, &port.name)))
        };
        if group.iter().all(is_closed) {
            group.sort_unstable();
            found.extend(around(epoch, group, by_name, links, late, gaps));
        }
    }
    found
}

/// `None` if a port of a link is not known.
fn around(
    epoch: u64,
    group: Vec<Arc<str>>,
    by_name: &HashMap<&str, &SwitchRows>,
    links: &Links,
    late: &LateCounts,
    gaps: &[SwitchGap],
) -> Option<Ends> {
    let mut borders = Vec::new();
    for [from, to] in links.directions() {
        let (inward, near) = match (group.contains(&from.switch), group.contains(&to.switch)) {
            (false, true) => (true, from),
            (true, false) => (false, to),
            _ => continue,
        };
        let rows = *by_name.get(&*near.switch)?;
        borders.push((inward, rows, rows.port(&near.port)?));
    }
    let groups = borders.iter().map(|(_, rows, _)| rows.rows.groups).min()?;
    let mut ends = Ends {
        member: Member::Around(group),
        missing: vec![0; groups as usize],
        sent: 0,
        known: BTreeMap::new(),
        late: [0; 2],
        uncertain: [0; 2],
        is_doubtful: true,
        is_full: false,
    };
    for (inward, rows, port) in borders {
        let row = rows.row(inward, port, groups);
        let side = usize::from(!inward);
        ends.missing.iter_mut().zip(&row).for_each(|(sum, count)| *sum += if inward { *count } else { -count });
        ends.sent += if inward { row.iter().sum::<i64>() as u64 } else { 0 };
        ends.late[side] += late.at(epoch, &rows.switch, inward, port);
        ends.uncertain[side] += uncertain(gaps, &rows.switch);
        ends.is_full |= rows.is_full;
        let at = if inward { DropAt::Behind } else { DropAt::Before };
        rows.drops(at, Some(port)).for_each(|(reason, packets)| *ends.known.entry(reason).or_default() += packets);
    }
    Some(ends)
}

fn link(
    epoch: u64,
    member: Member,
    [(near, from), (far, to)]: [(&SwitchRows, PortId); 2],
    late: &LateCounts,
    gaps: &[SwitchGap],
) -> Ends {
    let groups = near.rows.groups.min(far.rows.groups);
    let [sent, received] = [near.row(true, from, groups), far.row(false, to, groups)];
    let mut known = BTreeMap::new();
    let behind = near.drops(DropAt::Behind, Some(from)).chain(far.drops(DropAt::Before, Some(to)));
    behind.for_each(|(reason, packets)| *known.entry(reason).or_default() += packets);
    Ends {
        member,
        missing: sent.iter().zip(&received).map(|(sent, received)| sent - received).collect(),
        sent: sent.iter().sum::<i64>() as u64,
        known,
        late: [late.at(epoch, &near.switch, true, from), late.at(epoch, &far.switch, false, to)],
        uncertain: [uncertain(gaps, &near.switch), uncertain(gaps, &far.switch)],
        is_doubtful: is_doubtful(gaps, &near.switch) || is_doubtful(gaps, &far.switch),
        is_full: near.is_full || far.is_full,
    }
}

fn switch(epoch: u64, rows: &SwitchRows, late: &LateCounts, gaps: &[SwitchGap]) -> Ends {
    let mut known = BTreeMap::new();
    rows.drops(DropAt::Inside, None).for_each(|(reason, packets)| *known.entry(reason).or_default() += packets);
    Ends {
        member: Member::Switch(rows.switch.clone()),
        missing: rows.missing(),
        sent: rows.received(),
        known,
        late: [false, true].map(|leaves| late.of_switch(epoch, rows, leaves)),
        uncertain: [uncertain(gaps, &rows.switch); 2],
        is_doubtful: is_doubtful(gaps, &rows.switch),
        is_full: rows.is_full,
    }
}
