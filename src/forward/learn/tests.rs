//! The learning switch against a naive one, and under a flood of addresses.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::pisa::hash::Polynomial;
use crate::pisa::{DropReason, Phv, Verdict};
use crate::wire::Headers;

const SECOND: u64 = NS_PER_SECOND;

fn control(capacity: usize) -> Control {
    control_with(capacity, false)
}

fn control_with(capacity: usize, link_local: bool) -> Control {
    let config = Config { capacity, ageing: Duration::from_secs(300), queue: 64, link_local };
    Control::new(config, Polynomial::STANDARD[0])
}

fn frame(vid: u16, src: Mac, dst: Mac, ingress: PortId) -> Phv {
    let headers = Headers { src, dst, vlan_tci: vid | 0xe000, tagged: vid != 0, ..Headers::default() };
    Phv { headers, ingress, ..Phv::default() }
}

fn host(n: u32) -> Mac {
    let [a, b, c, d] = n.to_be_bytes();
    Mac([2, 0, a, b, c, d])
}

/// Sends one burst and lets the control side catch up, as a single-replica driver does.
fn send(learn: &mut Learn, control: &mut Control, mut phvs: Vec<Phv>, now: u64) -> Vec<Verdict> {
    learn.decide(&mut phvs, now);
    control.serve(now);
    phvs.iter().map(|phv| phv.verdict).collect()
}

/// The oracle: VLAN and address to port and the second last heard. Learns between bursts.
struct Naive {
    capacity: usize,
    link_local: bool,
    /// With how often the port became another.
    known: HashMap<(u16, Mac), (PortId, u64, u32)>,
}

impl Naive {
    fn burst(&mut self, phvs: &[Phv], second: u64) -> Vec<Verdict> {
        let before = self.known.clone();
        let dropped = |mac: Mac| match mac.0 {
            [0x01, 0x80, 0xc2, 0, 0, 1] => true,
            [0x01, 0x80, 0xc2, 0, 0, 0..16] => !self.link_local,
            _ => false,
        };
        for phv in phvs.iter().filter(|phv| !dropped(phv.headers.dst)) {
            let (key, src) = ((phv.headers.vid(), phv.headers.src), phv.headers.src);
            if src.is_group() || src == Mac([0; 6]) {
                continue;
            }
            // Known here before the burst: heard. Else a digest, which may move it, and is applied
            // in order.
            if before.get(&key).is_some_and(|(port, ..)| *port == phv.ingress) {
                self.known.get_mut(&key).unwrap().1 = second;
            } else if let Some((port, _, moves)) = self.known.get(&key).copied() {
                self.known.insert(key, (phv.ingress, second, moves + u32::from(port != phv.ingress)));
            } else if self.known.len() < self.capacity {
                self.known.insert(key, (phv.ingress, second, 0));
            }
        }
        let verdict = |phv: &Phv| match before.get(&(phv.headers.vid(), phv.headers.dst)) {
            _ if dropped(phv.headers.dst) => Verdict::Drop(DropReason::LinkLocal),
            None => Verdict::Flood,
            Some((port, ..)) if *port == phv.ingress => Verdict::Drop(DropReason::SamePort),
            Some((port, ..)) => Verdict::Port(*port),
        };
        phvs.iter().map(verdict).collect()
    }

    fn age(&mut self, second: u64) {
        self.known.retain(|_, (_, heard, _)| second - *heard < 300);
    }

    fn entries(&self, second: u64) -> Vec<Entry> {
        let entry = |(&(vid, mac), &(port, heard, moves)): (&(u16, Mac), &(PortId, u64, u32))| Entry {
            vid,
            mac,
            port,
            idle_seconds: (second - heard) as u32,
            fixed: false,
            moves,
        };
        let mut entries: Vec<Entry> = self.known.iter().map(entry).collect();
        entries.sort();
        entries
    }
}

#[derive(Clone, Debug)]
enum Step {
    Burst(Vec<Phv>),
    Wait(u64),
    Age,
    FlushPort(PortId),
    Flush,
}

