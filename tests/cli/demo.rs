//! `weir demo` and `weir budget`.

use std::sync::OnceLock;

use serde_json::Value;

use crate::{in_terminal, weir};

const SMALL: &str = "demo --workload isp/burst,flows=400,packets=20000 --loss link=0,rate=1%";

/// What demo prints with `--json` for the workload with its own seed, and with another. Several tests read them.
fn documents() -> &'static [Value; 2] {
    static DOCUMENTS: OnceLock<[Value; 2]> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        ["", ",seed=7"].map(|seed| {
            let small = SMALL.replace("packets=20000", &format!("packets=20000{seed}"));
            weir(&format!("{small} --json")).json()
        })
    })
}

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

/// Each flow of the second network has its true path, and the one switch that stood still is the
/// one where packets waited, for as long.
#[test]
fn demo_names_the_path_of_a_flow_and_where_it_waited() {
    for document in documents() {
        let hops = &document["hops"];
        let number = |of: &Value, key: &str| of[key].as_u64().unwrap();
        assert_eq!((&hops["program"], &hops["slow_switch"]), (&"pint".into(), &"s2".into()));
        let counts = ["flows", "named_flows", "right_flows"].map(|key| number(hops, key));
        assert!(counts[0] > 5 && counts[1] == counts[2] && counts[2] >= counts[0] - 2, "{hops}");
        let of_flow = hops["hops"].as_array().unwrap();
        let names: Vec<_> = of_flow.iter().map(|hop| hop["switch"].as_str().unwrap()).collect();
        let row = ["s0", "s1", "s2", "s3", "s4"];
        assert!(names == row || names.iter().rev().eq(row.iter()), "{names:?}");
        for hop in of_flow {
            let slow = hop["switch"] == hops["slow_switch"];
            let tail = number(hop, "p99_ns");
            let all = number(hops, "slow_ns") * 11 / 10;
            assert!(if slow { (1_000_000..all).contains(&tail) } else { tail < 1000 }, "{hop}");
            assert!(number(hop, "samples") > 50 && number(hop, "p50_ns") < 1000, "{hop}");
        }
    }
}

/// A switch of the third network has fewer counters than there are flows, and all of them together tell the
/// packets of any flow within some per cent of the largest.
#[test]
fn demo_counts_any_flow_beside_the_truth() {
    for document in documents() {
        let counted = &document["counted"];
        let number = |of: &Value, key: &str| of[key].as_u64().unwrap();
        assert_eq!((&counted["program"], number(counted, "switches")), (&"disketch".into(), 5));
        assert!(number(counted, "memory_bytes") / 4 < number(counted, "flows"), "{counted}");
        let counts = counted["counts"].as_array().unwrap();
        let places: Vec<_> = counts.iter().map(|count| number(count, "place")).collect();
        assert_eq!(places, [1, 10, 100]);
        let largest = number(&counts[0]["packets"], "true");
        assert!(counts.is_sorted_by_key(|count| u64::MAX - number(&count["packets"], "true")), "{counted}");
        for count in counts {
            let [found, sent] = ["estimate", "true"].map(|key| number(&count["packets"], key));
            assert!(sent > 10 && found.abs_diff(sent) * 10 < largest, "{counted}");
        }
        assert!(counted["mean_error"].as_f64().unwrap() < 10.0, "{counted}");
    }
    let one = weir(&format!("{SMALL} --program disketch:memory=1MB,max_sub_epochs=1 --json")).json();
    assert!(one["counted"]["memory_bytes"] == 1_000_000 && one["hops"].is_null(), "{one}");
    assert!(one["counted"]["mean_error"].as_f64().unwrap() < 0.1, "{one}");
    assert!(weir(&format!("{SMALL} --program hashpipe --json")).json()["counted"].is_null());
}

/// What goes into a switch or a direction of the link comes out or is counted; what one gives, the
/// next takes.
#[test]
fn demo_accounts_for_every_packet() {
    let document = &documents()[0];
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
    assert_eq!(taken, n(document, "packets") + n(a, "delivered_packets") + n(b, "delivered_packets"));
    assert_eq!(n(document, "lost_packets"), n(a, "lost_packets") + n(b, "lost_packets"));
}

