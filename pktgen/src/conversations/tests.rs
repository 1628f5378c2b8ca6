//! Conversations over a link in memory that loses, copies and reorders frames.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir::trace::{CaptureReader, CaptureWriter, SplitMix64};
use weir::wire::tcp::{ACK, FIN, PSH, RST, SYN};
use weir::wire::{Headers, Mac};

use super::segment::{Ends, Outgoing, Segment};
use super::*;

const MS: u64 = 1_000_000;
const LINK: Link = Link { client: Mac([2, 0, 0, 0, 0, 1]), server: Mac([2, 0, 0, 0, 0, 2]), vlan: None };
const LIMITS: Limits = Limits { mss: 100, window: 500, timeout_ns: 20 * MS, tries: 40 };

fn settings(max_open: u32, clients: Clients) -> Settings {
    Settings { max_open, limits: LIMITS, longest_pause_ns: 0, clients, link: LINK, seed: 1 }
}

/// A capture while it is written: its frames, and the next sequence number of each end.
struct Talk {
    ends: Ends,
    next: [u32; 2],
    frames: Vec<Vec<u8>>,
}

impl Talk {
    fn new(ends: Ends) -> Self {
        Self { ends, next: [u32::MAX - 10, 77], frames: Vec::new() }
    }

    /// The handshake of a conversation.
    fn begun(ends: Ends) -> Self {
        let mut talk = Self::new(ends);
        talk.send(Side::Client, SYN, &[]);
        talk.send(Side::Server, SYN | ACK, &[]);
        talk.send(Side::Client, ACK, &[]);
        talk
    }

    fn send(&mut self, from: Side, flags: u8, payload: &[u8]) {
        let seq = self.next[from as usize];
        self.send_at(from, seq, flags, payload);
        let more = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.next[from as usize] = seq.wrapping_add(more);
    }

    fn send_at(&mut self, from: Side, seq: u32, flags: u8, payload: &[u8]) {
        let ends = if from == Side::Client { self.ends } else { self.ends.reversed() };
        let ack = self.next[from.other() as usize];
        let mut frame = vec![0; 3000];
        let segment = Outgoing { seq, ack, flags, window: 1000, mss: None };
        let length = LINK.write(from, &ends, &segment, payload, &mut frame).unwrap();
        frame.truncate(length);
        self.frames.push(frame);
    }

    /// A turn, in segments of 200 bytes.
    fn say(&mut self, from: Side, bytes: &[u8]) {
        bytes.chunks(200).for_each(|payload| self.send(from, ACK | PSH, payload));
    }
}

fn ends(n: u8, is_v6: bool) -> Ends {
    Ends { is_v6, src: 0x0a00_0001 + u128::from(n), dst: 0x0a01_0001, sport: 4000, dport: 80 + u16::from(n) }
}

fn scripts(frames: &[Vec<u8>]) -> Result<Scripts, ScriptsError> {
    let mut capture = CaptureWriter::new(Vec::new()).unwrap();
    (1..).zip(frames).for_each(|(at, frame)| capture.write(at * MS, frame).unwrap());
    let bytes = capture.finish().unwrap();
    Scripts::read(&mut CaptureReader::new(&bytes[..]).unwrap())
}

fn bytes(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|at| ((at + seed) * 31 % 253) as u8).collect()
}

fn turns(script: &Script) -> Vec<(Side, u32)> {
    script.turns().iter().map(|turn| (turn.side, turn.bytes)).collect()
}

#[test]
fn a_capture_is_its_turns() {
    let (request, response) = (bytes(450, 1), bytes(1000, 2));
    let mut talk = Talk::begun(ends(1, false));
    talk.say(Side::Client, &request);
    talk.say(Side::Server, &response);
    talk.say(Side::Client, b"bye");
    talk.send(Side::Server, FIN | ACK, &[]);
    talk.send(Side::Client, FIN | ACK, &[]);
    // The ports again, for another conversation that nobody ends.
    talk.next = [5, 6];
    talk.send(Side::Client, SYN, &[]);
    let again = talk.frames[talk.frames.len() - 1].clone();
    talk.frames.push(again);
    talk.send(Side::Server, SYN | ACK, &[]);
    let mut strangers = Talk::new(ends(2, true));
    strangers.say(Side::Client, b"no SYN");
    strangers.say(Side::Server, b"no SYN");
    let mut refused = Talk::new(ends(3, true));
    refused.send(Side::Client, SYN, &[]);
    refused.send(Side::Server, RST | ACK, &[]);
    let frames = [talk.frames, strangers.frames, refused.frames, vec![vec![0; 60]]].concat();
    let scripts = scripts(&frames).unwrap();
    let [first, second] = scripts.all() else { panic!("{:?}", scripts.extracted()) };
    assert_eq!(turns(first), [(Side::Client, 450), (Side::Server, 1000), (Side::Client, 3)]);
    assert_eq!(first.stream(Side::Client), [&request[..], b"bye"].concat());
    assert_eq!((first.stream(Side::Server), first.closer()), (&response[..], Side::Server));
    assert_eq!(first.turns()[1].pause_ns, MS);
    assert_eq!((second.turns().len(), second.closer()), (0, Side::Client));
    let extracted = scripts.extracted();
    assert_eq!((extracted.conversations, extracted.turns, extracted.payload_bytes), (2, 3, 1453));
    assert_eq!((extracted.unstarted_conversations, extracted.unanswered_conversations), (1, 1));
    assert_eq!((extracted.other_packets, extracted.missing_bytes, extracted.stray_packets), (1, 0, 0));
    assert_eq!(extracted.text().len(), 3);
}

