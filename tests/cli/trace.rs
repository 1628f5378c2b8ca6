//! `weir trace` of captures and of bytes, and what `weir capture` says without a switch.

use crate::{Ended, Files, binary, keys, weir};

/// TCP from 10.0.0.1:50000 to 10.0.0.2:443.
const FRAME: &str = "02:00:00:00:00:02 020000000001 0800 4500002800010000 40060000 0a000001 0a000002 c35001bb \
                     00000000 00000000 5002ffff 00000000";

fn hex(options: &str) -> Ended {
    let mut command = binary();
    command.args(["trace", "--hex", FRAME]).args(options.split_whitespace());
    Ended::of(command.output().unwrap())
}

#[test]
fn bytes_as_text() {
    let ended = hex("--program hashpipe:stages=3,slots=100 --reproducible 7");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lines: Vec<_> =
        ended.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "The frame: 54 bytes in by port a");
    for line in [
        "parse ethernet 02:00:00:00:00:01 → 02:00:00:00:00:02, type 0x0800",
        "ipv4 10.0.0.1 → 10.0.0.2, protocol 6, TTL 64",
        "tcp port 50000 → 443",
        "before empty",
        "after 10.0.0.1:50000 → 10.0.0.2:443 tcp, 1",
        "stages 2-3 no match: memory is not touched",
        "forward xconnect ingress port: paired, port b",
        "verdict port b",
        "out port b, as it came in",
    ] {
        assert!(lines.iter().any(|other| other == line), "{line} in\n{}", ended.stdout);
    }
    assert_eq!(ended.stdout, hex("--program hashpipe:stages=3,slots=100 --reproducible 7").stdout, "the same slots");
}

#[test]
fn egress_stages() {
    let packet = hex("--program chamelemon --json").json();
    let program = &packet["programs"][0];
    assert_eq!(keys(program), ["egress_stages", "flow_estimate", "program", "stages"]);
    let arrays = |stages: &str| {
        let stages = program[stages].as_array().unwrap().iter().flat_map(|stage| stage.as_array().unwrap());
        stages.filter(|array| !array["cell"].is_null()).count()
    };
    // Two Tower arrays and 3 × 5 of the upstream encoder; 3 × 5 of the downstream encoder.
    assert_eq!((arrays("stages"), arrays("egress_stages")), (17, 15), "{packet:#}");
    let ended = hex("--program chamelemon");
    let of_egress = |line: &&str| line.split_whitespace().collect::<Vec<_>>().join(" ") == "egress program chamelemon";
    assert_eq!(ended.stdout.lines().filter(of_egress).count(), 1, "{}", ended.stdout);
}

/// A stage has one number, in a trace and in the budget.
#[test]
fn stages_have_the_budgets_numbers() {
    let list = |of: &serde_json::Value| of.as_array().cloned().unwrap_or_default();
    for (program, stages) in [
        ("hashpipe:stages=3", &[1, 2, 3][..]),
        ("chamelemon", &[4, 5, 1]),
        ("pint:queries=utilisation:bits=8", &[1, 6, 8]),
        ("pint:queries=latency:bits=8:aggregation=sum", &[5]),
    ] {
        let budget = weir(&format!("budget --program {program} --json")).json();
        let of_budget =
            |key: &str| list(&budget["stages"]).iter().flat_map(|stage| list(&stage[key])).collect::<Vec<_>>();
        let (arrays, tables) = (of_budget("arrays"), of_budget("tables"));
        let trace = hex(&format!("--program {program} --json")).json();
        let traced = &trace["programs"][0];
        let mut numbers = Vec::new();
        for stage in list(&traced["stages"]).iter().chain(&list(&traced["egress_stages"])).map(list) {
            let number = &stage[0]["logical"];
            numbers.push(number.as_u64().unwrap());
            for access in &stage {
                assert_eq!(&access["logical"], number, "{program}: one stage, one number");
                let is_its = |of: &serde_json::Value| (&of["name"], &of["logical"]) == (&access["array"], number);
                let is_written = || access["array"].as_str().unwrap().starts_with("digest");
                assert!(arrays.iter().any(is_its) || is_written(), "{program}: {access} is not in {arrays:?}");
            }
        }
        assert_eq!(numbers, stages, "{program}: {tables:?}");
    }
    let text = hex("--program chamelemon --reproducible 7").stdout;
    let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in ["chamelemon stage 4 tower[", "stage 5 upstream[", "stage 1 downstream["] {
        assert_eq!(lines.iter().filter(|other| other.starts_with(line)).count(), 1, "{line} in\n{text}");
    }
}

