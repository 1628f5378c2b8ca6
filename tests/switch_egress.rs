//! Egress stages see the packets that leave, all of them and no others, with what a program needs
//! to know of them, before they are written. What a port then does not take is told with the same
//! headers, epoch and port.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use weir::assemble::{Assembly, assemble};
use weir::config::Config;
use weir::pisa::hash::{Crc, Polynomial};
use weir::pisa::{ArrayCells, BatchOrder, Disposition, DropAt, DropReason, Layout, Phv, PortId, Probe};
use weir::program::{AnyRecord, Bank, Dataplane, Needs};
use weir::switch::{BURST, Backlog, Burst, Parts, Telemetry, TxBursts};
use weir::telemetry::epoch::EpochClock;
use weir::wire::{Fragment, Frame, Headers, HeapFrame, Net, Shim, dscp, identity, parse, shim};

#[path = "common/frames.rs"]
mod frames;
#[path = "common/vxlan.rs"]
mod vxlan;

use frames::{address, host_mac, mend, own, port, udp};

const NOW: u64 = 1_790_000_000_000_000_000;
const PORTS: usize = 4;
const HASHPIPE: &str = "[[program]]\nname = \"hashpipe\"\n";

/// Notes what its stages see, and changes what packets carry.
struct Watcher {
    needs: Needs,
    entered: Arc<Mutex<Vec<Phv>>>,
    seen: Arc<Mutex<Vec<Phv>>>,
    /// Packets that a port did not take.
    unsent: Arc<Mutex<Vec<Phv>>>,
    /// What ingress stages saw last.
    last: Vec<Phv>,
    /// Packets that left as they entered.
    as_entered: Arc<AtomicUsize>,
}

struct Nothing;

impl Bank for Nothing {
    fn clear(&mut self) {}

    fn record(&self) -> AnyRecord {
        unreachable!("nobody collects")
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        Vec::new()
    }
}

/// What it makes of the class and the digest.
fn class(phv: &Phv) -> u8 {
    (phv.headers.dport & 3) as u8
}

fn digest(phv: &Phv) -> u16 {
    phv.digest ^ phv.wire_bytes as u16
}

impl Watcher {
    fn new(needs: Needs) -> Self {
        let [entered, seen, unsent] = [(); 3].map(|()| Arc::default());
        Self { needs, entered, seen, unsent, last: Vec::new(), as_entered: Arc::default() }
    }
}

impl Dataplane for Watcher {
    fn ingress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        self.last = phvs.to_vec();
        self.entered.lock().unwrap().extend_from_slice(phvs);
    }

    fn trace(&mut self, _: &mut Phv, _: &mut dyn Probe) {}

    fn needs(&self) -> Needs {
        self.needs
    }

    fn egress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        for phv in phvs.iter_mut() {
            if self.needs.contains(Needs::SHIM) {
                phv.shim = phv.shim.with_class(class(phv));
            }
            if self.needs.contains(Needs::DIGEST) {
                phv.digest = digest(phv);
            }
        }
        self.seen.lock().unwrap().extend_from_slice(phvs);
    }

    fn egress_as_entered(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        assert!(phvs.len() <= self.last.len());
        for (phv, entered) in phvs.iter().zip(&self.last) {
            assert_eq!(key(&phv.headers), key(&entered.headers), "it stands where it entered");
            assert_eq!((phv.ingress, phv.is_made()), (entered.ingress, false));
        }
        self.as_entered.fetch_add(phvs.len(), Relaxed);
        self.egress(phvs, order);
    }

    fn dropped(&mut self, phv: &Phv, _: DropReason, at: DropAt) {
        if at == DropAt::Behind {
            self.unsent.lock().unwrap().push(*phv);
        }
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(Nothing)
    }

    fn exchange(&mut self, _: &mut dyn Bank) {}

    fn layout(&self) -> Layout {
        Layout::new("watcher")
    }
}

#[derive(Clone, Debug)]
struct World {
    routes: bool,
    /// Ports of hosts alone, joined in pairs. Else packets go by their addresses.
    joins: bool,
    vlans: bool,
    tos: bool,
    needs: Needs,
    bursts: Vec<Incoming>,
}

