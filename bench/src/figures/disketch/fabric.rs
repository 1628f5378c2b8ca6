//! Networks and their traffic: flows with a path each, and the order of their packets.

use clap::ValueEnum;
use weir::trace::{Order, SizeLaw, SplitMix64, Workload};
use weir::wire::Tuple4;

/// A workload of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Traffic {
    Isp,
    Burst,
    Zipf1,
}

impl Traffic {
    pub fn name(self) -> &'static str {
        match self {
            Self::Isp => "isp",
            Self::Burst => "burst",
            Self::Zipf1 => "zipf1",
        }
    }

    fn workload(self, packets: u64, flows: u32, seed: u64) -> Workload {
        let law = if self == Self::Zipf1 { SizeLaw::Zipf(1.0) } else { SizeLaw::Isp };
        let order = if self == Self::Burst { Order::Burst } else { Order::Uniform };
        Workload { law, order, flows, packets, seed, ..Workload::default() }
    }
}

/// A network of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fabric {
    /// A fat tree with k = 4: 8 edge, 8 aggregation and 4 core switches
    Fat,
    /// 8 leaves and 4 spines
    Leaf,
}

/// Hosts that addresses are drawn for, two at each edge switch.
const HOSTS: u64 = 16;
const ADDRESSES: u64 = 40_000;

impl Fabric {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fat => "fat",
            Self::Leaf => "leaf",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Fat => "fat tree",
            Self::Leaf => "spine-leaf",
        }
    }

    pub fn switches(self) -> usize {
        match self {
            Self::Fat => 20,
            Self::Leaf => 12,
        }
    }

    /// The first of the switches in the middle; all behind it are in the middle as well.
    fn first_core(self) -> u16 {
        match self {
            Self::Fat => 16,
            Self::Leaf => 8,
        }
    }

    /// The switches from one edge switch to another, of which `choice` chooses among equal paths.
    fn path(self, from: u16, to: u16, choice: u16) -> Vec<u16> {
        if from == to {
            return vec![from];
        }
        match self {
            Self::Leaf => vec![from, 8 + choice % 4, to],
            Self::Fat => {
                let (side, core) = (choice % 2, choice / 2 % 2);
                let aggregation = |edge: u16| 8 + edge / 2 * 2 + side;
                match from / 2 == to / 2 {
                    true => vec![from, aggregation(from), to],
                    false => vec![from, aggregation(from), 16 + side * 2 + core, aggregation(to), to],
                }
            }
        }
    }

    /// The network with its traffic. Flows between hosts of one address are drawn again.
    pub fn loaded(self, traffic: Traffic, packets: u64, flows: u32, seed: u64) -> Loaded {
        let mut random = SplitMix64::new(seed ^ 0xd15c_e7c4);
        let hosts: Vec<u64> = (0..ADDRESSES).map(|_| random.below(HOSTS)).collect();
        let flow = |number: u32, random: &mut SplitMix64| loop {
            let [src, dst] = [(); 2].map(|()| random.below(ADDRESSES));
            let [from, to] = [src, dst].map(|address| hosts[address as usize]);
            if from == to {
                continue;
            }
            let choice = random.below(4) as u16;
            let path = self.path((from / 2) as u16, (to / 2) as u16, choice);
            return Flow { key: key(src as u32, dst as u32, number), path, later: None, is_queried: true };
        };
        let flows: Vec<Flow> = (0..flows).map(|number| flow(number, &mut random)).collect();
        let workload = traffic.workload(packets, flows.len() as u32, seed);
        let (sizes, sequence) = (workload.flow_sizes(), workload.sequence());
        let longest = flows.iter().map(|flow| flow.path.len()).max().unwrap_or_default();
        Loaded { flows, sizes, sequence, longest, first_core: Some(self.first_core()) }
    }
}