/// Of a digest each query's bits are shown, before and after the switch.
#[test]
fn a_digest_before_and_after() {
    let text = hex("--program pint:queries=path:bits=8+latency:bits=8 --reproducible 7").stdout;
    let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in ["egress program pint", "stage 4 digest, path[0]", "digest, latency[8]"] {
        assert!(lines.iter().any(|other| other == line), "{line} in\n{text}");
    }
    assert!(!text.contains("does not measure"), "{text}");
    let several = "latency:bits=4+latency:bits=4:aggregation=max+egress_port:bits=8+egress_port:bits=8:flow=dst";
    let text = hex(&format!("--program pint:queries={several} --reproducible 7")).stdout;
    for array in ["digest, latency:bits=4[0]", "digest, latency:bits=4:aggregation=max[4]", "digest, egress_port[8]"] {
        assert!(text.contains(array), "{array} in\n{text}");
    }
    let text = hex("--program pint:queries=latency:bits=4:instances=2+path:bits=8 --reproducible 7").stdout;
    for array in ["digest, latency[0]", "digest, latency[4]", "digest, path[8]"] {
        assert!(text.contains(array), "{array} in\n{text}");
    }
    let packet = hex("--program pint --reproducible 7 --json").json();
    let access = &packet["programs"][0]["egress_stages"][0][0];
    assert_eq!((&access["array"], &access["cell"]["before"]), (&"digest, path".into(), &"0x0000".into()));
    let output = format!("switch 1 of its way, the digest is {}", access["cell"]["after"].as_str().unwrap());
    assert_eq!(access["cell"]["output"], output.as_str());
    assert_ne!(access["cell"]["after"], "0x0000");
}

/// The frame that one switch sends to the next: what the first has written is what the second finds.
#[test]
fn a_digest_from_the_switch_before() {
    let files = Files::new();
    let switch = |file: &str, from: &str, frame: &str| {
        let port = |name: &str, role: &str| format!("[[port]]\nname = \"{name}\"\ndev = \"null\"\nrole = \"{role}\"\n");
        let ports = port("a", from) + &port("b", "fabric");
        let config = format!("[switch]\nname = \"{file}\"\nreproducible = 7\n{ports}[[program]]\nname = \"pint\"\n");
        files.write(file, config);
        let mut command = binary();
        command.args(["trace", "--json", "--port", "a", "--hex", frame, "--config"]).arg(files.path(file));
        let ended = command.output();
        let packet = Ended::of(ended.unwrap()).json();
        let cell = packet["programs"][0]["egress_stages"][0][0]["cell"].clone();
        (cell["before"].clone(), cell["after"].clone(), packet["outputs"][0]["frame"].as_str().unwrap().to_owned())
    };
    let (before, after, frame) = switch("first.toml", "host", FRAME);
    assert_eq!(before, "0x0000");
    let (found, left, next) = switch("second.toml", "fabric", &frame);
    assert_eq!(found, after);
    let (found, ..) = switch("third.toml", "fabric", &next);
    assert_eq!(found, left);
    assert!([after, left].iter().all(|digest| *digest != "0x0000"), "nothing was written");
}

#[test]
fn bytes_from_a_pipe() {
    let dump = format!("0x0000:  {FRAME}\n");
    let piped = Ended::of(binary().args(["trace", "--hex", "-", "--json"]).write_stdin(dump).output().unwrap()).json();
    let given = hex("--json").json();
    assert_eq!((&piped["frame"], &piped["headers"]), (&given["frame"], &given["headers"]));
    let all = [
        "at_ns",
        "drops",
        "egress",
        "frame",
        "headers",
        "lookups",
        "outputs",
        "port",
        "programs",
        "verdict",
        "wire_bytes",
    ];
    assert_eq!(keys(&given), all);
    assert_eq!(keys(&given["programs"][0]), ["flow_estimate", "program", "stages"]);
    assert_eq!(keys(&given["programs"][0]["stages"][0][0]), ["array", "cell", "hash_bits", "logical"]);
    assert_eq!(keys(&given["programs"][0]["stages"][0][0]["cell"]), ["after", "before", "output", "slot"]);
    assert_eq!(keys(&given["lookups"][0]), ["action", "entry", "key", "port", "table"]);
    assert_eq!(keys(&given["outputs"][0]), ["frame", "port", "rewritten"]);
}

#[test]
fn a_shim_on_the_way_into_the_fabric() {
    let files = Files::new();
    files.write(
        "fabric.toml",
        "[switch]\nforward = \"xconnect\"\n[[port]]\nname = \"host\"\ndev = \"memory\"\n\
         [[port]]\nname = \"up\"\ndev = \"memory\"\nrole = \"fabric\"\n",
    );
    let words = ["trace", "--hex", FRAME, "-c", "fabric.toml", "--json"];
    let packet = Ended::of(binary().current_dir(files.path(".")).args(words).output().unwrap()).json();
    let output = &packet["outputs"][0];
    assert_eq!((&output["port"], &output["rewritten"]), (&"up".into(), &true.into()), "{packet:#}");
    let frame = output["frame"].as_str().unwrap();
    assert_eq!(&frame[24..28], "88b5");
    assert_eq!(frame[24 + 12..], packet["frame"].as_str().unwrap()[24..]);
    assert_eq!(packet["programs"], serde_json::json!([]), "the file has none");
}

