//! `weir sim`: a network in memory, with the truth beside what it measures.

use crate::{Files, weir};

#[test]
fn losses_are_named_exactly_and_the_books_balance() {
    let words =
        "sim --topology line:3 --workload keyvalue/uniform,flows=500,seed=4 --loss flows=10%,rate=1% --epochs 2 --json";
    let document = weir(words).json();
    assert_eq!(document["topology"]["switches"], 3);
    let number = |key: &str| document[key].as_u64().unwrap();
    assert_eq!(number("sent_packets"), number("delivered_packets") + number("lost_packets"));
    assert_eq!(number("shims_at_hosts"), 0);
    let epochs = document["epochs"].as_array().unwrap();
    assert_eq!(epochs.len(), 2);
    for epoch in epochs {
        let losses = &epoch["programs"]["chamelemon"]["losses"];
        assert_eq!(
            (losses["true_flows"].as_u64(), &losses["exact_flows"], &losses["wrong_flows"]),
            (Some(50), &50.into(), &0.into())
        );
        assert_eq!(losses["complete"], true);
        // The threshold is above all sizes.
        let heavy = &epoch["programs"]["chamelemon"]["heavy"];
        assert_eq!((&heavy["f1"], &heavy["incomplete"]), (&0.0.into(), &serde_json::json!(["below_threshold"])));
    }
    // The same but for the time that it took.
    let again = weir(words).json();
    assert_eq!(again["epochs"], document["epochs"]);
}

/// With `--each` every epoch is a document of its own, the same as in the document of all.
#[test]
fn each_epoch_is_a_line() {
    let words = "sim --topology line:2 --workload keyvalue,flows=300,seed=4 --loss flows=10%,rate=1% --epochs 3 --json";
    let lines = weir(&format!("{words} --each")).stdout;
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(weir(words).json()["epochs"], serde_json::Value::from(lines));
    for late in ["--fault pause=s1,at=1ms,for=1ms", "--transport hpcc --rate 10Gbps"] {
        weir(&format!("{words} --each {late}")).refused(2);
    }
}

/// Class and epoch in the DSCP, with one bit an epoch, do as well as with the shim.
#[test]
fn both_telemetry_headers_are_simulated() {
    for telemetry_header in ["shim", "dscp"] {
        let document = weir(&format!(
            "sim --topology line:3 --workload keyvalue,flows=300,seed=4 --loss flows=10%,rate=1% --epochs 3 --json --telemetry-header {telemetry_header}"
        ))
        .json();
        assert_eq!((&document["telemetry_header"], &document["shims_at_hosts"]), (&telemetry_header.into(), &0.into()));
        for epoch in document["epochs"].as_array().unwrap() {
            let losses = &epoch["programs"]["chamelemon"]["losses"];
            assert_eq!((&losses["complete"], &losses["exact_flows"]), (&true.into(), &30.into()), "{telemetry_header}");
        }
    }
}

/// One switch has settings of its own; what has to be the same, or is not there, is refused by name.
#[test]
fn a_switch_has_settings_of_its_own() {
    let words =
        "sim --topology line:2 --workload keyvalue,flows=300,seed=4 --epochs 2 --json --program hashpipe:slots=4096";
    let recall = |own: &str| {
        let document = weir(&format!("{words} {own}")).json();
        let recall = document["epochs"][1]["programs"]["hashpipe"]["score"]["recall"].as_f64().unwrap();
        (document["switch_settings"].clone(), recall)
    };
    let (none, alike) = recall("");
    let (own, smaller) = recall("--switch s0:hashpipe:slots=2,slots6=0,stages=1 --switch s1:hashpipe:slots=8");
    assert_eq!(none, serde_json::json!([]));
    assert_eq!(own, serde_json::json!(["s0:hashpipe:slots=2,slots6=0,stages=1", "s1:hashpipe:slots=8"]));
    assert!(alike > 0.9 && smaller < 0.5, "{alike} {smaller}");
    let refused = |own: &str| weir(&format!("{words} --switch {own}")).refused(2).to_owned();
    assert_eq!(
        refused("s1:hashpipe:count=bytes"),
        "weir: --switch s1:hashpipe:count=bytes: count = bytes: it has to be packets, as in the other switches"
    );
    assert_eq!(
        refused("s9:hashpipe:slots=8"),
        "weir: --switch s9:hashpipe:slots=8: the topology has no such switch; it has s0, s1"
    );
    assert!(refused("s1:hashpipe").contains("write SWITCH:PROGRAM:KEY=VALUE"));
}

