//! What a capture says about itself is used, or said with the answers.

use serde_json::Value;
use weir::trace::{Frames, Workload};

use crate::Files;
use crate::captures::{FORMS, Form, LITTLE};

/// Frames of 30 flows.
fn frames() -> Vec<Vec<u8>> {
    let trace = "isp/uniform,flows=30,packets=300,len=imix".parse::<Workload>().unwrap().generate();
    let mut frames = Vec::new();
    let keep = |_, frame: &[u8]| {
        frames.push(frame.to_vec());
        Ok::<(), ()>(())
    };
    trace.for_each_frame(&Frames::default(), keep).unwrap();
    frames
}

impl Form {
    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [&self.shorts(&[code, value.len() as u16]), value].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    fn long(self, n: u64) -> [u8; 8] {
        if self.little { n.to_le_bytes() } else { n.to_be_bytes() }
    }

    /// A section with one Ethernet interface, with these options, and these blocks.
    fn section(self, options: &[u8], blocks: &[Vec<u8>]) -> Vec<u8> {
        let section = [self.words(&[0x1a2b_3c4d]), self.shorts(&[1, 0]), vec![0xff; 8]].concat();
        let interface = [&self.shorts(&[1, 0]), &self.words(&[0]), options].concat();
        [self.block(0x0a0d_0d0a, &section), self.block(1, &interface), blocks.concat()].concat()
    }

    fn packet(self, frame: &[u8], options: &[u8]) -> Vec<u8> {
        let len = frame.len() as u32;
        let padding = vec![0; frame.len().next_multiple_of(4) - frame.len()];
        self.block(6, &[&self.words(&[0, 0, 5, len, len]), frame, &padding, options].concat())
    }

    fn statistics(self, counts: &[(u16, u64)]) -> Vec<u8> {
        let options = counts.iter().flat_map(|(code, n)| self.option(*code, &self.long(*n)));
        self.block(5, &self.words(&[0, 0, 9]).into_iter().chain(options).collect::<Vec<_>>())
    }
}

/// Bytes and flows of a capture.
fn counted(files: &Files, name: &str) -> (Value, Value, Value) {
    let words = format!("replay {name} --program hashpipe:count=bytes --top 50 --reproducible 1 --json");
    let document = files.weir(&words).json();
    let fcs = document["captures"]["fcs_packets"].clone();
    (document["bytes"].clone(), document["programs"]["hashpipe"]["heavy"].clone(), fcs)
}

/// Four bytes behind each packet that the header, the interface or the packet itself calls a check
/// sequence count nowhere.
#[test]
fn a_frame_check_sequence_is_not_counted() {
    let (files, frames) = (Files::new(), frames());
    let checked: Vec<_> = frames.iter().map(|frame| [&frame[..], b"FCS!"].concat()).collect();
    for form in FORMS {
        let bits = form.option(13, &[32]);
        let flags = form.option(2, &form.words(&[4 << 5]));
        let packets = |options: &[u8]| checked.iter().map(|frame| form.packet(frame, options)).collect::<Vec<_>>();
        files.write("plain", form.pcap(1, &frames)).write("header", form.pcap(0x2400_0001, &checked));
        files.write("interface", form.section(&bits, &packets(&[])));
        files.write("packet", form.section(&[], &packets(&flags)));
        let (bytes, flows, none) = counted(&files, "plain");
        assert_eq!(none, 0);
        for name in ["header", "interface", "packet"] {
            assert_eq!(counted(&files, name), (bytes.clone(), flows.clone(), frames.len().into()), "{name}, {form:?}");
        }
    }
    let text = files.weir("replay header").stdout;
    assert!(text.contains("packets with a frame check sequence, which is cut off: 300"), "{text}");
}

/// What a capturer lost is in no answer, so none has all.
#[test]
fn what_a_capturer_missed_is_said() {
    let (files, frames) = (Files::new(), frames());
    let form = LITTLE;
    let packets: Vec<_> = frames.iter().map(|frame| form.packet(frame, &[])).collect();
    let dropped = form.packet(&frames[0], &form.option(4, &form.long(17)));
    let whole = [packets.concat(), form.statistics(&[(4, 300), (5, 0), (7, 0)])];
    let counted = [packets.concat(), form.statistics(&[(4, 1317), (5, 1000), (7, 17)])];
    files.write("whole", form.section(&[], &whole)).write("counted", form.section(&[], &counted));
    files.write("between", form.section(&[], &[packets.concat(), dropped]));
    files.write("sections", [form.section(&[], &counted), FORMS[1].section(&[], &[])].concat());
    let words = "--program chamelemon:hh_threshold=1 --program hashpipe:slots=4096 --json";
    let claims = |document: &Value| {
        let programs = document["programs"].as_object().unwrap();
        let claims = programs.values().flat_map(|program| program["claims"].as_object().unwrap().values().cloned());
        claims.collect::<Vec<Value>>()
    };
    let document = files.weir(&format!("replay whole {words}")).json();
    let captures = &document["captures"];
    assert_eq!((&captures["missed_packets"], &captures["received_packets"]), (&0.into(), &300.into()));
    assert!(claims(&document).iter().all(|claim| claim["gaps"] == serde_json::json!([])), "{document:#}");
    assert_eq!(document["programs"]["chamelemon"]["losses_complete"], true);
    for (name, missed) in [("counted", 1017), ("between", 17), ("sections", 1017), ("counted between", 1034)] {
        let document = files.weir(&format!("replay {name} {words}")).json();
        assert_eq!(document["captures"]["missed_packets"], missed, "{name}");
        let gap = format!("{missed} packets are missing from the captures, as these say");
        for claim in claims(&document) {
            assert!(claim["complete"] == false && claim["gaps"][0]["gap"] == gap.as_str(), "{name}: {claim:#}");
        }
        assert_eq!(document["programs"]["chamelemon"]["losses_complete"], false, "{name}");
    }
    let text = files.weir("replay counted --program chamelemon").stdout;
    assert!(text.contains("packets that the capturer missed, as the capture says: 1017 of 1317"), "{text}");
    assert!(text.contains("gap: 1017 packets are missing from the captures"), "{text}");
    let unknown = files.weir("replay between --json").json();
    assert!(unknown["captures"]["received_packets"].is_null());
}