/// After the packets before it a flow's count is what the flow has sent; with fresh registers it is
/// 1.
#[test]
fn registers_hold_what_the_packets_before_left() {
    let files = Files::new();
    let trace = files.capture("t.pcap", "isp/burst,flows=20,packets=500,seed=5");
    let number = trace.sequence.len();
    let last = trace.sequence[number - 1];
    let sent = trace.sequence.iter().filter(|&&flow| flow == last).count();
    assert!(sent > 1, "a flow of one packet shows nothing");
    let estimate = |options: &str| {
        // With a seed, for flows that collide by chance take counts from each other.
        let packet = files.weir(&format!("trace -r t.pcap --packet {number} --reproducible 1 {options} --json")).json();
        packet["programs"][0]["flow_estimate"].as_u64().unwrap()
    };
    assert_eq!(estimate("") as usize, sent);
    assert_eq!(estimate("--warm") as usize, sent);
    assert_eq!(estimate("--fresh"), 1);
}

#[test]
fn a_filter_finds_the_first() {
    let files = Files::new();
    files.capture("t.pcap", "isp,flows=50,packets=400,ipv6=0.3,seed=5");
    let packet = files.weir("trace -r t.pcap --filter ip6 --json").json();
    assert_eq!(packet["headers"]["net"], "ipv6");
    assert_eq!(packet["programs"][0]["stages"][0][0]["array"], "ipv6");
    let text = files.weir("trace -r t.pcap --packet 2").stdout;
    assert!(text.starts_with("Packet 2 of t.pcap: "), "{text}");
}

/// A learning switch: the answer finds the address that the question came from.
#[test]
fn a_learned_mac() {
    let files = Files::new();
    let (ask, answer) = (crate::frame(2, 1), crate::frame(1, 2));
    let mut stream = weir::trace::PcapNgStream::new("a comment");
    for name in ["a", "b"] {
        stream.interface(name, "memory", 2000);
    }
    stream.packet(0, 1, 60, &ask, weir::trace::INBOUND, None);
    stream.packet(1, 1, 60, &ask, weir::trace::OUTBOUND, None);
    stream.packet(1, 2, 60, &answer, weir::trace::INBOUND, None);
    files.write("t.pcapng", stream.take());
    let packet = files.weir("trace -r t.pcapng --packet 3 --forward learn --json").json();
    assert_eq!((&packet["port"], &packet["egress"]), (&"b".into(), &"a".into()), "{packet:#}");
    assert_eq!(packet["lookups"][1]["entry"], "a MAC entry");
    let fresh = files.weir("trace -r t.pcapng --packet 3 --forward learn --fresh --json").json();
    assert_eq!((&fresh["verdict"], &fresh["lookups"][1]["entry"]), (&"flood".into(), &serde_json::Value::Null));
    let outbound = files.weir("trace -r t.pcapng --packet 2 --json");
    assert!(outbound.refused(2).contains("packet 2 went out by its port"));
}

#[test]
fn what_is_wrong_is_said() {
    let files = Files::new();
    files.capture("t.pcap", "isp,flows=5,packets=10");
    files.write("cut.pcap", [0xa1, 0xb2, 0xc3, 0xd4, 0, 2]);
    for (words, code, said) in [
        ("trace -r t.pcap --packet 11", 1, "weir: t.pcap: of 10 packets none is number 11"),
        ("trace -r t.pcap --packet 0", 2, "0 is not in 1.."),
        ("trace -r t.pcap --filter arp", 1, "weir: t.pcap: of 10 packets none matches \"arp\""),
        ("trace -r t.pcap --filter hots", 2, "not a word of filters"),
        ("trace -r absent.pcap", 1, "weir: absent.pcap: No such file"),
        ("trace -r cut.pcap", 1, "weir: cut.pcap: the file ends"),
        ("trace -r t.pcap --port c", 2, "weir: there is no port c; the ports are a, b"),
        ("trace -r t.pcap --program frobnicate", 2, "frobnicate"),
        ("trace --hex 012", 2, "weir: --hex: 3 digits"),
        ("trace --hex 0g", 2, "weir: --hex: 'g' is no hexadecimal digit"),
        ("trace --hex 01 --packet 3", 2, "cannot be used with"),
        ("trace --next arp --program hashpipe", 2, "the switch runs what it runs"),
        ("trace", 2, "required"),
        ("trace --next arp --socket absent.sock", 1, "no switch answers at absent.sock"),
        ("capture --socket absent.sock", 1, "no switch answers at absent.sock"),
        ("capture --filter tcp,udp", 2, "not a word of filters"),
        ("capture --direction up", 2, "[possible values: rx, tx, both, drop, all]"),
    ] {
        let ended = files.weir(words);
        assert!(ended.refused(code).contains(said), "weir {words}: {}", ended.stderr);
    }
    let long = format!("trace --hex {}", "00".repeat(20_000));
    assert!(weir(&long).refused(2).contains("more than any frame"));
}

#[test]
fn a_runt_is_not_let_in() {
    let packet = weir("trace --hex 0102 --json").json();
    assert_eq!((&packet["headers"], &packet["verdict"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    assert_eq!(packet["drops"], serde_json::json!([{"reason": "runt", "packets": 1}]));
}
