//! The frames that one core sends of a plan of flows.

use super::malformed::MALFORMED_SOURCE;
use super::template::FlowFields;
use super::{FlowPlan, HeaderOptions, Malformed, PlannedFlow, Response, Sizes, Source, Stamp, Templates};
use arrayvec::ArrayVec;
use weir::trace::Tuple;
use weir::wire::{BURST, Tuple4, proto};

/// The next frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    sequence: u64,
    /// Place of the flow among the core's.
    flow: u32,
    length: u16,
    malformed: Option<Malformed>,
}

impl Pick {
    pub fn malformed(&self) -> Option<Malformed> {
        self.malformed
    }
}

/// A core's flows and the order of their packets.
#[derive(Clone, Debug)]
pub struct Generated {
    templates: Templates,
    flows: Box<[FlowFields]>,
    order: Box<[u32]>,
    at: usize,
    sizes: Sizes,
    response: Option<Response>,
    seed: u64,
    /// Packets that are still to be sent.
    left: u64,
    /// Packets so far, malformed ones too.
    picked: u64,
    /// The flow of malformed packets.
    strange: FlowFields,
    /// Their share, times 2³².
    malformed: u32,
}

/// What is sent of a plan, besides the order of flows.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    pub headers: HeaderOptions,
    pub sizes: Sizes,
    /// Of an incast: decides the frames' lengths in place of `sizes`.
    pub response: Option<Response>,
    /// Share of malformed frames, 0 to 1.
    pub malformed: f64,
    /// Number of packets over all cores; without it there is no end.
    pub packets: Option<u64>,
}

/// Bytes of the longest headers with a signature, without FCS: a tag, IPv6, TCP.
const LONGEST_HEADERS: u16 = 14 + 4 + 40 + 20 + 18;

impl Shape {
    /// The longest frame, without FCS.
    pub fn longest(&self) -> u16 {
        self.sizes.longest().max(LONGEST_HEADERS)
    }
}

impl Generated {
    pub fn new(plan: &FlowPlan, shape: &Shape, core: u32, cores: u32) -> Self {
        let tuples = plan.flows_of(core, cores).map(|PlannedFlow { number, tuple }| (number, tuple));
        let (templates, flows) = Templates::new(&shape.headers).flows(tuples);
        let left = shape.packets.map_or(u64::MAX, |packets| plan.packets_of(core, cores, packets));
        let order = plan.order_of(core, cores);
        let left = if order.is_empty() { 0 } else { left };
        // To the echo port of TEST-NET-3.
        let strange = Tuple4(u128::from(MALFORMED_SOURCE) << 72 | 0xcb00_7101 << 40 | 7 << 24 | 7 << 8);
        let strange = Tuple::V4(Tuple4(strange.0 | u128::from(proto::UDP)));
        Self {
            strange: templates.fields(u32::MAX, strange),
            templates,
            flows,
            order,
            at: 0,
            sizes: shape.sizes.clone(),
            response: shape.response,
            seed: plan.seed(),
            left,
            picked: 0,
            malformed: (shape.malformed * 4_294_967_295.0) as u32,
        }
    }
}

impl Source for Generated {
    type Pick = Pick;

    const IS_SIGNED: bool = true;

