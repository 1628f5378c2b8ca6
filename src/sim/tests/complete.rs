//! No answer that is called complete is wrong, whatever goes wrong.
//!
//! Random networks with random faults. `WEIR_AUDIT_EPOCHS` sets the number of epochs,
//! `WEIR_AUDIT_SEED` the first seed.

use super::*;
use crate::sim::fault::SwitchName;
use crate::sim::loss::LinkName;
use crate::switch::TelemetryHeader;
use crate::trace::SplitMix64;

/// Epochs of one scenario, and nanoseconds of an epoch.
pub(super) const EPOCHS: u64 = 40;
pub(super) const EPOCH: u64 = 5_000_000;
pub(super) const TRANSIT: u64 = 1_000_000;

struct Draw(SplitMix64);

impl Draw {
    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize].clone()
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    /// A time from nothing to so many epochs, a small one as often as a large one.
    fn time(&mut self, epochs: f64) -> u64 {
        let scale = self.of(&[0.02, 0.2, 1.0]);
        (self.0.unit() * scale * epochs * EPOCH as f64) as u64
    }
}

/// A network of some edge switches with one or several workers, small sketches, and either
/// telemetry header, in which some of all that can go wrong does, routers that fragment packets
/// among it.
fn scenario(seed: u64) -> Setup {
    let mut draw = Draw(SplitMix64::new(seed));
    let topology = draw.of(&["line:1", "line:2", "line:3", "line:4", "spine-leaf:2,3,1", "fat-tree:2", "testbed"]);
    let flows = 10 + draw.0.below(190);
    let (order, keys) = (draw.of(&["uniform", "burst"]), draw.of(&["random", "scan", "range", "clients"]));
    let workload = format!("keyvalue/{order},flows={flows},longest=12,keys={keys},seed={seed}");
    let fabric = Fabric {
        telemetry_header: draw.of(&[TelemetryHeader::Shim, TelemetryHeader::Shim, TelemetryHeader::Dscp]),
        workers: draw.of(&[1, 1, 2, 3]),
        fragmented: draw.of(&[0.0, 0.0, 0.0005, 0.02]),
        ..Fabric::default()
    };
    let mut losses = Vec::new();
    if fabric.fragmented > 0.0 && draw.one_in(2) {
        // So that some fragments of a packet are lost, and others not.
        losses.push(draw.of(&["link=all,rate=2%", "link=all,rate=20%"]));
    }
    if !draw.one_in(3) {
        losses.push(draw.of(&["flows=2%,rate=20%", "flows=30%,rate=20%", "flows=100%,rate=50%", "link=all,rate=1%"]));
    }
    let healthy = "chamelemon:tower=8x512+16x256,upstream=512,downstream=384,hh_threshold=4";
    let small = "chamelemon:tower=8x512+16x256,upstream=96,downstream=72,hh_threshold=4";
    let ill = "chamelemon:tower=8x512+16x256,upstream=128,downstream=96,hh=32,hl=64,ll=32,hh_threshold=8,hl_threshold=4,sample=20000";
    let program = draw.of(&[healthy, healthy, small, ill]);
    let built = setup(topology, &workload, &losses);
    let (faults, everywhere) = (faults(&mut draw, &built, &fabric), draw.one_in(2));
    Setup {
        fabric,
        programs: vec![program.parse().unwrap()],
        everywhere,
        epoch: EPOCH,
        transit: TRANSIT,
        latency: 100_000,
        delay: 40_000,
        shifts: draw.one_in(2),
        faults,
        wait: Some(draw.of(&[EPOCH / 4, EPOCH, 3 * EPOCH, 24 * EPOCH])),
        ..built
    }
}

