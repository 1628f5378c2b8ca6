//! What ChameleMon's appendix C says of its Figure 11 in words; the plotted points are not
//! published as numbers.

use super::runs::{Algorithm, Task};

/// A published value: task, algorithm, KB, value.
type Value = (Task, Algorithm, usize, f64);

/// The first four are printed. The others follow from "x times smaller than".
pub const PRINTED: [Value; 11] = [
    (Task::HeavyHitters, Algorithm::TowerFermat, 200, 0.998),
    (Task::HeavyChanges, Algorithm::TowerFermat, 400, 0.996),
    (Task::Distribution, Algorithm::TowerFermat, 600, 0.039),
    (Task::Entropy, Algorithm::TowerFermat, 600, 0.003),
    (Task::Cardinality, Algorithm::TowerFermat, 600, 0.0016),
    (Task::Distribution, Algorithm::Elastic, 600, 0.039 * 1.09),
    (Task::Distribution, Algorithm::Fcm, 600, 0.039 * 1.42),
    (Task::Entropy, Algorithm::UnivMon, 600, 0.003 * 3.3),
    (Task::Cardinality, Algorithm::UnivMon, 600, 0.0016 * 13.125),
    (Task::Cardinality, Algorithm::Elastic, 600, 0.0016 * 10.08),
    (Task::Cardinality, Algorithm::Fcm, 600, 0.0016 * 4.57),
];

/// How many times smaller Tower+Fermat's error of flow sizes is at 200 KB.
pub const SIZE_RATIOS: [(Algorithm, f64); 4] =
    [(Algorithm::Cm, 4.51), (Algorithm::Cu, 3.19), (Algorithm::Elastic, 2.09), (Algorithm::Fcm, 1.59)];

pub fn printed(task: Task, algorithm: Algorithm, kilobytes: usize) -> Option<f64> {
    let value = PRINTED.iter().find(|(t, a, kb, _)| (*t, *a, *kb) == (task, algorithm, kilobytes));
    value.map(|&(_, _, _, value)| value)
}
