//! What a controller does not take, and what it goes on from.

use super::*;
use crate::program::chamelemon::ChameleMonBank;

#[test]
fn records_of_no_use_are_refused() {
    let mut network = Network::new(&["a"], 6);
    let mut report = |epoch, now| {
        let sketches = network.edges[0].end(epoch, |_| {}).sketches;
        network.controller.report("a", Report { first_epoch: epoch, epoch, sketches }, now)
    };
    let now = 7 * LENGTH + TRANSIT;
    assert!(matches!(report(7, now), Err(ReportError::Early { running: 7, .. })));
    assert!(report(6, now).is_ok());
    assert!(matches!(report(6, now), Err(ReportError::Late { epoch: 6, .. })));
    let report = Report { epoch: 7, first_epoch: 7, sketches: network.edges[0].end(7, |_| {}).sketches };
    assert_eq!(network.controller.report("z", report, now), Err(ReportError::Unknown { name: "z".into() }));
    let other = Config { upstream: 600, ..config() };
    let mut program = ChameleMon::new(&other, &polynomials()).unwrap();
    program.equip();
    let bank: Box<dyn std::any::Any> = program.spare();
    let sketches = Box::new(bank.downcast::<ChameleMonBank>().unwrap().read());
    let report = Report { epoch: 7, first_epoch: 7, sketches };
    assert!(matches!(network.controller.report("a", report, 8 * LENGTH), Err(ReportError::Shape { epoch: 7, .. })));
}

#[test]
fn switches_that_differ_may_not_join() {
    let mut network = Network::new(&["a"], 6);
    let joining = network.edges[0].joining(7);
    let mut refused = |joining: Joining| network.controller.join(&joining, 6 * LENGTH).unwrap_err().to_string();
    let other = |terms: Terms| Joining { name: "b".into(), terms, ..joining.clone() };
    let longer = Terms { length: LENGTH + 1, ..terms() };
    assert_eq!(
        refused(other(longer)),
        "switch b: the epoch's length in ns is 50000001, and the network's is 50000000; all edge switches must have the same"
    );
    let tos = Terms { carrier: crate::switch::TelemetryHeader::Tos, ..terms() };
    assert!(refused(other(tos)).contains("carrier is tos, and the network's is shim"));
    let shorter = Terms { tower: "8x4096".parse().unwrap(), ..terms() };
    assert!(refused(other(shorter)).contains("tower is 8x4096, and the network's is 8x4096+16x2048"));
    let mut wide = terms();
    wide.shape.arrays = 900;
    assert!(refused(other(wide)).contains("arrays = 900 is out of range"));
    assert!(refused(Joining { name: "two\nlines".into(), ..joining.clone() }).contains("no name"));
    let mut room = joining.clone();
    room.runtime.division.hh = 9999;
    assert!(refused(Joining { name: "b".into(), ..room }).contains("hh = 9999"));
    network.join("b");
}

#[test]
fn a_network_has_room_for_so_many_switches() {
    let settings = Settings { switches: 2, ..Settings::new(LENGTH, 1) };
    let mut controller = Controller::new(settings);
    let mut join = |name: &str| controller.join(&Edge::new(name, 0, config().runtime()).joining(0), 0).map(drop);
    assert_eq!((join("a"), join("b"), join("a")), (Ok(()), Ok(()), Ok(())));
    assert_eq!(join("c").unwrap_err().to_string(), "switch c: the network has 2 switches already");
}

/// After a restart the parameters in force are ordered again, and switches that do not come back are gaps.
#[test]
fn a_restart_goes_on() {
    let mut network = Network::new(&["a", "b"], 6);
    for _ in 0..6 {
        network.epoch(3000, &[]);
    }
    let saved = network.controller.save();
    let text = serde_json::to_string(&saved).unwrap();
    assert_eq!(serde_json::from_str::<Saved>(&text).unwrap(), saved);
    let settings = Settings { salt: 4, ..settings() };
    let mut again = Controller::restore(settings, &saved).unwrap();
    assert_eq!(again.switches().collect::<Vec<_>>(), [("a", false), ("b", false)]);
    let orders = again.join(&network.edges[0].joining(13), 12 * LENGTH + 5).unwrap();
    assert_eq!(orders.last().unwrap().runtime, saved.orders.last().unwrap().runtime);
    network.controller = again;
    network.epoch(3000, &["b"]);
    network.epoch(3000, &["b"]);
    assert!(network.gaps().contains(&("b".to_owned(), Gap::Missing)), "{:?}", network.gaps());
    let version = Saved { version: 2, ..saved.clone() };
    assert_eq!(Controller::restore(settings, &version).err(), Some(SavedError::Version { version: 2 }));
    let mut wrong = saved;
    wrong.orders[0].runtime.division.hh = 9999;
    assert!(Controller::restore(settings, &wrong).is_err());
    assert!(Controller::restore(settings, &Controller::new(settings).save()).is_ok());
}
