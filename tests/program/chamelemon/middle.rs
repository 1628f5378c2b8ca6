//! Networks whose middle fragments, floods, loses and doubles packets: no answer that is called
//! complete is wrong.
//!
//! Real switches of one or several workers, and the truth of each packet beside them.
//! `WEIR_AUDIT_EPOCHS` sets the number of networks, `WEIR_AUDIT_SEED` the first seed.

use std::collections::BTreeMap;

use weir::assemble::{Assembly, assemble};
use weir::config::Config;
use weir::pisa::{DropReason, PortId};
use weir::program::Before;
use weir::program::chamelemon::network::{NetworkEpoch, Reported};
use weir::program::chamelemon::{FlowId, Sketches};
use weir::switch::{Burst, TxBursts};
use weir::trace::SplitMix64;
use weir::wire::{FlowKey, Frame, Headers, HeapFrame, Net, Tuple4, parse};

use crate::frames::{host_mac, mend, own, port, udp};
use crate::records::Records;

const NOW: u64 = 1_790_000_000_000_000_000;
const EDGES: usize = 3;

/// A port of a switch: both by number.
type End = (usize, PortId);

struct Draw(SplitMix64);

impl Draw {
    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }

    fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    fn happens(&mut self, rate: f64) -> bool {
        self.0.unit() < rate
    }
}

/// What became of a host's packet: its frames by how they ended.
#[derive(Debug, Default)]
struct Way {
    /// A switch made several of it.
    several: bool,
    doubled: bool,
    /// At hosts, or at a measuring switch as far as it was to go.
    arrived: i64,
    lost: i64,
}

impl Way {
    /// Packets that entered less those that left. `None` where some of several left and others did
    /// not.
    fn net(&self) -> Option<i64> {
        match self {
            Self { several: false, arrived, .. } => Some(1 - arrived),
            Self { arrived: 0, .. } => Some(1),
            Self { lost: 0, doubled: false, .. } => Some(0),
            _ => None,
        }
    }
}

struct Network {
    switches: Vec<Assembly>,
    runs: Vec<Records>,
    links: BTreeMap<End, End>,
    routes: bool,
    measures: bool,
    /// Hosts at each edge.
    hosts: usize,
    loss: f64,
    double: f64,
}

impl Network {
    fn new(draw: &mut Draw) -> Self {
        let (routes, measures, workers) = (draw.below(2) == 0, draw.below(3) == 0, 1 + draw.below(3));
        let hosts = if routes { 1 } else { 1 + draw.below(2) };
        let (telemetry_header, fabric) = (draw.of(&["shim", "dscp"]), draw.of(&[1600, 1600, 1600, 1500]));
        let head = |forward: &str| {
            format!("[switch]\ntelemetry_header = \"{telemetry_header}\"\nforward = \"{forward}\"\nreproducible = 1\n")
        };
        let threshold = draw.of(&[1, 3, 20]);
        let program = format!(
            "[[program]]\nname = \"chamelemon\"\ntower = \"8x512+16x256\"\nupstream = 192\ndownstream = 144\nhl = 64\n\
             hh_threshold = {threshold}\n"
        );
        let at_edge: String = (0..hosts).map(|n| port(&format!("h{n}"), "host", 1500, "")).collect();
        let up = port("up", "fabric", fabric, "");
        let edge = head(if routes { "xconnect" } else { "learn" }) + &at_edge + &up + &program;
        let addresses = |n| if routes { format!("addresses = [\"10.0.{n}.1/24\"]") } else { String::new() };
        let mut core = head(if routes { "route" } else { "learn" });
        for n in 0..EDGES {
            let mtu = if routes { draw.of(&[fabric, 1400, 700]) } else { fabric };
            core += &port(&format!("p{n}"), "fabric", mtu, &addresses(n));
        }
        for n in (0..EDGES).filter(|_| routes) {
            core +=
                &format!("[[neighbour]]\naddress = \"10.0.{n}.10\"\nport = \"p{n}\"\nmac = \"02:01:00:00:00:0{n}\"\n");
        }
        core += if measures { &program } else { "" };
        let configs = [edge.clone(), edge.clone(), edge, core];
        let assembly = |toml: &String| {
            let config = Config::parse(toml).unwrap();
            let mut assembly = assemble(&config, None, workers).unwrap();
            let run = Records::of(&mut assembly.collector);
            (assembly, run)
        };
        let links = (0..EDGES).map(|n| ((n, hosts as PortId), (EDGES, n as PortId)));
        let links = links.flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        let (loss, double) = (draw.of(&[0.0, 0.02, 0.1]), draw.of(&[0.0, 0.0, 0.01]));
        let (switches, runs) = configs.iter().map(assembly).unzip();
        Self { switches, runs, links, routes, measures, hosts, loss, double }
    }

