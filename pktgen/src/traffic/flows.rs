//! The flows of a run, the order of their packets, and how they are dealt to cores.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use weir::trace::{Keys, Tuple, Workload};
use weir::wire::{Tuple4, Tuple6, proto};

/// The transport protocol of all flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    /// As the workload deals them.
    Mixed,
}

impl Protocol {
    fn of(self, tuple: Tuple) -> Tuple {
        let number = match self {
            Self::Tcp => proto::TCP,
            Self::Udp => proto::UDP,
            Self::Mixed => return tuple,
        };
        let with = |bits: u64| bits & !0xff | u64::from(number);
        match tuple {
            Tuple::V4(Tuple4(bits)) => Tuple::V4(Tuple4(bits & !0xff | u128::from(number))),
            Tuple::V6(Tuple6(src, dst, bits)) => Tuple::V6(Tuple6(src, dst, with(bits))),
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            "mixed" => Ok(Self::Mixed),
            _ => Err(format!("{text:?}: tcp, udp or mixed")),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Mixed => "mixed",
        })
    }
}

/// A flow with the packets that the order gives it in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFlow {
    pub number: u32,
    pub tuple: Tuple,
}

/// All flows, and the flow of each packet in turn. After the last packet comes the first again.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    workload: Workload,
    protocol: Protocol,
    flows: u32,
    /// Flow n is of the nth source address, to one receiver.
    fan_in: bool,
    /// `None`: one packet of each flow in turn.
    order: Option<Arc<[u32]>>,
}

impl FlowPlan {
    /// One flow.
    pub fn single() -> Self {
        Self::in_turn(1, Workload::default(), Protocol::Udp)
    }

    /// One packet of each flow in turn.
    pub fn in_turn(flows: u32, workload: Workload, protocol: Protocol) -> Self {
        Self { workload, protocol, flows, fan_in: false, order: None }
    }

    /// One packet of each sender in turn: source addresses in a row, to one port of one receiver.
    pub fn incast(senders: u32, workload: Workload, protocol: Protocol) -> Self {
        let workload = Workload { keys: Keys::Range, ..workload };
        Self { fan_in: true, ..Self::in_turn(senders, workload, protocol) }
    }

    /// The sizes and the order of a workload.
    pub fn of_workload(workload: Workload, protocol: Protocol) -> Self {
        let trace = workload.generate();
        let flows = trace.sizes.len() as u32;
        Self { workload: trace.workload, protocol, flows, fan_in: false, order: Some(trace.sequence.into()) }
    }

    pub fn flows(&self) -> u32 {
        self.flows
    }

    pub fn seed(&self) -> u64 {
        self.workload.seed
    }

    pub fn tuple(&self, number: u32) -> Tuple {
        if !self.fan_in {
            return self.protocol.of(self.workload.tuple(number));
        }
        self.protocol.of(match self.workload.tuple(0) {
            Tuple::V4(Tuple4(bits)) => Tuple::V4(Tuple4(bits + (u128::from(number) << 72))),
            Tuple::V6(Tuple6(src, dst, bits)) => Tuple::V6(Tuple6(src + u128::from(number), dst, bits)),
        })
    }

    /// The flows of core `core` of `cores`: those whose number leaves it as the remainder.
    pub fn flows_of(&self, core: u32, cores: u32) -> impl Iterator<Item = PlannedFlow> {
        let numbers = (core..self.flows).step_by(cores as usize);
        numbers.map(|number| PlannedFlow { number, tuple: self.tuple(number) })
    }

    /// The order of a core's packets, each as the place of its flow among the core's.
    pub fn order_of(&self, core: u32, cores: u32) -> Box<[u32]> {
        match &self.order {
            None => (0..(core..self.flows).step_by(cores as usize).len() as u32).collect(),
            Some(order) => order.iter().filter(|flow| **flow % cores == core).map(|flow| flow / cores).collect(),
        }
    }

    /// Packets until the order begins anew.
    pub fn round(&self) -> u64 {
        self.order.as_ref().map_or(u64::from(self.flows), |order| order.len() as u64)
    }

    /// How many of the first `packets` a core sends.
    pub fn packets_of(&self, core: u32, cores: u32, packets: u64) -> u64 {
        let (rounds, rest) = (packets / self.round(), packets % self.round());
        let of_rest = match &self.order {
            None => (core..rest as u32).step_by(cores as usize).len(),
            Some(order) => order[..rest as usize].iter().filter(|flow| **flow % cores == core).count(),
        };
        rounds * self.order_len(core, cores) + of_rest as u64
    }

    /// A core's packets of a round.
    pub fn order_len(&self, core: u32, cores: u32) -> u64 {
        match &self.order {
            None => (core..self.flows).step_by(cores as usize).len() as u64,
            Some(order) => order.iter().filter(|flow| **flow % cores == core).count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn plans() -> [FlowPlan; 2] {
        let workload: Workload = "isp-scaled,flows=100,packets=1000,seed=3,ipv6=0.3".parse().unwrap();
        [FlowPlan::in_turn(100, workload.clone(), Protocol::Udp), FlowPlan::of_workload(workload, Protocol::Mixed)]
    }

    /// Each flow is of one core, and the cores' packets are all packets.
    #[test]
    fn cores_share_the_flows() {
        for plan in plans() {
            for cores in [1, 2, 3, 7] {
                let flows: Vec<_> = (0..cores).flat_map(|core| plan.flows_of(core, cores)).collect();
                let distinct: HashSet<_> = flows.iter().map(|flow| flow.tuple).collect();
                assert_eq!((flows.len(), distinct.len()), (100, 100));
                for packets in [0, 1, 99, 100, 12_345] {
                    let sent: u64 = (0..cores).map(|core| plan.packets_of(core, cores, packets)).sum();
                    assert_eq!(sent, packets);
                }
                let round: u64 = (0..cores).map(|core| plan.order_of(core, cores).len() as u64).sum();
                assert_eq!(round, plan.round());
            }
        }
    }

    /// A flow has as many packets whatever the number of cores.
    #[test]
    fn the_order_is_the_workloads() {
        let [_, plan] = plans();
        let count = |cores: u32| {
            let mut counts = vec![0; 100];
            for core in 0..cores {
                let flows: Vec<_> = plan.flows_of(core, cores).map(|flow| flow.number).collect();
                plan.order_of(core, cores).iter().for_each(|at| counts[flows[*at as usize] as usize] += 1);
            }
            counts
        };
        assert_eq!(count(1), count(3));
        assert_eq!(count(1), plan.workload.flow_sizes());
    }

    #[test]
    fn all_of_one_protocol() {
        let [plan, _] = plans();
        assert!(plan.flows_of(0, 1).all(|flow| flow.tuple.proto() == proto::UDP));
    }
}