/// Segments that overlap, come again or out of order, are cut, or lie: what is known is there, and what is
/// not is counted.
#[test]
fn a_hostile_capture_is_counted() {
    let mut talk = Talk::begun(ends(1, false));
    let first = talk.next[0];
    talk.send_at(Side::Client, first.wrapping_add(4), ACK, b"efgh");
    talk.send_at(Side::Client, first, ACK, b"abcdXX");
    talk.send_at(Side::Client, first.wrapping_add(6), ACK, b"YYij");
    talk.send_at(Side::Client, first.wrapping_add(1 << 30), ACK, b"far");
    talk.send_at(Side::Client, first.wrapping_add(10), ACK, &[7; 100]);
    let cut = talk.frames.last_mut().unwrap();
    cut.truncate(cut.len() - 40);
    talk.send_at(Side::Client, first.wrapping_add(110), ACK, b"end");
    let mut short = talk.frames[0].clone();
    short.truncate(40);
    talk.frames.push(short);
    let mut wrong = talk.frames[0].clone();
    wrong[46] = 0x10;
    talk.frames.push(wrong);
    let scripts = scripts(&talk.frames).unwrap();
    let mut expected = b"abcdefghij".to_vec();
    expected.extend([[7; 60].as_slice(), &[0; 40], b"end"].concat());
    assert_eq!(scripts.all()[0].stream(Side::Client), expected);
    let extracted = scripts.extracted();
    assert_eq!((extracted.missing_bytes, extracted.stray_packets, extracted.unreadable_packets), (40, 1, 2));
    assert_eq!(turns(&scripts.all()[0]), [(Side::Client, 113)]);
}

proptest! {
    /// Frames of which any bytes are others and any ends are cut: no panic, and turns are all of the bytes.
    #[test]
    fn any_capture_is_read(
        damage in proptest::collection::vec((0usize..20, 12usize..80, any::<u8>()), 0..40),
        cuts in proptest::collection::vec((0usize..20, 14usize..300), 0..5),
        order in proptest::collection::vec(0usize..20, 0..20),
    ) {
        let mut talk = Talk::begun(ends(1, false));
        talk.say(Side::Client, &bytes(700, 1));
        talk.say(Side::Server, &bytes(900, 2));
        talk.send(Side::Client, FIN | ACK, &[]);
        talk.send(Side::Server, FIN | ACK, &[]);
        let mut frames = talk.frames;
        order.iter().for_each(|at| { let at = at % frames.len(); let frame = frames.remove(at); frames.push(frame); });
        let length = frames.len();
        damage.iter().for_each(|(frame, at, to)| {
            if let Some(byte) = frames[frame % length].get_mut(*at) {
                *byte = *to;
            }
        });
        cuts.iter().for_each(|(frame, to)| frames[frame % length].truncate(*to));
        let Ok(scripts) = scripts(&frames) else { return Ok(()) };
        for script in scripts.all() {
            for side in Side::BOTH {
                let said: u32 = script.turns().iter().filter(|turn| turn.side == side).map(|turn| turn.bytes).sum();
                prop_assert_eq!(said as usize, script.stream(side).len());
            }
            prop_assert!(script.turns().windows(2).all(|pair| pair[0].side != pair[1].side));
        }
    }
}

/// A link, and all that came over it.
struct Wire {
    rng: SplitMix64,
    loss: f64,
    copies: f64,
    delay_ns: u64,
    under_way: Vec<(u64, Side, Vec<u8>)>,
    delivered: Vec<Vec<u8>>,
}

impl Wire {
    fn send(&mut self, now: u64, from: Side, frame: &[u8]) {
        let copies = 1 + u32::from(self.rng.unit() < self.copies);
        for _ in 0..copies {
            if self.rng.unit() >= self.loss {
                let due = now + self.rng.below(self.delay_ns);
                self.under_way.push((due, from.other(), frame.to_vec()));
            }
        }
    }