    /// A host sends a frame.
    fn send(&mut self, draw: &mut Draw, at: End, frame: &[u8]) -> Way {
        let mut way = Way::default();
        // Answers of a router travel, too, and are none of the packet's.
        let mut on_wire = vec![(at, HeapFrame::new(frame), true)];
        while let Some(((switch, port), frame, counts)) = on_wire.pop() {
            // Ports are dealt out over the workers.
            let worker = usize::from(port) % self.switches[switch].switches.len();
            let (before, assembly) = (self.ended(switch, worker), &mut self.switches[switch]);
            let mut out = TxBursts::new(assembly.ports.len());
            assembly.switches[worker].process(port, &mut Burst::from_iter([frame]), NOW, &mut out);
            if let Some(learning) = &mut assembly.learning {
                learning.serve(NOW);
            }
            let after = self.ended(switch, worker);
            let (ended, dropped) = (after.0 - before.0, after.1 - before.1);
            let answered = switch == EDGES && self.routes && ended + dropped > 0;
            let sent: usize = out.queues().map(|(_, queue)| queue.len()).sum();
            if counts {
                way.several |= !answered && sent as i64 + ended + dropped > 1;
                let seen = switch < EDGES || self.measures;
                way.arrived += if seen { ended } else { 0 };
                way.lost += dropped + if seen { 0 } else { ended };
            }
            let counts = counts && !answered;
            for (id, queue) in out.queues() {
                for frame in queue.drain(..) {
                    match self.links.get(&(switch, id)) {
                        None => way.arrived += i64::from(counts),
                        Some(_) if draw.happens(self.loss) => way.lost += i64::from(counts),
                        Some(&far) => {
                            if draw.happens(self.double) {
                                way.doubled |= counts;
                                on_wire.push((far, HeapFrame::new(frame.bytes()), counts));
                            }
                            on_wire.push((far, HeapFrame::new(frame.bytes()), counts));
                        }
                    }
                }
            }
        }
        way
    }

    /// Packets that ended at a switch: as far as they were to go, and before that.
    fn ended(&self, switch: usize, worker: usize) -> (i64, i64) {
        let assembly = &self.switches[switch];
        let stats = assembly.switches[worker].stats();
        let mut ended = (0, 0);
        for port in (0..assembly.ports.len()).map(|id| stats.port(id as PortId)) {
            for reason in DropReason::ALL {
                let count = if reason.is_end() { &mut ended.0 } else { &mut ended.1 };
                *count += port.dropped(reason) as i64;
            }
        }
        ended
    }

    /// A frame of a random host, mostly to another one that is known.
    fn frame(&self, draw: &mut Draw) -> (End, Vec<u8>) {
        let (edge, host) = (draw.below(EDGES), draw.below(self.hosts));
        let to = (edge + 1 + draw.below(EDGES - 1)) % EDGES;
        let number = |edge: usize, host: usize| (edge + EDGES * host) as u8;
        let to_host = number(to, draw.below(self.hosts));
        let mac = match draw.below(40) {
            _ if self.routes => own(edge as u8),
            0 => [1, 0, 0x5e, 0, 0, 0xfb],
            1 => [0xff; 6],
            2 => host_mac(40),
            _ => host_mac(to_host),
        };
        // Only with a router are long packets special, or those that end there.
        let long = if self.routes && draw.below(5) > 0 { 100 } else { 1450 };
        let address = if self.routes && draw.below(40) == 0 { 77 } else { to_host };
        let mut frame = udp(number(edge, host), address, mac, 80 + draw.below(8) as u16, draw.below(long));
        // May be fragmented, or is a fragment already: the first, or a later one.
        frame[20..22].copy_from_slice(&draw.of(&[[0x40, 0], [0, 0], [0, 0], [0x20, 0], [0, 16]]));
        frame[22] = draw.of(&[64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 1]);
        mend(&mut frame);
        ((edge, host as PortId), frame)
    }