    #[inline(always)]
    fn pick(&mut self) -> Option<Pick> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let number = self.picked;
        self.picked += 1;
        if let Some(malformed) = Malformed::of(self.seed, number, self.malformed) {
            let length = self.sizes.of(self.seed, u64::MAX - number).max(self.templates.shortest(&self.strange));
            return Some(Pick { sequence: number, flow: u32::MAX, length, malformed: Some(malformed) });
        }
        let place = *self.order.get(self.at)?;
        self.at = if self.at + 1 < self.order.len() { self.at + 1 } else { 0 };
        let flow = self.flows.get_mut(place as usize)?;
        let sequence = flow.next;
        flow.next += 1;
        let (shortest, key) = (self.templates.shortest(flow), u64::from(flow.number) << 40 ^ sequence);
        let length = match &self.response {
            Some(response) => response.length(sequence),
            None => self.sizes.of(self.seed, key),
        };
        let length = length.max(shortest);
        Some(Pick { sequence, flow: place, length, malformed: None })
    }

    #[inline(always)]
    fn pick_burst(&mut self, n: usize, picks: &mut ArrayVec<Pick, BURST>) {
        // Frames of one length, none malformed: what each needs is its flow's number and next frame.
        let plain = (self.malformed == 0 && self.response.is_none()).then(|| self.sizes.single()).flatten();
        while picks.len() < n {
            let wanted = (n - picks.len()).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            let round = self.order.get(self.at..).unwrap_or_default();
            let (Some(length), Some(round)) = (plain, round.get(..wanted.min(round.len()))) else {
                let Some(pick) = self.pick() else { return };
                picks.push(pick);
                continue;
            };
            if round.is_empty() {
                return;
            }
            for &place in round {
                let Some(flow) = self.flows.get_mut(place as usize) else { return };
                let (sequence, length) = (flow.next, length.max(self.templates.shortest(flow)));
                flow.next += 1;
                picks.push(Pick { sequence, flow: place, length, malformed: None });
            }
            let taken = round.len();
            (self.left, self.picked) = (self.left - taken as u64, self.picked + taken as u64);
            self.at = if self.at + taken < self.order.len() { self.at + taken } else { 0 };
        }
    }

    #[inline(always)]
    fn length(pick: &Pick) -> u16 {
        pick.length
    }

    fn next_time_ns(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn fill(&self, pick: &Pick, stamp: Stamp, out: &mut [u8]) {
        match (self.flows.get(pick.flow as usize), pick.malformed) {
            (Some(flow), None) => self.templates.write(flow, pick.sequence, stamp, out),
            (_, malformed) => self.fill_malformed(malformed, pick.sequence, (stamp.tag, stamp.epoch, stamp.at_ns), out),
        }
    }

    #[inline(always)]
    fn flow(&self, pick: &Pick) -> Option<u32> {
        (pick.flow != u32::MAX).then_some(pick.flow)
    }

    fn unsend(&mut self, pick: &Pick) {
        if let Some(flow) = self.flows.get_mut(pick.flow as usize) {
            flow.next -= 1;
        }
    }

    fn has_malformed(&self) -> bool {
        self.malformed > 0
    }

    #[inline(always)]
    fn is_malformed(pick: &Pick) -> bool {
        pick.malformed.is_some()
    }

    fn flows(&self) -> usize {
        self.flows.len()
    }

    fn sent(&self, flow: u32) -> u64 {
        self.flows.get(flow as usize).map_or(0, |flow| flow.next)
    }

    fn number(&self, flow: u32) -> u32 {
        self.flows.get(flow as usize).map_or(u32::MAX, |flow| flow.number)
    }
}

