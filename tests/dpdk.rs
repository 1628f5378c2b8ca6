//! EAL, pools, packets and ports that need neither root nor huge pages. EAL starts once, so one
//! process holds them all.
#![cfg(feature = "dpdk")]

use std::sync::{Arc, OnceLock};

use weir::{
    dpdk::{
        DpdkError, Eal, EalError, EalOptions, HugePages, Lcore, Mbuf, Mempool, PoolOptions, cycles, cycles_per_second,
    },
    port::{Burst, Dev, Port, PortDrop, PortOptions, RxQueue, TxQueue, free_burst},
    wire::Frame,
};

const BUFFERS: u32 = 2047;

/// EAL, and the error of a pool larger than its memory: tried first, as it takes all there is
/// before it gives up.
fn start() -> &'static (Eal, DpdkError) {
    static START: OnceLock<(Eal, DpdkError)> = OnceLock::new();
    START.get_or_init(|| {
        let options = EalOptions { memory_mib: 192, huge_pages: HugePages::Never, ..Default::default() };
        let eal = Eal::start(&options).expect("DPDK starts without root and huge pages");
        let error = Mempool::new(&eal, PoolOptions::for_mtu(1 << 20, 1500)).unwrap_err();
        (eal, error)
    })
}

fn eal() -> &'static Eal {
    &start().0
}

fn pool() -> Arc<Mempool> {
    Arc::new(Mempool::new(eal(), PoolOptions::for_mtu(BUFFERS, 1500)).unwrap())
}

