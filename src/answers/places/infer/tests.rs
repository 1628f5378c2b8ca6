//! The inference beside an oracle, and what it promises.

use proptest::prelude::*;

use super::*;
use crate::trace::SplitMix64;

/// A path of members between two switches, and the flows that take it: packets and number.
struct Net {
    trials: Trials,
    flows: Vec<FlowTrial>,
}

type Paths = Vec<Vec<usize>>;

/// Two leaves and two spines: members 0 and 1 up, 2 and 3 down, 4 and 5 the spines, on two paths from one leaf
/// to the other, and 6 to 9 the same links the other way.
fn leaves() -> (Paths, Paths, Vec<[usize; 2]>) {
    let paths = vec![vec![0, 4, 2], vec![1, 5, 3], vec![8, 4, 6], vec![9, 5, 7]];
    (paths, vec![vec![0, 1], vec![2, 3]], vec![[0, 6], [1, 7], [2, 8], [3, 9]])
}

/// Flows of a network of which these members lose packets; `wrong` of them are believed on another path.
fn draw(rates: &[(usize, f64)], flows: usize, packets: u64, wrong: f64, seed: u64) -> Net {
    let (paths, ends, cables) = leaves();
    let mut random = SplitMix64::new(seed);
    let rate = |member: usize| rates.iter().find(|(own, _)| *own == member).map_or(1e-5, |(_, rate)| *rate);
    let mut drawn = Vec::new();
    for number in 0..flows {
        let pair = number % ends.len();
        let choose = |random: &mut SplitMix64| ends[pair][random.below(ends[pair].len() as u64) as usize];
        let path = choose(&mut random);
        let sent = 1 + random.below(2 * packets - 1);
        let survives: f64 = paths[path].iter().map(|member| 1.0 - rate(*member)).product();
        let lost = (0..sent).filter(|_| random.unit() > survives).count();
        let believed = if random.unit() < wrong { choose(&mut random) } else { path };
        drawn.push(FlowTrial { ends: pair, path: Some(believed), sent: sent as f64, lost: lost as f64, flows: 1.0 });
    }
    Net { trials: Trials::new(10, paths, ends, cables, drawn.iter().copied()), flows: drawn }
}

fn confident(inferred: &Inferred) -> Vec<usize> {
    (0..inferred.members.len()).filter(|member| inferred.members[*member].confidence > 0.5).collect()
}

/// A link up and the one behind it, down, have the same flows: nothing tells which of them it is.
#[test]
fn a_link_that_loses_packets_is_found() {
    for (seed, rate) in [(1, 0.01), (2, 0.1), (3, 1.0)] {
        let net = draw(&[(2, rate)], 2000, 10, 0.01, seed);
        let inferred = infer(&net.trials, 1e-4);
        let sum = |of: fn(&Losing) -> f64| [0, 2].map(|member| of(&inferred.members[member])).iter().sum::<f64>();
        let lost: f64 = net.flows.iter().filter(|flow| flow.ends == 0).map(|flow| flow.lost).sum();
        assert!(sum(|losing| losing.confidence) > 0.8, "{rate}: {inferred:?}");
        assert!((sum(|losing| losing.packets) - lost).abs() < 0.1 * lost + 3.0, "{rate}: {inferred:?}");
        let others = (0..10).filter(|member| ![0, 2].contains(member));
        assert!(others.into_iter().all(|member| inferred.members[member].confidence < 0.1), "{rate}: {inferred:?}");
    }
}

/// A certain failure is in the last set that is visited.
#[test]
fn sampling_keeps_a_certain_failure() {
    let net = draw(&[(2, 1.0)], 2000, 10, 0.0, 7);
    let mut search = Search::new(&net.trials, 1e-4);
    let best = search.most_likely();
    let last = search.sample(best);
    assert!(last.contains(&2) || last.contains(&0), "{last:?}");
}

/// A switch is one cause, and not its four links; both directions of a link are one cause, and not two others.
#[test]
fn a_switch_and_a_cable_are_one_cause() {
    let switch = draw(&[(4, 0.02)], 2000, 10, 0.01, 4);
    assert_eq!(confident(&infer(&switch.trials, 1e-4)), [4]);
    let cable = draw(&[(0, 0.02), (6, 0.02)], 4000, 10, 0.01, 5);
    let found = confident(&infer(&cable.trials, 1e-4));
    // The spine has the same flows as the cable and as the links behind it.
    assert!(!found.contains(&5) && !found.contains(&1) && !found.is_empty(), "{found:?}");
}