/// Settings of switches come from a file, and --switch goes before them. What is wrong in the file is
/// named with its line, and what would be right.
#[test]
fn settings_of_switches_come_from_a_file() {
    let files = Files::new();
    let words = "sim --topology line:2 --workload keyvalue,flows=300,seed=4 --epochs 1 --json --program hashpipe:slots=4096 --program hashpipe --switches own.toml";
    let run = |text: &str, more: &str| {
        std::fs::write(files.path("own.toml"), text).unwrap();
        crate::weir_with(&files.path("."), format!("{words} {more}").split_whitespace())
    };
    let table =
        |switch: &str, name: &str, setting: &str| format!("[[program]]\nswitch = {switch}\nname = {name}\n{setting}\n");
    let small = "slots = 2\nslots6 = 0\nstages = 1\nestimate = \"sum\"\n";
    let text = ["s0", "s1"].map(|switch| table(&format!("{switch:?}"), "\"hashpipe_2\"", small)).concat();
    let document = run(&text, "").json();
    let own = "hashpipe_2:estimate=sum,slots=2,slots6=0,stages=1";
    assert_eq!(document["switch_settings"], serde_json::json!([format!("s0:{own}"), format!("s1:{own}")]));
    let recall = |document: &serde_json::Value, program: &str| {
        document["epochs"][0]["programs"][program]["score"]["recall"].as_f64().unwrap()
    };
    let [one, two] = ["hashpipe", "hashpipe_2"].map(|program| recall(&document, program));
    assert!(one > 0.9 && two < 0.5, "{one} {two}");
    let document = run(&text, "--switch s1:hashpipe_2:slots=4096").json();
    assert!(recall(&document, "hashpipe_2") > 0.9, "{document}");

    let refused = |text: &str, why: &str| {
        let told = run(text, "").refused(2).to_owned();
        assert!(told.ends_with(&format!("own.toml:{why}")), "{told}");
    };
    let good = table("\"s0\"", "\"hashpipe\"", "");
    let after = |switch: &str, name: &str, setting: &str| format!("{good}{}", table(switch, name, setting));
    refused(
        &after("\"s1\"", "\"hashpipe\"", "slots = 0"),
        "8: program[1].slots = 0: a whole number from 1 to 16777216",
    );
    refused(
        &table("\"s1\"", "\"hashpipe\"", "key = \"srk\""),
        "4: program[0].key = \"srk\": one of 5tuple, pair, src, dst, digest32",
    );
    let why = "4: program[0].count = bytes: it has to be packets, as in the other switches";
    refused(&table("\"s1\"", "\"hashpipe\"", "count = \"bytes\""), why);
    let why = "3: program[0].name = \"pint\": no such program; the switches run hashpipe, hashpipe_2";
    refused(&table("\"s1\"", "\"pint\"", ""), why);
    let why = "6: program[1].switch = \"s9\": the topology has no such switch; it has s0, s1";
    refused(&after("\"s9\"", "\"hashpipe\"", ""), why);
    refused(&table("9", "\"hashpipe\"", ""), "2: program[0].switch = 9: the name of a switch of the topology");
    let why = "1: program[0].name = (missing): the name of a program of the switches";
    refused("[[program]]\nswitch = \"s0\"\n", why);
    let told = run("[[switch]]\n", "").refused(2).to_owned();
    assert!(told.contains("own.toml:1: unknown field `switch`, expected `program`\n    [[switch]]"), "{told}");
    let told = weir("sim --switches nowhere.toml").refused(2).to_owned();
    assert!(told.contains("nowhere.toml: No such file"), "{told}");
}