    /// Steps of half a millisecond until all have ended, at most an hour.
    fn carry(&mut self, all: &mut Conversations, starts: u64) {
        let (mut now, mut frame) = (0, vec![0; 2000]);
        while now < 3_600_000 * MS && (all.due() < starts || !all.is_idle()) {
            now += MS / 2;
            if all.due() < starts {
                all.start(now);
            }
            all.tick(now);
            for (_, to, frame) in self.under_way.extract_if(.., |(due, ..)| *due <= now) {
                all.take(Some(to), &frame, now);
                self.delivered.push(frame);
            }
            for side in Side::BOTH {
                while let Some(length) = all.write(side, now, &mut frame) {
                    self.send(now, side, &frame[..length]);
                }
            }
        }
    }

    /// The bytes that came over the link, by the ends that they were sent with: from the sequence numbers
    /// alone.
    fn heard(&self) -> BTreeMap<(u128, u16, u128, u16), Vec<u8>> {
        let mut headers = Headers::default();
        let all: Vec<_> = self.delivered.iter().map(|frame| Segment::read(frame, &mut headers).unwrap()).collect();
        let key = |ends: &Ends| (ends.src, ends.sport, ends.dst, ends.dport);
        let syns: BTreeMap<_, _> =
            all.iter().filter(|segment| segment.has(SYN)).map(|segment| (key(&segment.ends), segment.seq)).collect();
        let mut heard: BTreeMap<_, Vec<Option<u8>>> = BTreeMap::new();
        for segment in &all {
            let heard = heard.entry(key(&segment.ends)).or_default();
            let at = segment.seq.wrapping_sub(syns[&key(&segment.ends)].wrapping_add(1)) as usize;
            for (at, byte) in (at..).zip(segment.payload) {
                heard.resize(heard.len().max(at + 1), None);
                heard[at] = Some(*byte);
            }
        }
        heard.into_iter().map(|(key, heard)| (key, heard.into_iter().map(|byte| byte.unwrap()).collect())).collect()
    }
}

fn wire(seed: u64, loss: f64, copies: f64, delay_ns: u64) -> Wire {
    Wire { rng: SplitMix64::new(seed), loss, copies, delay_ns, under_way: Vec::new(), delivered: Vec::new() }
}

/// Three conversations: the client speaks first, the server does, nobody says anything.
fn three() -> Arc<Scripts> {
    let mut web = Talk::begun(ends(1, false));
    web.say(Side::Client, &bytes(300, 1));
    web.say(Side::Server, &bytes(2500, 2));
    web.say(Side::Client, &bytes(10, 3));
    web.say(Side::Server, &bytes(700, 4));
    web.send(Side::Server, FIN | ACK, &[]);
    let mut mail = Talk::begun(ends(2, true));
    mail.say(Side::Server, &bytes(90, 5));
    mail.say(Side::Client, &bytes(1200, 6));
    mail.send(Side::Client, RST, &[]);
    let silent = Talk::begun(ends(3, false));
    Arc::new(scripts(&[web.frames, mail.frames, silent.frames].concat()).unwrap())
}

fn is_balanced(counts: &Counts) -> bool {
    counts.started == counts.finished + counts.given_up + counts.open()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the link loses, copies and reorders: every conversation ends, and both ends have exactly what
    /// the capture has.
    #[test]
    fn conversations_end_over_any_link(
        seed: u64, loss in 0.0f64..0.3, copies in 0.0f64..0.3, delay_ms in 1u64..40, max_open in 1u32..12,
    ) {
        let scripts = three();
        let mut all = Conversations::new(scripts.clone(), settings(max_open, Clients::default()));
        let mut wire = wire(seed, loss, copies, delay_ms * MS);
        wire.carry(&mut all, 24);
        let counts = all.counts();
        prop_assert_eq!((counts.given_up, counts.open(), counts.damaged, counts.foreign), (0, 0, 0, 0));
        prop_assert_eq!(counts.finished + counts.not_started, 24);
        prop_assert!(is_balanced(counts) && counts.started == counts.established);
        let bytes: u64 = counts.sides.iter().map(|side| side.received_bytes).sum();
        let heard = wire.heard();
        prop_assert_eq!(bytes, heard.values().map(|heard| heard.len() as u64).sum::<u64>());
        prop_assert_eq!(heard.len() as u64, 2 * counts.finished);
        for ((_, sport, _, dport), heard) in heard {
            let (side, port) = if dport < 4000 { (Side::Client, dport) } else { (Side::Server, sport) };
            prop_assert_eq!(&heard[..], scripts.all()[usize::from(port) - 81].stream(side));
        }
    }

    /// Frames of the conversations with another byte, and frames of any bytes: no panic, and each is counted
    /// once. What is wrong does no harm.
    #[test]
    fn any_frame_may_come_in(
        seed: u64, by in 1u8.., any in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut all = Conversations::new(three(), settings(8, Clients::default()));
        let (mut rng, mut frame, mut taken) = (SplitMix64::new(seed), vec![0; 2000], 0u64);
        for step in 0..2000 {
            let now = step * MS;
            if step % 50 == 0 {
                all.start(now);
            }
            all.tick(now);
            for side in Side::BOTH {
                while let Some(length) = all.write(side, now, &mut frame) {
                    let mut wrong = frame[..length].to_vec();
                    wrong[rng.below(length as u64) as usize] ^= by;
                    all.take(Some(side.other()), &wrong, now);
                    all.take(None, &wrong[..rng.below(length as u64) as usize], now);
                    all.take(None, &any, now);
                    all.take(Some(side.other()), &frame[..length], now);
                    taken += 4;
                }
            }
        }
        let counts = all.counts();
        let received: u64 = counts.sides.iter().map(|side| side.received).sum();
        prop_assert_eq!(received + counts.late + counts.refused + counts.damaged + counts.foreign, taken);
        prop_assert_eq!((counts.started, counts.finished + counts.not_started, counts.given_up), (40, 40, 0));
    }
}

