//! `weir demo` and `weir budget`.

use serde_json::Value;

use crate::{keys, weir};

#[test]
fn demo_reports_beside_the_truth() {
    let document = weir("demo --workload isp/burst,flows=400,packets=20000 --top 5 --json").json();
    let top = [
        "bytes",
        "memory_bytes",
        "packets",
        "packets_per_second",
        "ports",
        "programs",
        "seconds",
        "switching_seconds",
        "workload",
    ];
    assert_eq!(keys(&document), top);
    let program = &document["programs"]["hashpipe"];
    assert_eq!(keys(program), ["heavy", "score", "unit"]);
    let heavy = program["heavy"].as_array().unwrap();
    assert_eq!(heavy.len(), 5);
    for flow in heavy {
        assert_eq!(keys(flow), ["flow", "packets", "true_packets"]);
        assert_eq!(flow["packets"], flow["true_packets"], "16 times as many slots as flows");
    }
    assert_eq!((&program["score"]["recall"], &program["score"]["k"]), (&1.0.into(), &300.into()));
    // 6 × (4096 × 136 + 1024 × 328) bits; the IPv6 cell is 296 bits and its count.
    assert_eq!(document["memory_bytes"], 6 * (4096 * 136 + 1024 * 328) / 8);
    balance(&document["ports"]);
}

fn balance(ports: &Value) {
    let sum = &ports["packets"];
    let n = |key: &str| sum[key].as_u64().unwrap();
    assert_eq!(n("rx_packets") + n("copied_packets"), n("tx_packets") + n("dropped_packets"));
    assert!(n("rx_packets") >= 20_000 && n("dropped_packets") > 0);
    let mut dropped = 0;
    for port in ports["ports"].as_array().unwrap() {
        dropped += port["drops"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>();
    }
    assert_eq!(dropped, n("dropped_packets"));
}

#[test]
fn demo_as_a_person_reads_it() {
    let ended = weir("demo --workload zipf1.1/uniform,flows=200,packets=5000 --top 3 --program hashpipe:count=bytes");
    assert_eq!(ended.code, 0);
    for part in ["hashpipe found these flows", "bytes", "true", "rx 5 001", "runt", "What next:", "weir replay"] {
        assert!(ended.stdout.contains(part), "{part} is not in\n{}", ended.stdout);
    }
}

#[test]
fn budget_of_the_default() {
    let document = weir("budget --json").json();
    assert_eq!(
        (&document["target"]["name"], &document["sram_bits_used"]),
        (&"rmt".into(), &(6 * (4096 * 136 + 1024 * 328)).into())
    );
    let text = weir("budget --target rmt").stdout;
    assert!(text.contains("hashpipe ipv6 stage 6") && text.contains("1 024 × 328 bits"), "{text}");
}

/// A stage's decision takes effect two stages later on Tofino, so six stages of a program take
/// eleven.
#[test]
fn budget_of_tofino2() {
    let ended = weir("budget --target tofino2 --program hashpipe:key=src,slots6=0");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    insta::assert_snapshot!(ended.stdout.trim_end(), @r"
    stage  array, hash or table   cells or entries  SRAM bits  of the stage  index hash or match
        1  hashpipe ipv4 stage 1  4 096 × 64 bits     262 144        2.50 %              12 bits
        2  -
        3  hashpipe ipv4 stage 2  4 096 × 64 bits     262 144        2.50 %              12 bits
        4  -
        5  hashpipe ipv4 stage 3  4 096 × 64 bits     262 144        2.50 %              12 bits
        6  -
        7  hashpipe ipv4 stage 4  4 096 × 64 bits     262 144        2.50 %              12 bits
        8  -
        9  hashpipe ipv4 stage 5  4 096 × 64 bits     262 144        2.50 %              12 bits
       10  -
       11  hashpipe ipv4 stage 6  4 096 × 64 bits     262 144        2.50 %              12 bits

    on tofino2          used           of    share
    stages                11           20  55.00 %
    stateful ALUs          6           80   7.50 %
    hash units             6          120   5.00 %
    SRAM bits      1 572 864  209 715 200   0.75 %
    TCAM blocks            0          480   0.00 %
    ");
    assert_eq!(weir("budget --target tofino2 --program hashpipe:key=src,slots6=0 --json").json()["stages_used"], 11);
}

#[test]
fn budget_refuses_what_does_not_fit() {
    for (words, says) in [
        ("--target tofino", "the cell's width in bits is 136, and one stage of tofino has at most 64"),
        ("--target tofino2 --program hashpipe:key=src", "hashpipe.ipv6 of stage 1: the cell's width in bits is 160"),
        ("--target tofino2 --program hashpipe:key=src,slots6=0,stages=11", "tofino2 has 20 stages"),
        (
            "--target tofino --program hashpipe:key=src,slots6=0",
            "outputs of its stateful ALU is 3, and one stage of tofino has at most 1",
        ),
        ("--target abacus", "one of auto, tofino, tofino2, rmt, software"),
    ] {
        let ended = weir(&format!("budget {words}"));
        assert!(ended.refused(2).contains(says), "{}", ended.stderr);
    }
}