/// The same but for the time that it took; it fits a terminal, and says which build it is.
#[test]
fn demo_as_a_person_reads_it() {
    let ended = weir(SMALL);
    assert_eq!(ended.code, 0);
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert!(lines.len() <= 44 && lines.iter().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    for part in [
        "chamelemon, 679 KB",
        "hashpipe, 669 KB",
        "It says that these are all",
        "link s0 → s1",
        "= delivered",
        "s2 stood still for 50.0 ms",
        "disketch, 7 KB",
        "What next:",
    ] {
        assert!(ended.stdout.contains(part), "{part} is not in\n{}", ended.stdout);
    }
    // Tests are no measurement.
    assert!(lines[1].starts_with("This is a build for testing") && !ended.stdout.contains("packets/s"));
    assert_eq!(documents()[0]["switched_packets_per_second"], Value::Null);
    let again = weir(SMALL).stdout;
    assert_eq!(again.lines().skip(1).collect::<Vec<_>>(), lines[1..]);
}

/// From the third line on, which times and the build do not change.
#[test]
fn the_readme_shows_the_demo() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let shown = readme.split("```").find(|block| block.contains("What next:")).unwrap().trim();
    let Some(printed) = in_terminal(100, "demo") else { return };
    let stable = |text: &str| text.trim().lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(stable(&printed), stable(shown), "README.md shows what weir demo printed before:\n{printed}");
}

/// The picture on README's first screen has the numbers of the output below it. `WEIR_GENERATE=1`
/// draws it again.
#[test]
fn the_picture_shows_the_demo() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let shown = readme.split("```").find(|block| block.contains("What next:")).unwrap();
    let path = root.join("docs/pictures/two-switches.svg");
    let drawn = picture(shown);
    if std::env::var_os("WEIR_GENERATE").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), drawn, "WEIR_GENERATE=1 cargo test --test cli the_picture");
}

