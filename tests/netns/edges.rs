//! Two edges of a network with a link between them, and a host at each.

use std::fs;

use crate::common::{Controller, Host, Lab, Link, Namespace, Weir};

/// The edges are called `near` and `far`.
pub struct Edges {
    pub lab: Lab,
    pub hosts: Vec<Host>,
    /// Of the far one; the near one is in the lab's own.
    beyond: Namespace,
}

impl Edges {
    pub fn new(test: &str) -> Option<Self> {
        let lab = Lab::new(test)?;
        let ports = lab.ports(Link::Veth, 2);
        let beyond = lab.switch.sibling();
        lab.switch.run(&format!("ip link set p2 netns {}", beyond.id()));
        beyond.run("ip link set p2 up");
        // Larger than the hosts' links by the shim, so that full packets carry it too.
        lab.switch.run(&format!("ip link add f1 mtu 1600 type veth peer name f2 mtu 1600 netns {}", beyond.id()));
        lab.switch.run("ip link set f1 up");
        beyond.run("ip link set f2 up");
        let hosts = ports.connect();
        Some(Self { lab, hosts, beyond })
    }

    /// Starts an edge with ChameleMon. These are lines of its file: of the switch, and of its ports `host` and
    /// `fabric`.
    pub fn start(&self, name: &str, [switch, host, fabric]: [&str; 3]) -> Weir {
        let (space, number) = if name == "far" { (&self.beyond, 2) } else { (&self.lab.switch, 1) };
        let at = Controller::switch_socket(&self.lab);
        let file = format!(
            "[switch]\n{switch}\n\
             [[port]]\nname = \"host\"\ndev = \"veth:p{number}\"\n{host}\n\
             [[port]]\nname = \"fabric\"\ndev = \"veth:f{number}\"\nrole = \"fabric\"\nmtu = 1600\n{fabric}\n\
             [[program]]\nname = \"chamelemon\"\n[controller]\nat = \"{}\"\n",
            at.display()
        );
        fs::write(self.lab.path(&format!("{name}.toml")), file).unwrap();
        Weir::start(&self.lab, space, name, &format!("-vv --config {name}.toml"))
    }

    /// A controller of both edges, with these options.
    pub fn controller(&self, options: &str) -> Controller {
        Controller::start(&self.lab, &format!("--switch near --switch far {options}"))
    }
}

/// The MAC address of a host.
pub fn mac(host: &Host) -> [u8; 6] {
    let output = host.space.try_run(&format!("ip -o link show {host}"));
    let text = String::from_utf8(output.stdout).expect("text");
    let address = text.split("link/ether ").nth(1).and_then(|rest| rest.get(..17)).expect("an address");
    let bytes: Vec<_> = address.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal")).collect();
    bytes.try_into().expect("six bytes")
}
