//! Clocks that are wrong, in whole networks.

use super::complete::{EPOCH, EPOCHS, TRANSIT, audit};
use super::*;
use crate::sim::fault::SwitchName;

/// Two switches, of which the second one's clock is ahead by so much from a time on. The parameters
/// change in every epoch: what is sampled does.
fn wrong_clock(at: u64, ahead: i64, wait: u64, transit: u64) -> Audit {
    let built = setup("line:2", "keyvalue,flows=40,longest=12", &["flows=20%,rate=20%"]);
    let switch = SwitchName::One(built.topology.switches()[1].clone());
    audit(&Setup {
        programs: vec!["chamelemon:tower=8x512+16x256,upstream=512,downstream=384,hh_threshold=4".parse().unwrap()],
        epoch: EPOCH,
        transit,
        latency: 100_000,
        faults: vec![Fault::Clock { switch, at, ahead }],
        wait: Some(wait),
        ..built
    })
}

/// Of a network whose clocks differ by less than the transit time all is known, but of the epoch in
/// which it begins.
#[test]
fn clocks_that_differ_by_less_than_the_transit_time() {
    for transit in [TRANSIT, 2 * TRANSIT] {
        for part in [-90, -50, 10, 50, 90] {
            let audit = wrong_clock(0, transit as i64 * part / 100, EPOCH, transit);
            let case = format!("{part} % of {transit} ns: {audit:?}");
            assert!(audit.wrong_epochs.is_empty() && audit.exact_flows > EPOCHS, "{case}");
            assert_eq!((audit.complete_epochs, audit.gaps.len()), (audit.epochs - 1, 1), "{case}");
            assert!(audit.gaps.contains_key("before"), "{case}");
        }
    }
}

/// A switch is whole epochs off, and waited for: its records come in time, and say something of
/// other epochs than theirs.
#[test]
fn clocks_that_are_epochs_off() {
    for epochs in [-3, -2, -1, 1, 2, 3] {
        let ahead = epochs * EPOCH as i64;
        let audit = wrong_clock(0, ahead, 24 * EPOCH, TRANSIT);
        assert_eq!((audit.complete_epochs, audit.wrong_epochs.len()), (0, 0), "{epochs} epochs: {audit:?}");
        let audit = wrong_clock(EPOCHS / 2 * EPOCH, ahead, 24 * EPOCH, TRANSIT);
        assert!(audit.wrong_epochs.is_empty() && audit.complete_epochs > EPOCHS / 4, "{epochs} epochs: {audit:?}");
    }
}
