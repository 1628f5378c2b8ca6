use proptest::prelude::*;

use super::*;
use crate::port::fault::FaultSpec;
use crate::wire::HeapFrame;

type Burst = ArrayVec<HeapFrame, 64>;

impl Sealed for HeapFrame {
    fn seal(&mut self) {}

    fn set_held_ns(&mut self, held_ns: u32) {
        TOLD.with_borrow_mut(|told| told.push(held_ns));
    }
}

thread_local! {
    /// What the frames of a test were told, in their order.
    static TOLD: std::cell::RefCell<Vec<u32>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// One cycle a nanosecond.
const HZ: u64 = 1_000_000_000;

fn engine(spec: &str) -> Engine<HeapFrame> {
    let spec: FaultSpec = spec.parse().unwrap();
    Engine::new(&spec.rules, 0, HZ)
}

/// UDP from 10.0.0.`src` with its number as the destination port.
fn frame(src: u8, number: u16, ecn: u8) -> HeapFrame {
    let mut bytes = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, src], [10, 9, 0, 1], 9);
    builder.udp(7, number).write(&mut bytes, &[0; 20]).unwrap();
    bytes[15] |= ecn;
    HeapFrame::new(&bytes)
}

fn number(frame: &HeapFrame) -> u16 {
    u16::from_be_bytes([frame.bytes()[36], frame.bytes()[37]])
}

/// All packets through the engine, in bursts; what comes out, and the sum of the counts.
fn run(engine: &mut Engine<HeapFrame>, frames: Vec<HeapFrame>, size: usize) -> (Vec<HeapFrame>, Counts) {
    let (mut out, mut all) = (Vec::new(), Counts::default());
    let mut now = 0;
    let mut step = |engine: &mut Engine<HeapFrame>, arrived: &[HeapFrame], now: u64| {
        let mut burst: Burst = arrived.iter().cloned().collect();
        let counts = engine.pass(now, &mut burst, 0);
        out.extend(burst);
        all.dropped += counts.dropped;
        all.overflow += counts.overflow;
        all.duplicated += counts.duplicated;
        all.corrupted += counts.corrupted;
        all.delayed += counts.delayed;
        all.reordered += counts.reordered;
    };
    for arrived in frames.chunks(size) {
        step(engine, arrived, now);
        now += 1000;
    }
    while engine.held() > 0 {
        step(engine, &[], now);
        now += 100_000;
    }
    (out, all)
}

fn numbered(n: u16) -> Vec<HeapFrame> {
    (0..n).map(|i| frame(1, i, 0)).collect()
}

/// A packet that is held back is told for how long, up to the poll that lets it go; others are told
/// nothing.
#[test]
fn a_held_packet_knows_for_how_long() {
    let mut engine = engine("rx:delay=5us,src=10.0.0.2");
    for (now, arrived) in [(1000, vec![frame(1, 0, 0), frame(2, 1, 0)]), (3000, vec![frame(2, 2, 0)]), (7500, vec![])] {
        engine.pass(now, &mut arrived.into_iter().collect::<Burst>(), 0);
    }
    assert_eq!(TOLD.take(), [6500]);
    engine.pass(8000, &mut Burst::new(), 0);
    assert_eq!((TOLD.take(), engine.held()), (vec![5000], 0));
}

/// A link with a rate sends one packet after another, FCS, preamble and gap included, and drops one that would wait
/// longer than its queue allows. A delay comes behind it.
#[test]
fn a_link_has_a_rate_and_a_queue() {
    // 62 bytes and 24 beside: 688 bits, 688 us at a million a second.
    let mut engine = engine("tx:rate=1Mbps,queue=2ms,delay=1ms");
    let mut burst: Burst = numbered(5).into_iter().collect();
    let counts = engine.pass(0, &mut burst, 0);
    assert_eq!(
        (burst.len(), counts.delayed, counts.overflow, engine.held()),
        (0, 3, 2, 3),
        "they wait 0, 688, 1376 us"
    );
    assert!(engine.delays());
    let mut at = |now: u64| {
        let mut burst = Burst::new();
        engine.pass(now, &mut burst, 0);
        burst.iter().map(number).collect::<Vec<_>>()
    };
    assert_eq!(
        [1_687_999, 1_688_000, 2_376_000, 3_063_999, 3_064_000].map(&mut at),
        [vec![], vec![0], vec![1], vec![], vec![2]]
    );
    // A link that was idle sends at once.
    let mut burst: Burst = numbered(1).into_iter().collect();
    engine.pass(9_000_000, &mut burst, 0);
    let mut burst = Burst::new();
    engine.pass(10_688_000, &mut burst, 0);
    assert_eq!(burst.len(), 1);
}

