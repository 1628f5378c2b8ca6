//! Packets of a large frame whose payload stays in one buffer: whatever is done to one, it is what
//! the same packet in a buffer of its own is, and nothing is done to the others.

use std::{process::Command, sync::Arc};

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use weir::{
    dpdk::{
        Direction, Eal, EalOptions, HugePages, Interface, Mbuf, Mempool, PacketSocket, PoolOptions, TxBatch, VnetHeader,
    },
    port::{Burst, Port, PortOptions, RxQueue, free_burst},
    wire::Frame,
};

use crate::{
    mbuf, open, receive, sh,
    skip::{Lack, skip},
};

const INNER: &str = "segments::inside_a_namespace_of_their_own";
const BUFFERS: u32 = 2047;
const PAYLOAD: usize = 20_000;
const SEGMENT: usize = 1400;
const PACKETS: usize = PAYLOAD.div_ceil(SEGMENT);
/// Ethernet, IPv4, TCP.
const HEADERS: usize = 54;
/// More than a port has buffers for.
const FRAMES: u32 = 60;

#[test]
fn packets_of_a_large_frame_are_frames_of_their_own() {
    let name = "packets_of_a_large_frame_are_frames_of_their_own";
    if !Command::new("unshare").args(["-rn", "true"]).status().is_ok_and(|status| status.success()) {
        return skip(name, Lack::Machine, "`unshare -rn true` does not work here");
    }
    let this = std::env::current_exe().unwrap();
    let inner =
        Command::new("unshare").arg("-rn").arg(this).args([INNER, "--exact", "--ignored", "--nocapture"]).status();
    assert!(inner.unwrap().success());
}

#[test]
#[ignore = "runs inside the namespace that the other test makes"]
fn inside_a_namespace_of_their_own() {
    let options = EalOptions { memory_mib: 192, huge_pages: HugePages::Never, ..Default::default() };
    let eal = Eal::start(&options).unwrap();
    let pool = Arc::new(Mempool::new(&eal, PoolOptions::for_mtu(BUFFERS, 1500)).unwrap());
    sh("sysctl -qw net.ipv6.conf.default.disable_ipv6=1");
    for (a, b) in [("s0", "s1"), ("t0", "t1")] {
        sh(&format!("ip link add {a} type veth peer name {b}; ip link set {a} up; ip link set {b} up"));
    }
    let sender = Sender::new(&eal);
    let options = PortOptions { whole_segments: true, ..PortOptions::default() };
    let whole = Port::open("whole", &"veth:s1".parse().unwrap(), &options, &pool).unwrap();
    let ports = [whole, open("veth:t1", &pool)];
    let mut queues = ports.each_ref().map(|port| port.rx_queue(0).unwrap());
    let mut held: Option<(Burst, Burst)> = None;
    for i in 0..FRAMES {
        let (mut whole, cut) = sender.packets(i, &mut queues);
        // Another frame has come in since then.
        if let Some((whole, cut)) = held.take() {
            same(&whole, &all_bytes(&cut));
        }
        let bytes = all_bytes(&cut);
        match i % 5 {
            0 => {
                copies(&mut whole, &bytes);
                // Parts of one buffer go back together with their headers.
                free_burst(&mut whole);
            }
            1 => fronts(&mut whole, &bytes),
            2 => lengths(&mut whole, &bytes),
            3 => gathered(&mut whole, &bytes),
            _ => held = Some((whole, cut)),
        }
    }
    drop(held);
    by_a_port_that_takes_packets(&sender, &mut queues, &pool);
    drop((queues, ports));
    assert_eq!(pool.available(), BUFFERS);
}

/// Gives both interfaces large frames, as a host's kernel does.
struct Sender {
    sockets: [PacketSocket; 2],
    large: Mempool,
}

impl Sender {
    fn new(eal: &Eal) -> Self {
        let socket = |name| PacketSocket::open(&Interface::open(name).unwrap(), Direction::Transmit).unwrap();
        Self { sockets: ["s0", "t0"].map(socket), large: Mempool::new(eal, PoolOptions::for_mtu(63, 32_000)).unwrap() }
    }

    /// The packets of a frame, whose payload lies elsewhere, and the same in one buffer each.
    fn packets(&self, number: u32, [whole, cut]: &mut [RxQueue; 2]) -> (Burst, Burst) {
        let payload: Vec<u8> = (0..PAYLOAD as u32).map(|at| (at / 7 + number) as u8).collect();
        let mut bytes = Vec::new();
        let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
        link.ipv4([1; 4], [2; 4], 9).tcp(5, 6, number, 8).psh().write(&mut bytes, &payload).unwrap();
        let header = VnetHeader::segmented(VnetHeader::TCP4, false, HEADERS, SEGMENT, (34, 16));
        for socket in &self.sockets {
            let sent = TxBatch::default().send(socket, &[mbuf(&self.large, &bytes, true)], |_| header);
            assert_eq!(sent.unwrap(), 1);
        }
        let mut bursts = (Burst::new(), Burst::new());
        receive(whole, &mut bursts.0, PACKETS);
        receive(cut, &mut bursts.1, PACKETS);
        // But for those whose payload is in the buffer with the headers of all.
        assert!(bursts.0.iter().skip(2).all(|mbuf| mbuf.segments() == 2), "frame {number}: no buffer to share");
        assert!(bursts.1.iter().all(|mbuf| mbuf.segments() == 1));
        bursts
    }
}