#[derive(Clone, Debug)]
struct Incoming {
    port: PortId,
    /// Links, a bit each.
    up: u8,
    packets: Vec<Packet>,
}

#[derive(Clone, Debug)]
struct Packet {
    from: u8,
    to: u8,
    group: u8,
    dport: u16,
    length: usize,
    dont_fragment: bool,
    ttl: u8,
}

impl World {
    fn config(&self) -> Config {
        let fabric = if self.joins { "host" } else { "fabric" };
        let roles = [("host", 1500), ("host", 900), (fabric, 1600), (fabric, 1400)];
        let ports = (0..).zip(roles).map(|(n, (role, mtu))| {
            let addresses = if self.routes { format!("addresses = [\"10.0.{n}.1/24\"]\n") } else { String::new() };
            let vlans = match n {
                _ if !self.vlans => "",
                0 => "vlan = 10\n",
                1 => "trunk = [10, 20]\n",
                _ => "",
            };
            port(&format!("p{n}"), role, mtu, &(addresses + vlans))
        });
        let neighbours = (0..PORTS).filter(|_| self.routes).map(|n| {
            format!("[[neighbour]]\naddress = \"10.0.{n}.10\"\nport = \"p{n}\"\nmac = \"02:01:00:00:00:0{n}\"\n")
        });
        let head = format!(
            "[switch]\nforward = \"{}\"\ntelemetry_header = \"{}\"\nreproducible = 1\n",
            if self.joins {
                "xconnect"
            } else if self.routes {
                "route"
            } else {
                "learn"
            },
            if self.tos { "dscp" } else { "shim" }
        );
        let text: String = std::iter::once(head).chain(ports).chain(neighbours).collect();
        Config::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn is_fabric(&self, port: PortId) -> bool {
        port >= 2 && !self.joins
    }

    /// The packet as it comes in by a port.
    fn frame(&self, packet: &Packet, ingress: PortId) -> HeapFrame {
        let mac = match packet.group {
            0 => [0xff; 6],
            1 => [1, 0x80, 0xc2, 0, 0, 0],
            _ if self.routes => own(ingress as u8),
            _ => host_mac(packet.to),
        };
        let mut bytes = udp(packet.from, packet.to, mac, packet.dport, packet.length);
        bytes[20] = if packet.dont_fragment { 0x40 } else { 0 };
        bytes[22] = packet.ttl;
        if self.tos && self.is_fabric(ingress) {
            bytes[15] = dscp::bits(2, NOW >> 26 & 1 == 1);
        }
        mend(&mut bytes);
        if self.vlans && ingress >= 1 {
            bytes.splice(12..12, [0x81, 0, 0, 10]);
        }
        let mut frame = HeapFrame::new(&bytes);
        if !self.tos && self.is_fabric(ingress) {
            let epoch = shim::epoch_of(NOW >> 26);
            assert!(shim::push(&mut frame, Shim::new(5, 1, epoch, 2)));
        }
        frame
    }
}

struct Bench {
    assembly: Assembly,
    world: World,
    seen: Arc<Mutex<Vec<Phv>>>,
    unsent: Arc<Mutex<Vec<Phv>>>,
}

impl Bench {
    fn new(world: World) -> Self {
        let mut assembly = assemble(&world.config(), None, 1).unwrap();
        let [seen, unsent] = [(); 2].map(|()| Arc::<Mutex<Vec<Phv>>>::default());
        let program = Watcher { seen: seen.clone(), unsent: unsent.clone(), ..Watcher::new(world.needs) };
        let clock = EpochClock::new(Some(1 << 26));
        let (telemetry, _) = Telemetry::new(vec![Box::new(program)], clock, 1);
        assembly.switches[0].exchange(&mut Parts { telemetry: Some(telemetry), ..Parts::default() });
        Self { assembly, world, seen, unsent }
    }

    /// Packets that ended as far as they were to go.
    fn ended(&self) -> u64 {
        let ends = || DropReason::ALL.into_iter().filter(|reason| reason.is_end());
        let stats = self.assembly.switches[0].stats();
        stats.ports().map(|port| ends().map(|reason| port.dropped(reason)).sum::<u64>()).sum()
    }

