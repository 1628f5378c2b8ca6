use super::*;
use crate::sim::tests::setup;

/// A small network's whole table: it changes with the dataplane, the controller, or what is drawn,
/// and with nothing else.
#[test]
fn the_table_of_a_small_network() {
    let programs = ["chamelemon", "hashpipe"].map(|program| program.parse().unwrap()).into();
    let setup = Setup { programs, ..setup("testbed", "keyvalue/uniform,flows=2000,seed=7", &["flows=5%,rate=10%"]) };
    let mut simulation = Simulation::new(&setup).unwrap();
    let mut epochs = Vec::new();
    for _ in 0..4 {
        epochs.extend(simulation.epoch(&setup.workload, setup.victims()));
    }
    epochs.extend(simulation.finish());
    insta::assert_snapshot!(tables(&epochs).to_text(output::Style::Plain), @r"

    The truth, as hosts sent and received:

    epoch  flows  sent  delivered  lost  flows with losses  most of them at
        0   2000  2250       2150   100                100  edge0-1 → agg0-1
        1   2000  2241       2141   100                100  agg0-1 → edge0-0
        2   2000  2244       2144   100                100  edge0-0 → agg0-1
        3   2000  2234       2134   100                100  edge0-0 → agg0-0

    chamelemon, what it measured with, and what it found:

    epoch  state      hh   hl  ll  hh threshold  hl threshold    load    sample  heavy candidates  heavy losses  light losses
        0  healthy  3584  512   0           250             1  0.81 %  100.00 %                 0           100             0
        1  healthy  3584  512   0           250             1  0.81 %  100.00 %                 0           100             0
        2  healthy  3584  512   0             1             1  5.14 %  100.00 %              2000           100             0
        3  healthy  3584  512   0             1             1  4.93 %  100.00 %              2000           100             0

    chamelemon, its answers beside the truth:

    epoch  victims  found  exact  wrong  says    k    recall  precision  size error  flows error  entropy error   WMRE
        0      100    100    100      0  all   300    0.00 %   100.00 %    100.00 %       0.20 %         0.03 %  0.006
        1      100    100    100      0  all   300    0.00 %   100.00 %    100.00 %       0.13 %         0.02 %  0.004
        2      100    100    100      0  all   300  100.00 %   100.00 %      0.00 %       0.28 %         0.00 %  0.000
        3      100    100    100      0  all   300  100.00 %   100.00 %      0.00 %       0.21 %         0.00 %  0.000

    hashpipe, its answers beside the truth:

    epoch    k    recall  precision  size error
        0  300  100.00 %   100.00 %      0.00 %
        1  300  100.00 %   100.00 %      0.00 %
        2  300  100.00 %   100.00 %      0.00 %
        3  300  100.00 %   100.00 %      0.00 %
    ");
}
