use proptest::prelude::*;

use super::*;

fn demand(bits: u32, share: &str) -> Demand {
    Demand { bits, share: share.parse().unwrap() }
}

fn sets(plan: &Plan) -> Vec<(u8, f64)> {
    plan.shares().map(|(set, share)| (set.0, share)).collect()
}

/// §6.4: paths on all packets, beside latencies on 15 of 16 and utilisation on the sixteenth.
#[test]
fn the_papers_combined_plan() {
    let demands = [demand(8, "1"), demand(8, "15/16"), demand(8, "1/16")];
    let plan = Plan::new(&demands, 16).unwrap();
    assert_eq!(sets(&plan), [(0b011, 15.0 / 16.0), (0b101, 1.0 / 16.0)]);
    // Figure 3's kind of plan: three queries that exclude each other.
    let thirds = Plan::new(&[demand(8, "0.3"), demand(8, "0.3"), demand(8, "0.3")], 8).unwrap();
    assert!(sets(&thirds).iter().all(|(_, share)| (share - 1.0 / 3.0).abs() < 1e-9));
    // Three at two of three packets each, two at a time: no greedy choice of sets gives it.
    let pairs = Plan::new(&[demand(8, "0.6666"), demand(8, "0.6666"), demand(8, "0.6666")], 16).unwrap();
    assert_eq!(pairs.0.len(), 3);
    // Those that do not meet are not in one set.
    assert_eq!(sets(&Plan::new(&[demand(16, "1/2"), demand(1, "1/2")], 16).unwrap()), [(1, 0.5), (2, 0.5)]);
}

#[test]
fn a_conflict_names_its_queries_and_the_nearest_plan() {
    let demands = [demand(8, "1"), demand(8, "15/16"), demand(8, "1/8"), demand(1, "1/16")];
    let error = Plan::new(&demands, 17).unwrap_err();
    let PlanError::Conflict { conflicting, factor, fits, reduced, .. } = &error else { panic!("{error}") };
    // Of those with 8 bits two fit; the fourth has room beside them, and keeps its share.
    assert_eq!((reduced, fits[3]), (conflicting, demands[3].share));
    assert_eq!(conflicting.queries().collect::<Vec<_>>(), [0, 1, 2]);
    assert!((*factor - 2.0 / (1.0 + 15.0 / 16.0 + 1.0 / 8.0)).abs() < 1e-9, "{factor}");
    let fitting = demands.iter().zip(fits).map(|(demand, share)| Demand { share: *share, ..*demand });
    assert!(Plan::new(&fitting.collect::<Vec<_>>(), 17).is_ok());
    assert!(error.to_string().starts_with(
        "the queries 1, 2, 3 conflict: 17 bits carry all with the frequencies of 1, 2, 3 times 0.9697, that is"
    ));
    // The third has room beside the second alone, which is on too few packets when it is reduced.
    let demands = [demand(8, "1"), demand(4, "1"), demand(4, "3/4")];
    let PlanError::Conflict { conflicting, fits, reduced, .. } = Plan::new(&demands, 8).unwrap_err() else { panic!() };
    assert_eq!((conflicting, reduced), (QuerySet(0b011), QuerySet(0b111)));
    assert_eq!(fits, ["1/2", "1/2", "3/8"].map(|share| share.parse().unwrap()));
    assert_eq!(Plan::new(&[demand(9, "1")], 8), Err(PlanError::TooLarge { query: 0, bits: 9, budget: 8 }));
    assert_eq!(Plan::new(&[], 8), Err(PlanError::Number));
}

#[test]
fn shares_are_read_and_written() {
    for (text, written) in [("15/16", "15/16"), ("1", "1"), ("0.5", "1/2"), ("100%", "1"), ("1/65536", "1/65536")] {
        assert_eq!(text.parse::<Share>().unwrap().to_string(), written);
    }
    assert!("1/3".parse::<Share>().unwrap().as_f64() >= 1.0 / 3.0, "at least what was asked for");
    for wrong in ["0", "1.1", "-1", "2/1", "1/0", "", "x", "101%", "1e3", "0.0000000000000001"] {
        assert!(wrong.parse::<Share>().is_err(), "{wrong}");
    }
}

/// The least total weight by trying each choice of as many sets as there are queries: one of them
/// carries the least cover, with some demands met exactly and the other weights 0.
fn least(demands: &[Demand], budget: u32) -> f64 {
    let queries = demands.len();
    let fits = |set: &u32| {
        let bits = (0..queries).filter(|query| set >> query & 1 == 1).map(|query| demands[query].bits);
        bits.sum::<u32>() <= budget
    };
    // Sets that are not maximal stand for surplus: a query in fewer sets.
    let sets: Vec<u32> = (1..1 << queries).filter(fits).collect();
    let mut best = f64::INFINITY;
    let mut chosen = vec![0; queries];
    choose(&sets, 0, &mut chosen, 0, &mut |chosen| {
        let column = |set: u32, query: usize| f64::from(set >> query & 1);
        let rows = (0..queries).map(|query| {
            let row = chosen.iter().map(|set| column(*set, query));
            row.chain([demands[query].share.as_f64()]).collect::<Vec<_>>()
        });
        let Some(weights) = solve(rows.collect()) else { return };
        if weights.iter().all(|weight| *weight > -1e-9) {
            best = best.min(weights.iter().sum());
        }
    });
    best
}