proptest! {
    /// A naive form of the same: draw a number for each packet and compare.
    #[test]
    fn the_packets_dropped_follow_from_rate_and_seed(part in 0.0..=1.0f64, seed: u64, size in 1..=64usize) {
        let spec = format!("rx:drop={part},seed={seed}");
        let rate = spec.parse::<FaultSpec>().unwrap().rules[0].drop;
        let mut random = Random::new(seed, 0);
        let survives = |_: &u16| !(rate.0 > 0 && random.next() >> 32 < rate.0);
        let expected: Vec<u16> = (0..500).filter(survives).collect();
        let (out, counts) = run(&mut engine(&spec), numbered(500), size);
        prop_assert_eq!(out.iter().map(number).collect::<Vec<_>>(), expected);
        prop_assert_eq!(counts.dropped, 500 - out.len() as u64);
    }

    #[test]
    fn the_books_balance(
        drop in 0..40u32, duplicate in 0..60u32, reorder in 0..40u32, every in 1..9u32, delay in 0..3000u32,
        jitter in 0..3000u32, size in 1..=64usize, seed: u64, n in 0..3000u16,
    ) {
        let spec = format!(
            "rx:drop={drop}%,seed={seed},every={};tx:duplicate={duplicate}%,reorder={reorder}%,gap=2us,delay={delay}us,\
             jitter={jitter}ns;rx:drop={drop}%,every=17,rate=100Mbps,queue=100us", every * 3
        );
        let (out, counts) = run(&mut engine(&spec), numbered(n), size);
        prop_assert_eq!(u64::from(n) + counts.duplicated, out.len() as u64 + counts.dropped + counts.overflow);
    }

    #[test]
    fn other_flows_are_left_alone(seed: u64, size in 1..=64usize) {
        let all = "drop=30%,corrupt=30%,duplicate=30%,every=5";
        let spec = format!("rx:{all},seed={seed},src=10.0.0.2,proto=udp,sport=7");
        let frames: Vec<_> = (0..400).map(|i| frame(1 + (i % 2) as u8, i, 0)).collect();
        let (out, counts) = run(&mut engine(&spec), frames.clone(), size);
        let other = |frame: &&HeapFrame| frame.bytes()[29] == 1 && frame.bytes()[26..29] == [10, 0, 0];
        let before: Vec<_> = frames.iter().filter(other).collect();
        let after: Vec<_> = out.iter().filter(other).filter(|f| number(f).is_multiple_of(2)).collect();
        prop_assert!(before.iter().all(|frame| after.contains(frame)));
        prop_assert!(counts.dropped >= 40 && counts.dropped + 200 <= 400 + counts.duplicated);
    }

    #[test]
    fn no_frame_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), seed: u64) {
        let spec = format!("rx:corrupt=100%,duplicate=100%,delay=1ns,seed={seed};rx:drop=50%,dport=9,ecn=1,dst=fd00::/8");
        run(&mut engine(&spec), vec![HeapFrame::new(&bytes); 3], 2);
    }
}

#[test]
fn every_nth_and_bursts() {
    let kept = |spec: &str| run(&mut engine(spec), numbered(12), 5).0.iter().map(number).collect::<Vec<_>>();
    assert_eq!(kept("rx:every=4"), [0, 1, 2, 4, 5, 6, 8, 9, 10]);
    assert_eq!(kept("rx:every=6,burst=2"), [0, 1, 2, 3, 6, 7, 8, 9]);
    assert!(kept("rx:every=1").is_empty());
}

#[test]
fn drops_by_the_ecn_field() {
    let frames: Vec<_> = (0..40).map(|i| frame(1, i, (i % 4) as u8)).collect();
    let (out, counts) = run(&mut engine("tx:drop=100%,ecn=1"), frames, 64);
    assert_eq!((out.len(), counts.dropped), (30, 10));
    assert!(out.iter().all(|frame| frame.bytes()[15] & 3 != 1));
}

#[test]
fn a_corrupt_frame_differs_in_one_bit() {
    let (out, counts) = run(&mut engine("rx:corrupt=100%"), numbered(200), 64);
    for (frame, right) in out.iter().zip(numbered(200)) {
        let bits: u32 = frame.bytes().iter().zip(right.bytes()).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(bits, 1);
    }
    assert_eq!(counts.corrupted, 200);
}

#[test]
fn delayed_packets_leave_in_order_when_their_time_has_come() {
    let mut engine = engine("tx:delay=5us");
    let mut burst: Burst = numbered(10).into_iter().collect();
    assert_eq!(engine.pass(0, &mut burst, 0).delayed, 10);
    assert!(burst.is_empty());
    engine.pass(4999, &mut burst, 0);
    assert!(burst.is_empty());
    // Other faults take the packets over; these end as well, and what is held back still waits.
    let mut earlier = std::mem::replace(&mut engine, self::engine("tx:drop=100%"));
    engine.take_over(&mut earlier);
    assert!(earlier.held() == 0 && engine.held() == 10);
    engine.disarm();
    assert!(!engine.is_idle());
    engine.pass(5000, &mut burst, 0);
    assert_eq!(burst.iter().map(number).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert!(engine.is_idle());
}

#[test]
fn some_are_overtaken() {
    let (out, counts) = run(&mut engine("tx:reorder=10%,gap=3us,seed=3"), numbered(300), 1);
    let numbers: Vec<_> = out.iter().map(number).collect();
    assert!(counts.reordered > 5 && !numbers.is_sorted());
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..300).collect::<Vec<_>>());
    // Three microseconds are three bursts here.
    assert!(numbers.iter().enumerate().all(|(i, &n)| i.abs_diff(n.into()) <= 3));
}

#[test]
fn what_cannot_be_held_is_counted() {
    let (out, counts) = run(&mut engine("rx:delay=1s"), numbered(3000), 64);
    assert_eq!((out.len(), counts.overflow), (HELD, 3000 - HELD as u64));
}