/// A time in 2096 among those of 2023 is that of its neighbour. Each epoch has its own packets.
#[test]
fn one_wrong_time_spoils_no_epoch() {
    const NOW: u32 = 1_700_000_000;
    let (files, frames) = (Files::new(), frames());
    let trace = |wrong: &[(usize, u32)]| {
        let mut file = LITTLE.words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1]);
        for (i, frame) in frames.iter().take(40).enumerate() {
            let wrong = wrong.iter().find(|(at, _)| *at == i).map(|(_, second)| *second);
            let second = wrong.unwrap_or(NOW + i as u32);
            file.extend(LITTLE.words(&[second, 0, frame.len() as u32, frame.len() as u32]));
            file.extend(frame);
        }
        file
    };
    // One slot has room for one flow an epoch.
    let words = "--program hashpipe:stages=1,slots=1,slots6=0 --epoch 1s --top 40 --reproducible 1 --json";
    let replay = |name: &str| files.weir(&format!("replay {name} {words}")).json();
    let packets = |document: &Value| {
        let heavy = document["programs"]["hashpipe"]["heavy"].as_array().unwrap();
        heavy.iter().map(|flow| flow["packets"].as_u64().unwrap()).sum::<u64>()
    };
    files.write("right", trace(&[]));
    let right = replay("right");
    assert_eq!((packets(&right), &right["captured_seconds"]), (40, &39.0.into()));
    for wrong in [[7, 4_000_000_000], [7, 12], [7, NOW + 7200], [0, 0], [39, 4_000_000_000]] {
        let [at, second] = wrong;
        files.write("wrong", trace(&[(at as usize, second)]));
        let document = replay("wrong");
        // At most the packet itself shares its epoch with another flow.
        assert!(packets(&document) >= 39, "{wrong:?}: {}", packets(&document));
        assert!(document["captured_seconds"].as_f64().unwrap() <= 39.0, "{wrong:?}");
        assert_eq!(document["captures"]["mistimed_packets"], 1, "{wrong:?}");
        let epochs = |document: &Value| {
            let claim = &document["programs"]["hashpipe"]["claims"]["heavy"];
            claim["last_epoch"].as_u64().unwrap() - claim["first_epoch"].as_u64().unwrap()
        };
        assert!(epochs(&document) <= epochs(&right), "{wrong:?}");
    }
    let text = files.weir("replay wrong").stdout;
    assert!(
        text.contains("packets with a time that cannot be right, which get that of a packet beside them: 1"),
        "{text}"
    );
    // Captures in another order follow each other.
    let mut later = trace(&[]);
    for record in 0..40 {
        let at = 24 + (0..record).map(|i| 16 + frames[i].len()).sum::<usize>();
        later[at..at + 4].copy_from_slice(&(NOW + 86_400 + record as u32).to_le_bytes());
    }
    files.write("later", later);
    let document = replay("later right");
    assert_eq!((packets(&document), &document["captures"]["backward_jumps"]), (79, &1.into()));
    let trace = files.weir("trace -r wrong --packet 40 --json").json();
    assert_eq!(trace["at_ns"], format!("{}000000000", NOW + 38));
}

#[test]
fn filters_damage_and_missing_times_are_said() {
    let (files, frames) = (Files::new(), frames());
    let form = FORMS[1];
    let damaged = form.packet(&frames[0], &form.option(2, &form.words(&[1 << 24])));
    let simple = form.block(3, &[form.words(&[frames[1].len() as u32]), frames[1].clone()].concat());
    let filter = form.option(11, b"\0tcp port \x1b[31m80");
    files.write("t", form.section(&filter, &[damaged, simple]));
    let document = files.weir("replay t --json").json();
    let captures = &document["captures"];
    assert_eq!(captures["filters"], serde_json::json!(["tcp port \u{1b}[31m80"]));
    assert_eq!((&captures["damaged_packets"], &captures["untimed_packets"]), (&1.into(), &1.into()));
    let text = files.weir("replay t").stdout;
    for said in [
        "match a filter: \"tcp port \\u{1b}[31m80\"",
        "packets with an error on their link, as the capture says, which count as others: 1",
        "packets without a time in the capture, which get that of the packet before: 1",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}
