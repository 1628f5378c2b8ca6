//! Messages byte by byte, and what an exporter sends of a history.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use super::*;
use crate::answers::{
    Answers, FlowCount, FlowName, HeavyFlows, Loss, Losses, LossesFound, ProgramAnswer, Query, Queryable, Task,
};
use crate::answers::{Certainty, FlowPath, FoundFlows, PathAnswers, Paths, SureOf, Unit};
use crate::api::exported::ExportCounters;
use crate::api::view;
use crate::config::{IpfixConfig, IpfixRecords};
use crate::history::{AnyHistory, Entry, Epochs, Gap, History, Kept, Reason, Reasons, Room, SwitchGap};
use crate::lock::Hold;
use crate::program::ProgramConfig;
use crate::wire::Flow;

const NOW: u32 = 1_700_000_000;

/// Keeps messages, or refuses them.
#[derive(Default)]
struct Collected {
    messages: Vec<(Vec<u8>, u32)>,
    refuses: bool,
}

impl Sink for Collected {
    fn take(&mut self, message: Message<'_>) -> bool {
        self.messages.push((message.bytes.to_vec(), message.flows));
        !self.refuses
    }
}

fn flow(src: &str, dst: &str, sport: u16, dport: u16, proto: u8) -> Flow {
    let [src, dst] = [src, dst].map(|address| address.parse::<IpAddr>().ok());
    Flow { src, dst, sport: Some(sport), dport: Some(dport), proto: Some(proto) }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One record of each kind, as RFC 7011 and 6313 write it.
#[test]
fn messages_are_those_of_the_rfc() {
    let time = NOW as u64 * 1_000_000_000..NOW as u64 * 1_000_000_000 + 67_108_864;
    let ipv4 = flow("10.0.0.1", "10.0.0.2", 1, 80, 6);
    let of = |flow, measured| FlowRecord { flow, time: time.clone(), measured }.encode().unwrap();
    let records = [
        of(ipv4, Measured::Packets(5)),
        of(flow("2001:db8::1", "2001:db8::2", 53, 5353, 17), Measured::Bytes(4096)),
        of(ipv4, Measured::LostPackets(3)),
        of(Flow { dport: None, ..ipv4 }, Measured::Path(vec!["s0".into(), "edge1".into()])),
        OptionsRecord::Domain { id: 7, name: "edge" }.encode(),
        OptionsRecord::Export { messages: 11, flow_records: 12, unsent_records: 13 }.encode(),
        OptionsRecord::Incomplete { metering_process: 2, time: time.clone() }.encode(),
        OptionsRecord::Drops { port: "a", reason: "acl_deny", is_of_device: false, packets: 9 }.encode(),
    ];
    let (mut messages, mut kept) = (Messages::new(7, 1400), Collected::default());
    for (template, record) in &records {
        messages.add(template, record, NOW, &mut kept).unwrap();
    }
    messages.flush(NOW, &mut kept);
    let [(message, flows)] = &kept.messages[..] else { panic!("one message") };
    assert_eq!((hexadecimal(message), flows), (GOLDEN.concat(), &4));
}

/// The header, then a template and a record of each.
const GOLDEN: [&str; 17] = [
    "000a022b6553f1000000000000000007",
    "000200280100000800080004000c000400070002000b000200040001009800080099000800020008",
    "010000290a0000010a00000200010050060000018bcfe568000000018bcfe568430000000000000005",
    "0002002801600008001b0010001c001000070002000b000200040001009800080099000801600008",
    "0160004120010db800000000000000000000000120010db8000000000000000000000002003514e911\
     0000018bcfe568000000018bcfe568430000000000001000",
    "0002002c0180000900080004000c000400070002000b00020004000100980008009900080059000100850008",
    "0180002a0a0000010a00000200010050060000018bcfe568000000018bcfe56843800000000000000003",
    "0002002401c2000700080004000c0004000700020004000100980008009900080123ffff",
    "01c2002e0a0000010a0000020001060000018bcfe568000000018bcfe568430e04012cffff027330056564676531",
    "0003001202000002000100950004012cffff",
    "0200000d000000070465646765",
    "0003001a0201000400010090000400290008002a000800a60008",
    "0201002000000001000000000000000b000000000000000c000000000000000d",
    "00030016020200030001008f00040143000801430008",
    "02020018000000020000018bcfe568000000018bcfe56843",
    "0003001a0203000400020052ffff014fffff0059000100870008",
    "0203001801610861636c5f64656e79810000000000000009",
];

/// A message is as long as it may be, and counts the records before it, also those that were not sent. After one
/// that was not, and at a refresh, templates are sent again.
#[test]
fn messages_are_bounded_and_numbered() {
    let record = |port| {
        let flow = flow("10.0.0.1", "10.0.0.2", port, 80, 6);
        FlowRecord { flow, time: 0..1, measured: Measured::Packets(1) }.encode().unwrap()
    };
    let (mut messages, mut kept) = (Messages::new(1, 512), Collected::default());
    let send = |messages: &mut Messages, kept: &mut Collected| {
        for port in 0..25 {
            let (template, record) = record(port);
            messages.add(&template, &record, NOW, kept).unwrap();
        }
        messages.flush(NOW, kept);
        let of = |(bytes, flows): &(Vec<u8>, u32)| {
            let set = u16::from_be_bytes([bytes[16], bytes[17]]);
            (bytes.len(), u32::from_be_bytes(bytes[8..12].try_into().unwrap()), *flows, set)
        };
        kept.messages.drain(..).map(|message| of(&message)).collect::<Vec<_>>()
    };
    // 37 bytes each, behind 16 of a header, 40 of a template and 4 of a set.
    assert_eq!(send(&mut messages, &mut kept), [(504, 0, 12, 2), (501, 12, 13, 256)]);
    assert_eq!(send(&mut messages, &mut kept), [(501, 25, 13, 256), (464, 38, 12, 256)]);
    messages.refresh();
    kept.refuses = true;
    assert_eq!(send(&mut messages, &mut kept), [(504, 50, 12, 2), (504, 62, 12, 2), (97, 74, 1, 2)]);
    kept.refuses = false;
    assert_eq!(send(&mut messages, &mut kept)[0], (504, 75, 12, 2));
    assert_eq!(send(&mut messages, &mut kept)[0].3, 256);

    let path = Measured::Path(vec!["s".repeat(32).into(); 20]);
    let (template, record) = FlowRecord { flow: Flow::from_port(1), time: 0..1, measured: path }.encode().unwrap();
    let refused = messages.add(&template, &record, NOW, &mut kept).unwrap_err();
    assert_eq!(refused.limit, 512);
    messages.flush(NOW, &mut kept);
    assert_eq!(kept.messages, [], "what fits no message is in none");
}

/// A flow has the elements that its name has, in a template of their own; one without any, none.
#[test]
fn a_flow_has_the_elements_of_its_name() {
    let encode = |flow| FlowRecord { flow, time: 0..1, measured: Measured::Packets(1) }.encode();
    let all = flow("10.0.0.1", "10.0.0.2", 1, 2, 6);
    let mut ids = Vec::new();
    for fields in 0..32u8 {
        let named = all.only(std::array::from_fn(|bit| fields >> bit & 1 == 1));
        let Some((template, record)) = encode(named) else {
            assert_eq!(fields, 0);
            continue;
        };
        let length: u16 = template.elements.iter().map(|element| element.length).sum();
        assert_eq!((usize::from(length), template.elements.len()), (record.len(), 3 + fields.count_ones() as usize));
        ids.push(template.id);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), ids[0]), (31, 256));
    assert_eq!(encode(flow("10.0.0.1", "::1", 1, 2, 6)), None);
}