/// Of packets in one buffer each.
fn all_bytes(cut: &[Mbuf]) -> Vec<&[u8]> {
    cut.iter().map(Mbuf::bytes).collect()
}

/// The bytes of a packet, in one place.
fn all(mbuf: &Mbuf) -> Vec<u8> {
    let mut copy = mbuf.duplicate().unwrap();
    assert!(copy.gather() && copy.segments() == 1);
    copy.bytes().to_vec()
}

fn same(whole: &[Mbuf], bytes: &[&[u8]]) {
    for (mbuf, bytes) in whole.iter().zip(bytes) {
        assert_eq!((mbuf.wire_len(), mbuf.needs_checksum()), (bytes.len(), true));
        assert!(bytes.starts_with(mbuf.bytes()) && mbuf.bytes().len() >= HEADERS);
        assert!(all(mbuf) == *bytes);
    }
}

/// A copy, as of a flooded packet, is written without a trace in the packet.
fn copies(whole: &mut Burst, bytes: &[&[u8]]) {
    for mbuf in whole.iter() {
        let mut copy = mbuf.duplicate().unwrap();
        assert!(copy.needs_checksum() && copy.gather());
        copy.bytes_mut().fill(0xee);
    }
    same(whole, bytes);
}

/// A tag or shim in front, put on and taken off.
fn fronts(whole: &mut Burst, bytes: &[&[u8]]) {
    for (mbuf, bytes) in whole.iter_mut().zip(bytes) {
        assert!(mbuf.grow_front(6));
        mbuf.bytes_mut()[..6].fill(0xee);
        assert!(all(mbuf) == [&[0xee; 6], *bytes].concat());
        let headers = mbuf.bytes().len();
        assert!(!mbuf.shrink_front(headers + 1) && mbuf.shrink_front(6 + 14));
        assert!(all(mbuf) == bytes[14..]);
        assert!(mbuf.grow_front(14));
    }
    same(whole, bytes);
}

/// Longer and shorter, as to write behind the payload or cut a message to size.
fn lengths(whole: &mut Burst, bytes: &[&[u8]]) {
    for (mbuf, bytes) in whole.iter_mut().zip(bytes) {
        let length = bytes.len();
        assert!(Frame::resize(mbuf, length + 9) && mbuf.segments() == 1);
        mbuf.bytes_mut()[length..].fill(0xee);
        assert!(mbuf.bytes() == [*bytes, &[0xee; 9]].concat());
        assert!(Frame::resize(mbuf, 60) && mbuf.bytes() == &bytes[..60]);
    }
}

/// One after the other is moved to a buffer of its own and overwritten. The rest are as they were.
fn gathered(whole: &mut Burst, bytes: &[&[u8]]) {
    for i in 0..whole.len() {
        assert!(whole[i].gather() && whole[i].bytes() == bytes[i]);
        whole[i].bytes_mut().fill(0xee);
        same(&whole[i + 1..], &bytes[i + 1..]);
    }
}

/// DPDK's devices get each packet whole, with its checksum.
fn by_a_port_that_takes_packets(sender: &Sender, queues: &mut [RxQueue; 2], pool: &Arc<Mempool>) {
    for dev in ["ring:out", "memory"] {
        let (mut whole, mut cut) = sender.packets(1, queues);
        let port = open(dev, pool);
        let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
        let mut left = |burst: &mut Burst| -> Vec<Vec<u8>> {
            assert_eq!(tx.transmit(burst).packets, PACKETS, "{dev}");
            if let Some(memory) = port.memory() {
                return std::iter::from_fn(|| memory.collect()).map(|bytes| bytes.to_vec()).collect();
            }
            let mut back = Burst::new();
            receive(&mut rx, &mut back, PACKETS);
            let bytes = back.iter().map(all).collect();
            free_burst(&mut back);
            bytes
        };
        let (whole, cut) = (left(&mut whole), left(&mut cut));
        assert!(whole.len() == PACKETS && whole == cut, "{dev}");
        for bytes in &cut {
            let transport = SlicedPacket::from_ethernet(bytes).unwrap().transport;
            let Some(TransportSlice::Tcp(tcp)) = transport else { panic!("TCP") };
            assert_eq!(tcp.calc_checksum_ipv4([1; 4], [2; 4]).unwrap(), tcp.checksum(), "{dev}");
        }
    }
}