/// A member that counted explains what it lost and nothing more: what others lost is found beside it.
#[test]
fn a_member_that_counted_is_not_looked_for() {
    for rate in [0.02, 1.0] {
        let net = draw(&[(4, rate), (1, rate)], 4000, 10, 0.01, 8);
        let counted = (0..10).map(|member| (member == 4).then_some(rate)).collect();
        let Inferred { members, flows } = infer(&net.trials.clone().with_counted(counted), 1e-4);
        // A link and the one behind it have the same flows.
        assert!(members[1].confidence + members[3].confidence > 0.8, "{rate}: {members:?}");
        let others = [0, 2, 5, 6, 7, 8, 9].map(|member| members[member].confidence);
        assert!(others.iter().all(|confidence| *confidence < 0.1), "{rate}: {members:?}");
        let sum =
            |member| flows.iter().flatten().filter(|(at, ..)| *at == member).map(|(_, lost, _)| lost).sum::<f64>();
        let across: f64 = net.flows.iter().filter(|flow| matches!(flow.path, Some(0 | 2))).map(|flow| flow.lost).sum();
        assert!((sum(4) - across).abs() < 0.1 * across, "{rate}: {} of {across}", sum(4));
    }
    // One of two links with the same flows counted, and lost nothing: it is the other.
    let net = draw(&[(0, 0.02)], 4000, 10, 0.01, 9);
    let counted = (0..10).map(|member| (member == 2).then_some(0.0)).collect();
    let inferred = infer(&net.trials.clone().with_counted(counted), 1e-4);
    assert_eq!(confident(&inferred), [0]);
}

#[test]
fn nothing_fails_at_the_rate_of_links_that_are_whole() {
    for seed in 0..40 {
        let net = draw(&[], 4000, 20, 0.01, seed);
        let inferred = infer(&net.trials, 1e-4);
        assert!(inferred.members.iter().all(|member| !member.failed), "{seed}: {inferred:?}");
        assert!(confident(&inferred).is_empty(), "{seed}");
    }
}

/// What one flow lost may be anything about the flow, however many packets it were.
#[test]
fn one_flow_makes_nobody_sure() {
    let (paths, ends, cables) = leaves();
    let mut flows: Vec<FlowTrial> = draw(&[], 2000, 10, 0.0, 6).flows;
    flows[0] = FlowTrial { ends: 0, path: Some(0), sent: 500.0, lost: 200.0, flows: 1.0 };
    let trials = Trials::new(10, paths, ends, cables, flows);
    let inferred = infer(&trials, 1e-4);
    assert!(inferred.members.iter().all(|member| member.confidence < 0.95), "{inferred:?}");
}