/// The heavy flows of an epoch.
#[derive(Default)]
struct Showed {
    heavy: Vec<(FlowName, u64)>,
    lost: Option<LossesFound>,
    paths: PathAnswers,
    lack: Option<Reason>,
}

impl Kept for Showed {
    fn bytes(&self) -> usize {
        0
    }
}

impl Answers for Showed {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        let lack = |showed: &Self| showed.lack.into_iter().collect::<Reasons>();
        let found = |showed: &Self| {
            let count = |(flow, count): &(FlowName, u64)| FlowCount { flow: *flow, count: (*count).into() };
            let flows = showed.heavy.iter().map(count).collect();
            FoundFlows { unit: Unit::Packets, flows, lack: lack(showed), ..FoundFlows::default() }
        };
        match query.task {
            Task::Heavy => Some(HeavyFlows::over("p", epochs, query, found)),
            Task::Losses => {
                Some(Losses::over(epochs, query, |entry| (entry.showed.lost.as_ref(), lack(&entry.showed))))
            }
            Task::Paths => Some(Paths::over(epochs, query, |showed| Some(&showed.paths))),
            _ => None,
        }
    }
}

const LENGTH: u64 = 1_000_000_000;

/// An exporter of a history, and what it has sent.
struct Exporting {
    history: History<Showed>,
    exporter: Exporter,
    counters: Arc<ExportCounters>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
    drops: Arc<Mutex<Vec<view::Drop>>>,
    fails: Arc<Mutex<bool>>,
}

