//! Three routers in a triangle and one controller: it names the flow that static routes send in a
//! circle, and the switches that saw it, long before the TTL ends its packets; and no other flow.

use std::fs;

use serde_json::Value;

use crate::common::{Controller, Lab, Namespace, Weir, eventually};

const EPOCH: &str = "250ms";
const TRANSIT: &str = "60ms";
/// Paths without a loop have at most three switches, which compare twice: with a threshold of 2 a
/// false alarm is not rare but impossible.
const QUERIES: &str = "path:bits=8+loops:bits=8:threshold=2";
const NAMES: [&str; 3] = ["s1", "s2", "s3"];
/// Reached by s1 → s2 → s3, behind host 3.
const FAR: &str = "10.8.0.1";

struct Triangle {
    lab: Lab,
    /// s2 and s3; s1 is in the lab's own.
    spaces: [Namespace; 2],
    /// At s1 and s3.
    hosts: [Namespace; 2],
}

impl Triangle {
    fn new(test: &str) -> Option<Self> {
        let lab = Lab::new(test)?;
        let spaces = [lab.switch.sibling(), lab.switch.sibling()];
        let hosts = [lab.switch.sibling(), lab.switch.sibling()];
        let triangle = Self { lab, spaces, hosts };
        for i in 0..3 {
            // Links between switches have room for the shim beside full packets.
            let (near, far) = (triangle.space(i), triangle.space((i + 1) % 3));
            near.run(&format!("ip link add next mtu 1600 type veth peer name prev mtu 1600 netns {}", far.id()));
            near.run("ip link set next up");
            far.run("ip link set prev up");
        }
        for (switch, host) in [1, 3].into_iter().zip(&triangle.hosts) {
            let space = triangle.space(switch - 1);
            space.run(&format!("ip link add host type veth peer name eth0 netns {}", host.id()));
            space.run("ip link set host up");
            host.run(&format!("ip addr add 10.0.{switch}.2/24 dev eth0"));
            host.run("ip link set eth0 up");
            host.run(&format!("ip route add default via 10.0.{switch}.1"));
        }
        triangle.hosts[1].run(&format!("ip addr add {FAR}/32 dev lo"));
        triangle.hosts[1].run("ip link set lo up");
        Some(triangle)
    }

    fn space(&self, switch: usize) -> &Namespace {
        if switch == 0 { &self.lab.switch } else { &self.spaces[switch - 1] }
    }

    fn switches(&self) -> Vec<Weir> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let at = Controller::switch_socket(&self.lab);
        // The network of a link has the number of the switch before it; addresses end in that of
        // the switch.
        let routes: [&[_]; 3] = [
            &[(format!("{FAR}/32"), "10.1.1.2"), ("10.0.3.0/24".into(), "10.1.3.3")],
            &[(format!("{FAR}/32"), "10.1.2.3"), ("10.0.1.0/24".into(), "10.1.1.1")],
            &[(format!("{FAR}/32"), "10.0.3.2"), ("10.0.1.0/24".into(), "10.1.3.1")],
        ];
        let switch = |i: usize| {
            let (number, before) = (i + 1, (i + 2) % 3 + 1);
            let fabric = |interface: &str, link: usize| {
                format!(
                    "[[port]]\nname = \"{interface}\"\ndev = \"veth:{interface}\"\nrole = \"fabric\"\n\
                     addresses = [\"10.1.{link}.{number}/24\"]\n"
                )
            };
            let mut ports = fabric("next", number) + &fabric("prev", before);
            if i != 1 {
                ports +=
                    &format!("[[port]]\nname = \"host\"\ndev = \"veth:host\"\naddresses = [\"10.0.{number}.1/24\"]\n");
            }
            for (prefix, via) in routes[i] {
                ports += &format!("[[route]]\nprefix = \"{prefix}\"\nvia = [\"{via}\"]\n");
            }
            let times = format!("epoch = \"{EPOCH}\"\ntransit = \"{TRANSIT}\"\ncores = [{}]", i % cores);
            let program = format!("[[program]]\nname = \"pint\"\nqueries = \"{QUERIES}\"\n");
            let controller = format!("[controller]\nat = \"{}\"\n", at.display());
            let file = format!("[switch]\nforward = \"route\"\n{times}\n{ports}{program}{controller}");
            fs::write(self.lab.path(&format!("s{number}.toml")), file).unwrap();
            Weir::start(&self.lab, self.space(i), NAMES[i], &format!("-vv --config s{number}.toml"))
        };
        (0..3).map(switch).collect()
    }

    fn pings(&self, options: &str) -> bool {
        self.hosts[0].succeeds(&format!("ping -n -q -i 0.01 -W 1 {options} {FAR}"))
    }
}

