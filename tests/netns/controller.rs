//! Two switches with a lossy link between them, and their controller: it names the victims and
//! counts their packets exactly, and what it does not know it calls unknown.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use serde_json::Value;
use weir::pisa::hash::HashFamily;
use weir::trace::CaptureReader;
use weir::wire::{Flow, FlowKey, Headers, Tuple4, parse, proto};

use crate::common::{Controller, Host, Iperf, Lab, Link, Protocol, Weir, capture, eventually};
use crate::edges::Edges;

/// Long enough for a machine that does other things as well.
const EPOCH: &str = "250ms";
const TRANSIT: &str = "60ms";
const EPOCH_NS: u128 = 250_000_000;
/// How often traffic is tried again when the machine was too busy to measure each epoch whole.
const ROUNDS: usize = 6;

/// The first switch loses one ping in five of its host's, and two TCP packets in a hundred; the
/// second all packets whose ECN field is 1.
const NEAR: &str = "tx:drop=20%,seed=7,proto=icmp,src=10.0.0.1;tx:drop=2%,seed=3,proto=tcp,src=10.0.0.1";
const FAR: &str = "tx:drop=100%,ecn=1";

fn start(edges: &Edges, name: &str, fault: &str, core: usize) -> Weir {
    let switch = format!("epoch = \"{EPOCH}\"\ntransit = \"{TRANSIT}\"\ncores = [{core}]");
    edges.start(name, [&switch, "", &format!("fault = \"{fault}\"")])
}

fn start_near(edges: &Edges) -> Weir {
    start(edges, "near", NEAR, 0)
}

fn start_far(edges: &Edges) -> Weir {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    start(edges, "far", FAR, usize::from(cores > 1))
}

fn start_controller(edges: &Edges) -> Controller {
    edges.controller(&format!("--epoch {EPOCH} --transit {TRANSIT} --record-timeout 2s -vv"))
}

fn running_epoch() -> u64 {
    (SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() / EPOCH_NS) as u64
}

fn newest(controller: &Controller) -> u64 {
    controller.ask("show losses --last 0s")["last_epoch"].as_u64().unwrap_or(0)
}

fn until_known(controller: &Controller) {
    eventually("two epochs of which all is known", || {
        (controller.ask("show losses --last 500ms")["complete"] == true).then_some(())
    });
}

/// Packets that faults of a switch's link have dropped.
fn dropped(weir: &Weir) -> i64 {
    let ports = weir.ask("show ports");
    let fabric = ports["ports"].as_array().unwrap().iter().find(|port| port["name"] == "fabric").unwrap();
    fabric["device"]["fault_drop"].as_i64().unwrap_or(0)
}

/// IPv4 flows with the packets that the link between the switches lost of them.
type Lost = BTreeMap<Flow, i64>;

/// Adds up an epoch's losses. Hosts also speak IPv6 by themselves; nobody drops that on purpose.
fn add(lost: &mut Lost, epoch: &Value) {
    for victim in epoch["losses"].as_array().unwrap().iter().filter(|victim| victim["ipv6_digest"].is_null()) {
        let flow = serde_json::from_value(victim["flow"].clone()).expect("a flow");
        let packets = victim["packets"].as_i64().unwrap();
        assert!(packets > 0, "{flow}: {packets} packets lost");
        *lost.entry(flow).or_default() += packets;
    }
}

/// What both ends of the link see of it: each packet as its switch sends it, before the faults, and
/// as the other receives it.
struct Wiretap {
    ends: [(Child, PathBuf); 2],
}

impl Wiretap {
    fn start(network: &Edges, near: &Weir, far: &Weir) -> Self {
        let tap = |weir: &Weir, name: &str| {
            let file = network.lab.path(name);
            (capture::start(weir, "--port fabric --direction both --filter ip", &file), file)
        };
        Self { ends: [tap(near, "near.pcapng"), tap(far, "far.pcapng")] }
    }

    /// The flows of which less was received than sent.
    fn stop(self) -> Lost {
        let mut lost = Lost::new();
        for (child, file) in self.ends {
            capture::stop(child);
            let mut reader = CaptureReader::open(&file).unwrap();
            for (_, direction, bytes) in capture::packets(&mut reader) {
                let mut headers = Headers::default();
                parse(&bytes, &mut headers).expect("the filter let it through");
                *lost.entry(Tuple4::of(&headers).flow()).or_default() += if direction == "tx" { 1 } else { -1 };
            }
            assert_eq!(reader.missed(), 0);
        }
        lost.retain(|_, packets| *packets != 0);
        lost
    }
}

/// Waits until the network is quiet and its epochs have closed; gives what the faults have dropped
/// until then.
fn settled(controller: &Controller, near: &Weir, far: &Weir) -> [i64; 2] {
    eventually("the network to be quiet", || {
        let (drops, last) = ([dropped(near), dropped(far)], running_epoch());
        eventually("the epochs to close", || (newest(controller) > last).then_some(()));
        (drops == [dropped(near), dropped(far)]).then_some(drops)
    })
}