impl Exporting {
    fn new(config: IpfixConfig) -> Self {
        let history = History::new(Room { epochs: 3, bytes: usize::MAX });
        history.set_length(LENGTH);
        let queryable: Arc<dyn Queryable> = Arc::new(history.clone());
        let answers = |task: Task| ProgramConfig::defaults().find(move |program| program.rank(task).is_some());
        // Each kind is of one program's, whichever answers it.
        let programs: Vec<_> = [Task::Heavy, Task::Losses, Task::Paths].into_iter().filter_map(answers).collect();
        let programs: Vec<_> = programs.into_iter().map(|program| (program, queryable.clone())).collect();
        let sent: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let drops: Arc<Mutex<Vec<view::Drop>>> = Arc::default();
        let fails: Arc<Mutex<bool>> = Arc::default();
        let (keep, ports, is_failing) = (sent.clone(), drops.clone(), fails.clone());
        let transport = Box::new(move |bytes: &[u8]| {
            if *is_failing.hold() {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
            }
            keep.hold().push(bytes.to_vec());
            Ok(())
        });
        let source = Source {
            name: "edge".into(),
            programs: Box::new(move || programs.clone()),
            drops: Box::new(move || ports.hold().clone()),
        };
        let counters = Arc::new(ExportCounters::new("192.0.2.1:4739"));
        let exporter = Exporter::new(config, source, transport, counters.clone());
        Self { history, exporter, counters, sent, drops, fails }
    }

    fn push(&self, epoch: u64, showed: Showed) {
        self.history.push(Entry { switches: vec!["edge".into()], ..Entry::new(epoch, showed) });
    }

    /// The records of a round, by the numbers of their templates.
    fn round(&mut self) -> Vec<(u16, Vec<u8>)> {
        self.exporter.round(u64::from(NOW) * LENGTH);
        let sent = std::mem::take(&mut *self.sent.hold());
        sent.iter().flat_map(|message| records(message)).collect()
    }
}

/// The sets of records of a message, each with its number. A set of these tests has records of one length.
fn records(message: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut rest = &message[16..];
    let mut records = Vec::new();
    while let [id0, id1, length0, length1, ..] = *rest {
        let (id, length) = (u16::from_be_bytes([id0, id1]), usize::from(u16::from_be_bytes([length0, length1])));
        if id >= 256 {
            records.push((id, rest[4..length].to_vec()));
        }
        rest = &rest[length..];
    }
    records
}