/// What is said of the pings to the far host.
fn pings(flows: &Value) -> Vec<&Value> {
    let of = |one: &&Value| one["flow"]["dst"] == FAR && one["flow"]["proto"] == 1;
    flows.as_array().unwrap().iter().filter(of).collect()
}

#[test]
fn a_loop_of_static_routes() {
    let Some(triangle) = Triangle::new("a_loop_of_static_routes") else { return };
    let expected = NAMES.map(|name| format!("--switch {name} ")).concat();
    let times = format!("--epoch {EPOCH} --transit {TRANSIT} --record-timeout 2s -vv");
    let words = format!("{expected}--program pint:queries={QUERIES} {times}");
    let controller = Controller::start(&triangle.lab, &words);
    let switches = triangle.switches();
    eventually("the far host to be reached", || triangle.pings("-c 1").then_some(()));

    // Without a loop there is none.
    eventually("the path to be known", || {
        triangle.pings("-c 50");
        let paths = controller.ask("show paths --last 60s --top 1000");
        pings(&paths["paths"]).first().is_some_and(|path| path["certainty"] == "sure").then_some(())
    });
    let before = controller.ask("show loops --last 60s --top 1000");
    assert_eq!(before["loops"].as_array().unwrap().len(), 0, "{before}");
    assert!(before["switches"].as_array().unwrap().len() == 3 && before["missing_reports"] == 0, "{before}");

    // s3 sends back to s1 what s1 sends by s2 to s3.
    switches[2].ask(&format!("table set routes prefix={FAR}/32 via=10.1.3.1"));
    let loops = eventually("all switches to see the loop", || {
        assert!(!triangle.pings("-c 50"), "it is a loop");
        let loops = controller.ask("show loops --last 60s --top 1000");
        (pings(&loops["loops"]).len() == 3).then_some(loops)
    });
    let mut named: Vec<_> = pings(&loops["loops"]).iter().map(|one| one["switch"].as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, NAMES, "{loops}");
    for found in loops["loops"].as_array().unwrap() {
        // Nothing else loops. It takes three rounds, or fewer by chance, and the TTL of 64 would let
        // them go on for many more.
        assert!(found["flow"]["src"] == "10.0.1.2" && found["flow"]["dst"] == FAR, "{found}");
        let hops = found["least_hops"].as_u64().unwrap();
        assert!((4..40).contains(&hops) && found["packets"].as_u64() > Some(0), "{found}");
        let times = ["first_ns", "last_ns"].map(|key| found[key].as_str().unwrap().parse::<u64>().unwrap());
        assert!(times[0] > 1 << 60 && times[0] <= times[1], "{found}");
    }

    // A route that is mended ends it.
    switches[2].ask(&format!("table set routes prefix={FAR}/32 via=10.0.3.2"));
    eventually("the far host to be reached again", || triangle.pings("-c 20").then_some(()));
    eventually("an epoch without a loop", || {
        let loops = controller.ask("show loops --last 0s");
        (loops["loops"].as_array().unwrap().is_empty() && loops["complete"] == true).then_some(())
    });
    assert_eq!(switches[0].try_ask("show loops").status.code(), Some(2), "the controller answers");
    let expired: u64 = switches.into_iter().map(|weir| weir.stop().dropped("ttl_expired")).sum();
    assert!(expired > 0, "packets went round until their TTL ended them");
    controller.stop();
}
