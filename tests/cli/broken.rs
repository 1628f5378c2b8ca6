//! Wrong input and wrong usage: the exit code, and one message that helps.

use crate::{Files, weir};

#[test]
fn broken_captures_are_named() {
    let files = Files::new();
    files.capture("good.pcap", "isp,flows=10,packets=100");
    let good = std::fs::read(files.path("good.pcap")).unwrap();
    let mut link = good.clone();
    link[20] = 105;
    let mut long = good.clone();
    long[24 + 8..24 + 12].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
    files.write("empty.pcap", "").write("text.pcap", "flows and weirs\n").write("cut.pcap", &good[..good.len() - 5]);
    files.write("magic.pcap", [&[1, 2, 3, 4], &good[4..]].concat()).write("link.pcap", link).write("long.pcap", long);
    files.write("header.pcap", &good[..20]);
    for (name, says) in [
        ("empty.pcap", "the file is empty"),
        ("text.pcap", "neither pcap nor pcapng"),
        ("cut.pcap", "ends inside packet 100"),
        ("magic.pcap", "neither pcap nor pcapng: it starts with [01, 02, 03, 04]"),
        ("link.pcap", "link type IEEE802_11, which is not read"),
        ("long.pcap", "packet 1"),
        ("header.pcap", "ends inside"),
        ("absent.pcap", "No such file"),
        (".", "Is a directory"),
    ] {
        for words in [format!("replay {name}"), format!("replay good.pcap {name} --json --score")] {
            let ended = files.weir(&words);
            let message = ended.stderr.trim_end();
            assert_eq!(ended.code, 1, "{message}");
            assert!(message.starts_with(&format!("weir: {name}: ")) && message.contains(says), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
            // What was read before the damage is reported.
            let reported = message.ends_with("; the report covers what came before");
            assert_eq!(reported, !ended.stdout.is_empty(), "{message}");
            assert!(reported || !words.contains("good.pcap"), "{message}");
        }
    }
}

#[test]
fn a_capture_without_packets_is_no_error() {
    let files = Files::new();
    files.write("t.pcap", weir::trace::CaptureWriter::new(Vec::new()).unwrap().finish().unwrap());
    let document = files.weir("replay t.pcap --score --json").json();
    assert_eq!(document["packets"], 0);
    assert_eq!(document["programs"]["hashpipe"]["score"]["recall"], 1.0);
    assert_eq!(files.weir("replay t.pcap --score").code, 0);
}

#[test]
fn wrong_programs() {
    for (program, says) in [
        ("hashpip", "name = \"hashpip\": one of hashpipe"),
        (
            "hashpipe:slotz=3",
            "slotz = 3: no such key, there are count, estimate, key, names, prefix, prefix6, report_at, scope, slots, slots6, stages",
        ),
        ("hashpipe:slots=many", "slots = \"many\": a whole number from 1 to 16777216"),
        ("hashpipe:slots=0", "slots = 0: a whole number from 1 to 16777216"),
        ("hashpipe:stages=17", "stages = 17: a whole number from 1 to 16"),
        ("hashpipe:key=flow", "key = \"flow\": one of 5tuple, pair, src, dst"),
        ("hashpipe:prefix=24", "prefix and prefix6 belong to key=pair, src or dst"),
        ("hashpipe:report_at=9", "report_at and names belong to key=digest32"),
        ("chamelemon:parts=powers,hl=300", "hl = 300: with parts = powers it is 0, 512, 1024 or 2048"),
        ("chamelemon:parts=powers,downstream=1000", "downstream = 1000: a whole number from 1024 to 1048576"),
        ("hashpipe:slots", "\"slots\" is not of the form key=value"),
        ("hashpipe:slots=1,slots=2", "slots is given twice"),
    ] {
        for command in ["budget", "demo", "replay t.pcap", "run --port a=null"] {
            let ended = weir(&format!("{command} --program {program}"));
            let message = ended.refused(2);
            assert!(
                message.starts_with(&format!("weir: --program {program}: ")) && message.contains(says),
                "{message}"
            );
        }
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    for words in [
        "",
        "frobnicate",
        "replay",
        "replay t.pcap --tops 3",
        "replay t.pcap --top many",
        "replay t.pcap --order sideways",
        "demo --workload isp/sorted",
        "demo --workload isp,flows=none",
        "run",
        "run --port a",
        "run --port a=carrier-pigeon",
        "run --port a=null --port a=null",
        "run --port a=null --mtu 5",
        "run --port a=null --epoch fast",
        "run --port a=null --target abacus",
        "run --port a=null --port b=null --forward xconnect --pair a,c",
        "run -c absent.toml",
        "budget --target abacus",
        "budget --config x.toml --target rmt",
        "show",
        "show weather",
        "show heavy --last 5",
        "port a sideways",
        "port up a/b",
        "config check",
    ] {
        let ended = weir(words);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "weir {words}: {}", ended.stderr);
        assert!(ended.stderr.len() > 20 && !ended.stderr.contains("panicked"), "weir {words}: {}", ended.stderr);
    }
}

#[test]
fn no_switch_to_ask() {
    let files = Files::new();
    for words in ["show ports", "show drops --json", "show macs", "show heavy --top 3", "port up a"] {
        let ended = files.weir(&format!("{words} --socket here.sock"));
        let message = ended.refused(1);
        assert!(message.starts_with("weir: no switch answers at here.sock (No such file"), "{message}");
        assert!(message.contains("is `weir run` up"), "{message}");
    }
    // The options stand before or after what is asked for.
    let named = files.weir("show --name edge-of-nowhere ports");
    assert!(named.refused(1).contains("edge-of-nowhere.sock"));
    assert_eq!(files.weir("show ports --name edge-of-nowhere").refused(1), named.refused(1));
    // A switch that was killed leaves its socket behind.
    drop(std::os::unix::net::UnixListener::bind(files.path("old.sock")).unwrap());
    assert!(files.weir("show ports --socket old.sock").refused(1).contains("Connection refused"));
}

#[test]
fn a_switch_that_is_not_there_is_named() {
    let files = Files::new();
    for words in [
        "port add a=null",
        "port remove a",
        "port up a",
        "port down a",
        "port mtu a 1400",
        "port promiscuous a on",
        "port fault a rx:drop=1%",
        "port fault a none",
        "reload",
        "evict edge1",
    ] {
        let ended = files.weir(&format!("{words} --socket none.sock"));
        let message = ended.refused(1);
        assert!(message.starts_with("weir: no switch answers at none.sock"), "{message}");
    }
}

#[test]
fn wrong_ports_are_refused_before_the_switch_is_asked() {
    for (words, says) in [
        ("port add a", "write NAME=DEV"),
        ("port add a=ufo:1", "`ufo:1` is no device"),
        ("port add a=null --role guest", "host, fabric"),
        ("port remove a/b", "no port can be called"),
        ("port fault a rx:drop=2", "drop=2: write 0.01 or 1%"),
        ("port fault a nothing", "a rule begins with rx:, tx: or inside:"),
        ("port", "Usage: weir port"),
        ("port a sideways", "unrecognized subcommand"),
        ("run --port a=null --idle never", "100us"),
        ("run --port a=null --idle 2s", "switch.idle = 2s: 1us to 1s"),
        ("run --port a=null --idle 1ms --busy-poll", "cannot be used with"),
    ] {
        let ended = weir(words);
        let message = ended.refused(2);
        assert!(message.contains(says), "{words}: {message}");
    }
}

/// What is wrong with a lab is found first.
#[cfg(all(feature = "control", not(feature = "dpdk")))]
#[test]
fn a_lab_needs_live_ports() {
    let files = Files::new();
    let up = |topology: &str| files.weir(&format!("lab --dir {} up {topology}", files.path("labs").display()));
    assert!(up("line:2").refused(1).contains("without live ports"));
    assert!(up("line:99").refused(2).contains("1 to 63"));
}