/// Traffic until an attempt of which each epoch is known; then the losses are the faults' own
/// counts.
fn traffic_is_accounted_for(network: &Edges, controller: &Controller, near: &Weir, far: &Weir) {
    let [host1, host2] = &network.hosts[..] else { unreachable!("two hosts") };
    for _ in 0..ROUNDS {
        until_known(controller);
        let before = settled(controller, near, far);
        let (wiretap, epochs) =
            (Wiretap::start(network, near, far), controller.follow("show losses --each --top 1000"));
        let iperf = Iperf::serve(host2);
        let tcp = iperf.start(host1, Protocol::Tcp, "--time 2 --bitrate 2M --parallel 4");
        host1.space.try_run(&format!("ping -n -q -i 0.02 -W 1 -c 80 {}", host2.address()));
        host2.space.try_run(&format!("ping -n -q -i 0.02 -W 1 -c 40 -Q 1 {}", host1.address()));
        tcp.finish();
        drop(iperf);
        let after = settled(controller, near, far);
        let (truth, epochs) = (wiretap.stop(), epochs.stop());
        let victims = |src: &Host, proto: u8| {
            let of = |flow: &&Flow| flow.src == src.address().parse().ok() && flow.proto == Some(proto);
            truth.keys().filter(of).count()
        };
        assert_eq!((victims(host1, proto::ICMP), victims(host2, proto::ICMP)), (1, 1), "{truth:?}");
        assert!(victims(host1, proto::TCP) >= 3, "four streams, and one that controls them: {truth:?}");
        assert_eq!(
            (after[1] - before[1], victims(host2, proto::TCP)),
            (40, 0),
            "the far link drops marked packets alone"
        );
        assert_eq!(truth.values().sum::<i64>(), after[0] - before[0] + 40, "the faults' own counts");
        let mut lost = Lost::new();
        epochs.iter().for_each(|epoch| add(&mut lost, epoch));
        if epochs.iter().all(|epoch| epoch["complete"] == true) {
            assert_eq!(lost, truth, "{epochs:#?}");
            return;
        }
        // What is known of the rest is right all the same.
        for (flow, packets) in lost {
            let lost = truth.get(&flow).copied().unwrap_or(0);
            assert!(packets <= lost, "{flow}: {packets} of {lost}");
        }
        eprintln!("a busy machine: {:?}", epochs.iter().map(|epoch| &epoch["gaps"]).collect::<Vec<_>>());
    }
    panic!("the machine is too busy");
}

#[test]
fn victims_are_named_with_the_exact_number_of_packets() {
    let Some(network) = Edges::new("victims_are_named_with_the_exact_number_of_packets") else { return };
    let controller = start_controller(&network);
    let (near, far) = (start_near(&network), start_far(&network));
    network.hosts[0].reaches(&network.hosts[1]);
    traffic_is_accounted_for(&network, &controller, &near, &far);

    // A switch that crashes: what it had counted of its epochs is unknown, and said to be.
    let epochs = controller.follow("show losses --each");
    drop(far);
    assert!(!network.hosts[0].ping(&network.hosts[1], "-c 2 -W 1"));
    let far = start_far(&network);
    until_known(&controller);
    let epochs = epochs.stop();
    let unknown = |epoch: &&Value| {
        let far = epoch["gaps"].as_array().unwrap().iter().any(|gap| gap["switch"] == "far");
        epoch["unknown_epochs"] == 1 && epoch["complete"] == false && far
    };
    assert!(epochs.iter().filter(unknown).count() >= 2, "{epochs:#?}");
    let mut made_up = Lost::new();
    epochs.iter().for_each(|epoch| add(&mut made_up, epoch));
    assert!(made_up.is_empty(), "{made_up:?}");
    traffic_is_accounted_for(&network, &controller, &near, &far);

    // So does the controller: it goes on with the same hash functions, and no switch starts anew.
    let state = fs::read_to_string(network.lab.path("network.json")).unwrap();
    controller.kill();
    let controller = start_controller(&network);
    until_known(&controller);
    traffic_is_accounted_for(&network, &controller, &near, &far);
    let link = near.ask("show controller");
    assert!(link["connected"] == true && link["connections"] == 2, "{link}");
    assert_eq!(near.log().matches("the network's hash functions").count(), 1, "{}", near.log());
    let switches = controller.ask("show switches");
    secrets_are_kept(
        &network,
        &state,
        &[near.log(), far.log(), controller.log(), link.to_string(), switches.to_string()],
    );
    near.stop();
    far.stop();
    controller.stop();
}

