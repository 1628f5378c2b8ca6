//! The highest load that a device carries: RFC 2544's throughput for several loss ratios at once, and
//! RFC 9004's longest burst.

/// A trial: the load that was really sent, and the share that was lost.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Trial {
    /// Part of the highest load that was asked for.
    pub asked: f64,
    pub load: f64,
    pub loss: f64,
}

/// The result for one loss ratio.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Found {
    /// Largest share of the packets that may be lost.
    pub max_loss: f64,
    /// The highest load of a trial that lost no more; `None` when even the lowest lost more.
    pub load: Option<f64>,
    /// The lowest load above it that lost more; `None` when the highest did not.
    pub above: Option<f64>,
}

/// What is searched.
#[derive(Clone, Debug)]
pub struct Goals {
    /// Loss ratios, in any order.
    pub losses: Vec<f64>,
    /// The search ends when two loads are as near, as a part of the higher.
    pub resolution: f64,
    /// The lowest load, as a part of the highest.
    pub min: f64,
}

/// Most trials of one search.
const MAX_TRIALS: usize = 200;

/// Searches each goal between the lowest load and 1, the loosest first: a trial serves all goals.
/// `trial` measures at this part of the highest load.
///
/// # Errors
/// Those of `trial`.
pub fn throughput<E>(
    goals: &Goals,
    mut trial: impl FnMut(f64) -> Result<Trial, E>,
) -> Result<(Vec<Found>, Vec<Trial>), E> {
    let mut losses = goals.losses.clone();
    losses.sort_by(|a, b| b.total_cmp(a));
    let mut trials = vec![trial(1.0)?];
    let mut found = Vec::new();
    for max_loss in losses {
        loop {
            let (passed, failed) = bounds(&trials, max_loss);
            let next = match (passed, failed) {
                // The highest load is carried.
                (_, None) => break,
                (Some(low), Some(high)) if high - low <= goals.resolution * high => break,
                (Some(low), Some(high)) => (low * high).sqrt(),
                (None, Some(high)) if high <= goals.min => break,
                (None, Some(high)) => (high / 2.0).max(goals.min),
            };
            if trials.len() >= MAX_TRIALS {
                break;
            }
            trials.push(trial(next)?);
        }
        let within = |trial: &&Trial| Some(trial.asked) == bounds(&trials, max_loss).0;
        let load = trials.iter().filter(within).map(|trial| trial.load).reduce(f64::max);
        let above = bounds(&trials, max_loss).1;
        let above = trials.iter().find(|trial| Some(trial.asked) == above).map(|trial| trial.load);
        found.push(Found { max_loss, load, above });
    }
    Ok((found, trials))
}

/// The highest asked load that passed below all that failed, and the lowest that failed.
fn bounds(trials: &[Trial], max_loss: f64) -> (Option<f64>, Option<f64>) {
    let failed = trials.iter().filter(|trial| trial.loss > max_loss).map(|trial| trial.asked).reduce(f64::min);
    let passed = trials.iter().filter(|trial| trial.loss <= max_loss && failed.is_none_or(|high| trial.asked < high));
    (passed.map(|trial| trial.asked).reduce(f64::max), failed)
}

/// The longest burst of at most `max` frames that is carried whole, to the frame.
///
/// # Errors
/// Those of `whole`, which sends a burst and says whether nothing was lost.
pub fn longest_burst<E>(max: u64, mut whole: impl FnMut(u64) -> Result<bool, E>) -> Result<u64, E> {
    let (mut carried, mut lost) = (0, max + 1);
    // The longest first: most of what is measured has no limit that is worth a search.
    let mut next = max;
    while lost - carried > 1 {
        if whole(next)? {
            carried = next
        } else {
            lost = next
        }
        next = carried + (lost - carried) / 2;
    }
    Ok(carried)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A device that carries `capacity`, and loses what is more.
    fn device(capacity: f64) -> impl FnMut(f64) -> Result<Trial, ()> {
        move |asked| Ok(Trial { asked, load: asked * 1e6, loss: (1.0 - capacity / asked).max(0.0) })
    }

    proptest! {
        /// Each goal is met by the load that is told, and would not be by one that is more than the
        /// resolution higher.
        #[test]
        fn goals_are_met(capacity in 0.01f64..1.5, resolution in 0.0005f64..0.05) {
            let goals = Goals { losses: vec![0.0, 0.01, 0.1], resolution, min: 0.001 };
            let (found, trials) = throughput(&goals, device(capacity)).unwrap();
            prop_assert!(trials.len() < 60, "{}", trials.len());
            prop_assert_eq!(found.len(), 3);
            for Found { max_loss, load, .. } in found {
                let exact = (capacity / (1.0 - max_loss)).min(1.0) * 1e6;
                let load = load.unwrap();
                prop_assert!(load <= exact * (1.0 + 1e-9) && load >= exact * (1.0 - resolution) - 1e-6);
            }
        }

        #[test]
        fn the_longest_burst_is_exact(buffer in 0u64..5000, max in 1u64..5000) {
            let mut trials = 0;
            let longest = longest_burst(max, |n| { trials += 1; Ok::<_, ()>(n <= buffer) }).unwrap();
            prop_assert_eq!(longest, buffer.min(max));
            prop_assert!(trials <= 15);
        }
    }

    #[test]
    fn a_device_that_carries_nothing() {
        let goals = Goals { losses: vec![0.0], resolution: 0.01, min: 0.01 };
        let (found, trials) = throughput(&goals, |asked| Ok::<_, ()>(Trial { asked, load: asked, loss: 1.0 })).unwrap();
        assert_eq!((found[0].load, trials.last().unwrap().asked), (None, 0.01));
    }

    #[test]
    fn a_device_that_carries_all_takes_one_trial() {
        let goals = Goals { losses: vec![0.0, 0.01], resolution: 0.01, min: 0.01 };
        let (found, trials) = throughput(&goals, device(2.0)).unwrap();
        assert_eq!((trials.len(), found[0].load, found[1].above), (1, Some(1e6), None));
    }
}