fn choose(sets: &[u32], from: usize, chosen: &mut Vec<u32>, at: usize, take: &mut impl FnMut(&[u32])) {
    if at == chosen.len() {
        return take(chosen);
    }
    for i in from..sets.len() {
        chosen[at] = sets[i];
        choose(sets, i + 1, chosen, at + 1, take);
    }
}

/// Gauss' elimination; `None` of a singular system.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = rows.len();
    for column in 0..n {
        let pivot = (column..n).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let pivot = rows[column].clone();
        if pivot[column].abs() < 1e-9 {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(i, _)| *i != column) {
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(&pivot).for_each(|(cell, pivot)| *cell -= factor * pivot);
        }
    }
    Some((0..n).map(|i| rows[i][n] / rows[i][i]).collect())
}

fn demands(most: usize) -> impl Strategy<Value = (Vec<Demand>, u32)> {
    let share = prop_oneof![(1..=16u64).prop_map(|n| Share::at_least(n, 16).unwrap()), (1..=65_536u32).prop_map(Share)];
    let demand = move |budget: u32| (1..=budget, share.clone()).prop_map(|(bits, share)| Demand { bits, share });
    (1..=16u32).prop_flat_map(move |budget| (prop::collection::vec(demand(budget), 1..=most), Just(budget)))
}

/// Each set fits, and each query has its share.
fn hold(plan: &Plan, demands: &[Demand], budget: u32) {
    assert_eq!(plan.0.last().map(|planned| planned.last), Some(u32::MAX));
    assert!(plan.0.is_sorted_by(|a, b| a.last < b.last));
    for (set, _) in plan.shares() {
        assert!(set.queries().map(|query| demands[query].bits).sum::<u32>() <= budget && set.0 > 0);
    }
    for (query, demand) in demands.iter().enumerate() {
        let of = |(set, share): (QuerySet, f64)| if set.contains(query) { share } else { 0.0 };
        let share = plan.shares().map(of).sum::<f64>();
        assert!(share > demand.share.as_f64() - plan.0.len() as f64 / 2f64.powi(32), "{plan:?} {demands:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// A plan covers all demands within the budget. There is one exactly when the naive search
    /// finds one, and where there is none, the factor is the largest that leaves one.
    #[test]
    fn plans_are_right((demands, budget) in demands(4)) {
        let least = least(&demands, budget);
        match Plan::new(&demands, budget) {
            Ok(plan) => {
                prop_assert!(least <= 1.0 + 1e-9, "{least}");
                hold(&plan, &demands, budget);
            }
            Err(PlanError::Conflict { factor, fits, conflicting, reduced, .. }) => {
                prop_assert!(least > 1.0 - 1e-9 && (factor * least - 1.0).abs() < 1e-9, "{factor} {least}");
                let fitting = |fits: &[Share]| -> Vec<_> {
                    demands.iter().zip(fits).map(|(demand, share)| Demand { share: *share, ..*demand }).collect()
                };
                hold(&Plan::new(&fitting(&fits), budget).unwrap(), &fitting(&fits), budget);
                // The others keep their shares where a naive search finds a plan for that.
                let kept = |reduced: QuerySet| demands.iter().enumerate().map(move |(query, demand)| {
                    let share = if reduced.contains(query) { demand.share.as_f64() * factor } else { demand.share.as_f64() };
                    Demand { share: Share(((share * 65_536.0 + 1e-6) as u32).max(1)), ..*demand }
                }).collect::<Vec<_>>();
                let fits_alone = self::least(&kept(conflicting), budget) <= 1.0 + 1e-9;
                let all = QuerySet((1u16 << demands.len()).wrapping_sub(1) as u8);
                prop_assert_eq!(reduced, if fits_alone { conflicting } else { all });
                prop_assert_eq!(fitting(&fits), kept(reduced));
                // Those in conflict do not fit without the others either.
                let alone: Vec<_> = conflicting.queries().map(|query| demands[query]).collect();
                prop_assert!(Plan::new(&alone, budget).is_err());
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    /// As many queries as there may be.
    #[test]
    fn large_plans_hold((demands, budget) in demands(MAX_QUERIES)) {
        match Plan::new(&demands, budget) {
            Ok(plan) => hold(&plan, &demands, budget),
            Err(PlanError::Conflict { fits, .. }) => {
                let fitting = demands.iter().zip(fits).map(|(demand, share)| Demand { share, ..*demand });
                let fitting: Vec<_> = fitting.collect();
                hold(&Plan::new(&fitting, budget).unwrap(), &fitting, budget);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
