//! `weir doctor` in the guest: what it says is so, and the commands that it prints mend.

use serde_json::Value;

use crate::common::{Lab, Link, eventually};
use crate::guest::{Card, Guest, Machine, text};

/// Whether a mend is a command, and not advice.
fn is_command(mend: &str) -> bool {
    !mend.starts_with("no command can") && !mend.starts_with("boot with") && !mend.contains("boot anew")
}

fn of<'a>(checks: &'a [Value], name: &str) -> Vec<&'a Value> {
    checks.iter().filter(|check| check["name"] == name).collect()
}

fn found(guest: &mut Guest, card: usize) -> String {
    let address = guest.cards[card].clone();
    let checks = guest.doctor();
    let of_card = of(&checks, "pci").into_iter().find(|check| text(&check["found"]).starts_with(&address));
    text(&of_card.expect("a line for each card")["found"]).to_owned()
}

/// Runs each command as printed, and looks whether the check is content then.
fn mend_all(guest: &mut Guest) {
    let amiss: Vec<_> = guest.doctor().into_iter().filter(|check| check["status"] != "ok").collect();
    for check in amiss {
        let Some(mend) = check["mend"].as_str().filter(|mend| is_command(mend)) else { continue };
        eprintln!("{}: {mend}", text(&check["name"]));
        guest.run(mend);
        // A check of several lines is told by what it is about.
        let first = |check: &Value| text(&check["found"]).split(' ').next().unwrap_or_default().to_owned();
        let checks = guest.doctor();
        let again = of(&checks, text(&check["name"]));
        let same = |one: &&&Value| again.len() == 1 || first(one) == first(&check);
        let after = again.iter().find(same).expect("the same check");
        assert_eq!(after["status"], "ok", "after {mend}: {after:#}");
    }
}

#[test]
#[ignore = "make test-nic"]
fn tells_the_truth_and_its_commands_mend() {
    let test = "doctor::tells_the_truth_and_its_commands_mend";
    let Some(lab) = Lab::new(test) else { return };
    let ports = lab.ports(Link::Tap, 2);
    let Some(mut guest) = Guest::boot(test, &lab, &Machine::default()) else { return };
    let hosts = ports.connect();
    assert!(found(&mut guest, 0).contains("is eth0 and unused"));
    guest.run("ip address add 10.0.0.100/24 dev eth0");
    assert!(found(&mut guest, 0).ends_with("has an address: leave it"));
    guest.run("ip link set eth0 up");
    eventually("a route", || found(&mut guest, 0).ends_with("carries routes: leave it").then_some(()));
    guest.run("ip address flush dev eth0");
    eventually("the card to be up", || found(&mut guest, 0).ends_with("in use: leave it").then_some(()));
    guest.run("ip link set eth0 down");
    assert!(found(&mut guest, 0).contains("is eth0 and unused"));

    mend_all(&mut guest);
    let checks = guest.doctor();
    let left: Vec<_> = checks.iter().filter(|check| check["status"] != "ok").collect();
    assert!(left.is_empty(), "{left:#?}");
    // What doctor calls ready is.
    let ports = guest.ports();
    guest.start(&ports);
    hosts[0].reaches(&hosts[1]);
    assert!(guest.log().contains("; with huge pages;"), "{}", guest.log());
    guest.stop();
}

/// Without an IOMMU, on a kernel whose VFIO cannot do without.
fn without_an_iommu(test: &str, card: Card) {
    let Some(lab) = Lab::new(test) else { return };
    let ports = lab.ports(Link::Tap, 2);
    let machine = Machine { card, iommu: false, kernel: "", ..Machine::default() };
    let Some(mut guest) = Guest::boot(test, &lab, &machine) else { return };
    let hosts = ports.connect();
    let checks = guest.doctor();
    assert_eq!(of(&checks, "iommu").len(), 1, "{checks:#?}");
    mend_all(&mut guest);
    let ports = guest.ports();
    guest.start(&ports);
    hosts[0].reaches(&hosts[1]);
    guest.stop();
}

#[test]
#[ignore = "make test-nic"]
fn virtio_without_an_iommu() {
    without_an_iommu("doctor::virtio_without_an_iommu", Card::Virtio);
}

#[test]
#[ignore = "make test-nic"]
fn e1000e_without_an_iommu() {
    without_an_iommu("doctor::e1000e_without_an_iommu", Card::E1000e);
}
