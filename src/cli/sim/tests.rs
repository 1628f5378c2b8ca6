use super::*;

fn setup(topology: &str, workload: &str, losses: &[&str]) -> Setup {
    Setup {
        topology: topology.parse::<Shape>().unwrap().build().unwrap(),
        programs: vec!["chamelemon".parse().unwrap(), "hashpipe".parse().unwrap()],
        everywhere: false,
        workload: workload.parse().unwrap(),
        losses: losses.iter().map(|loss| loss.parse().unwrap()).collect(),
        epoch: 50_000_000,
        transit: 10_000_000,
        latency: 1_000_000,
        shifts: true,
        delay: 10_000,
        rate: None,
        patience: 0,
    }
}

/// A small network's whole table: it changes with the dataplane, the controller, or what is drawn, and with nothing else.
#[test]
fn the_table_of_a_small_network() {
    let setup = setup("testbed", "keyvalue/uniform,flows=2000,seed=7", &["flows=5%,rate=10%"]);
    let mut simulation = Simulation::new(&setup).unwrap();
    let mut epochs = Vec::new();
    for _ in 0..4 {
        epochs.extend(simulation.epoch(&setup.workload, setup.victims()));
    }
    epochs.extend(simulation.finish());
    insta::assert_snapshot!(tables(&epochs), @"");
}
