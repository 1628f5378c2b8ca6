//! IPFIX messages, decoded by a library of others (PyPI's netflume).

use std::io::Write;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use weir::export::ipfix::{FlowRecord, Measured, Message, Messages, OptionsRecord, Sink};
use weir::wire::Flow;

use super::skip::{Lack, skip};

/// Reads a list of streams, each a list of messages in hexadecimal, and writes of each the sequence numbers,
/// the records of flows and of options, and what it made of messages that were not right.
const DECODER: &str = "
import json, sys
from collections import Counter
from netflume import TemplateStore, parse_message
for stream in json.load(sys.stdin):
    store, stats = TemplateStore(), Counter()
    decoded = [parse_message(bytes.fromhex(message), 'weir', store, stats) for message in stream]
    plain = lambda record: {key: value.hex() if isinstance(value, bytes) else value for key, value in record.items()}
    lists = [[plain(record) for message in decoded for record in message[kind]] for kind in (1, 2)]
    headers = [[header['sequence'], header['domain'], header['unix_secs'], len(flows) + len(options)]
               for header, flows, options in decoded]
    wrong = {key: count for key, count in stats.items() if key != 'templates_new'}
    print(json.dumps({'headers': headers, 'flows': lists[0], 'options': lists[1], 'wrong': wrong}))
";

/// Of drops. Elements that it does not know are numbers to the decoder up to eight bytes, else hexadecimal.
const REASON: &str = "no_neighbour";

#[derive(Default)]
struct Collected(Vec<Vec<u8>>);

impl Sink for Collected {
    fn take(&mut self, message: Message<'_>) -> bool {
        self.0.push(message.bytes.to_vec());
        true
    }
}

/// A record of either kind.
#[derive(Clone, Debug)]
enum Record {
    Flow(FlowRecord),
    Incomplete(u32, Range<u64>),
    Drops(String, u64),
}

fn flows() -> impl Strategy<Value = Flow> {
    let address = |is_ipv6: bool| match is_ipv6 {
        true => any::<[u8; 16]>().prop_map(IpAddr::from).boxed(),
        false => any::<[u8; 4]>().prop_map(IpAddr::from).boxed(),
    };
    let fields = any::<[bool; 5]>().prop_filter("a flow has a field", |fields| fields.contains(&true));
    (any::<bool>().prop_flat_map(move |is_ipv6| (address(is_ipv6), address(is_ipv6))), any::<(u16, u16, u8)>(), fields)
        .prop_map(|((src, dst), (sport, dport, proto), fields)| {
            let all =
                Flow { src: Some(src), dst: Some(dst), sport: Some(sport), dport: Some(dport), proto: Some(proto) };
            all.only(fields)
        })
}

fn times() -> impl Strategy<Value = Range<u64>> {
    (0..1u64 << 62, 0..1u64 << 40).prop_map(|(start, length)| start..start + length)
}

fn records() -> impl Strategy<Value = Record> {
    let measured = prop_oneof![
        any::<u64>().prop_map(Measured::Packets),
        any::<u64>().prop_map(Measured::Bytes),
        any::<u64>().prop_map(Measured::LostPackets),
        prop::collection::vec("[a-z]{4,32}".prop_map(|name: String| Arc::<str>::from(name)), 1..12)
            .prop_map(Measured::Path),
    ];
    let flow = (flows(), times(), measured);
    prop_oneof![
        8 => flow.prop_map(|(flow, time, measured)| Record::Flow(FlowRecord { flow, time, measured })),
        1 => (any::<u32>(), times()).prop_map(|(process, time)| Record::Incomplete(process, time)),
        1 => ("[a-z_]{1,32}", any::<u64>()).prop_map(|(port, packets)| Record::Drops(port, packets)),
    ]
}