fn only(kinds: &[IpfixRecords]) -> IpfixConfig {
    IpfixConfig { records: kinds.iter().copied().collect(), ..IpfixConfig::default() }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn named(port: u16) -> FlowName {
    FlowName::Flow(Flow::from_port(port))
}

const HEAVY: u16 = 256;
const LOST: u16 = 384;
const PATH: u16 = 448;
const EXPORT: u16 = 513;
const INCOMPLETE: u16 = 514;
const DROPS: u16 = 515;

/// Each epoch is exported once, when its answers are final, with the heaviest flows of it.
#[test]
fn final_epochs_are_exported_once() {
    let mut exporting = Exporting::new(IpfixConfig { flows: 2, ..only(&[IpfixRecords::Heavy]) });
    let heavy = |counts: &[u64]| {
        let heavy = counts.iter().map(|&count| (named(count as u16), count)).collect();
        Showed { heavy, lack: Some(Reason::Evicted), ..Showed::default() }
    };
    exporting.push(5, heavy(&[3, 9, 7]));
    let mut provisional = Entry::new(6, heavy(&[4]));
    (provisional.finality.is_final, provisional.switches) = (false, vec!["edge".into()]);
    exporting.history.push(provisional);
    let sent = exporting.round();
    let ids: Vec<_> = sent.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [512, EXPORT, HEAVY], "what is exported, and no doubt that a program always has");
    let record = 13 + 24;
    assert_eq!(sent[2].1.len(), 2 * record);
    let first = &sent[2].1[..record];
    assert_eq!([&first[13..21], &first[21..29], &first[29..]].map(number), [5000, 6000, 9]);
    assert_eq!(exporting.round(), [], "once");
    exporting.history.finalise(6, &[], &|_| true);
    let sent = exporting.round();
    assert_eq!((sent.len(), sent[0].0, number(&sent[0].1[29..])), (1, HEAVY, 4));
    assert_eq!(exporting.counters.view().flow_records, 3);
}

/// Gaps are exported as such, and so are epochs that were never analysed or were forgotten.
#[test]
fn what_is_missing_is_exported() {
    let mut exporting = Exporting::new(only(&[IpfixRecords::Losses]));
    let lost = |lost| {
        let flows = vec![Loss { flow: named(1), lost, gained: 0, exact: true }];
        Showed { lost: Some(LossesFound { flows, lost_packets: lost, gained_packets: 0 }), ..Showed::default() }
    };
    let spans = |sent: &[(u16, Vec<u8>)]| {
        let incomplete = sent.iter().filter(|(id, _)| *id == INCOMPLETE);
        incomplete.map(|(_, set)| [&set[..4], &set[4..12], &set[12..20]].map(number)).collect::<Vec<_>>()
    };
    exporting.push(5, lost(3));
    let sent = exporting.round();
    assert_eq!((spans(&sent).len(), number(&sent[2].1[30..38])), (0, 3));
    assert_eq!((sent[2].0, sent[2].1[29]), (LOST, 128));
    exporting.push(8, lost(2));
    assert_eq!(spans(&exporting.round()), [[2, 6000, 8000]], "two epochs are not there");
    let gap = SwitchGap { switch: "s2".into(), gap: Gap::Missing };
    exporting.history.push(Entry { gaps: vec![gap], switches: vec!["edge".into()], ..Entry::new(9, lost(0)) });
    assert_eq!(spans(&exporting.round()), [[2, 9000, 10_000]], "a switch did not report");
    exporting.push(10, Showed::default());
    assert_eq!(spans(&exporting.round()), [[2, 10_000, 11_000]], "losses are not known");
    exporting.push(11, Showed { lack: Some(Reason::Undecoded), ..lost(0) });
    assert_eq!(spans(&exporting.round()), [[2, 11_000, 12_000]], "not all are known");
    (12..=17).for_each(|epoch| exporting.push(epoch, lost(1)));
    assert_eq!(spans(&exporting.round()), [[2, 12_000, 15_000]], "epochs that were forgotten meanwhile");
    let counted = exporting.counters.view();
    assert_eq!((counted.missed_epochs, counted.incomplete_answers), (5, 3));
}

