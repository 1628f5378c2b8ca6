//! Faults at the queues of a port, set while it runs, and what is counted of them.
#![cfg(feature = "dpdk")]

use std::sync::{Arc, OnceLock};

use weir::{
    dpdk::{Eal, EalOptions, HugePages, Mempool, PoolOptions},
    port::{Burst, MemoryHandle, Port, PortDrop, PortOptions, RxQueue, TxQueue, free_burst},
    wire::Frame,
};

const BUFFERS: u32 = 8191;

fn pool() -> Arc<Mempool> {
    static EAL: OnceLock<Eal> = OnceLock::new();
    let eal = EAL.get_or_init(|| {
        let options = EalOptions { memory_mib: 96, huge_pages: HugePages::Never, ..Default::default() };
        Eal::start(&options).expect("DPDK starts without root and huge pages")
    });
    Arc::new(Mempool::new(eal, PoolOptions::for_mtu(BUFFERS, 1500)).unwrap())
}

fn open(pool: &Arc<Mempool>, dev: &str) -> (Port, RxQueue, TxQueue) {
    let port = Port::open("p", &dev.parse().unwrap(), &PortOptions::default(), pool).unwrap();
    let (rx, tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
    (port, rx, tx)
}

fn inject(handle: &MemoryHandle, n: u8) {
    assert!((0..n).all(|i| handle.inject(&[i; 60])));
}

/// The first bytes of whatever comes out now.
fn receive(rx: &mut RxQueue) -> Vec<u8> {
    let (mut burst, mut all) = (Burst::new(), Vec::new());
    for _ in 0..8 {
        rx.receive(&mut burst);
        all.extend(burst.drain(..).map(|mbuf| mbuf.bytes()[0]));
    }
    all
}

fn set(port: &Port, spec: &str) {
    port.set_fault(Some(&spec.parse().unwrap()));
}

#[test]
fn faults_come_change_and_go_while_the_port_runs() {
    let pool = pool();
    let (port, mut rx, tx) = open(&pool, "memory");
    let handle = port.memory().unwrap();
    inject(&handle, 6);
    assert_eq!(receive(&mut rx), [0, 1, 2, 3, 4, 5]);
    set(&port, "rx:every=3");
    set(&port, "rx:every=2");
    inject(&handle, 6);
    assert_eq!(receive(&mut rx), [0, 2, 4]);
    assert_eq!(port.fault().unwrap().to_string(), "rx:every=2");
    set(&port, "rx:delay=1ms");
    inject(&handle, 6);
    let mut held = receive(&mut rx);
    // No faults from now on, but what is held back comes, and in order.
    port.set_fault(None);
    while held.len() < 6 {
        held.extend(receive(&mut rx));
    }
    assert_eq!((held, port.fault()), (vec![0, 1, 2, 3, 4, 5], None));
    // Other faults in their place leave them alone as well.
    set(&port, "rx:delay=1ms");
    inject(&handle, 6);
    let mut held = receive(&mut rx);
    set(&port, "rx:drop=100%");
    while held.len() < 6 {
        held.extend(receive(&mut rx));
    }
    assert_eq!(held, [0, 1, 2, 3, 4, 5]);
    port.set_fault(None);
    inject(&handle, 2);
    assert_eq!(receive(&mut rx), [0, 1]);
    set(&port, "rx:delay=1m");
    inject(&handle, 5);
    assert!(receive(&mut rx).is_empty());
    drop((rx, tx));
    let stats = port.stats();
    let lost = [PortDrop::FaultDrop, PortDrop::FaultOverflow, PortDrop::FaultHeld].map(|why| stats.dropped(why));
    assert_eq!((lost, stats.rx_packets, stats.faults.delayed_packets), ([3, 0, 5], 31, 17));
    assert_eq!(pool.available(), BUFFERS);
}

#[test]
fn what_is_sent_is_what_the_device_got_and_what_faults_took() {
    let pool = pool();
    let (port, rx, mut tx) = open(&pool, "memory");
    let handle = port.memory().unwrap();
    set(&port, "tx:drop=20%,seed=5;tx:duplicate=30%,jitter=100us");
    let (mut sent, mut bytes) = (0, 0);
    for i in 0..40u8 {
        let mut burst: Burst = (0..50).map(|_| pool.alloc().unwrap()).collect();
        burst.iter_mut().for_each(|mbuf| assert!(mbuf.fill(&[i; 60])));
        let now = tx.transmit(&mut burst);
        (sent, bytes) = (sent + now.packets as u64, bytes + now.bytes);
        assert!(burst.is_empty());
    }
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_millis(1) {
        tx.flush();
    }
    tx.flush();
    drop((rx, tx));
    let stats = port.stats();
    let lost = stats.dropped(PortDrop::FaultDrop) + stats.dropped(PortDrop::FaultOverflow);
    assert_eq!((sent, bytes, stats.dropped(PortDrop::FaultHeld)), (2000, 2000 * 60, 0));
    assert!((300..500).contains(&lost) && stats.faults.duplicated_packets > 300);
    assert_eq!(sent + stats.faults.duplicated_packets, stats.tx_packets + lost);
    assert_eq!(std::iter::from_fn(|| handle.collect()).count() as u64, stats.tx_packets);
    assert_eq!(pool.available(), BUFFERS);
}

/// It would leave when the port is up again, whenever that is.
#[test]
fn what_is_held_back_is_lost_when_the_port_is_set_down() {
    let pool = pool();
    let (port, mut rx, mut tx) = open(&pool, "memory");
    let handle = port.memory().unwrap();
    set(&port, "rx:delay=1m;tx:delay=1m");
    inject(&handle, 5);
    assert!(receive(&mut rx).is_empty() && rx.holds());
    let mut burst: Burst = (0..3).map(|_| pool.alloc().unwrap()).collect();
    burst.iter_mut().for_each(|mbuf| assert!(mbuf.fill(&[7; 60])));
    tx.transmit(&mut burst);
    assert!(tx.holds());

    port.set_link(false).unwrap();
    assert!(receive(&mut rx).is_empty());
    tx.flush();
    assert!(!rx.holds() && !tx.holds());
    assert_eq!(port.stats().dropped(PortDrop::FaultHeld), 8);
    port.set_link(true).unwrap();
    tx.flush();
    assert!(handle.collect().is_none() && receive(&mut rx).is_empty());
    // The faults themselves stay.
    inject(&handle, 2);
    assert!(receive(&mut rx).is_empty() && rx.holds());
    drop((rx, tx));
    assert_eq!(port.stats().dropped(PortDrop::FaultHeld), 10);
    assert_eq!(pool.available(), BUFFERS);
}

/// What comes free when the queue is full is lost by the fault, and what was given now stays with
/// the caller.
#[test]
fn a_full_queue_under_delay() {
    let pool = pool();
    let (port, rx, mut tx) = open(&pool, "ring:full");
    let give = |n: usize| -> Burst { (0..n).map(|_| pool.alloc().unwrap()).collect() };
    let mut filled = 0;
    loop {
        let mut burst = give(64);
        let now = tx.transmit(&mut burst).packets;
        filled += now;
        free_burst(&mut burst);
        if now < 64 {
            break;
        }
    }
    set(&port, "tx:delay=1us");
    let mut burst = give(40);
    assert_eq!(tx.transmit(&mut burst).packets, 40);
    std::thread::sleep(std::time::Duration::from_millis(1));
    port.set_fault(None);
    let mut burst = give(10);
    let sent = tx.transmit(&mut burst);
    // Ten of fifty may stay, as ten were given.
    assert_eq!((sent.packets, burst.len(), port.stats().dropped(PortDrop::FaultOverflow)), (0, 10, 40));
    free_burst(&mut burst);
    drop((rx, tx));
    port.close();
    assert!(filled > 0);
    assert_eq!(pool.available(), BUFFERS);
}

#[test]
fn damage_is_not_covered_by_a_sum_that_is_computed_later() {
    let pool = pool();
    let (port, _rx, mut tx) = open(&pool, "memory");
    let handle = port.memory().unwrap();
    let mut right = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 9).udp(5, 6);
    builder.write(&mut right, &[9; 99]).unwrap();
    set(&port, "tx:corrupt=100%");
    for _ in 0..50 {
        let mut mbuf = pool.alloc().unwrap();
        assert!(mbuf.fill(&right));
        mbuf.bytes_mut()[40..42].fill(0x11);
        mbuf.set_needs_checksum(true);
        let mut burst: Burst = [mbuf].into_iter().collect();
        assert_eq!(tx.transmit(&mut burst).packets, 1);
        let got = handle.collect().unwrap();
        let bits: u32 = got.iter().zip(&right).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(bits, 1, "the right sum and one wrong bit");
    }
}
