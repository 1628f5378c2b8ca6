//! What a controller does not take, and what it goes on from.

use super::*;
use crate::program::hashpipe::HashPipe;

#[test]
fn records_of_no_use_are_refused() {
    let mut network = Network::new(&["a"], 6);
    let mut report = |epoch, now| {
        let record = network.edges[0].end(epoch, |_| {}).record;
        network.controller.report("a", Report { first_epoch: epoch, epoch, whole: true, late: 0, record }, now)
    };
    let now = 7 * LENGTH + TRANSIT;
    assert!(matches!(report(7, now), Err(ReportError::Early { running: 7, .. })));
    assert!(report(6, now).is_ok());
    assert!(matches!(report(6, now), Err(ReportError::Late { epoch: 6, .. })));
    let report =
        Report { epoch: 7, first_epoch: 7, whole: true, late: 0, record: network.edges[0].end(7, |_| {}).record };
    assert_eq!(network.controller.report("z", report, now), Err(ReportError::Unknown { name: "z".into() }));
    let other = Config { upstream: 600, ..config() };
    let mut program = ChameleMonDataplane::new(&other, &hashes()).unwrap();
    program.allocate();
    let report = Report { epoch: 7, first_epoch: 7, whole: true, late: 0, record: program.spare().record() };
    assert!(matches!(network.controller.report("a", report, 8 * LENGTH), Err(ReportError::Shape { epoch: 7, .. })));
    let record = Box::new(crate::program::hashpipe::Counts::default());
    let report = Report { epoch: 7, first_epoch: 7, whole: true, late: 0, record };
    assert!(matches!(network.controller.report("a", report, 8 * LENGTH), Err(ReportError::Shape { epoch: 7, .. })));
}

#[test]
fn switches_that_differ_may_not_join() {
    let mut network = Network::new(&["a"], 6);
    let request = network.edges[0].request(7);
    let mut refused = |request: JoinRequest| network.controller.join(&request, 6 * LENGTH).unwrap_err().to_string();
    let other = |profile: NetworkProfile| JoinRequest { name: "b".into(), profile, ..request.clone() };
    let longer = NetworkProfile { length: LENGTH + 1, ..profile() };
    assert_eq!(
        refused(other(longer)),
        "switch b: the epoch's length in ns is 50000001, and the network's is 50000000; all edge switches must have the same"
    );
    let tos = NetworkProfile { header: crate::switch::TelemetryHeader::Dscp, ..profile() };
    assert!(refused(other(tos)).contains("telemetry_header is dscp, and the network's is shim"));
    let inner = NetworkProfile { key: crate::switch::KeyHeaders::Inner, ..profile() };
    assert!(refused(other(inner)).contains("key is inner, and the network's is outer"));
    let shorter = profile_of(Config { tower: "8x4096".parse().unwrap(), ..config() });
    assert!(refused(other(shorter)).contains("tower is 8x4096, and the network's is 8x4096+16x2048"));
    let wide = profile_of(Config { arrays: 900, ..config() });
    assert!(refused(other(wide)).contains("arrays = 900 is out of range"));
    let hashpipe = ProgramConfig::new::<HashPipe>(Default::default());
    assert!(
        refused(other(NetworkProfile { program: hashpipe, ..profile() }))
            .contains("no controller takes the records of hashpipe")
    );
    assert!(refused(JoinRequest { name: "two\nlines".into(), ..request.clone() }).contains("no name"));
    let mut parameters = EncoderParameters::decode(&request.parameters).unwrap();
    parameters.partition.hh = 9999;
    let room = JoinRequest { parameters: parameters.encode(), ..request.clone() };
    assert!(refused(JoinRequest { name: "b".into(), ..room }).contains("hh = 9999"));
    network.join("b");
}

