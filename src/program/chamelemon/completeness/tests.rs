//! The rule at the corners of the parameters: losses are exact, or not called so.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::pisa::hash::HashFamily;
use crate::pisa::{BatchOrder, Disposition, Phv};
use crate::program::Dataplane;
use crate::program::chamelemon::dataplane::class;
use crate::program::chamelemon::decoder::{Analysis, Sketches};
use crate::program::chamelemon::{ChameleMonDataplane, Config, FlowId, Schedule};
use crate::trace::SplitMix64;
use crate::wire::{Headers, Net, Shim, Tuple4};

#[test]
fn names_are_those_of_json() {
    for reason in Reason::ALL {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
    }
    let reasons: Reasons = Reason::ALL.into_iter().collect();
    assert_eq!(reasons.iter().count(), Reason::ALL.len());
}

#[test]
fn losses_that_nobody_looks_for() {
    let partition = Partition { hh: 1024, hl: 2560, ll: 512 };
    let all = EncoderParameters { partition, hh_threshold: 100, hl_threshold: 10, sample: 65_536, sample_seed: 0 };
    assert_eq!(unmeasured(&all), None);
    assert_eq!(unmeasured(&EncoderParameters { sample: 65_535, ..all }), Some(Reason::Sampled));
    assert_eq!(unmeasured(&EncoderParameters { sample: 0, hl_threshold: 1, ..all }), None, "there are no light losses");
    let without = |partition| EncoderParameters { partition, ..all };
    for partition in
        [Partition { hh: 0, ..partition }, Partition { hl: 0, ..partition }, Partition { ll: 0, ..partition }]
    {
        assert_eq!(unmeasured(&without(partition)), Some(Reason::Unmeasured), "{partition:?}");
    }
}

/// What became of a flow's packets that were encoded as light ones, and as others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Truth {
    size: u64,
    net: [i64; 2],
}

impl Truth {
    fn lost(&self) -> u64 {
        self.net.iter().map(|net| net.max(&0).unsigned_abs()).sum()
    }

    fn gained(&self) -> u64 {
        self.net.iter().map(|net| (-net).max(0).unsigned_abs()).sum()
    }
}

/// Random traffic through one switch that loses a share of the packets, and doubles some.
fn traffic(config: &Config, flows: u64, lost: f64, doubled: f64, seed: u64) -> (Sketches, BTreeMap<FlowId, Truth>) {
    let mut rng = SplitMix64::new(seed);
    let mut program = ChameleMonDataplane::new(config, &HashFamily::reproducible(seed)).unwrap();
    program.allocate();
    program.follow(&Schedule::new(config.clone(), config.parameters()));
    program.enter(4, true);
    let random = rng.below(2) == 0;
    let mut truth = BTreeMap::<FlowId, Truth>::new();
    let mut packets: Vec<u64> =
        (0..flows).flat_map(|flow| std::iter::repeat_n(flow, 1 + (flow % 12) as usize)).collect();
    let all = packets.len();
    (0..all).for_each(|i| packets.swap(i, i + rng.below((all - i) as u64) as usize));
    for flow in packets {
        let address = if random { (flow as u32).wrapping_mul(0x9e37_79b1) } else { flow as u32 };
        let headers = Headers { net: Net::Ipv4, src_ip: address.into(), dst_ip: 7, proto: 17, ..Headers::default() };
        let mut phv = [Phv { headers, enters: true, shim: Shim::default().with_epoch(4), ..Phv::default() }];
        program.ingress(&mut phv, BatchOrder::PacketMajor);
        let id = FlowId::of_v4(Tuple4(u128::from(address) << 72 | 7 << 40 | 17));
        let truth = truth.entry(id).or_default();
        let class = usize::from(phv[0].shim.class() != class::LL);
        let draw = |rng: &mut SplitMix64, share: f64| (rng.below(1000) as f64) < 1000.0 * share;
        let copies = if draw(&mut rng, lost) { 0 } else { 1 + i64::from(draw(&mut rng, doubled)) };
        truth.size += 1;
        truth.net[class] += 1 - copies;
        (phv[0].enters, phv[0].disposition) = (false, Disposition::ToHost);
        (0..copies).for_each(|_| program.egress(&mut phv, BatchOrder::PacketMajor));
    }
    let mut bank = program.spare();
    program.exchange(bank.as_mut());
    program.enter(5, true);
    program.exchange_egress(bank.as_mut());
    let sketches = bank.record().into::<Sketches>().unwrap();
    (*sketches, truth)
}