/// What cannot be sent is counted, said to the collector as soon as it is there, and kept nowhere.
#[test]
fn what_is_not_sent_is_counted() {
    let mut exporting = Exporting::new(only(&[IpfixRecords::Heavy]));
    *exporting.fails.hold() = true;
    let heavy = || Showed { heavy: (1..=100).map(|port| (named(port), 1)).collect(), ..Showed::default() };
    exporting.push(5, heavy());
    assert_eq!(exporting.round(), []);
    let counted = exporting.counters.view();
    assert_eq!((counted.messages, counted.flow_records, counted.unsent_flow_records), (0, 0, 100));
    assert!(counted.unsent_messages >= 3 && counted.last_error.is_some(), "{counted:?}");
    *exporting.fails.hold() = false;
    let digest = FlowName::Digest([7; 12]);
    exporting.push(6, Showed { heavy: vec![(named(1), 9), (digest, 8)], ..Showed::default() });
    let sent = exporting.round();
    assert_eq!((sent.len(), sent[0].0), (1, HEAVY), "nothing of what was not sent");
    let counted = exporting.counters.view();
    assert_eq!((counted.flow_records, counted.unnamed_flows, counted.not_sent()), (1, 1, 101));
}

/// Paths that are sure are lists of switches; drops are totals, sent when they change.
#[test]
fn paths_and_drops_are_exported() {
    let mut exporting = Exporting::new(only(&[IpfixRecords::Paths, IpfixRecords::Drops]));
    let sure = SureOf { packets: 9, since_ns: 2_000_000, until_ns: 3_000_000 };
    let path = FlowPath {
        switches: [Some("s0".into()), Some("s1".into())].into(),
        certainty: Certainty::Sure,
        sure: Some(sure),
        ..FlowPath::of(named(1))
    };
    let decided = FlowPath { certainty: Certainty::Decided, sure: None, flow: named(2), ..path.clone() };
    let flows = vec![path, decided];
    exporting.push(5, Showed { paths: PathAnswers { flows, ..PathAnswers::default() }, ..Showed::default() });
    let dropped =
        |reason: &str, packets, device| view::Drop { port: "a".into(), reason: reason.into(), packets, device };
    *exporting.drops.hold() = vec![dropped("acl_deny", 4, false), dropped("rx_missed", 2, true)];
    let sent = exporting.round();
    let paths: Vec<_> = sent.iter().filter(|(id, _)| *id == PATH).collect();
    let [(_, path)] = &paths[..] else { panic!("{sent:?}") };
    assert_eq!([&path[13..21], &path[21..29]].map(number), [2, 3]);
    assert_eq!(&path[29..], [&[11, 4, 1, 44, 255, 255, 2][..], b"s0", &[2], b"s1"].concat());
    let drops: Vec<_> = sent.iter().filter(|(id, _)| *id == DROPS).collect();
    let of = |port: &str, reason: &str, status: u8, packets: u64| {
        let name = |name: &str| [&[name.len() as u8], name.as_bytes()].concat();
        [name(port), name(reason), vec![status], packets.to_be_bytes().to_vec()].concat()
    };
    let [(_, both)] = &drops[..] else { panic!("{sent:?}") };
    assert_eq!(*both, [of("a", "acl_deny", 129, 4), of("a", "rx_missed", 143, 2)].concat());
    assert_eq!(exporting.round(), []);
    exporting.drops.hold()[0].packets = 5;
    assert_eq!(exporting.round(), [(DROPS, of("a", "acl_deny", 129, 5))]);
}

/// A collector that is not there holds nothing up, and what it was not sent is counted.
#[test]
fn a_collector_that_is_not_there_is_counted() {
    // Nobody listens at a port that was free a moment ago.
    let collector = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let looked = Mutex::new(0);
    let drops = move || {
        *looked.hold() += 1;
        vec![view::Drop { port: "a".into(), reason: "no_route".into(), packets: *looked.hold(), device: false }]
    };
    let source = Source { name: "edge".into(), programs: Box::new(Vec::new), drops: Box::new(drops) };
    let counters = Arc::new(ExportCounters::new(collector));
    drop(ExportThread::start(only(&[IpfixRecords::Drops]), collector, source, counters.clone()).unwrap());
    let counted = counters.view();
    assert_eq!((counted.messages, counted.unsent_messages), (1, 1), "the answer to the first refuses the second");
    assert!(counted.last_error.is_some_and(|error| error.contains("refused")));
}