/// Two names with one CRC-32 stand for one number on PINT's packets: the second is refused, whether it
/// joins, is expected, or is one of the neighbours that are configured. Both names are in the message.
#[test]
fn switches_that_look_alike_may_not_join() {
    const ALIKE: [&str; 2] = ["porto-spine5-37", "tokyo-edge20-20"];
    let of = |config: pint::Config| NetworkProfile { program: ProgramConfig::new::<Pint>(config), ..profile() };
    let plain = of(pint::Config::default());
    let join = |controller: &mut Controller, profile: &NetworkProfile, name: &str| {
        let parameters = profile.program.start();
        let request = JoinRequest { name: name.into(), profile: profile.clone(), parameters, first_epoch: 7 };
        controller.join(&request, 6 * LENGTH).map_err(|error| error.to_string())
    };
    let refused = |why: String| {
        assert!(ALIKE.iter().all(|name| why.contains(name)) && why.contains("pint") && why.contains("rename"), "{why}");
    };
    let mut controller = Controller::new(&plain.program, settings());
    for name in [ALIKE[0], "s2", ALIKE[0]] {
        join(&mut controller, &plain, name).unwrap();
    }
    refused(join(&mut controller, &plain, ALIKE[1]).unwrap_err());
    // The first one may come back, and gone it is in nobody's way.
    controller.leave(ALIKE[0]);
    refused(join(&mut controller, &plain, ALIKE[1]).unwrap_err());
    controller.evict(ALIKE[0]).unwrap();
    join(&mut controller, &plain, ALIKE[1]).unwrap();
    // Names that are stored.
    let switches = ALIKE.map(String::from).to_vec();
    refused(
        Controller::restore(&plain.program, settings(), &Saved { switches, ..controller.save() })
            .err()
            .unwrap()
            .to_string(),
    );
    // Neighbours.
    let neighbours = |name: &str| [("s2".to_owned(), vec![name.to_owned()])].into();
    let linked = of(pint::Config { neighbours: neighbours(ALIKE[0]), ..pint::Config::default() });
    refused(join(&mut Controller::new(&linked.program, settings()), &linked, ALIKE[1]).unwrap_err());
    // A program that writes no names onto packets takes both.
    let mut network = Network::new(&[ALIKE[0]], 6);
    network.join(ALIKE[1]);
}

#[test]
fn a_network_has_room_for_so_many_switches() {
    let settings = ControllerSettings { switches: 2, ..ControllerSettings::new(LENGTH, 1) };
    let mut controller = Controller::new(&profile().program, settings);
    let mut join = |name: &str| controller.join(&Edge::new(name, 0, config().parameters()).request(0), 0).map(drop);
    assert_eq!((join("a"), join("b"), join("a")), (Ok(()), Ok(()), Ok(())));
    assert_eq!(join("c").unwrap_err().to_string(), "switch c: the network has 2 switches already");
}

/// After a restart the parameters in force are sent again, and switches that do not come back
/// are gaps.
#[test]
fn a_restart_goes_on() {
    let mut network = Network::new(&["a", "b"], 6);
    for _ in 0..6 {
        network.epoch(3000, &[]);
    }
    let saved = network.controller.save();
    let text = serde_json::to_string(&saved).unwrap();
    assert_eq!(serde_json::from_str::<Saved>(&text).unwrap(), saved);
    let (program, settings) = (profile().program, ControllerSettings { salt: 4, ..settings() });
    let mut again = Controller::restore(&program, settings, &saved).unwrap();
    assert_eq!(again.switches().collect::<Vec<_>>(), [("a", false), ("b", false)]);
    let updates = again.join(&network.edges[0].request(13), 12 * LENGTH + 5).unwrap();
    assert_eq!(updates.last().map(|update| &update.parameters), saved.updates.last().map(|saved| &saved.parameters));
    network.controller = again;
    network.epoch(3000, &["b"]);
    network.epoch(3000, &["b"]);
    assert!(network.gaps().contains(&("b".to_owned(), Gap::Missing)), "{:?}", network.gaps());
    let version = Saved { version: 9, ..saved.clone() };
    assert_eq!(Controller::restore(&program, settings, &version).err(), Some(SavedError::Version { version: 9 }));
    let mut wrong = saved;
    wrong.updates[0].parameters = vec![1, 2];
    assert!(Controller::restore(&program, settings, &wrong).is_err());
    assert!(Controller::restore(&program, settings, &Controller::new(&program, settings).save()).is_ok());
}