/// Over a link that carries nothing each conversation is given up with a RST, and what was due meanwhile
/// counts as not started.
#[test]
fn conversations_are_given_up_on_a_dead_link() {
    let limits = Limits { tries: 3, ..LIMITS };
    let mut all = Conversations::new(three(), Settings { limits, ..settings(5, Clients::default()) });
    let mut wire = wire(1, 1.0, 0.0, 1);
    wire.carry(&mut all, 20);
    let counts = all.counts();
    assert_eq!((counts.started, counts.given_up, counts.not_started), (5, 5, 15));
    assert_eq!((counts.established, counts.open(), counts.sides[0].retransmitted), (0, 0, 15));
    assert!(is_balanced(counts) && all.is_idle());
}

/// An acknowledgement that nobody sent leaves an end waiting for nothing: the conversation ends all the same.
#[test]
fn a_forged_acknowledgement_ends_nothing_but_its_conversation() {
    let scripts = three();
    let mut all = Conversations::new(scripts, settings(1, Clients::default()));
    let mut frame = vec![0; 2000];
    all.start(0);
    let length = all.write(Side::Client, 0, &mut frame).unwrap();
    let syn = Segment::read(&frame[..length], &mut Headers::default()).map(|syn| (syn.seq, syn.ends)).unwrap();
    all.take(None, &frame[..length], 0);
    let length = all.write(Side::Server, 0, &mut frame).unwrap();
    all.take(None, &frame[..length], 0);
    let (seq, ends) = syn;
    let isn = Segment::read(&frame[..length], &mut Headers::default()).unwrap().seq;
    // The request is on its way, and lost.
    while all.write(Side::Client, 0, &mut frame).is_some() {}
    let forged = Outgoing { seq: isn.wrapping_add(1), ack: seq.wrapping_add(301), flags: ACK, window: 9, mss: None };
    let length = LINK.write(Side::Server, &ends.reversed(), &forged, &[], &mut frame).unwrap();
    all.take(Some(Side::Client), &frame[..length], 0);
    let established = Outgoing { seq: seq.wrapping_add(1), ack: isn.wrapping_add(1), ..forged };
    let length = LINK.write(Side::Client, &ends, &established, &[], &mut frame).unwrap();
    all.take(Some(Side::Server), &frame[..length], 0);
    assert_eq!(all.counts().sides.map(|side| side.received), [2, 2]);
    let mut now = 0;
    while !all.is_idle() && now < 120_000 * MS {
        now += MS;
        all.tick(now);
        while all.write(Side::Client, now, &mut frame).is_some() {}
        while all.write(Side::Server, now, &mut frame).is_some() {}
    }
    assert_eq!((all.counts().given_up, all.counts().open()), (1, 0));
}

/// Pauses of the capture are kept, up to the longest.
#[test]
fn turns_wait_as_in_the_capture() {
    let took = |longest_pause_ns| {
        let settings = Settings { longest_pause_ns, ..settings(1, Clients::default()) };
        let mut all = Conversations::new(three(), settings);
        wire(1, 0.0, 0.0, 1).carry(&mut all, 1);
        all.counts().finish.max()
    };
    // Its four turns each came a millisecond behind the last payload, the first behind the handshake's two.
    let (none, all) = (took(0), took(1000 * MS));
    assert!(all >= none + 4 * MS, "{none} {all}");
}
