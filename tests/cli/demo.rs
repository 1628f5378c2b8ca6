//! `weir demo` and `weir budget`.

use serde_json::Value;

use crate::weir;

const SMALL: &str = "demo --workload isp/burst,flows=400,packets=20000 --loss link=0,rate=1%";

/// Each loss is named with its exact number, and each number has the truth beside it.
#[test]
fn demo_names_losses_and_heavy_flows_beside_the_truth() {
    let document = weir(&format!("{SMALL} --top 7 --json")).json();
    let number = |key: &str| document[key].as_u64().unwrap();
    assert_eq!(number("packets"), number("delivered_packets") + number("lost_packets"));
    assert!((100..400).contains(&number("lost_packets")), "{document}");

    let losses = &document["losses"];
    assert_eq!((&losses["program"], &losses["complete"]), (&"chamelemon".into(), &true.into()));
    assert_eq!((&losses["exact_flows"], &losses["wrong_flows"]), (&losses["true_flows"], &0.into()));
    assert_eq!((&losses["packets"], &losses["true_packets"]), (&document["lost_packets"], &document["lost_packets"]));
    let flows = losses["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 7);
    assert!(flows.iter().all(|flow| flow["lost_packets"] == flow["true_lost_packets"]), "{losses}");
    let lost = |flow: &Value| flow["lost_packets"].as_u64().unwrap();
    assert!(flows.is_sorted_by(|a, b| lost(a) >= lost(b)) && lost(&flows[0]) > 1);

    let heavy = &document["heavy"];
    assert_eq!((&heavy["program"], &heavy["score"]["recall"]), (&"hashpipe".into(), &1.0.into()));
    // 6 × (4096 × 136 + 1024 × 328) bits; the IPv6 cell is 296 bits and its count.
    assert_eq!(heavy["memory_bytes"], 6 * (4096 * 136 + 1024 * 328) / 8);
    let flows = heavy["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 7);
    assert!(flows.iter().all(|flow| flow["packets"] == flow["true_packets"]), "{heavy}");
}

/// What goes into a switch or a direction of the link comes out or is counted; what one gives, the
/// next takes.
#[test]
fn demo_accounts_for_every_packet() {
    let document = weir(&format!("{SMALL} --json")).json();
    let n = |value: &Value, key: &str| value[key].as_u64().unwrap();
    let (switches, links) = (&document["switches"], &document["links"]);
    let [a, b] = [&links[0], &links[1]];
    for link in [a, b] {
        assert!(n(link, "lost_packets") > 0);
        assert_eq!(n(link, "sent_packets"), n(link, "delivered_packets") + n(link, "lost_packets"));
    }
    let mut taken = 0;
    for switch in switches.as_array().unwrap() {
        assert_eq!(n(switch, "rx_packets") + n(switch, "copied_packets"), n(switch, "tx_packets"), "{switch}");
        taken += n(switch, "rx_packets");
    }
    assert_eq!(taken, n(&document, "packets") + n(a, "delivered_packets") + n(b, "delivered_packets"));
    assert_eq!(n(&document, "lost_packets"), n(a, "lost_packets") + n(b, "lost_packets"));
}

/// The same but for the time that it took; it fits a terminal, and says which build it is.
#[test]
fn demo_as_a_person_reads_it() {
    let ended = weir(SMALL);
    assert_eq!(ended.code, 0);
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert!(lines.len() <= 42 && lines.iter().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    for part in [
        "chamelemon, 679 KB",
        "hashpipe, 669 KB",
        "It says that these are all",
        "link s0 → s1",
        "= delivered",
        "What next:",
    ] {
        assert!(ended.stdout.contains(part), "{part} is not in\n{}", ended.stdout);
    }
    // Tests are no measurement.
    assert!(lines[1].starts_with("This is a build for testing") && !ended.stdout.contains("packets/s"));
    assert_eq!(weir(&format!("{SMALL} --json")).json()["switched_packets_per_second"], Value::Null);
    let again = weir(SMALL).stdout;
    assert_eq!(again.lines().skip(1).collect::<Vec<_>>(), lines[1..]);
}

/// From the third line on, which times and the build do not change.
#[test]
fn the_readme_shows_the_demo() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let shown = readme.split("```").find(|block| block.contains("What next:")).unwrap().trim();
    let printed = weir("demo").stdout;
    let stable = |text: &str| text.trim().lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(stable(&printed), stable(shown), "README.md shows what weir demo printed before:\n{printed}");
}

#[test]
fn demo_says_what_no_program_tells() {
    let text = weir(&format!("{SMALL} --top 3 --program hashpipe:count=bytes")).stdout;
    assert!(text.contains("No program of these tells the flows that lost packets") && text.contains("bytes"), "{text}");
    let wrong = weir("demo --loss link=1,rate=1%");
    assert!(wrong.refused(2).contains("links are 0 to 0"), "{}", wrong.stderr);
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