/// The two switches of the demo, what the link between them lost, and what was named of it.
fn picture(output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    // Columns are two or more spaces apart.
    let cells = |start: &str| {
        let line = lines.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start}: {output}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    let ways = ["link s0 → s1", "link s1 → s0"].map(cells);
    let accounted = lines.iter().find_map(|line| line.strip_prefix("Every packet is accounted for: "));
    let sum = accounted.unwrap().trim_end_matches('.');
    let first = lines.iter().position(|line| line.starts_with("flow  ")).unwrap() + 1;
    let flows = lines[first..first + 3].iter().enumerate().map(|(row, line)| {
        let cells: Vec<_> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let y = 262 + 24 * row;
        format!(
            r#"<text x="60" y="{y}" class="m">{}</text><text x="610" y="{y}" class="m e">{}</text>
<text x="760" y="{y}" class="m e">{}</text><text x="900" y="{y}" class="m e">{}</text>
"#,
            cells[0], cells[1], cells[2], cells[3]
        )
    });
    let named = lines.iter().find_map(|line| line.split_once(" names ")).unwrap().1.trim_end_matches(',');
    let box_of = |x: u32, words: &str, kind: &str| {
        format!(
            r#"<rect x="{x}" y="66" width="130" height="56" rx="5" class="{kind}"/><text x="{}" y="99" class="c b">{words}</text>
"#,
            x + 65
        )
    };
    let boxes: String = [(40, "host", "h"), (250, "weir s0", "s"), (580, "weir s1", "s"), (790, "host", "h")]
        .map(|(x, w, k)| box_of(x, w, k))
        .concat();
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 350" width="960" height="350" role="img">
<title>Two weir switches, a link between them that loses packets, and the flows that lost them</title>
<style>
text {{ font: 15px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }}
.m {{ font: 14px ui-monospace, Menlo, Consolas, monospace }} .b {{ font-weight: 600 }} .g {{ fill: #57606a; font-size: 13px }}
.c {{ text-anchor: middle }} .e {{ text-anchor: end }} .r {{ fill: #bc4c00; font-weight: 600; font-size: 13px }}
.h {{ fill: #f6f8fa; stroke: #8c959f }} .s {{ fill: #ddf4ff; stroke: #0969da }}
line {{ stroke: #57606a; stroke-width: 1.5 }} .l {{ stroke: #bc4c00; stroke-dasharray: 6 5 }}
</style>
<rect x="0.5" y="0.5" width="959" height="349" rx="8" fill="#ffffff" stroke="#d0d7de"/>
<text x="40" y="36" class="b">Which flows lost packets on the way, and how many?</text>
{boxes}<line x1="170" y1="94" x2="250" y2="94"/><line x1="710" y1="94" x2="790" y2="94"/>
<line x1="380" y1="94" x2="580" y2="94" class="l"/>
<text x="480" y="82" class="c r">→ lost {} of {}</text><text x="480" y="116" class="c r">← lost {} of {}</text>
<text x="480" y="158" class="c">{}</text>
<text x="480" y="184" class="c g">No switch sees a loss: weir counts what enters and what leaves, and names {}</text>
<line x1="40" y1="206" x2="920" y2="206"/>
<text x="60" y="234" class="g">flow</text><text x="610" y="234" class="g e">packets lost, by weir</text>
<text x="760" y="234" class="g e">in truth</text><text x="900" y="234" class="g e">of packets sent</text>
{}<text x="60" y="334" class="g">…</text>
</svg>
"##,
        ways[0][3],
        ways[0][1],
        ways[1][3],
        ways[1][1],
        sum,
        named,
        flows.collect::<String>()
    )
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
    assert!(text.contains("hashpipe ipv6 stage 6") && text.contains("1024 × 328 bits"), "{text}");
}

/// A stage's decision takes effect two stages later on Tofino, so six stages of a program take eleven, and two
/// more in front: the first slot is put together with the copy of the registers there. Both keys that may go on
/// are hashed in the stage of the decision.
#[test]
fn budget_of_tofino2() {
    let ended = weir("budget --target tofino2 --program hashpipe:key=src,slots6=0");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    insta::assert_snapshot!(ended.stdout.trim_end(), @r"
    stage  array, hash or table   cells or entries  SRAM bits  of the stage  index hash or match
        1  hashpipe slot stage 1  a CRC                                                  12 bits
           copy of the epoch      64 entries             1152        0.01 %                exact
        2  -
        3  hashpipe ipv4 stage 1  4096 × 64 bits       655360        6.25 %              12 bits
        4  hashpipe slot stage 2  a CRC                                                  12 bits
        5  hashpipe ipv4 stage 2  4096 × 64 bits       655360        6.25 %              12 bits
        6  hashpipe slot stage 3  2 × a CRC                                              12 bits
        7  hashpipe ipv4 stage 3  4096 × 64 bits       655360        6.25 %              12 bits
        8  hashpipe slot stage 4  2 × a CRC                                              12 bits
        9  hashpipe ipv4 stage 4  4096 × 64 bits       655360        6.25 %              12 bits
       10  hashpipe slot stage 5  2 × a CRC                                              12 bits
       11  hashpipe ipv4 stage 5  4096 × 64 bits       655360        6.25 %              12 bits
       12  hashpipe slot stage 6  2 × a CRC                                              12 bits
       13  hashpipe ipv4 stage 6  4096 × 64 bits       655360        6.25 %              12 bits

    stages on the left are those of tofino2; behind a name stands the program's own
    tofino2 keeps 2 copies of each register array, by the epoch's lowest bit

    on tofino2        used         of    share
    stages              13         20  65.00 %
    stateful ALUs        6         80   7.50 %
    hash units          16        120  13.33 %
    SRAM bits      3933312  209715200   1.88 %
    TCAM blocks          0        480   0.00 %

    registers take 196608 bytes; each core of this machine has 3 banks of them, 589824 bytes
    ");
    assert_eq!(weir("budget --target tofino2 --program hashpipe:key=src,slots6=0 --json").json()["stages_used"], 13);
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