/// The posterior of each member by enumeration of all states: a rate of a grid for each member.
fn enumerated(trials: &Trials, alarm_rate: f64) -> Vec<f64> {
    let grid = |from: f64, to: f64, points: usize| -> Vec<f64> {
        (0..points).map(|point| from * (to / from).powf((point as f64 + 0.5) / points as f64)).collect()
    };
    let healthy = grid(alarm_rate / 1000.0, alarm_rate, 3);
    // Nearly uniform in the logarithm, with the rates that are tried among them.
    let failed = [0.0015, 0.003, 0.006, 0.011, 0.02, 0.04, 0.08, 0.15, 0.3, 0.55, 1.0 - 1e-6];
    let states: Vec<(f64, f64, bool)> = healthy
        .iter()
        .map(|rate| (*rate, (1.0 - FAILED) / healthy.len() as f64, false))
        .chain(failed.iter().map(|rate| (*rate, FAILED / failed.len() as f64, true)))
        .collect();
    let mut victims: Vec<FlowTrial> = Vec::new();
    for flow in &trials.victims {
        let is_alike = |of: &&mut FlowTrial| (of.path, of.sent, of.lost) == (flow.path, flow.sent, flow.lost);
        match victims.iter_mut().find(is_alike) {
            Some(alike) => alike.flows += flow.flows,
            None => victims.push(*flow),
        }
    }
    let count = states.len().pow(trials.members as u32);
    let mut weights: Vec<(f64, Vec<bool>)> = Vec::with_capacity(count);
    for number in 0..count {
        let mut rest = number;
        let own: Vec<(f64, f64, bool)> = (0..trials.members)
            .map(|_| {
                let state = states[rest % states.len()];
                rest /= states.len();
                state
            })
            .collect();
        let survives: Vec<f64> =
            trials.paths.iter().map(|path| path.iter().map(|member| 1.0 - own[*member].0).product::<f64>()).collect();
        let of_flow = |flow: &FlowTrial| {
            let on = |(path, prior): (usize, f64)| {
                prior.exp() * (1.0 - survives[path]).powf(flow.lost) * survives[path].powf(flow.sent - flow.lost)
            };
            flow.flows * trials.candidates(flow, WRONG_PATHS).map(on).sum::<f64>().ln()
        };
        let mut log: f64 = own.iter().map(|(_, prior, _)| prior.ln()).sum();
        log += victims.iter().map(of_flow).sum::<f64>();
        for ((ends, path), classes) in &trials.survivors {
            for (sent, flows) in classes {
                log += of_flow(&FlowTrial { ends: *ends, path: *path, sent: *sent, lost: 0.0, flows: *flows });
            }
        }
        weights.push((log, own.iter().map(|(.., failed)| *failed).collect()));
    }
    let most = weights.iter().map(|(log, _)| *log).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = weights.iter().map(|(log, _)| (log - most).exp()).sum();
    let of =
        |member: usize| weights.iter().filter(move |(_, failed)| failed[member]).map(|(log, _)| (log - most).exp());
    (0..trials.members).map(|member| of(member).sum::<f64>() / sum).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Confidences are those of the exact posterior of a small network, as far as a few tenths where it is in
    /// doubt.
    #[test]
    fn confidences_are_those_of_the_exact_posterior(
        lossy in 0usize..4,
        rate in prop::sample::select(vec![1e-5, 0.02, 0.3, 1.0]),
        seed in 0u64..1000,
    ) {
        // Two paths between two switches, which share their last link.
        let (paths, ends) = (vec![vec![0, 2], vec![1, 2], vec![3]], vec![vec![0, 1], vec![2]]);
        let mut random = SplitMix64::new(seed);
        let flows: Vec<FlowTrial> = (0..600).map(|number| {
            let path = number % 3;
            let sent = 1 + random.below(20);
            let rate = if paths[path].contains(&lossy) { rate } else { 1e-5 };
            let lost = (0..sent).filter(|_| random.unit() < rate).count();
            FlowTrial { ends: path / 2, path: Some(path), sent: sent as f64, lost: lost as f64, flows: 1.0 }
        }).collect();
        let trials = Trials::new(4, paths, ends, Vec::new(), flows);
        let posterior = Search::new(&trials, 1e-3).posterior();
        for (member, exact) in enumerated(&trials, 1e-3).into_iter().enumerate() {
            let found = posterior.confidence(member);
            prop_assert!((found - exact).abs() < 0.25, "{member} of {lossy} at {rate}: {found}, exactly {exact}");
            prop_assert!(found < 0.95 || exact > 0.8, "{member} of {lossy} at {rate}: {found}, exactly {exact}");
        }
    }

    /// Each flow's packets are shared out among members of paths that it may take, and members lost what flows did.
    #[test]
    fn packets_are_shared_out(
        members in prop::collection::vec((0usize..10, 0.001f64..0.5), 0..4),
        seed in 0u64..1000,
    ) {
        let net = draw(&members, 500, 8, 0.02, seed);
        let inferred = infer(&net.trials, 1e-4);
        let mut sums = vec![0.0; 10];
        for (flow, shares) in net.trials.victims.iter().zip(&inferred.flows) {
            let sum: f64 = shares.iter().map(|(_, packets, _)| packets).sum();
            prop_assert!((sum - flow.lost).abs() < 1e-3 * flow.lost + 1e-3, "{flow:?} {shares:?}");
            for (member, packets, none) in shares {
                let paths = &net.trials.ends[flow.ends];
                prop_assert!(paths.iter().any(|path| net.trials.paths[*path].contains(member)));
                prop_assert!((0.0..=1.0).contains(none));
                sums[*member] += packets;
            }
        }
        for (losing, sum) in inferred.members.iter().zip(&sums) {
            prop_assert!((losing.packets - sum).abs() < 0.02 * sum + 0.5, "{losing:?} {sum}");
            prop_assert!((0.0..=1.0).contains(&losing.confidence) && losing.deviation >= 0.0);
        }
    }

    /// The same trials in another order say the same.
    #[test]
    fn the_order_of_flows_means_nothing(seed in 0u64..1000) {
        let net = draw(&[(3, 0.05)], 400, 8, 0.01, seed);
        let (paths, ends, cables) = leaves();
        let backwards = Trials::new(10, paths, ends, cables, net.flows.iter().rev().copied());
        let [one, other] = [&net.trials, &backwards].map(|trials| infer(trials, 1e-4).members);
        for (one, other) in one.iter().zip(&other) {
            prop_assert!((one.confidence - other.confidence).abs() < 1e-3, "{one:?} {other:?}");
        }
    }
}