    fn burst(&mut self, incoming: &Incoming) -> Result<(), TestCaseError> {
        for (n, port) in self.assembly.ports.iter().enumerate() {
            port.up.store(incoming.up >> n & 1 == 1, Relaxed);
        }
        let mut burst: Burst<_> =
            incoming.packets.iter().map(|packet| self.world.frame(packet, incoming.port)).collect();
        while !burst.is_empty() {
            let (mut out, before) = (TxBursts::new(PORTS), self.ended());
            out.set_backlog(1, Backlog::new(500, 1000));
            out.set_backlog(2, Backlog::of_share(7, 999));
            self.assembly.switches[0].process(incoming.port, &mut burst, NOW, &mut out);
            let seen = std::mem::take(&mut *self.seen.lock().unwrap());
            let ended = seen.iter().filter(|phv| phv.disposition == Disposition::Ended).count() as u64;
            let (leaving, others): (Vec<&Phv>, Vec<&Phv>) = seen.iter().partition(|phv| phv.disposition.leaves());
            if self.world.needs.contains(Needs::ENDS) {
                prop_assert!(ended >= self.ended() - before, "{ended} seen to end");
            } else {
                prop_assert!(others.is_empty(), "{others:?}");
            }
            let mut queues = vec![Vec::new(); PORTS];
            out.queues().for_each(|(id, queue)| queues[usize::from(id)].extend(queue.drain(..)));
            for (id, queue) in queues.iter().enumerate() {
                let seen: Vec<&Phv> = leaving.iter().copied().filter(|phv| usize::from(phv.egress) == id).collect();
                prop_assert_eq!(seen.len(), queue.len(), "at port {}", id);
                for (depth, (phv, frame)) in seen.iter().zip(queue).enumerate() {
                    self.check(phv, frame, depth)?;
                }
                self.assembly.switches[0].unsent(id as PortId, queue, DropReason::TxFull);
                let unsent = std::mem::take(&mut *self.unsent.lock().unwrap());
                self.check_unsent(&unsent, &seen)?;
            }
            if let Some(learning) = &mut self.assembly.learning {
                learning.serve(NOW);
            }
        }
        Ok(())
    }

    /// What is told of packets that a port did not take, beside what egress stages had seen of them.
    fn check_unsent(&self, unsent: &[Phv], seen: &[&Phv]) -> Result<(), TestCaseError> {
        let World { needs, tos, .. } = self.world;
        prop_assert_eq!(unsent.len(), if needs.contains(Needs::DROPS) { seen.len() } else { 0 });
        for (unsent, seen) in unsent.iter().zip(seen) {
            prop_assert_eq!(key(&unsent.headers), key(&seen.headers));
            prop_assert_eq!(unsent.egress, seen.egress);
            // A DSCP has no room for the epoch of a packet without a class.
            if !tos || seen.disposition == Disposition::ToHost {
                prop_assert_eq!(unsent.shim.epoch(), seen.shim.epoch());
            }
        }
        Ok(())
    }

