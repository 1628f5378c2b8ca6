//! Changes between two snapshots of a switch, per second.

use serde::{Deserialize, Serialize};

use super::facts::SwitchFacts;
use crate::answers::FlowName;
use crate::answers::{Claim, Claimed, EpochAttention, HeavyFlows};
use crate::api::baseline;
use crate::api::view::{Drops, Packets, Port, Ports, Status, Worker, WorkerProgram};
use crate::program::Unit;

/// One look at a switch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub status: Status,
    /// `None` when it runs no program that finds heavy flows.
    pub heavy: Option<Claimed<HeavyFlows>>,
    /// `None` when it runs no program that shifts its attention, or no epoch has ended yet.
    pub attention: Option<EpochAttention>,
    /// Of programs that find out something about single switches.
    pub facts: Vec<SwitchFacts>,
}

impl Snapshot {
    /// Whether `self` is a later look at the switch of `earlier`, rather than at one that was
    /// started since.
    pub fn follows(&self, earlier: &Self) -> bool {
        let (now, then) = (&self.status, &earlier.status);
        now.pid == then.pid
            && now.start_time_seconds == then.start_time_seconds
            && now.uptime_seconds > then.uptime_seconds
    }
}

/// The document of `weir top --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    pub name: String,
    pub version: String,
    pub uptime_seconds: f64,
    /// The time between the two looks; 0 after the first, when there are no rates yet.
    pub seconds: f64,
    pub packets: Packets,
    pub rx_packets_per_second: f64,
    pub tx_packets_per_second: f64,
    pub dropped_packets_per_second: f64,
    pub ports: Vec<PortRates>,
    pub drops: Vec<DropRate>,
    pub programs: Vec<ProgramRates>,
    pub cores: Vec<CoreRates>,
    /// The parameters that held in the last epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention: Option<EpochAttention>,
    /// What programs found out about this switch in the newest epoch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<SwitchFacts>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortRates {
    pub name: String,
    pub dev: String,
    pub enabled: bool,
    pub link_up: bool,
    pub rx_packets_per_second: f64,
    pub rx_bits_per_second: f64,
    pub tx_packets_per_second: f64,
    pub tx_bits_per_second: f64,
    pub dropped_packets_per_second: f64,
    pub dropped_packets: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DropRate {
    pub port: String,
    pub reason: String,
    /// The device lost them: they are outside the balance.
    pub device: bool,
    pub packets: u64,
    pub packets_per_second: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramRates {
    pub program: String,
    pub unit: Unit,
    /// Of the epochs of the last second, over which the flows' rates are taken.
    #[serde(flatten)]
    pub claim: Claim,
    pub heavy: Vec<FlowRate>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRate {
    #[serde(flatten)]
    pub name: FlowName,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packets_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bits_per_second: Option<f64>,
    /// A register that counts the flow was full: its rate is at least that.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub at_least: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreRates {
    pub core: usize,
    /// Share of the core's time in rounds of the poll loop that found packets.
    pub busy_share: f64,
    pub packets_per_second: f64,
    /// Cycles of the busy time; left out when no packet came.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cycles_per_packet: Option<f64>,
    pub polls_per_second: f64,
    pub late_epochs: u64,
    pub lost_epochs: u64,
    pub programs: Vec<ProgramTime>,
}

/// The time of one core that the programs with one name use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramTime {
    pub program: String,
    /// Share of the core's time.
    pub busy_share: f64,
    pub packets_per_second: f64,
    /// Left out when no packet came.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cycles_per_packet: Option<f64>,
}

impl Rates {
    /// From `before` to `now`, a later look at the same switch. The same look twice gives totals
    /// without rates.
    pub fn between(before: &Snapshot, now: &Snapshot) -> Self {
        let status = &now.status;
        let seconds = (status.uptime_seconds - before.status.uptime_seconds).max(0.0);
        let per_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let changed = baseline::since(&status.totals, &before.status.totals);
        let ports = changed.ports.iter().zip(&status.totals.ports);
        Self {
            name: status.name.clone(),
            version: status.version.clone(),
            uptime_seconds: status.uptime_seconds,
            seconds,
            packets: status.totals.packets,
            rx_packets_per_second: per_second(changed.packets.rx_packets),
            tx_packets_per_second: per_second(changed.packets.tx_packets),
            dropped_packets_per_second: per_second(changed.packets.dropped_packets),
            ports: ports.map(|(changed, total)| PortRates::new(changed, total, per_second)).collect(),
            drops: drops(&status.totals, &changed, per_second),
            programs: now.heavy.iter().map(ProgramRates::new).collect(),
            cores: cores(&before.status.workers, &status.workers, per_second),
            attention: now.attention.clone(),
            facts: now.facts.clone(),
        }
    }
}

impl PortRates {
    fn new(changed: &Port, total: &Port, per_second: impl Fn(u64) -> f64) -> Self {
        Self {
            name: total.name.clone(),
            dev: total.dev.clone(),
            enabled: total.enabled,
            link_up: total.link_up,
            rx_packets_per_second: per_second(changed.counts.rx_packets),
            rx_bits_per_second: 8.0 * per_second(changed.counts.rx_bytes),
            tx_packets_per_second: per_second(changed.counts.tx_packets),
            tx_bits_per_second: 8.0 * per_second(changed.counts.tx_bytes),
            dropped_packets_per_second: per_second(changed.counts.dropped_packets()),
            dropped_packets: total.counts.dropped_packets(),
        }
    }
}

/// Every reason that has ever been, also when nothing is being lost for it now.
fn drops(totals: &Ports, changed: &Ports, per_second: impl Fn(u64) -> f64) -> Vec<DropRate> {
    let changed = Drops::of_ports(changed);
    let rate = |lost: crate::api::view::Drop| {
        let same = |other: &&crate::api::view::Drop| {
            (&other.port, &other.reason, other.device) == (&lost.port, &lost.reason, lost.device)
        };
        let packets = changed.iter().find(same).map_or(0, |drop| drop.packets);
        DropRate {
            port: lost.port,
            reason: lost.reason,
            device: lost.device,
            packets: lost.packets,
            packets_per_second: per_second(packets),
        }
    };
    Drops::of_ports(totals).into_iter().map(rate).collect()
}

impl ProgramRates {
    fn new(heavy: &Claimed<HeavyFlows>) -> Self {
        let per_second = |n: u64| if heavy.claim.seconds > 0.0 { n as f64 / heavy.claim.seconds } else { 0.0 };
        let rate = |flow: &crate::answers::HeavyFlow| FlowRate {
            name: flow.name,
            packets_per_second: flow.packets.map(per_second),
            bits_per_second: flow.bytes.map(|bytes| 8.0 * per_second(bytes)),
            at_least: flow.at_least,
        };
        Self {
            program: heavy.program.clone(),
            unit: heavy.unit,
            claim: heavy.claim.clone(),
            heavy: heavy.heavy.iter().map(rate).collect(),
        }
    }
}

fn cores(before: &[Worker], now: &[Worker], per_second: impl Fn(u64) -> f64) -> Vec<CoreRates> {
    let none = Worker::default();
    let rate = |now: &Worker| {
        let before = before.iter().find(|worker| worker.core == now.core).unwrap_or(&none);
        let busy_cycles = now.busy_cycles.saturating_sub(before.busy_cycles);
        let cycles = busy_cycles + now.idle_cycles.saturating_sub(before.idle_cycles);
        let packets = now.packets.saturating_sub(before.packets);
        let program = |now: &WorkerProgram| {
            let before = before.programs.iter().find(|program| program.program == now.program);
            let (before_packets, before_cycles) = before.map_or((0, 0), |before| (before.packets, before.cycles));
            let packets = now.packets.saturating_sub(before_packets);
            let taken = now.cycles.saturating_sub(before_cycles);
            ProgramTime {
                program: now.program.clone(),
                busy_share: ratio(taken, cycles).unwrap_or_default().min(1.0),
                packets_per_second: per_second(packets),
                cycles_per_packet: ratio(taken, packets),
            }
        };
        CoreRates {
            core: now.core,
            busy_share: ratio(busy_cycles, cycles).unwrap_or_default(),
            packets_per_second: per_second(packets),
            cycles_per_packet: ratio(busy_cycles, packets),
            polls_per_second: per_second(now.polls.saturating_sub(before.polls)),
            late_epochs: now.late_epochs,
            lost_epochs: now.lost_epochs,
            programs: now.programs.iter().map(program).collect(),
        }
    };
    now.iter().map(rate).collect()
}

fn ratio(of: u64, to: u64) -> Option<f64> {
    (to > 0).then(|| of as f64 / to as f64)
}