/// With the DSCP a packet must be off by less than an epoch less the transit time: all times
/// together are less.
fn faults(draw: &mut Draw, setup: &Setup, fabric: &Fabric) -> Vec<Fault> {
    let [pauses, clocks, delays] = match fabric.telemetry_header {
        TelemetryHeader::Shim => [6.0, 20.0, 5.0],
        TelemetryHeader::Dscp => [0.08, 0.08, 0.2],
    };
    let names = setup.topology.switches().to_vec();
    let links = setup.topology.links().len() as u32;
    let switch = |draw: &mut Draw| SwitchName::One(draw.of(&names));
    // One that does nothing, so that what faults bring with them is there always.
    let mut faults = vec![Fault::Double { link: LinkName::All, rate: 0.0 }];
    if draw.one_in(2) {
        for _ in 0..1 + draw.0.below(4) {
            let (switch, at, length) = (switch(draw), draw.0.below(EPOCHS * EPOCH), draw.time(pauses));
            faults.push(Fault::Pause { switch, at, length });
        }
    }
    if draw.one_in(3) {
        for _ in 0..1 + draw.0.below(3) {
            let at = if draw.one_in(2) { 0 } else { draw.0.below(EPOCHS * EPOCH) };
            let behind = if draw.one_in(2) { -1 } else { 1 };
            faults.push(Fault::Clock { switch: switch(draw), at, ahead: behind * draw.time(clocks) as i64 });
        }
    }
    if links > 0 && draw.one_in(3) {
        let (rate, delay) = (draw.of(&[0.001, 0.02, 0.5]), draw.time(delays));
        faults.push(Fault::Delay { link: LinkName::One(draw.0.below(links.into()) as u32), rate, delay });
    }
    // Of a packet that is doubled and fragmented the truth would not be known.
    if fabric.fragmented == 0.0 && draw.one_in(4) {
        faults.push(Fault::Double { link: LinkName::All, rate: draw.of(&[0.0001, 0.01]) });
    }
    faults
}

pub(super) fn audit(setup: &Setup) -> Audit {
    let mut simulation = Simulation::new(setup).unwrap();
    for _ in 0..EPOCHS {
        assert!(simulation.epoch(&setup.workload, setup.victims()).is_none());
    }
    let reports = simulation.finish();
    assert_eq!(reports.len() as u64, EPOCHS);
    for report in &reports {
        assert_eq!(report.sent_packets + report.doubled_packets, report.delivered_packets + report.lost_packets);
    }
    simulation.audit().unwrap()
}

fn merge(all: &mut Audit, audit: Audit) {
    all.epochs += audit.epochs;
    all.complete_epochs += audit.complete_epochs;
    all.wrong_epochs.extend(audit.wrong_epochs);
    audit.incomplete.into_iter().for_each(|(reason, epochs)| *all.incomplete.entry(reason).or_default() += epochs);
    audit.gaps.into_iter().for_each(|(kind, epochs)| *all.gaps.entry(kind).or_default() += epochs);
    all.exact_flows += audit.exact_flows;
    all.miscalled_flows += audit.miscalled_flows;
}

#[test]
fn no_answer_that_is_called_complete_is_wrong() {
    let number = |name: &str, or: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or);
    let (epochs, first) = (number("WEIR_AUDIT_EPOCHS", 800), number("WEIR_AUDIT_SEED", 1));
    let (mut all, mut wrong) = (Audit::default(), Vec::new());
    for seed in first.. {
        let setup = scenario(seed);
        let audit = audit(&setup);
        if !audit.wrong_epochs.is_empty() || audit.miscalled_flows > 0 {
            let faults: Vec<_> = setup.faults.iter().map(ToString::to_string).collect();
            wrong.push(format!("seed {seed}, {} {:?} {faults:?}: {audit:?}", setup.workload, setup.fabric));
        }
        merge(&mut all, audit);
        if all.epochs >= epochs {
            break;
        }
    }
    println!("{all:#?}");
    assert!(wrong.is_empty(), "{} scenarios:\n{}", wrong.len(), wrong.join("\n"));
    // A rule that calls nothing complete would hold, too.
    assert!(all.complete_epochs * 4 > all.epochs && all.complete_epochs < all.epochs, "{all:?}");
}

/// Some fragments of a packet are lost and others are not, behind a router that measures nothing.
#[test]
fn torn_packets_are_in_no_complete_answer() {
    for (telemetry_header, workers) in [(TelemetryHeader::Shim, 1), (TelemetryHeader::Dscp, 3)] {
        let built = setup("line:3", "keyvalue/uniform,flows=100,longest=12,seed=5", &["link=all,rate=20%"]);
        // A fault that is none, for the audit.
        let faults = vec![Fault::Double { link: LinkName::All, rate: 0.0 }];
        let fabric = Fabric { telemetry_header, workers, fragmented: 0.005, ..Fabric::default() };
        let audit = audit(&Setup { faults, fabric, epoch: EPOCH, transit: TRANSIT, latency: 100_000, ..built });
        assert!(audit.wrong_epochs.is_empty() && audit.miscalled_flows == 0, "{audit:?}");
        assert!(audit.gaps["unfollowed"] > 5 && audit.complete_epochs > 5, "{audit:?}");
    }
}