    /// What egress stages saw of a packet, and left of it, beside the frame that was sent.
    fn check(&self, phv: &Phv, frame: &HeapFrame, depth: usize) -> Result<(), TestCaseError> {
        let World { needs, tos, vlans, .. } = self.world;
        let mut sent = Headers::default();
        parse(frame.bytes(), &mut sent).unwrap();
        prop_assert_eq!(key(&phv.headers), key(&sent));
        let shim = shim::peek(frame.bytes()).ok();
        if !vlans {
            let carried = if shim.is_some() { shim::LEN } else { 0 };
            prop_assert_eq!(phv.wire_bytes as usize + carried, frame.wire_len());
        }
        let disposition = match (phv.egress, shim) {
            (port, _) if !self.world.is_fabric(port) => Disposition::ToHost,
            (_, None) if !tos => Disposition::Unmarked,
            _ => Disposition::ToFabric,
        };
        prop_assert_eq!(phv.disposition, disposition);
        if let Some(shim) = shim {
            prop_assert!(!tos && phv.egress >= 2);
            let expected = phv.shim;
            let digest = needs.contains(Needs::DIGEST);
            prop_assert_eq!(shim, if digest { expected.with_digest(phv.digest) } else { expected });
            prop_assert!(matches!((phv.shim.hop(), phv.shim.loops()), (1, 0) | (6, 1)));
        }
        if tos && self.world.is_fabric(phv.egress) && sent.net == Net::Ipv4 {
            prop_assert_eq!(sent.tos & dscp::MASK, dscp::bits(phv.shim.class(), phv.shim.epoch() & 1 == 1));
        }
        if needs.contains(Needs::QUEUE_DEPTH) {
            // Packets of a burst wait for each other, behind those that waited before.
            let (packets, used) = match phv.egress {
                1 => (500 + depth, (500 + depth) * 65),
                2 => (7, 999),
                _ => (depth, depth * 1024),
            };
            prop_assert_eq!([phv.queue_depth, phv.queue_used].map(usize::from), [packets, used]);
        }
        if needs.contains(Needs::TIME) {
            prop_assert_eq!(phv.egress_ns, NOW);
        }
        if needs.contains(Needs::IDENTITY) {
            let crc = Crc::new(Polynomial::STANDARD[0]);
            prop_assert_eq!(phv.identity, crc.hash(&identity::invariant(&sent, frame)));
        }
        Ok(())
    }
}

/// What no hop changes of headers.
fn key(headers: &Headers) -> impl PartialEq + std::fmt::Debug + use<> {
    let Headers { src_ip, dst_ip, proto, sport, dport, net, fragment, .. } = *headers;
    (src_ip, dst_ip, proto, sport, dport, net, fragment)
}

fn packet() -> impl Strategy<Value = Packet> {
    let length = prop_oneof![3 => 0..100usize, 2 => 700..1500usize];
    let ttl = prop_oneof![5 => Just(64u8), 1 => Just(1)];
    (0..6u8, 0..6u8, 0..12u8, 80..84u16, length, any::<bool>(), ttl).prop_map(
        |(from, to, group, dport, length, dont_fragment, ttl)| Packet {
            from,
            to,
            group,
            dport,
            length,
            dont_fragment,
            ttl,
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    let up = prop_oneof![3 => Just(0xffu8), 1 => any::<u8>()];
    let incoming = (0..PORTS as PortId, up, prop::collection::vec(packet(), 1..BURST), any::<bool>()).prop_map(
        |(port, up, mut packets, alike)| {
            // One way for all of them.
            let Packet { from, to, .. } = packets[0];
            let alike = packets.iter_mut().filter(|_| alike);
            alike.for_each(|packet| *packet = Packet { from, to, group: 2, length: 20, ..packet.clone() });
            Incoming { port, up, packets }
        },
    );
    let of_each =
        [Needs::ENDS, Needs::TIME, Needs::QUEUE_DEPTH, Needs::IDENTITY, Needs::DIGEST, Needs::SHIM, Needs::DROPS];
    let needs = prop::collection::vec(prop::sample::select(of_each.to_vec()), 0..6)
        .prop_map(|needs| needs.into_iter().fold(Needs::EGRESS, |all, need| all | need));
    let forward = prop::sample::select(vec![(false, false), (true, false), (false, true)]);
    (forward, any::<bool>(), any::<bool>(), needs, prop::collection::vec(incoming, 1..6)).prop_map(
        |((routes, joins), vlans, tos, needs, bursts)| World {
            routes,
            joins,
            vlans: vlans && !routes && !joins,
            tos,
            needs,
            bursts,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn egress_stages_see_what_leaves(world in world()) {
        let bursts = world.bursts.clone();
        let mut bench = Bench::new(world);
        for incoming in &bursts {
            bench.burst(incoming)?;
        }
    }
}

fn one(routes: bool, needs: Needs, port: PortId, packet: Packet) -> Vec<Phv> {
    let world = World { routes, joins: false, vlans: false, tos: false, needs, bursts: Vec::new() };
    let mut bench = Bench::new(world.clone());
    let mut out = TxBursts::new(PORTS);
    let mut burst = Burst::from_iter([world.frame(&packet, port)]);
    bench.assembly.switches[0].process(port, &mut burst, NOW, &mut out);
    let mut seen = bench.seen.lock().unwrap();
    std::mem::take(&mut seen)
}

const PACKET: Packet = Packet { from: 0, to: 1, group: 9, dport: 80, length: 40, dont_fragment: false, ttl: 64 };

#[test]
fn copies_have_phvs_of_their_own() {
    let broadcast = Packet { group: 0, ..PACKET };
    let seen = one(false, Needs::EGRESS, 0, broadcast.clone());
    assert_eq!(seen.iter().map(|phv| phv.egress).collect::<Vec<_>>(), [1, 2, 3]);
    let seen = one(false, Needs::ENDS, 0, broadcast);
    let dispositions: Vec<_> = seen.iter().map(|phv| phv.disposition).collect();
    use Disposition::{ToFabric, ToHost, Untracked};
    assert_eq!(dispositions, [ToHost, ToFabric, ToFabric, Untracked], "the packet itself comes last");
}

#[test]
fn fragments_have_headers_of_their_own() {
    let seen = one(true, Needs::EGRESS, 0, Packet { length: 1400, ..PACKET });
    let fragments: Vec<_> = seen.iter().map(|phv| (phv.headers.fragment, phv.headers.dport, phv.egress)).collect();
    assert_eq!(fragments, [(Fragment::First, 80, 1), (Fragment::Later, 0, 1)]);
    assert_eq!(seen.iter().map(|phv| phv.wire_bytes as usize - 34).sum::<usize>(), 1408);
}

#[test]
fn an_answer_is_seen_and_so_is_what_ended() {
    let to_router = Packet { to: 0, ttl: 1, ..PACKET };
    let seen = one(true, Needs::ENDS, 0, to_router);
    let ways: Vec<_> = seen.iter().map(|phv| (phv.disposition, phv.headers.proto, phv.egress)).collect();
    assert_eq!(ways, [(Disposition::ToHost, 1, 0)], "time exceeded, and the packet is lost");
    let link_local = Packet { group: 1, ..PACKET };
    assert!(one(false, Needs::EGRESS, 0, link_local.clone()).is_empty());
    let seen = one(false, Needs::ENDS, 0, link_local);
    assert_eq!(seen.iter().map(|phv| phv.disposition).collect::<Vec<_>>(), [Disposition::Ended]);
}

/// Programs see the flows inside a tunnel at both ends of the switch, in copies and where a port takes no packet; the
/// switch forwards by the outer headers, and packets leave as they came.
#[test]
fn programs_see_the_flows_inside_tunnels() {
    let ports = ["a", "b", "c"].map(|name| port(name, "host", 1500, "")).concat();
    let config = Config::parse(&format!("[switch]\nkey = \"inner\"\nreproducible = 1\n{ports}")).unwrap();
    let mut assembly = assemble(&config, None, 1).unwrap();
    let [entered, seen, unsent] = [(); 3].map(|()| Arc::<Mutex<Vec<Phv>>>::default());
    let needs = [Needs::EGRESS, Needs::IDENTITY, Needs::ENDS, Needs::DROPS, Needs::SHIM].into_iter();
    let needs = needs.fold(Needs::NONE, |needs, need| needs | need);
    let as_entered = Arc::<AtomicUsize>::default();
    let program = Watcher {
        entered: entered.clone(),
        seen: seen.clone(),
        unsent: unsent.clone(),
        as_entered: as_entered.clone(),
        ..Watcher::new(needs)
    };
    let (telemetry, _) = Telemetry::new(vec![Box::new(program)], EpochClock::new(Some(1 << 26)), 1);
    let telemetry = telemetry.looking_into(config.switch.tunnels());
    assembly.switches[0].exchange(&mut Parts { telemetry: Some(telemetry), ..Parts::default() });

    let tunnelled = |sport| vxlan::packet([host_mac(0), host_mac(2)], [0, 2].map(|n| address(n).octets()), sport);
    let plain = udp(0, 2, host_mac(2), 53, 40);
    // Every third packet is in no tunnel.
    let frames: Vec<_> = (0..30).map(|n| if n % 3 == 0 { plain.clone() } else { tunnelled(1000 + n) }).collect();
    let flow = |n: usize| if n.is_multiple_of(3) { None } else { Some(vxlan::flow(1000 + n as u16)) };
    let flows: Vec<_> = (0..30).map(|n| flow(n).unwrap_or_else(|| parsed(&plain).flow().unwrap())).collect();
    let of = |phvs: &Mutex<Vec<Phv>>| -> Vec<_> {
        std::mem::take(&mut *phvs.lock().unwrap()).iter().map(|phv| phv.headers.flow().unwrap()).collect()
    };
    for known in [false, true] {
        let mut burst: Burst<_> = frames.iter().map(|frame| HeapFrame::new(frame)).collect();
        let mut out = TxBursts::new(3);
        assembly.switches[0].process(0, &mut burst, NOW, &mut out);
        assert_eq!(of(&entered), flows);
        // A flood is of two copies each, which are seen after the packets that entered.
        let copies = if known { 1 } else { 2 };
        let expected: Vec<_> = flows.iter().flat_map(|flow| std::iter::repeat_n(*flow, copies)).collect();
        let leaving: Vec<_> = seen.lock().unwrap().iter().filter(|phv| phv.disposition.leaves()).copied().collect();
        let identities: std::collections::HashSet<_> = leaving.iter().map(|phv| phv.identity).collect();
        assert_eq!(identities.len(), 21, "one of each inner packet, and of the plain one");
        assert_eq!(leaving.iter().map(|phv| phv.headers.flow().unwrap()).collect::<Vec<_>>(), expected);
        seen.lock().unwrap().clear();
        for (id, queue) in out.queues() {
            assert!(id == 2 || !known, "it leaves by the outer addresses");
            assert!(queue.iter().zip(&frames).all(|(frame, sent)| frame.bytes() == sent));
            assembly.switches[0].unsent(id, queue, DropReason::TxFull);
            assert_eq!(of(&unsent), flows);
            queue.clear();
        }
        // The other host says where it is.
        let mut answer = Burst::from_iter([HeapFrame::new(&udp(2, 0, host_mac(0), 53, 40))]);
        assembly.switches[0].process(2, &mut answer, NOW, &mut TxBursts::new(3));
        assembly.learning.as_mut().unwrap().serve(NOW);
        for phvs in [&entered, &seen] {
            phvs.lock().unwrap().clear();
        }
    }
    assert_eq!(assembly.switches[0].stats().tunnels.read.get(), 40);
    // Those that are flooded do not: the first burst, and the first answer, as no host was known.
    assert_eq!(as_entered.load(Relaxed), 30 + 1);
}

fn parsed(frame: &[u8]) -> Headers {
    let mut headers = Headers::default();
    parse(frame, &mut headers).unwrap();
    headers
}

/// A router that measures the flows inside tunnels sends packets where their outer headers say.
#[test]
fn tunnels_are_routed_by_their_outer_headers() {
    let ports = (0..3).map(|n| port(&format!("p{n}"), "host", 1500, &format!("addresses = [\"10.0.{n}.1/24\"]\n")));
    let neighbour = "[[neighbour]]\naddress = \"10.0.2.10\"\nport = \"p2\"\nmac = \"02:01:00:00:00:02\"\n";
    let head = "[switch]\nforward = \"route\"\nkey = \"inner\"\nreproducible = 1\n".to_owned();
    let text: String = [head].into_iter().chain(ports).chain([neighbour.into(), HASHPIPE.into()]).collect();
    let mut assembly = assemble(&Config::parse(&text).unwrap(), None, 1).unwrap();
    let packet = vxlan::packet([host_mac(0), own(0)], [0, 2].map(|n| address(n).octets()), 7);
    let mut burst: Burst<_> = (0..20).map(|_| HeapFrame::new(&packet)).collect();
    let mut out = TxBursts::new(3);
    assembly.switches[0].process(0, &mut burst, NOW, &mut out);
    let left: Vec<_> = out.queues().map(|(id, queue)| (id, queue.len())).collect();
    assert_eq!(left, [(2, 20)]);
    assert_eq!(assembly.switches[0].stats().tunnels.read.get(), 20);
}