impl Loaded {
    /// The same with another path of the same length for a quarter of the flows with a full path, which are
    /// asked for alone: from the middle of one of the `epochs` on.
    #[must_use]
    pub fn rerouted(mut self, fabric: Fabric, epochs: usize, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x7e70_07e5);
        let (packets, longest) = (self.sequence.len(), self.longest);
        for flow in &mut self.flows {
            flow.is_queried = flow.path.len() == longest && random.below(4) == 0;
            let ends = flow.path.first().zip(flow.path.last());
            let Some((&from, &to)) = ends.filter(|_| flow.is_queried) else { continue };
            let half = 2 * (1 + random.below(epochs as u64 - 2) as usize) + 1;
            let others = (0..4).map(|choice| fabric.path(from, to, choice)).filter(|path| *path != flow.path);
            let others: Vec<_> = others.collect();
            let other = others[random.below(others.len() as u64) as usize].clone();
            flow.later = Some((packets * half / (2 * epochs), other));
        }
        self
    }
}

/// A five-tuple; the number of its flow is in the ports.
fn key(src: u32, dst: u32, number: u32) -> Tuple4 {
    let (sport, dport) = (number >> 4 & 0xffff, 80 + (number & 15));
    let [src, dst] = [src, dst].map(|address| u128::from(0x0a00_0000 + address));
    Tuple4(src << 72 | dst << 40 | u128::from(sport) << 24 | u128::from(dport) << 8 | 6)
}

/// The number of the flow with this five-tuple.
pub fn number_of(Tuple4(bits): Tuple4) -> u32 {
    let [sport, dport] = [24, 8].map(|from| (bits >> from) as u32 & 0xffff);
    sport << 4 | (dport - 80)
}

#[derive(Clone, Debug)]
pub struct Flow {
    pub key: Tuple4,
    pub path: Vec<u16>,
    /// From this packet of the network on, the path is this one.
    pub later: Option<(usize, Vec<u16>)>,
    pub is_queried: bool,
}

impl Flow {
    /// The path of a packet, by its place in the sequence.
    pub fn path_of(&self, packet: usize) -> &[u16] {
        match &self.later {
            Some((from, path)) if packet >= *from => path,
            _ => &self.path,
        }
    }
}

/// Flows and the order of their packets.
#[derive(Clone)]
pub struct Loaded {
    pub flows: Vec<Flow>,
    /// Packets of each flow.
    pub sizes: Vec<u32>,
    /// The flow of each packet.
    pub sequence: Vec<u32>,
    /// Switches of a full path.
    pub longest: usize,
    /// The first of the switches that have the sketches of [`Core`](super::Method::Core).
    pub first_core: Option<u16>,
}

impl Loaded {
    /// The same without changes of paths.
    pub fn steady(&self) -> Self {
        let flow = |flow: &Flow| Flow { later: None, ..flow.clone() };
        Self { flows: self.flows.iter().map(flow).collect(), ..self.clone() }
    }

    /// The entropy of the flows' sizes in bits, and the number of flows.
    pub fn entropy(&self) -> (f64, usize) {
        let total = self.packets() as f64;
        let shares = self.sizes.iter().filter(|size| **size > 0).map(|size| f64::from(*size) / total);
        (-shares.clone().map(|share| share * share.log2()).sum::<f64>(), shares.count())
    }

    pub fn packets(&self) -> u64 {
        self.sequence.len() as u64
    }
}

/// Gini coefficient.
fn gini(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (number, sum) = (sorted.len() as f64, sorted.iter().sum::<f64>());
    let weighted = sorted.iter().enumerate().map(|(rank, value)| (2.0 * (rank as f64 + 1.0) - number - 1.0) * value);
    weighted.sum::<f64>() / (number * sum)
}

fn variation(values: &[f64]) -> f64 {
    let number = values.len() as f64;
    let mean = values.iter().sum::<f64>() / number;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / number).sqrt() / mean
}

/// Random shares with a mean of 1 and this inequality: powers of uniform numbers, as the memories of the
/// paper's example spread.
fn shares(number: usize, inequality: f64, measure: fn(&[f64]) -> f64, random: &mut SplitMix64) -> Vec<f64> {
    let drawn: Vec<f64> = (0..number).map(|_| random.unit().max(1e-6)).collect();
    let of = |power: f64| -> Vec<f64> { drawn.iter().map(|value| value.powf(power)).collect() };
    let (mut low, mut high) = (0.0, 64.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if measure(&of(middle)) > inequality { high = middle } else { low = middle }
    }
    let values = of(low);
    let mean = values.iter().sum::<f64>() / number as f64;
    values.iter().map(|value| value / mean).collect()
}