/// The packets of certain flows have bounds in each epoch, beside their exact number.
#[test]
fn counts_of_flows_have_bounds() {
    let words = [
        "sim",
        "--topology",
        "line:2",
        "--workload",
        "keyvalue/uniform,flows=300,seed=4",
        "--epochs",
        "3",
        "--frequency",
        "* → *",
        "--frequency",
        "10.0.0.2 → *",
        "--program",
        "chamelemon:hh_threshold=1",
        "--program",
        "hashpipe",
        "--program",
        "pint",
    ];
    let files = Files::new();
    let run = |more: &[&str]| crate::weir_with(&files.path("."), words.iter().chain(more).copied());
    let document = run(&["--json"]).json();
    for epoch in document["epochs"].as_array().unwrap() {
        for program in ["chamelemon", "hashpipe"] {
            let frequencies = epoch["programs"][program]["frequencies"].as_array().unwrap();
            let [all, some] = &frequencies[..] else { panic!("{frequencies:?}") };
            assert_eq!(all["packets"]["true"], epoch["sent_packets"]);
            let few = some["packets"]["true"].as_u64().unwrap();
            assert!(0 < few && few < all["packets"]["true"].as_u64().unwrap(), "{some}");
            for (found, flow) in [(all, "* → *"), (some, "10.0.0.2 → *")] {
                let count = &found["packets"];
                assert_eq!((&found["flow"], &found["final"]), (&flow.into(), &true.into()), "{found}");
                assert_eq!((&found["first_epoch"], &found["last_epoch"]), (&epoch["epoch"], &epoch["epoch"]));
                assert!(count["lower_bound"].as_u64() <= count["true"].as_u64(), "{count}");
                let most = count["upper_bound"].as_u64().unwrap_or(u64::MAX);
                assert!(count["true"].as_u64().unwrap() <= most, "{count}");
            }
            if program == "chamelemon" {
                assert_eq!((&all["complete"], &all["packets"]["estimate"]), (&true.into(), &all["packets"]["true"]));
            }
        }
        assert!(epoch["programs"]["pint"].get("frequencies").is_none(), "it counts no packets of flows");
    }
    let csv = run(&["--csv=chamelemon.frequency"]).stdout;
    let heads = "epoch,flow,packets,lower_bound_packets,upper_bound_packets,confidence,true_packets,incomplete";
    assert_eq!((csv.lines().next(), csv.lines().count()), (Some(heads), 7), "{csv}");
    let text = run(&[]).stdout;
    assert!(text.contains("chamelemon, the flows that were asked for:") && text.contains("10.0.0.2 → *"), "{text}");
    let words = ["sim", "--program", "pint", "--frequency", "* → *"];
    let refused = crate::weir_with(&files.path("."), words).refused(2).to_owned();
    assert_eq!(refused, "weir: --frequency: no program counts packets of flows");
}

/// Hosts that answer: how their flows went, as a document and as a table, and what they need.
#[test]
fn hosts_answer() {
    let words = "sim --topology line:2 --epochs 1 --epoch 20ms --transit 4ms --workload hadoop,seed=4";
    let hosts = "--rate 1Gbps --transport hpcc,feedback=int,load=30% --program hashpipe";
    let document = weir(&format!("{words} {hosts} --json")).json();
    let transport = &document["transport"];
    assert_eq!((&transport["transport"], &transport["timeouts"]), (&"hpcc,feedback=int,load=30%".into(), &0.into()));
    let flows = transport["finished_flows"].as_u64().unwrap();
    let of_sizes = transport["sizes"].as_array().unwrap().iter().map(|class| class["flows"].as_u64().unwrap());
    assert!(flows > 0 && flows == of_sizes.sum::<u64>() && flows <= transport["flows"].as_u64().unwrap());
    let text = weir(&format!("{words} {hosts}")).stdout;
    assert!(
        text.contains("Hosts: hpcc,feedback=int,load=30%, links of 1.00 Gbit/s") && text.contains("slowdown, p50"),
        "{text}"
    );
    let refused = |more: &str| weir(&format!("{words} {more}")).refused(2).to_owned();
    assert!(refused("--transport hpcc").contains("--transport: links need a rate, such as --rate 10Gbps"));
    let digest = refused("--rate 1Gbps --transport hpcc --program hashpipe");
    assert!(digest.contains("no program writes the utilisation of a packet's way into its digest"), "{digest}");
    assert!(refused("--rate 1Gbps --transport tcp").contains("write hpcc, or hpcc,feedback=int,load=50%"));
}

/// A program that finds heavy flows has its answers and no others, with faults too.
#[test]
fn every_program_answers_for_its_tasks() {
    let words =
        "sim --topology line:3 --workload keyvalue,flows=200,seed=4 --epochs 3 --program hashpipe:count=bytes --json";
    for faults in ["", " --fault pause=s1,at=60ms,for=20ms"] {
        let document = weir(&format!("{words}{faults}")).json();
        for epoch in document["epochs"].as_array().unwrap() {
            let report = &epoch["programs"]["hashpipe"];
            assert_eq!((&report["score"]["recall"], &report["heavy"]["f1"]), (&1.0.into(), &1.0.into()), "{report}");
            assert!(report["heavy"]["threshold_bytes"].is_u64() && report["gaps"] == serde_json::json!([]), "{report}");
            let keys: Vec<_> = report.as_object().unwrap().keys().collect();
            assert!(
                !keys.iter().any(|key| ["losses", "incomplete", "state", "decided"].contains(&key.as_str())),
                "{keys:?}"
            );
        }
        let audited = &document["audit"]["epochs"];
        assert!(faults.is_empty() || *audited == 0, "it answers no losses");
    }
}