fn address() -> impl Strategy<Value = Mac> {
    prop_oneof![
        12 => (0..8u32).prop_map(host),
        1 => Just(Mac::BROADCAST),
        1 => Just(Mac([0x01, 0x00, 0x5e, 1, 2, 3])),
        1 => (0..18u8).prop_map(|last| Mac([0x01, 0x80, 0xc2, 0, 0, last])),
        1 => Just(Mac([0; 6])),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let frame = (0..3u16, address(), address(), 0..3u16).prop_map(|(vid, src, dst, port)| frame(vid, src, dst, port));
    prop_oneof![
        10 => prop::collection::vec(frame, 0..20).prop_map(Step::Burst),
        3 => (0..200u64).prop_map(Step::Wait),
        2 => Just(Step::Age),
        1 => (0..3u16).prop_map(Step::FlushPort),
        1 => Just(Step::Flush),
    ]
}

proptest! {
    #[test]
    fn equals_the_naive_switch(
        capacity in 1..20usize,
        link_local: bool,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut control = control_with(capacity, link_local);
        let mut learn = control.dataplane();
        let mut naive = Naive { capacity, link_local, known: HashMap::new() };
        let mut second = 1_700_000_000;
        for step in steps {
            match step {
                Step::Burst(phvs) => {
                    let expected = naive.burst(&phvs, second);
                    prop_assert_eq!(send(&mut learn, &mut control, phvs, second * SECOND + 7), expected);
                }
                Step::Wait(seconds) => second += seconds,
                Step::Age => {
                    control.age(second * SECOND);
                    naive.age(second);
                }
                Step::FlushPort(port) => {
                    control.flush_port(port);
                    naive.known.retain(|_, (p, ..)| *p != port);
                }
                Step::Flush => {
                    let flushed: usize = (0..8).map(|port| control.flush_port(port)).sum();
                    prop_assert_eq!(flushed, naive.known.len());
                    naive.known.clear();
                }
            }
            prop_assert_eq!(control.entries(second * SECOND), naive.entries(second));
        }
        prop_assert_eq!(learn.lost_digests(), 0);
    }
}

#[test]
fn a_flood_of_addresses_keeps_the_bound_and_the_entries() {
    let mut control = control(100);
    let mut learn = control.dataplane();
    let (a, b) = (host(1), host(2));
    send(&mut learn, &mut control, vec![frame(0, a, b, 0), frame(0, b, a, 1)], SECOND);
    for burst in 0..200 {
        let now = (2 + burst) * SECOND;
        let mut phvs: Vec<Phv> = (0..32).map(|i| frame(0, host(1000 + 32 * burst as u32 + i), a, 2)).collect();
        phvs.extend([frame(0, a, b, 0), frame(0, b, a, 1)]);
        let verdicts = send(&mut learn, &mut control, phvs, now);
        assert_eq!(verdicts[32..], [Verdict::Port(1), Verdict::Port(0)]);
        assert!(control.entries(now).len() <= 100);
    }
    assert_eq!(control.refused(), 200 * 32 - 98);
    // The flood ages away and the two stay.
    assert_eq!(control.age(400 * SECOND), 98);
    assert_eq!(control.entries(400 * SECOND).len(), 2);
}

/// A million MAC addresses that were never heard before, faster than the control side serves them.
#[test]
fn a_million_random_addresses() {
    let mut control = Control::new(Config { capacity: 8192, ..Config::default() }, Polynomial::STANDARD[0]);
    let mut learn = control.dataplane();
    let (a, b, fixed) = (host(1), host(2), MacKey::new(0, host(3)));
    control.edit(&[Edit::Fix { key: fixed, port: 3, replace: false }]).unwrap();
    send(&mut learn, &mut control, vec![frame(0, a, b, 0), frame(0, b, a, 1)], SECOND);
    let (mut random, mut applied, mut rounds) = (1u64, 0, 0);
    for burst in 0..1_000_000 / 62u64 {
        let mut phvs: Vec<Phv> = vec![frame(0, a, b, 0), frame(0, b, fixed.mac(), 1)];
        phvs.extend((0..62).map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            frame(0, host((random >> 32) as u32 | 16), a, 2)
        }));
        learn.decide(&mut phvs, SECOND + burst);
        assert_eq!((phvs[0].verdict, phvs[1].verdict), (Verdict::Port(1), Verdict::Port(3)));
        assert!(
            phvs[2..].iter().all(|phv| phv.verdict == Verdict::Port(0)),
            "traffic to a MAC address that is known is not flooded"
        );
        // The control side comes round once in a hundred bursts, and does no more than a queue full
        // then.
        if burst % 100 == 0 {
            let learned = control.serve(SECOND + burst);
            assert!(learned <= 1024);
            (applied, rounds) = (applied + learned, rounds + 1);
        }
    }
    assert_eq!(control.len(), 8192);
    assert!(applied <= 8192);
    assert_eq!(applied as u64 + control.refused(), (rounds - 1) * 1024 + 62, "each round a queue full");
    assert!(learn.lost_digests() > 800_000, "the rest is counted");
    // All that was not heard of again ages away; the one that was set stays.
    assert_eq!(control.age(400 * SECOND), 8191);
    assert_eq!(
        control.entries(400 * SECOND).iter().map(|entry| (entry.mac, entry.fixed)).collect::<Vec<_>>(),
        [(host(3), true)]
    );
}