/// Counters of each switch, with this mean and Gini coefficient.
pub fn widths_of(switches: usize, mean: f64, inequality: f64, seed: u64) -> Vec<u32> {
    let shares = shares(switches, inequality, gini, &mut SplitMix64::new(seed ^ 0x3e3));
    shares.iter().map(|share| ((share * mean) as u32).max(1)).collect()
}

/// One path of five switches: 300 flows with about 1 % of the packets cross it, and the others one switch
/// each. Widths and loads have these coefficients of variation.
pub fn single_path(traffic: Traffic, wcov: f64, lcov: f64, seed: u64) -> (Loaded, Vec<u32>) {
    const SWITCHES: usize = 5;
    const COUNTERS: f64 = 5120.0;
    const PACKETS: u64 = 259_000;
    const FLOWS: u32 = 25_900;
    const ACROSS: u32 = 300;
    let mut random = SplitMix64::new(seed ^ 0xb0b);
    let widths = shares(SWITCHES, wcov, variation, &mut random);
    let widths = widths.iter().map(|share| ((share * COUNTERS / SWITCHES as f64) as u32).max(1)).collect();
    let loads = shares(SWITCHES, lcov, variation, &mut random);
    let switch = |random: &mut SplitMix64| {
        let mut at = random.unit() * SWITCHES as f64;
        let mut is_here = |load: &f64| {
            at -= load;
            at < 0.0
        };
        loads.iter().enumerate().find(|(_, load)| is_here(load)).map_or(SWITCHES - 1, |(switch, _)| switch) as u16
    };
    let chosen: Vec<bool> = {
        let mut order: Vec<u32> = (0..FLOWS).collect();
        (1..order.len()).rev().for_each(|at| order.swap(at, random.below(at as u64 + 1) as usize));
        let mut chosen = vec![false; FLOWS as usize];
        order.iter().take(ACROSS as usize).for_each(|flow| chosen[*flow as usize] = true);
        chosen
    };
    let flow = |number: u32, random: &mut SplitMix64| {
        let is_queried = chosen[number as usize];
        let path = if is_queried { (0..SWITCHES as u16).collect() } else { vec![switch(random)] };
        let [src, dst] = [(); 2].map(|()| random.below(ADDRESSES) as u32);
        Flow { key: key(src, dst, number), path, later: None, is_queried }
    };
    let flows = (0..FLOWS).map(|number| flow(number, &mut random)).collect();
    let workload = traffic.workload(PACKETS, FLOWS, seed);
    let (sizes, sequence) = (workload.flow_sizes(), workload.sequence());
    (Loaded { flows, sizes, sequence, longest: SWITCHES, first_core: None }, widths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_as_unequal_as_wanted() {
        for (wanted, measure) in [(0.4, gini as fn(&[f64]) -> f64), (0.6, gini), (1.2, variation)] {
            let shares = shares(20, wanted, measure, &mut SplitMix64::new(3));
            let mean = shares.iter().sum::<f64>() / 20.0;
            assert!((measure(&shares) - wanted).abs() < 1e-6 && (mean - 1.0).abs() < 1e-9);
        }
        assert_eq!(widths_of(3, 100.0, 0.0, 1), [100; 3]);
    }

    #[test]
    fn paths_are_the_networks() {
        assert_eq!(Fabric::Fat.path(0, 0, 3), [0]);
        assert_eq!(Fabric::Fat.path(0, 1, 3), [0, 9, 1]);
        assert_eq!(Fabric::Fat.path(0, 7, 3), [0, 9, 19, 15, 7]);
        assert_eq!(Fabric::Leaf.path(0, 7, 3), [0, 11, 7]);
        let network = Fabric::Fat.loaded(Traffic::Isp, 5000, 500, 1);
        let most = network.flows.iter().flat_map(|flow| &flow.path).max();
        assert!((0u32..).zip(&network.flows).all(|(number, flow)| number_of(flow.key) == number));
        assert!(network.longest == 5 && most.is_some_and(|most| *most < 20) && network.packets() == 5000);
    }
}