fn open(dev: &str, pool: &Arc<Mempool>) -> (Port, RxQueue, TxQueue) {
    let dev: Dev = dev.parse().unwrap();
    let port = Port::open("p", &dev, &PortOptions::default(), pool).unwrap();
    let (rx, tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
    (port, rx, tx)
}

fn frame(pool: &Mempool, bytes: &[u8]) -> Mbuf {
    let mut mbuf = pool.alloc().unwrap();
    assert!(mbuf.fill(bytes));
    mbuf
}

#[test]
fn eal_starts_once() {
    eal();
    let again = Eal::start(&EalOptions::default());
    assert!(matches!(again, Err(EalError::AlreadyStarted)));
    assert!(Eal::version().starts_with("DPDK 2"), "{}", Eal::version());
}

#[test]
fn a_pool_gives_all_its_buffers_then_none_and_gets_them_back() {
    let pool = pool();
    let all: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(all.len(), BUFFERS as usize);
    assert_eq!(pool.available(), 0);
    assert!(all[0].duplicate().is_none());
    let mut burst = Burst::new();
    assert!(!pool.alloc_bulk(&mut burst, 8) && burst.is_empty());
    drop(all);
    assert_eq!(pool.available(), BUFFERS);
    assert!(pool.alloc_bulk(&mut burst, 64) && burst.is_full());
    assert!(!pool.alloc_bulk(&mut burst, 1));
    free_burst(&mut burst);
    assert_eq!(pool.available(), BUFFERS);
}

/// Of whatever pools a burst holds buffers, each is back in its own, and as good as new.
#[test]
fn bursts_of_several_pools_go_back_to_them() {
    let (one, other) = (pool(), pool());
    let headroom = one.alloc().unwrap().headroom();
    for others in [0..0, 0..1, 30..33, 0..64] {
        let mut burst = Burst::new();
        while burst.len() < 64 {
            let pool = if others.contains(&burst.len()) { &other } else { &one };
            assert!(pool.alloc_bulk(&mut burst, 1));
        }
        for mbuf in &mut burst {
            assert!(mbuf.bytes().is_empty() && mbuf.fill(&[7; 60]) && mbuf.grow_front(4));
            mbuf.set_needs_checksum(true);
        }
        free_burst(&mut burst);
        assert!(burst.is_empty());
        assert_eq!([one.available(), other.available()], [BUFFERS; 2], "{others:?}");
        for pool in [&one, &other] {
            assert!(pool.alloc_bulk(&mut burst, 64));
            let new = |mbuf: &Mbuf| (mbuf.wire_len(), mbuf.headroom(), mbuf.flags(), mbuf.segments());
            assert!(burst.iter().all(|mbuf| new(mbuf) == (0, headroom, 0, 1)), "{burst:?}");
            free_burst(&mut burst);
        }
    }
    let mut none = Burst::new();
    free_burst(&mut none);
    assert!(!one.alloc_bulk(&mut none, 65) && none.is_empty());
}

#[test]
fn an_mbuf_keeps_the_contract_of_a_frame() {
    let pool = pool();
    let bytes: Vec<u8> = (0..200).collect();
    let mut mbuf = frame(&pool, &bytes);
    assert_eq!((mbuf.bytes(), mbuf.wire_len()), (&bytes[..], 200));
    assert!(mbuf.grow_front(6));
    assert_eq!(mbuf.wire_len(), 206);
    mbuf.bytes_mut()[..6].copy_from_slice(&[9; 6]);
    assert_eq!(&mbuf.bytes()[6..], bytes);
    assert!(mbuf.shrink_front(16));
    assert_eq!(mbuf.bytes(), &bytes[10..]);

    let mut copy = mbuf.duplicate().unwrap();
    copy.bytes_mut()[0] = 77;
    assert_eq!((mbuf.bytes()[0], copy.bytes()[0]), (10, 77));
    assert_eq!(copy.bytes()[1..], mbuf.bytes()[1..]);
    assert!(copy.headroom() >= 6, "a copy can take a shim");

    let headroom = mbuf.headroom();
    assert!(!mbuf.grow_front(headroom + 1) && !mbuf.shrink_front(191));
    assert_eq!(mbuf.bytes(), &bytes[10..]);
    assert!(mbuf.grow_front(headroom) && mbuf.shrink_front(headroom + 190));
    assert_eq!(mbuf.wire_len(), 0);
    let room = mbuf.room();
    assert!(!mbuf.resize(room + 1) && mbuf.resize(room));
    drop((mbuf, copy));
    assert_eq!(pool.available(), BUFFERS);
}

#[test]
fn a_jumbo_frame_fits_one_buffer_of_a_jumbo_pool() {
    let pool = Mempool::new(eal(), PoolOptions::for_mtu(127, 9216)).unwrap();
    let mbuf = frame(&pool, &[7; 9216 + 14 + 4]);
    assert_eq!((mbuf.segments(), mbuf.wire_len()), (1, 9234));
}

#[test]
fn a_pool_beyond_the_memory_says_what_failed() {
    let error = &start().1;
    assert_eq!(error.errno, libc::ENOMEM, "{error}");
}

#[test]
fn null_gives_packets_and_takes_them() {
    let pool = pool();
    let (port, mut rx, mut tx) = open("null:size=100", &pool);
    let mut burst = Burst::new();
    for _ in 0..1000 {
        rx.receive(&mut burst);
        assert!(burst.is_full() && burst.iter().all(|m| m.wire_len() == 100));
        assert_eq!(tx.transmit(&mut burst).packets, 64);
    }
    let stats = port.stats();
    assert_eq!((stats.rx_packets, stats.tx_packets), (64_000, 64_000));
    assert_eq!(stats.drops().map(|(_, n)| n).sum::<u64>(), 0);
    drop((port, rx, tx));
    assert_eq!(pool.available(), BUFFERS);
}

#[test]
fn null_without_rx_is_a_sink() {
    let pool = pool();
    let (port, mut rx, mut tx) = open("null:rx=0", &pool);
    let mut burst = Burst::new();
    for _ in 0..100 {
        rx.receive(&mut burst);
        assert!(burst.is_empty());
        assert!(pool.alloc_bulk(&mut burst, 64));
        assert_eq!(tx.transmit(&mut burst).packets, 64);
    }
    assert_eq!((port.stats().rx_packets, port.stats().tx_packets), (0, 6400));
}

#[test]
fn ring_gives_back_what_it_took_in_order() {
    let pool = pool();
    let (port, mut rx, mut tx) = open("ring:loop", &pool);
    let mut burst: Burst = (0..40u8).map(|i| frame(&pool, &[i; 60])).collect();
    assert_eq!(tx.transmit(&mut burst).packets, 40);
    let mut back: Burst = (0..3).map(|_| frame(&pool, &[0; 60])).collect();
    rx.receive(&mut back);
    assert_eq!(back.len(), 43, "behind what the burst held");
    assert!(back[3..].iter().enumerate().all(|(i, m)| m.bytes() == [i as u8; 60]));
    free_burst(&mut back);
    drop((port, rx, tx));
    assert_eq!(pool.available(), BUFFERS);
}

#[test]
fn a_ring_that_is_closed_gives_back_what_lies_in_it() {
    let pool = pool();
    let (port, rx, mut tx) = open("ring:left", &pool);
    let mut burst: Burst = (0..50u8).map(|i| frame(&pool, &[i; 60])).collect();
    assert_eq!(tx.transmit(&mut burst).packets, 50);
    port.close();
    assert_eq!(pool.available(), BUFFERS - 50, "not while there are queues of it");
    drop((rx, tx));
    port.close();
    assert_eq!(pool.available(), BUFFERS);
    assert!(!port.link_up() && port.stats().tx_packets == 50 && port.rx_queue(0).is_none());
    port.close();
}

#[test]
fn what_a_full_queue_refuses_stays_in_the_burst() {
    let pool = pool();
    let (_port, mut rx, mut tx) = open("ring:full", &pool);
    let mut sent = 0;
    let mut burst = Burst::new();
    loop {
        burst.extend((0..64u32).map(|i| frame(&pool, &(sent as u32 + i).to_be_bytes())));
        let now = tx.transmit(&mut burst).packets;
        sent += now;
        if now < 64 {
            assert_eq!(burst.len(), 64 - now);
            break;
        }
    }
    assert_eq!(burst[0].bytes(), (sent as u32).to_be_bytes(), "the rest has moved to the front");
    free_burst(&mut burst);
    let mut received = 0;
    loop {
        rx.receive(&mut burst);
        if burst.is_empty() {
            break;
        }
        received += burst.len();
        free_burst(&mut burst);
    }
    assert_eq!(received, sent);
    assert_eq!(pool.available(), BUFFERS);
}

#[test]
fn a_port_down_gives_and_takes_nothing_until_it_is_up_again() {
    let pool = pool();
    for dev in ["null", "ring:down", "memory"] {
        let (port, mut rx, mut tx) = open(dev, &pool);
        assert!(port.link_up() && tx.is_up(), "{dev}");
        port.set_link(false).unwrap();
        assert!(!port.link_up() && !tx.is_up(), "{dev}");
        let mut burst: Burst = [frame(&pool, &[1; 60])].into_iter().collect();
        assert_eq!(tx.transmit(&mut burst).packets, 0);
        rx.receive(&mut burst);
        assert_eq!(burst.len(), 1);
        port.set_link(true).unwrap();
        assert!(port.link_up() && tx.is_up(), "{dev}");
        assert_eq!(tx.transmit(&mut burst).packets, 1, "{dev}");
    }
}

#[test]
fn memory_carries_frames_both_ways_and_counts_what_it_cannot() {
    let pool = pool();
    let (port, mut rx, mut tx) = open("memory", &pool);
    let handle = port.memory().unwrap();
    assert!(handle.inject(&[5; 60]) && handle.inject(&[6; 70]) && handle.inject(&[0; 9000]));
    let mut burst = Burst::new();
    rx.receive(&mut burst);
    assert_eq!(burst.iter().map(Frame::wire_len).collect::<Vec<_>>(), [60, 70]);
    assert_eq!(tx.transmit(&mut burst).packets, 2);
    assert_eq!(*handle.collect().unwrap(), [5; 60]);
    assert_eq!(*handle.collect().unwrap(), [6; 70]);
    assert_eq!(handle.collect(), None);

    let all: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    assert!(handle.inject(&[5; 60]));
    rx.receive(&mut burst);
    assert!(burst.is_empty());
    drop(all);
    let stats = port.stats();
    assert_eq!((stats.rx_packets, stats.tx_packets, stats.rx_bytes), (2, 2, 130));
    assert_eq!((stats.dropped(PortDrop::RxNoBuffer), stats.dropped(PortDrop::RxTooLong)), (1, 1));
    assert_eq!(pool.available(), BUFFERS);
}

#[test]
fn each_queue_has_one_owner() {
    let pool = pool();
    let (port, _rx, _tx) = open("null", &pool);
    assert!(port.rx_queue(0).is_none() && port.tx_queue(0).is_none() && port.rx_queue(1).is_none());
}

#[test]
fn several_workers_have_queues_of_their_own() {
    let pool = pool();
    let options = PortOptions { rx_queues: 2, tx_queues: 3, ..Default::default() };
    for dev in ["null", "memory"] {
        let port = Port::open("p", &dev.parse().unwrap(), &options, &pool).unwrap();
        assert!((0..2).all(|i| port.rx_queue(i).is_some()) && (0..3).all(|i| port.tx_queue(i).is_some()), "{dev}");
    }
    let options = PortOptions { tx_queues: 9999, ..Default::default() };
    let error = Port::open("p", &"null".parse().unwrap(), &options, &pool).unwrap_err().to_string();
    assert!(error.contains("9999 transmit queues asked for, net_null has at most"), "{error}");
}

#[test]
fn a_checksum_that_a_kernel_left_open_is_completed_before_it_leaves_dpdk() {
    let pool = pool();
    let mut bytes = Vec::new();
    etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv6([1; 16], [2; 16], 9)
        .tcp(5, 6, 7, 8)
        .write(&mut bytes, &[9; 99])
        .unwrap();
    for dev in ["ring:sums", "memory"] {
        let (port, mut rx, mut tx) = open(dev, &pool);
        let mut mbuf = frame(&pool, &bytes);
        mbuf.bytes_mut()[54 + 16..54 + 18].fill(0x11);
        mbuf.set_needs_checksum(true);
        assert!(mbuf.duplicate().unwrap().needs_checksum(), "a flooded copy needs it too");
        let mut burst: Burst = [mbuf].into_iter().collect();
        assert_eq!(tx.transmit(&mut burst).packets, 1);
        if let Some(handle) = port.memory() {
            assert_eq!(*handle.collect().unwrap(), bytes);
        } else {
            rx.receive(&mut burst);
            assert_eq!((burst[0].bytes(), burst[0].needs_checksum()), (&bytes[..], false));
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error_with_its_name() {
    let pool = pool();
    let dev: Dev = "pcap:/nonexistent/in.pcap,".parse().unwrap();
    let error = Port::open("left", &dev, &PortOptions::default(), &pool).unwrap_err().to_string();
    assert!(error.contains("left") && error.contains("/nonexistent/in.pcap"), "{error}");
}

#[test]
fn pcap_reads_one_file_and_writes_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let file = std::fs::File::create(path("in.pcap")).unwrap();
    let mut writer = pcap_file::pcap::PcapWriter::new(file).unwrap();
    for i in 0..100u8 {
        let data = [i; 90];
        let packet = pcap_file::pcap::PcapPacket::new(std::time::Duration::from_millis(i.into()), 90, &data);
        writer.write_packet(&packet).unwrap();
    }
    drop(writer);
    let pool = pool();
    let (port, mut rx, mut tx) = open(&format!("pcap:{},{}", path("in.pcap"), path("out.pcap")), &pool);
    let mut burst = Burst::new();
    let mut total = 0;
    for _ in 0..4 {
        rx.receive(&mut burst);
        total += burst.len();
        tx.transmit(&mut burst);
        assert!(burst.is_empty());
    }
    assert_eq!(total, 100);
    drop((port, rx, tx));
    let mut reader = pcap_file::pcap::PcapReader::new(std::fs::File::open(path("out.pcap")).unwrap()).unwrap();
    let mut seen = 0;
    while let Some(packet) = reader.next_packet() {
        assert_eq!(*packet.unwrap().data, [seen; 90]);
        seen += 1;
    }
    assert_eq!(seen, 100);
    assert_eq!(pool.available(), BUFFERS);
}

#[test]
fn a_worker_registers_and_takes_buffers_through_its_own_cache() {
    let pool = pool();
    let worker = {
        let pool = pool.clone();
        std::thread::spawn(move || {
            let _lcore = Lcore::register(eal(), None).unwrap();
            let held: Vec<_> = (0..500).map(|_| pool.alloc().unwrap()).collect();
            drop(held);
        })
    };
    worker.join().unwrap();
    assert_eq!(pool.available(), BUFFERS, "also those in the cache of a thread that has ended");
    let error = Lcore::register(eal(), Some(100_000)).unwrap_err();
    assert!(error.to_string().contains("100000"));
}

#[test]
fn the_cycle_counter_runs_at_its_rate() {
    let (hz, start, clock) = (cycles_per_second(eal()), cycles(), std::time::Instant::now());
    std::thread::sleep(std::time::Duration::from_millis(100));
    let seconds = (cycles() - start) as f64 / hz as f64;
    assert!((seconds / clock.elapsed().as_secs_f64() - 1.0).abs() < 0.02, "{seconds}");
}