/// A record as netflume names its elements.
fn expected(record: &Record) -> Value {
    let mut found = Map::new();
    let mut put = |key: &str, value: Value| found.insert(key.into(), value);
    match record {
        Record::Flow(FlowRecord { flow: Flow { src, dst, sport, dport, proto }, time, measured }) => {
            src.map(|src| put("src_addr", src.to_string().into()));
            dst.map(|dst| put("dst_addr", dst.to_string().into()));
            sport.map(|port| put("src_port", port.into()));
            dport.map(|port| put("dst_port", port.into()));
            proto.map(|proto| put("proto", proto.into()));
            put("flow_start_ms", (time.start / 1_000_000).into());
            put("flow_end_ms", (time.end / 1_000_000).into());
            match measured {
                Measured::Packets(packets) => put("packets", (*packets).into()),
                Measured::Bytes(bytes) => put("ie352", (*bytes).into()),
                Measured::LostPackets(packets) => {
                    put("forwarding_status", 128.into());
                    put("ie133", (*packets).into())
                }
                Measured::Path(switches) => {
                    let names: String = switches.iter().map(|name| hexadecimal(&counted(name))).collect();
                    put("ie291", format!("04012cffff{names}").into())
                }
            };
        }
        Record::Incomplete(process, time) => {
            put("ie143", (*process).into());
            // It keeps the second of two elements alone.
            put("observation_time_ms", (time.end / 1_000_000).into());
        }
        Record::Drops(port, packets) => {
            put("if_name", port.as_str().into());
            put("ie335", hexadecimal(REASON.as_bytes()).into());
            put("forwarding_status", 132.into());
            put("ie135", (*packets).into());
        }
    }
    found.into()
}

fn counted(name: &str) -> Vec<u8> {
    [&[name.len() as u8], name.as_bytes()].concat()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encode(record: &Record, messages: &mut Messages, now: u32, collected: &mut Collected) {
    let (template, bytes) = match record {
        Record::Flow(flow) => flow.encode().unwrap(),
        Record::Incomplete(metering_process, time) => {
            OptionsRecord::Incomplete { metering_process: *metering_process, time: time.clone() }.encode()
        }
        Record::Drops(port, packets) => {
            OptionsRecord::Drops { port, reason: REASON, is_of_device: false, packets: *packets }.encode()
        }
    };
    messages.add(&template, &bytes, now, collected).unwrap();
}

/// Whatever is exported, in messages of whatever size, is what another decoder reads: each record, once, in its
/// order, with the sequence numbers that say so.
#[test]
fn another_decoder_reads_what_was_written() {
    const STREAMS: usize = 60;
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python3");
    if !Command::new(&python).args(["-c", "import netflume"]).output().is_ok_and(|output| output.status.success()) {
        let test = "ipfix::another_decoder_reads_what_was_written";
        return skip(test, Lack::Machine, "there is no target/python with netflume; make setup installs it");
    }
    let mut runner = TestRunner::deterministic();
    let stream = (700..4096usize, any::<(u32, u32)>(), prop::collection::vec(records(), 1..120));
    let streams: Vec<_> = (0..STREAMS).map(|_| stream.new_tree(&mut runner).unwrap().current()).collect();
    let mut written = Vec::new();
    for (limit, (domain, now), records) in &streams {
        let (mut messages, mut collected) = (Messages::new(*domain, *limit), Collected::default());
        for (place, record) in records.iter().enumerate() {
            if place % 40 == 39 {
                messages.refresh();
            }
            encode(record, &mut messages, *now, &mut collected);
        }
        messages.flush(*now, &mut collected);
        assert!(collected.0.iter().all(|message| message.len() <= *limit));
        written.push(collected.0.iter().map(|message| hexadecimal(message)).collect::<Vec<_>>());
    }

    let mut decoder =
        Command::new(python).args(["-c", DECODER]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    decoder.stdin.take().unwrap().write_all(json!(written).to_string().as_bytes()).unwrap();
    let output = decoder.wait_with_output().unwrap();
    let decoded: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(decoded.len(), STREAMS);
    for ((_, (domain, now), records), decoded) in streams.iter().zip(decoded) {
        assert_eq!(decoded["wrong"], json!({}));
        let mut sequence = 0;
        for header in decoded["headers"].as_array().unwrap() {
            assert_eq!((&header[0], &header[1], &header[2]), (&json!(sequence), &json!(domain), &json!(now)));
            sequence += header[3].as_u64().unwrap();
        }
        let [flows, options]: [Vec<&Record>; 2] = [true, false]
            .map(|of_flows| records.iter().filter(|record| matches!(record, Record::Flow(_)) == of_flows).collect());
        for (records, found) in [(flows, &decoded["flows"]), (options, &decoded["options"])] {
            let expected: Vec<_> = records.into_iter().map(expected).collect();
            assert_eq!(found.as_array().unwrap(), &expected);
        }
    }
}