/// A program that names no heavy flows is not scored as if it had named none.
#[test]
fn what_is_not_answered_has_no_score() {
    let words = "sim --topology line:3 --workload keyvalue,flows=200,seed=4 --epochs 2 --program";
    let document = weir(&format!("{words} pint --program hashpipe --json")).json();
    for epoch in document["epochs"].as_array().unwrap() {
        let [pint, hashpipe] = ["pint", "hashpipe"].map(|name| &epoch["programs"][name]);
        assert_eq!((pint.get("score"), pint.get("heavy")), (None, None), "{pint}");
        assert!(hashpipe["score"]["recall"].is_f64() && hashpipe["heavy"]["f1"].is_f64(), "{hashpipe}");
    }
    for (program, scored) in [("pint:queries=path:bits=8", false), ("pint:queries=none", false), ("hashpipe", true)] {
        let text = weir(&format!("{words} {program}")).stdout;
        assert_eq!(text.contains("recall"), scored, "{text}");
    }
}

/// A sample is not all, a switch that stands still makes a gap, and a link that doubles packets
/// gains.
#[test]
fn what_is_not_complete_says_why() {
    let ill = "chamelemon:hh=1024,hl=2560,ll=512,hh_threshold=8,hl_threshold=4,sample=20000";
    let words = format!(
        "sim --topology line:2 --workload keyvalue/uniform,flows=500,seed=4 --loss flows=10%,rate=1% --fixed --epochs 3 --program {ill}"
    );
    for epoch in weir(&format!("{words} --json")).json()["epochs"].as_array().unwrap() {
        let report = &epoch["programs"]["chamelemon"];
        assert_eq!(
            (&report["losses"]["complete"], &report["incomplete"]),
            (&false.into(), &serde_json::json!(["sampled"]))
        );
        assert_eq!(report["losses"]["miscalled_flows"], 0);
    }
    assert!(weir(&words).stdout.contains("not all: sampled"));

    let words = "sim --topology line:2 --workload keyvalue/uniform,flows=300,seed=4 --epochs 6 --fault pause=s1,at=120ms,for=130ms \
                 --fault double=0,rate=1%";
    let document = weir(&format!("{words} --json")).json();
    let number = |key: &str| document[key].as_u64().unwrap();
    assert!(number("doubled_packets") > 0);
    assert_eq!(
        number("sent_packets") + number("doubled_packets"),
        number("delivered_packets") + number("lost_packets")
    );
    let audit = &document["audit"];
    assert_eq!((&audit["wrong_epochs"], &audit["miscalled_flows"]), (&serde_json::json!([]), &0.into()));
    assert!(
        audit["incomplete"]["gap"].as_u64() >= Some(1) && audit["incomplete"]["gained"].as_u64() >= Some(1),
        "{audit}"
    );
    assert!(weir(words).stdout.contains("are called complete, and 0 of these are wrong"));
}

#[test]
fn the_report_has_its_tables() {
    let text =
        weir("sim --topology spine-leaf:2,2,1 --workload keyvalue,flows=200 --epochs 1 --program hashpipe").stdout;
    assert!(
        text.contains("The truth, as hosts sent and received:")
            && text.contains("hashpipe, its answers beside the truth:"),
        "{text}"
    );
}

#[test]
fn a_graph_from_a_file() {
    let graph = "graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 2 ] edge [ source 2 target 1 ] ]";
    let files = Files::new();
    let document = files
        .write("pair.gml", graph)
        .weir("sim --topology pair.gml --workload keyvalue,flows=50 --epochs 1 --json")
        .json();
    assert_eq!(document["topology"]["links"], 2);
}

#[test]
fn wrong_words_say_what_would_be_right() {
    for (words, right) in [
        ("sim --topology ring:3", "line:N, fat-tree:K"),
        ("sim --topology nowhere.gml", "nowhere.gml"),
        ("sim --workload caida", "one of isp"),
        ("sim --loss flows=3", "flows=1000,rate=1%"),
        ("sim --loss link=99,rate=1%", "links are 0 to 15"),
        ("sim --epoch 10ms", "twice the transit time"),
        ("sim --fault pause=s9,for=1ms", "no switch \"s9\""),
        ("sim --fault freeze=s1", "write pause=SWITCH,at=1s,for=100ms"),
        ("sim --rate 5kpps", "40Gbps"),
    ] {
        let ended = weir(words);
        let message = ended.refused(2);
        assert!(message.contains(right), "{words}: {message}");
    }
}