#[test]
fn a_mac_that_was_set_makes_room_and_stays() {
    let mut control = control(2);
    let mut learn = control.dataplane();
    send(&mut learn, &mut control, vec![frame(0, host(1), host(9), 0)], SECOND);
    send(&mut learn, &mut control, vec![frame(0, host(2), host(9), 1)], 5 * SECOND);
    let fix = |n| Edit::Fix { key: MacKey::new(0, host(n)), port: 2, replace: false };
    control.edit(&[fix(7)]).unwrap();
    let macs = |control: &Control| control.entries(5 * SECOND).iter().map(|entry| entry.mac).collect::<Vec<_>>();
    assert_eq!(macs(&control), [host(2), host(7)], "the one that was silent for longest is gone");
    // It neither moves nor goes.
    let verdicts = send(&mut learn, &mut control, vec![frame(0, host(7), host(2), 0)], 6 * SECOND);
    assert_eq!(verdicts, [Verdict::Port(1)]);
    assert_eq!((control.flush_port(1), control.flush_port(2), control.entries(0)[0].port), (1, 0, 2));
    assert_eq!(control.edit(&[fix(7)]), Err((0, EditError::Exists)));
    assert_eq!(control.edit(&[fix(8), fix(9)]), Err((1, EditError::Full(2))));
    assert_eq!(macs(&control), [host(7)], "none of them");
    control.edit(&[Edit::Forget(MacKey::new(0, host(7))), fix(8), fix(9)]).unwrap();
    assert_eq!(macs(&control), [host(8), host(9)]);
}

#[test]
fn a_full_queue_is_counted_and_stops_nothing() {
    let mut control = control(1000);
    let mut learn = control.dataplane();
    let mut phvs: Vec<Phv> = (0..100).map(|i| frame(5, host(i), host(i + 1), 0)).collect();
    learn.decide(&mut phvs, 0);
    assert!(phvs.iter().all(|phv| phv.verdict == Verdict::Flood));
    assert_eq!(learn.lost_digests(), 36);
    assert_eq!(control.serve(0), 64);
    // Lost digests are reported with the next frames of their MAC addresses.
    learn.decide(&mut phvs, 0);
    assert_eq!(control.serve(0), 36);
}

#[test]
fn a_train_of_frames_sends_one_digest() {
    let mut control = control(1);
    let mut learn = control.dataplane();
    learn.decide(&mut vec![frame(0, host(1), host(2), 0); 50], 0);
    assert_eq!(control.serve(0), 1);
    // A second MAC address is refused once, not once a frame, and is learned when there is room.
    (0..50).for_each(|_| learn.decide(&mut [frame(0, host(2), host(1), 1)], 0));
    assert_eq!((control.serve(0), control.refused()), (0, 1));
    control.flush_port(0);
    learn.decide(&mut [frame(0, host(2), host(1), 1)], 0);
    assert_eq!(control.serve(0), 1);
    assert_eq!(learn.lost_digests(), 0);
}

#[test]
fn workers_learn_from_each_other_while_they_run() {
    let mut control = control(64);
    let end = Instant::now() + Duration::from_secs(10);
    let wait = || {
        assert!(Instant::now() < end, "they do not learn");
        std::thread::yield_now();
    };
    std::thread::scope(|scope| {
        for worker in 0..3u16 {
            let mut learn = control.dataplane();
            scope.spawn(move || {
                // Sends from its own address until it has heard of the next worker's.
                let peer = (worker + 1) % 3;
                loop {
                    let mut phvs = [frame(0, host(worker.into()), host(peer.into()), worker)];
                    learn.decide(&mut phvs, SECOND);
                    if phvs[0].verdict == Verdict::Port(peer) {
                        break;
                    }
                    assert_eq!(phvs[0].verdict, Verdict::Flood);
                    wait();
                }
            });
        }
        while control.entries(SECOND).len() < 3 {
            control.serve(SECOND);
            wait();
        }
    });
}

#[test]
fn a_table_of_another_size_keeps_what_was_heard_last() {
    let mut control = control(10);
    let mut learn = control.dataplane();
    for n in 1..=6 {
        send(&mut learn, &mut control, vec![frame(0, host(n), host(99), n as PortId)], u64::from(n) * 100 * SECOND);
    }
    let resized = |capacity| {
        let config = Config { capacity, ..Config::default() };
        control.resized(config, Polynomial::STANDARD[0])
    };
    let now = 1000 * SECOND;
    assert_eq!(resized(50).entries(now), control.entries(now));
    let mut small = resized(2);
    assert_eq!(small.entries(now).iter().map(|entry| entry.port).collect::<Vec<_>>(), [5, 6]);
    let verdicts = send(&mut small.dataplane(), &mut small, vec![frame(0, host(9), host(6), 0)], now);
    assert_eq!((verdicts[0], small.refused()), (Verdict::Port(6), 1));
    small.set_ageing(Duration::from_secs(450));
    assert_eq!(small.age(now), 1);
}