/// The secret of the hash functions stands in the state and nowhere else, and no polynomial
/// anywhere.
fn secrets_are_kept(network: &Edges, state: &str, told: &[String]) {
    let path = network.lab.path("network.json");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let [before, now] = [state, &fs::read_to_string(&path).unwrap()]
        .map(|text| serde_json::from_str::<Value>(text).unwrap()["secret"].clone());
    assert_eq!(before, now, "a restart changes nothing");
    let secret: [u8; HashFamily::SECRET_BYTES] = serde_json::from_value(now).unwrap();
    let untold = |form: String| assert!(told.iter().all(|text| !text.contains(&form)), "{form} was told");
    // Any four bytes in a row.
    for bytes in secret.windows(4) {
        let text = |byte: fn(&u8) -> String, between| bytes.iter().map(byte).collect::<Vec<_>>().join(between);
        untold(text(|byte| format!("{byte:02x}"), ""));
        untold(text(u8::to_string, ","));
        untold(text(u8::to_string, ", "));
    }
    let family = HashFamily::from_secret(secret);
    let labels = ["tower", "fermat", "fingerprint", "sample", "index/shared", "ipv6"];
    for (label, index) in labels.iter().flat_map(|label| (0..5).map(move |index| (label, index))) {
        let polynomial = family.derive(&format!("chamelemon/{label}"), index).reveal();
        untold(polynomial.to_string());
        untold(format!("{polynomial:08x}"));
        untold(format!("{polynomial:#x}"));
    }
}

/// A switch that does not fit is told why, in words that name what would be right; forwarding goes
/// on.
#[test]
fn a_switch_that_does_not_fit_is_refused() {
    let Some(lab) = Lab::new("a_switch_that_does_not_fit_is_refused") else { return };
    let controller = Controller::start(&lab, "--epoch 100ms");
    let at = Controller::switch_socket(&lab).display().to_string();
    let (weir, hosts) = lab.start(Link::Veth, 2, &format!("--program chamelemon --controller {at}"));
    hosts[0].reaches(&hosts[1]);
    let link = eventually("the refusal", || {
        let link = weir.ask("show controller");
        link["why"].as_str().is_some_and(|why| why.contains("switch.epoch")).then_some(link)
    });
    let why = "switch.epoch of the switch is 67108864 ns, and the controller's is 100000000 ns";
    assert_eq!((link["why"].as_str(), link["connected"].as_bool()), (Some(why), Some(false)));
    assert!(weir.log().contains(why), "{}", weir.log());
    assert_eq!(weir.log().matches(why).count(), 1, "said once, not at each attempt");
    assert!(hosts[0].ping(&hosts[1], "-c 2"));
    assert_eq!(controller.try_ask("show losses --last x").status.code(), Some(2));
    weir.stop();
    controller.stop();
}

/// A CA, and a certificate for 127.0.0.1 and the switch `switch` with its key, as files.
fn certificates(directory: &Path, name: &str) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.subject_alt_names.push(SanType::URI("weir:switch:switch".try_into().unwrap()));
    let certificate = params.signed_by(&key, &ca).unwrap();
    for (kind, text) in [("ca", ca.pem()), ("cert", certificate.pem()), ("key", key.serialize_pem())] {
        let path = directory.join(format!("{name}-{kind}.pem"));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    }
}

#[test]
fn over_tcp_both_sides_show_certificates() {
    let Some(lab) = Lab::new("over_tcp_both_sides_show_certificates") else { return };
    for name in ["lab", "stranger"] {
        certificates(lab.directory(), name);
    }
    let tls = "listen = \"127.0.0.1:9471\"\nswitches = [\"switch\"]\nepoch = \"100ms\"\nrecord_timeout = \"2s\"\n\
               [tls]\ncertificate = \"lab-cert.pem\"\nkey = \"lab-key.pem\"\nclient_ca = \"lab-ca.pem\"\n";
    fs::write(lab.path("controller.toml"), tls).unwrap();
    let controller = Controller::start(&lab, "--config controller.toml");
    let file = |who: &str| {
        let text = format!(
            "[switch]\nepoch = \"100ms\"\n[[program]]\nname = \"chamelemon\"\n[controller]\nat = \"127.0.0.1:9471\"\n\
             certificate = \"{who}-cert.pem\"\nkey = \"{who}-key.pem\"\nca = \"lab-ca.pem\"\n"
        );
        fs::write(lab.path(&format!("{who}.toml")), text).unwrap();
    };
    file("stranger");
    let (stranger, hosts) = lab.start(Link::Veth, 2, "--config stranger.toml");
    // A connection may break before the reason for it has been read; another attempt tells.
    eventually("the stranger to be refused", || {
        let why = stranger.ask("show controller")["why"].as_str().unwrap_or_default().to_owned();
        ["ertificate", "UnknownCA", "unknown"].iter().any(|reason| why.contains(reason)).then_some(())
    });
    let refused = controller.ask("show switches");
    assert_eq!(refused["switches"][0]["connected"], false, "{refused}");
    stranger.stop();
    drop(hosts);

    file("lab");
    let (weir, hosts) = {
        for link in ["p1", "p2"] {
            lab.switch.try_run(&format!("ip link del {link}"));
        }
        lab.start(Link::Veth, 2, "--config lab.toml")
    };
    hosts[0].reaches(&hosts[1]);
    until_known(&controller);
    let switches = controller.ask("show switches");
    assert_eq!(switches["switches"][0]["connected"], true, "{switches}");
    weir.stop();
    controller.stop();
}