impl Generated {
    /// The stamp is in parts, so that frames that are not malformed have it in registers.
    #[cold]
    fn fill_malformed(
        &self,
        malformed: Option<Malformed>,
        sequence: u64,
        (tag, epoch, at_ns): (u8, u8, u64),
        out: &mut [u8],
    ) {
        // Of no flow that a receiver would know, by its tag.
        let stamp = Stamp { tag: !tag, epoch, at_ns };
        self.templates.write(&self.strange, sequence, stamp, out);
        if let Some(malformed) = malformed {
            malformed.apply(self.templates.network(&self.strange, out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature;
    use crate::traffic::Protocol;
    use std::collections::HashMap;
    use weir::trace::Workload;

    fn frames(shape: &Shape, cores: u32) -> Vec<Vec<u8>> {
        let workload: Workload = "isp-scaled,flows=50,packets=500,seed=3,ipv6=0.3".parse().unwrap();
        let plan = FlowPlan::of_workload(workload, Protocol::Mixed);
        let mut all = Vec::new();
        for core in 0..cores {
            let mut source = Generated::new(&plan, shape, core, cores);
            while let Some(pick) = source.pick() {
                let mut frame = vec![0xaa; usize::from(pick.length)];
                source.fill(&pick, Stamp { tag: 1, epoch: 0, at_ns: 0 }, &mut frame);
                all.push(frame);
            }
        }
        all
    }

    /// Whatever the number of cores, the frames are the same, in the same order in each flow.
    #[test]
    fn same_seed_same_frames() {
        let shape = Shape { sizes: "imix".parse().unwrap(), packets: Some(1234), ..Shape::default() };
        let (one, again) = (frames(&shape, 1), frames(&shape, 1));
        assert_eq!(one.len(), 1234);
        assert!(one == again);
        let by_flow = |frames: Vec<Vec<u8>>| {
            let mut flows: HashMap<u32, Vec<Vec<u8>>> = HashMap::new();
            for frame in frames {
                flows.entry(signature::find(&frame, 1).unwrap().flow).or_default().push(frame);
            }
            flows
        };
        assert!(by_flow(one) == by_flow(frames(&shape, 3)));
    }

    #[test]
    fn every_flow_is_numbered_from_0_on() {
        let shape = Shape { packets: Some(5000), ..Shape::default() };
        let mut next: HashMap<u32, u64> = HashMap::new();
        for frame in frames(&shape, 2) {
            let found = signature::find(&frame, 1).unwrap();
            let expected = next.entry(found.flow).or_default();
            assert_eq!(found.sequence, *expected);
            *expected += 1;
        }
        assert_eq!((next.len(), next.values().sum::<u64>()), (50, 5000));
    }

    /// They are the share that was asked for, of each kind, and none has a signature.
    #[test]
    fn malformed_frames_are_strangers() {
        let shape = Shape { packets: Some(40_000), malformed: 0.1, ..Shape::default() };
        let frames = frames(&shape, 2);
        let strange: Vec<_> = frames.iter().filter(|frame| signature::find(frame, 1).is_none()).collect();
        assert!((strange.len() as f64 / 4000.0 - 1.0).abs() < 0.1, "{}", strange.len());
        let mut kinds = [0; 4];
        for frame in &strange {
            let ip = &frame[14..34];
            let kind = match (ip[0], ip[2]) {
                (0x05, _) => 0,
                (0x44, _) => 1,
                (0x45, 0x80..) => 2,
                _ => 3,
            };
            kinds[kind] += 1;
        }
        assert!(kinds.iter().all(|n| *n > strange.len() / 6), "{kinds:?}");
    }

    /// Bursts are the frames that would be picked one by one.
    #[test]
    fn bursts_are_frames_in_a_row() {
        let workload: Workload = "isp-scaled,flows=50,packets=500,seed=3,ipv6=0.3".parse().unwrap();
        let plan = FlowPlan::of_workload(workload, Protocol::Mixed);
        for (sizes, malformed) in [("64", 0.0), ("imix", 0.0), ("300", 0.1)] {
            for packets in [0, 7, 500, 1501] {
                let shape =
                    Shape { sizes: sizes.parse().unwrap(), malformed, packets: Some(packets), ..Shape::default() };
                let mut source = Generated::new(&plan, &shape, 1, 2);
                let mut one_by_one = source.clone();
                for n in [1, 64, 5, 64].into_iter().cycle() {
                    let mut picks = ArrayVec::new();
                    source.pick_burst(n, &mut picks);
                    for pick in &picks {
                        assert_eq!(one_by_one.pick(), Some(*pick));
                    }
                    if picks.len() < n {
                        break;
                    }
                }
                assert_eq!(one_by_one.pick(), None);
                assert_eq!(source.sent(3), one_by_one.sent(3));
            }
        }
    }

    #[test]
    fn an_unsent_frame_does_not_count() {
        let workload = Workload::default();
        let plan = FlowPlan::in_turn(2, workload, Protocol::Udp);
        let mut source = Generated::new(&plan, &Shape::default(), 0, 1);
        let picks: Vec<_> = (0..5).filter_map(|_| source.pick()).collect();
        source.unsend(&picks[4]);
        source.unsend(&picks[3]);
        assert_eq!([source.sent(0), source.sent(1)], [2, 1]);
    }
}