    /// Each host asks for an address that nobody has: all switches learn where it is, and nothing
    /// of it is measured.
    fn teach(&mut self) {
        let (loss, double) = (std::mem::take(&mut self.loss), std::mem::take(&mut self.double));
        let hosts = self.hosts;
        for (edge, host) in (0..EDGES).flat_map(|edge| (0..hosts).map(move |host| (edge, host))) {
            let mut frame = vec![0xff; 6];
            frame.extend(host_mac((edge + EDGES * host) as u8));
            frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
            frame.resize(60, 0);
            self.send(&mut Draw(SplitMix64::new(0)), (edge, host as PortId), &frame);
        }
        (self.loss, self.double) = (loss, double);
    }

    /// The controller's answer.
    fn answer(&mut self) -> NetworkEpoch {
        let mut records = Vec::<Box<Sketches>>::new();
        for (Assembly { switches, collector, .. }, run) in self.switches.iter_mut().zip(&self.runs) {
            switches.iter_mut().for_each(|switch| switch.finish());
            collector.finish();
            records.extend(run.sum::<Sketches>().map(Box::new));
        }
        let parameters = records[0].parameters;
        let reported = |(number, sketches)| Reported {
            switch: format!("s{number}").into(),
            record: Ok(sketches),
            before: Before::Nothing,
        };
        NetworkEpoch::analyse(1, parameters, records.into_iter().enumerate().map(reported).collect())
    }
}

fn flow(frame: &[u8]) -> FlowId {
    let mut headers = Headers::default();
    parse(frame, &mut headers).unwrap();
    assert_eq!(headers.net, Net::Ipv4);
    FlowId::of_v4(Tuple4::of(&headers))
}

/// One network: whether its answer is called complete, whether a packet became several, and what is
/// wrong.
fn run(seed: u64) -> (bool, bool, Option<String>) {
    let mut draw = Draw(SplitMix64::new(seed));
    let mut network = Network::new(&mut draw);
    let quiet = draw.below(2) == 0;
    network.teach();
    let (mut nets, mut several, mut unknown) = (BTreeMap::<FlowId, i64>::new(), false, false);
    for _ in 0..20 + draw.below(200) {
        let (at, frame) = network.frame(&mut draw);
        // Half of the networks have nothing but packets that stay one.
        if quiet && (frame[0] & 1 != 0 || frame[5] == 40 || (network.routes && frame.len() > 600)) {
            continue;
        }
        let way = network.send(&mut draw, at, &frame);
        several |= way.several;
        unknown |= way.net().is_none();
        *nets.entry(flow(&frame)).or_default() += way.net().unwrap_or_default();
    }
    nets.retain(|_, net| *net != 0);
    let answer = network.answer();
    if !answer.losses_lack().is_empty() {
        return (false, several, None);
    }
    let losses = answer.network.losses.unwrap();
    let told: BTreeMap<_, _> = losses.flows.iter().map(|loss| (loss.id, loss.lost as i64)).collect();
    let wrong = unknown || told != nets;
    (
        true,
        several,
        wrong.then(|| format!("seed {seed}, told {told:?}, true {nets:?}, some of several lost: {unknown}")),
    )
}

#[test]
fn no_complete_answer_is_wrong_whatever_the_middle_does() {
    let number = |name: &str, or: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or);
    let (networks, first) = (number("WEIR_AUDIT_EPOCHS", 80), number("WEIR_AUDIT_SEED", 1));
    let (mut complete, mut several, mut wrong) = (0, 0, Vec::new());
    for seed in first..first + networks {
        let (is_complete, has_several, what) = run(seed);
        complete += u64::from(is_complete);
        several += u64::from(has_several);
        wrong.extend(what);
    }
    println!("{networks} networks, {complete} complete, {several} with copies or fragments, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A rule that calls nothing complete would hold, too.
    assert!(complete * 5 > networks && several * 5 > networks, "{complete} complete, {several} with several");
}