/// 0, some, or all of what there is.
fn part(of: u32) -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 1..=of.max(1), Just(of)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn losses_are_exact_or_not_called_so(
        (ll, hl, hh) in part(40).prop_flat_map(|ll| (Just(ll), part(40 - ll)))
            .prop_flat_map(|(ll, hl)| (Just(ll), Just(hl.min(40 - ll)), part(60 - ll - hl.min(40 - ll)))),
        hh_threshold in prop_oneof![Just(0), Just(1), 2..14u32, Just(255), Just(65_535), Just(u32::MAX)],
        hl_share in prop_oneof![Just(0), Just(1), 2..14u32, Just(u32::MAX)],
        sample in prop_oneof![Just(0), Just(32_768), Just(65_536)],
        small in prop_oneof![Just(0), Just(2)],
        flows in 0..60u64,
        lost in prop_oneof![Just(0.0), Just(0.05), Just(0.5), Just(1.0)],
        doubled in prop_oneof![3 => Just(0.0), 1 => Just(0.02)],
        seed: u64,
    ) {
        let hl_threshold = hl_share.min(hh_threshold.max(1));
        let hh = Some(hh.min(60 - ll - hl));
        let tower = "8x64+16x32".parse().unwrap();
        let config = Config {
            tower, small, upstream: 60, downstream: 40, hh, hl: Some(hl), ll, hh_threshold, hl_threshold, sample,
            ..Config::default()
        };
        prop_assert!(config.validate().is_ok());
        let (sketches, truth) = traffic(&config, flows, lost, doubled, seed);
        let analysis = Analysis::new(sketches);
        let losses = analysis.losses();
        let reasons = losses_lack(Some(&losses), &config.parameters(), analysis.sketches().has_gaps());
        prop_assert!(reasons.leave_counts_exact(), "every packet was followed: {reasons:?}");
        let all_lost: u64 = truth.values().map(Truth::lost).sum();
        prop_assert!(losses.lost_packets <= all_lost, "{} of {all_lost}, {reasons:?}", losses.lost_packets);
        for loss in losses.flows.iter().filter(|loss| loss.exact) {
            let truth = truth[&loss.id];
            prop_assert_eq!((loss.lost, loss.gained), (truth.lost(), truth.gained()), "{:?}", reasons);
        }
        if reasons.is_empty() {
            let told: BTreeMap<_, _> = losses.flows.iter().map(|loss| (loss.id, loss.lost)).collect();
            let exact = truth.iter().filter(|(_, truth)| truth.lost() > 0).map(|(&id, truth)| (id, truth.lost()));
            prop_assert_eq!(told, exact.collect::<BTreeMap<_, _>>());
            prop_assert_eq!((losses.lost_packets, losses.gained_packets), (all_lost, 0));
            prop_assert!(truth.values().all(|truth| truth.gained() == 0));
        }
        if analysis.has_all_candidates() {
            let threshold = u64::from(analysis.sketches().hh_threshold());
            let heavy = truth.iter().filter(|(_, truth)| truth.size >= threshold);
            heavy.for_each(|(id, truth)| assert!(analysis.decoded_size(*id) >= Some(truth.size)));
        }
    }
}

/// Candidates for heavy hitters leave among the heavy losses: without memory for these, no loss is
/// known of them, and none is invented.
#[test]
fn without_memory_for_heavy_losses_none_are_invented() {
    let config = Config { hl: Some(0), hh_threshold: 1, ..Config::default() };
    let (sketches, _) = traffic(&config, 500, 0.0, 0.0, 3);
    let analysis = Analysis::new(sketches);
    let losses = analysis.losses();
    let reasons = losses_lack(Some(&losses), &config.parameters(), analysis.sketches().has_gaps());
    assert_eq!((losses.lost_packets, losses.flows.len(), losses.decoded), (0, 0, false));
    assert_eq!((analysis.sketches().has_gaps(), reasons.contains(Reason::Unmeasured)), (false, true));
    assert!(analysis.has_all_candidates());
}
