//! Switches that are configured otherwise and decide alone, in networks in memory.

use serde_json::json;
use weir::config::{Config as SwitchFile, ForwardMode, PortConfig};
use weir::history::Gap;
use weir::network::controller::{Controller, ControllerSettings, JoinRequest, NetworkProfile};
use weir::program::{Program, ProgramConfig};
use weir::replay::Replayer;
use weir::sim::{Fabric, Setup, Shape, Simulation};
use weir::trace::{Frames, Workload};

use crate::program::{Bursts, Config, Microbursts, Thinning, install};
use crate::unit::subscribed;

/// Every packet is to be reported, in each of its epochs.
fn reporting(reports: u32) -> Config {
    Config { slots: 1 << 16, reports, depth: 0, sub_epochs: 1, adapt: false, ..Config::default() }
}

/// 20 000 packets in 40 ms, and epochs of 1 ms: of 500 packets one in 32 finds room in 20 reports.
#[test]
fn a_replayed_switch_decides_alone() {
    install();
    let thinning = |reports: u32| {
        let mut switch = SwitchFile {
            programs: vec![ProgramConfig::new::<Microbursts>(reporting(reports))],
            ports: ["a", "b"].map(|name| PortConfig::new(name, weir::port::Dev::Memory)).into(),
            ..SwitchFile::default()
        };
        switch.switch.forward = ForwardMode::Xconnect;
        switch.switch.epoch = "1ms".parse().unwrap();
        let mut replayer = Replayer::new(switch).unwrap();
        let records = subscribed(&mut replayer);
        let trace = "isp/uniform,flows=300,packets=20000,seed=3".parse::<Workload>().unwrap().generate();
        let taken: Result<(), std::convert::Infallible> = trace.for_each_frame(&Frames::default(), |at, frame| {
            replayer.packet(0, at, frame);
            Ok(())
        });
        taken.unwrap();
        replayer.finish();
        records.newest::<Bursts>().unwrap().thinning
    };
    assert_eq!((thinning(20), thinning(4000)), (Thinning(5), Thinning(0)));
}

fn setup(programs: &str, own: &[&str]) -> Setup {
    Setup {
        fabric: Fabric { workers: 2, own: own.iter().map(|own| own.parse().unwrap()).collect(), ..Fabric::default() },
        ..Setup::new(
            "line:3".parse::<Shape>().unwrap().build().unwrap(),
            vec![programs.parse().unwrap()],
            "keyvalue/uniform,flows=400,seed=7".parse().unwrap(),
        )
    }
}

/// One of two switches has fewer cells and little room for reports. Its own setting follows, in the
/// epochs that come: the record of epoch 0 decides on epoch 2. All its cores take it, or their records
/// would not add up and the epoch would be a gap.
#[test]
fn simulated_switches_decide_alone() {
    install();
    let words = "microbursts:reports=4096,depth=0,sub_epochs=2,adapt=false";
    let setup = setup(words, &["s2:microbursts:reports=64,slots=512"]);
    let mut simulation = Simulation::new(&setup).unwrap();
    let mut thinnings = Vec::new();
    for epoch in 0..9 {
        simulation.epoch(&setup.workload, None);
        let Some(newest) = simulation.newest(0) else { continue };
        assert_eq!(newest.epoch + 1, epoch);
        let answers = newest.history.outline(newest.epoch).unwrap();
        let room = |gap: &Gap| matches!(gap, Gap::Overflow { .. });
        assert!(answers.gaps.iter().all(|gap| &*gap.switch == "s2" && room(&gap.gap)), "{:?}", answers.gaps);
        let switches = &answers.adaptation.as_ref().unwrap().facts["switches"];
        assert_eq!(switches["s0"], json!({ "slots": 4096, "thinning": 0 }));
        assert_eq!(switches["s2"]["slots"], 512);
        thinnings.push(switches["s2"]["thinning"].as_u64().unwrap());
    }
    assert_eq!(thinnings[..5], [0, 0, 1, 1, 2], "{thinnings:?}");
    assert!(thinnings.is_sorted());
}

/// A switch that may join beside others, but could not measure with their parameters, is refused; and
/// parameters that one of the switches could not measure with are not sent.
#[test]
fn parameters_fit_every_switch() {
    const LENGTH: u64 = 50_000_000;
    let program = ProgramConfig::new::<Microbursts>(Config::default());
    let settings = ControllerSettings { shifts: false, ..ControllerSettings::new(LENGTH, 1) };
    let mut controller = Controller::new(&program, settings);
    let join = |controller: &mut Controller, name: &str, config: &Config| {
        let program = ProgramConfig::new::<Microbursts>(config.clone());
        let parameters = program.start();
        let profile = NetworkProfile {
            program,
            length: LENGTH,
            transit: 1_000_000,
            header: Default::default(),
            key: Default::default(),
        };
        let request = JoinRequest { name: name.into(), profile, parameters, first_epoch: 7 };
        controller.join(&request, 6 * LENGTH).map(drop).map_err(|error| error.to_string())
    };
    let of = |slots, sub_epochs, cuts| Config { slots, sub_epochs, cuts, ..Config::default() };
    join(&mut controller, "s0", &of(64, 16, 64)).unwrap();
    assert_eq!(
        join(&mut controller, "s1", &of(4096, 4, 8)).unwrap_err(),
        "switch s1: it cannot measure with the network's parameters: \
         microbursts: sub_epochs = 16 is out of range, it may be 1 to 8"
    );
    join(&mut controller, "s1", &of(4096, 4, 16)).unwrap();
    let change = |sub_epochs| ProgramConfig::new::<Microbursts>(of(64, sub_epochs, 64));
    let why = controller.change(&change(17), 6 * LENGTH).unwrap_err().to_string();
    assert_eq!(why, "microbursts: sub_epochs = 17 is out of range, it may be 1 to 16");
    assert!(controller.change(&change(12), 6 * LENGTH).is_ok());
    let digest = Config { digest: true, ..of(64, 4, 64) };
    let why = join(&mut controller, "s2", &digest).unwrap_err();
    assert!(why.starts_with("switch s2: digest is true, and the network's is false"), "{why}");
    assert!(Microbursts::validate(&of(64, 4, 3)).is_err());
}
