//! PINT in `weir replay`, `sim` and `budget`.

use serde_json::json;

use crate::{Files, weir};

/// Of a capture there is one switch, and its name is the path.
#[test]
fn a_replay_names_its_switch() {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=40,packets=4000");
    let document = files.weir("replay t.pcap --program pint --top 3 --json").json();
    let paths = document["programs"]["pint"]["paths"].as_array().unwrap().clone();
    assert_eq!(paths.len(), 3);
    for path in &paths {
        let told = ["switches", "certainty", "contradictions"].map(|key| &path[key]);
        assert_eq!(told, [&json!(["weir"]), &json!("sure"), &json!(0)], "{path}");
        assert!(path["packets"].as_u64() > Some(100), "{path}");
    }
    let text = files.weir("replay t.pcap --program pint --top 3").stdout;
    assert!(text.contains("pint: the paths of flows") && text.contains("weir  sure"), "{text}");
}

/// Queries in words, from the command line and a file alike; what does not fit is refused with what
/// would.
#[test]
fn queries_are_asked_for_in_words() {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=40,packets=4000");
    let queries = "path:bits=8+latency:bits=8:frequency=15/16";
    let document = files.weir(&format!("replay t.pcap --program pint:queries={queries} --top 3 --json")).json();
    let latencies = document["programs"]["pint"]["latencies"].as_array().unwrap().clone();
    assert_eq!(latencies.len(), 3);
    for flow in &latencies {
        let [hop] = &flow["hops"].as_array().unwrap()[..] else { panic!("{flow}") };
        // A capture's packets take no time: the least that a code stands for.
        let told = ["hop", "switch", "p50_ns", "p99_ns"].map(|key| &hop[key]);
        assert_eq!(told, [&json!(1), &json!("weir"), &json!(256), &json!(256)], "{flow}");
        // Of so many samples both ends of the median are known.
        let between = ["p50_low_ns", "p50_high_ns", "p99_low_ns"].map(|key| &hop[key]);
        assert!(hop["samples"].as_u64() > Some(100) && between == [&json!(256); 3], "{flow}");
    }
    let text = files.weir(&format!("replay t.pcap --program pint:queries={queries} --top 3")).stdout;
    assert!(text.contains("the paths and latencies of flows") && text.contains("256 ns"), "{text}");
    files.write("c.toml", format!("[[program]]\nname = \"pint\"\nbudget = 12\nqueries = \"{queries}\"\n"));
    let refused = files.weir("config check c.toml");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("path and latency fit with frequencies times 0.5"), "{}", refused.stderr);
}

/// Captures and simulated networks tell of busy links, with other queries and without.
#[test]
fn links_are_as_busy_as_their_packets_make_them() {
    let files = Files::new();
    files.capture("t.pcap", "isp/uniform,flows=40,packets=4000");
    let queries = "path:bits=8:frequency=1/2+utilisation:bits=8:frequency=1/2:rate=1Gbps:period=500us";
    let document = files.weir(&format!("replay t.pcap --program pint:queries={queries} --top 3 --json")).json();
    let utilisations = document["programs"]["pint"]["utilisations"].as_array().unwrap().clone();
    assert_eq!(utilisations.len(), 3);
    // One port has all packets.
    let bits = document["bytes"].as_f64().unwrap() * 8.0;
    let load = bits / document["captured_seconds"].as_f64().unwrap() / 1e9;
    for flow in &utilisations {
        let share = |key: &str| flow[key].as_f64().unwrap();
        let off = share("median_utilisation") / load.min(4.0);
        assert!((0.8..1.25).contains(&off), "{load}: {flow}");
        let ordered = ["median_low", "median_utilisation", "median_high", "max_utilisation"].map(share);
        assert!(ordered.is_sorted(), "{flow}");
        assert!(flow["packets"].as_u64() > Some(50) && flow["sink"] == "weir", "{flow}");
    }
    let text = files.weir(&format!("replay t.pcap --program pint:queries={queries} --top 3")).stdout;
    assert!(text.contains("the paths and busiest links of flows") && text.contains("leaves at"), "{text}");
    let words = "sim --topology line:3 --workload isp/uniform,flows=10,packets=4k,seed=4 --epochs 1 \
                 --program pint:queries=utilisation:rate=1Gbps";
    let utilisation = weir(&format!("{words} --json")).json()["epochs"][0]["programs"]["pint"]["utilisation"].clone();
    assert_eq!(utilisation["query"], "utilisation:bits=8:rate=1Gbps");
    assert!(utilisation["packets"].as_u64() > Some(1000) && utilisation["max_utilisation"].as_f64() > Some(0.0));
    assert!(weir(words).stdout.contains("busiest link"));
}

/// A switch that stands still is the slowest hop of a simulated network.
#[test]
fn a_simulated_network_finds_the_slowest_hop() {
    let words = "sim --topology line:4 --workload isp/uniform,flows=40,packets=20k,seed=4 --epochs 2 \
                 --fault pause=s2,at=20ms,for=8ms --program pint:queries=path+latency";
    let document = weir(&format!("{words} --json")).json();
    let latency = &document["epochs"][0]["programs"]["pint"]["latency"];
    assert_eq!(latency["slowest_switch"], "s2", "{latency}");
    assert!(latency["slowest_p99_ns"].as_u64() > Some(100_000) && latency["samples"].as_u64() > Some(1000));
    assert!(weir(words).stdout.contains("slowest hop, p99"));
}

/// Of the same packets two instances tell of up to twice as many hops, and of each packet once.
#[test]
fn instances_tell_of_several_hops() {
    let samples = |instances: &str| {
        let words = "sim --topology line:4 --workload isp/uniform,flows=40,packets=8k,seed=4 --epochs 1 --json";
        let document = weir(&format!("{words} --program pint:queries=latency:bits=4{instances}")).json();
        document["epochs"][0]["programs"]["pint"]["latency"]["samples"].as_f64().unwrap()
    };
    let [one, two, four] = ["", ":instances=2", ":instances=4"].map(samples);
    assert!((1.4..1.8).contains(&(two / one)) && (1.9..3.0).contains(&(four / one)), "{one} {two} {four}");
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=40,packets=4000");
    let queries = "path:bits=8+latency:bits=4:instances=2";
    let latency = |queries: &str| {
        let document = files.weir(&format!("replay t.pcap --program pint:queries={queries} --top 1 --json")).json();
        document["programs"]["pint"]["latencies"][0]["hops"][0].clone()
    };
    // A packet that tells twice of the only hop is one sample.
    assert_eq!(latency(queries)["samples"], latency("path:bits=8+latency:bits=4")["samples"]);
}

/// A pause of 8 ms is told within a step, where equal factors of as many bits are off by more.
#[test]
fn equal_steps_bound_the_error() {
    let slowest = |compression: &str| {
        let words = "sim --topology line:4 --workload isp/uniform,flows=40,packets=20k,seed=4 --epochs 1 \
                     --fault pause=s2,at=20ms,for=8ms --json --program pint:queries=path:bits=8+latency:bits=5";
        let document = weir(&format!("{words}:to=15ms{compression}")).json();
        document["epochs"][0]["programs"]["pint"]["latency"]["slowest_p99_ns"].as_u64().unwrap()
    };
    // Of 31 steps up to 15 ms each has 2¹⁹ ns.
    let (additive, multiplicative) = (slowest(":compression=additive"), slowest(""));
    assert_eq!(additive % (1 << 19), 0, "{additive}");
    assert!(additive <= 8_000_000 + (1 << 19) && additive > 4_000_000, "{additive}");
    assert!(multiplicative > additive, "{multiplicative} and {additive}");
}

#[test]
fn a_simulated_network_decides_paths() {
    let words = "sim --topology line:4 --workload isp/uniform,flows=40,packets=8k,seed=4 --epochs 2 --program pint";
    let document = weir(&format!("{words} --json")).json();
    for epoch in document["epochs"].as_array().unwrap() {
        let paths = &epoch["programs"]["pint"]["paths"];
        let number = |key: &str| paths[key].as_u64().unwrap();
        assert!(number("flows") >= number("decided_flows") && number("decided_flows") >= number("sure_flows"));
        assert!(number("sure_flows") > 0 && number("contradicted_flows") == 0, "{paths}");
        // Each path is held against the truth.
        let counts = ["right_flows", "wrong_flows", "sure_wrong_flows"].map(number);
        assert_eq!(counts, [number("decided_flows"), 0, 0], "{paths}");
    }
    let text = weir(words).stdout;
    assert!(text.contains("paths decided") && text.contains("wrong") && !text.contains("recall"), "{text}");
}

/// The paper's stages: four for the path, four for the latency, eight for the utilisation, and no more
/// for all three (§5). A Tofino takes seven for the first two, as sums with numbers of a table take stages of their
/// own, and eight for two instances of the path, whose CRCs take 12 hash units. The digest is written by one
/// match, whose table has its place in TCAM.
#[test]
fn it_fits_tofino() {
    let [path, latency] = ["path:bits=8", "latency:bits=8"];
    let three = "path:bits=8+latency:bits=8:frequency=15/16+utilisation:bits=8:frequency=1/16";
    let stages = |words: &str, target: &str| {
        weir(&format!("budget --program pint:{words} --target {target} --json")).json()["stages_used"].clone()
    };
    let several = ["latency:bits=8:instances=2", "path:bits=8:instances=2"];
    for (queries, on_tofino) in [(path, 7), (latency, 7), (several[0], 7), (several[1], 8)] {
        for (target, number) in [("software", 4), ("tofino", on_tofino), ("tofino2", on_tofino)] {
            assert_eq!(stages(&format!("queries={queries}"), target), number, "{queries} on {target}");
        }
    }
    for queries in ["utilisation:bits=8", three] {
        assert_eq!(stages(&format!("queries={queries}"), "software"), 8, "{queries}");
    }
    // Layers go with bits and lengths; stages do not.
    for (length, bits) in [(10, 1), (47, 1), (55, 2), (36, 4), (62, 8)] {
        let path = format!("path_length={length},queries=path:bits={bits}");
        assert_eq!([stages(&path, "software"), stages(&path, "tofino")], [4, 7], "{path}");
        let three = format!("{path}+latency:bits=8:frequency=7/8+utilisation:bits=8:frequency=1/16");
        assert_eq!(stages(&three, "software"), 8, "{three}");
    }
    // What the matches take is as many as docs/pint.md says: two instances, and a latency.
    let blocks = |queries: &str| {
        let document = weir(&format!("budget --program {queries} --target tofino --json")).json();
        let stages = document["stages"].as_array().unwrap();
        let tables = stages.iter().flat_map(|stage| stage["tables"].as_array().unwrap().clone());
        let acts = tables.filter(|table| table["table"].as_str().unwrap().contains("hop and g"));
        (acts.collect::<Vec<_>>(), document["tcam_blocks_used"].as_u64())
    };
    let one = json!({
        "program": "pint", "logical": 4, "table": "layer, hop and g", "entries": 710, "sram_bits": 0, "tcam_blocks": 2
    });
    assert_eq!(blocks("pint"), (vec![one.clone(), one], Some(4)));
    assert_eq!(blocks("pint:queries=latency:bits=8").0[0]["entries"], 338);
    for (length, bits, entries) in [(47, 1, 1060), (48, 4, 344)] {
        assert_eq!(blocks(&format!("pint:path_length={length},bits={bits},instances=1")).0[0]["entries"], entries);
    }
    let document = weir("budget --program pint --target tofino --json").json();
    // A quarter more than `reports`, and reports of loops.
    let reports = [(16_384 + 4096 + 16, 446), (1024, 398)]
        .map(|(reports, bits)| json!({ "program": "pint", "reports": reports, "report_bits": bits }));
    assert_eq!(document["reports"], json!(reports));
}

/// A latency's code takes a ternary match on the highest bit and an exact table, each once for all
/// instances and for queries with the same codes; other ranges and bits have tables of their own.
#[test]
fn latencies_are_coded_by_two_tables() {
    let tables = |queries: &str, target: &str| {
        let document = weir(&format!("budget --program pint:queries={queries} --target {target} --json")).json();
        let stages = document["stages"].as_array().unwrap().clone();
        let of = |(number, stage): (u64, &serde_json::Value)| {
            let all = stage["tables"].as_array().unwrap().clone();
            let its = all
                .into_iter()
                .filter(|table| ["exponent of latency", "codes of latency"].iter().any(|name| table["table"] == *name));
            its.map(|table| (number, table["entries"].as_u64().unwrap(), table["tcam_blocks"].as_u64().unwrap()))
                .collect::<Vec<_>>()
        };
        ((1..).zip(&stages).flat_map(of).collect::<Vec<_>>(), document["stages_used"].as_u64())
    };
    for queries in ["latency:bits=8", "latency:bits=8:instances=2", "latency:bits=8+latency:bits=8:aggregation=max"] {
        assert_eq!(tables(queries, "tofino"), (vec![(2, 26, 1), (3, 2816, 0)], Some(7)), "{queries}");
    }
    let several = "latency:bits=4+latency:bits=8:from=1us:to=60us";
    assert_eq!(tables(several, "tofino2"), (vec![(2, 26, 1), (3, 2816, 0), (3, 896, 0)], Some(7)));
    for none in ["latency:bits=8:compression=additive", "latency:bits=8:aggregation=sum", "queue:bits=8"] {
        assert!(tables(none, "tofino").0.is_empty(), "{none}");
    }
    // Keys of 12 bits, and parts of 12.
    let document = weir("budget --program pint:queries=latency:bits=8 --target tofino --json").json();
    assert_eq!(document["stages"][2]["tables"][0]["sram_bits"], 2816 * 24);
}

/// What a packet carries is known before any query acts, also where hashes do not fit the stages that
/// they would stand in alone; and so are the codes that are written.
#[test]
fn stages_stand_behind_what_they_need() {
    let half = "frequency=1/2";
    let crowded = format!("path:bits=8+latency:bits=8:{half}+queue:bits=8:{half}");
    let twice = format!("path:bits=4:instances=2+latency:bits=8:{half}+queue:bits=8:{half}");
    for queries in [&crowded, &twice] {
        let document = weir(&format!("budget --program pint:queries={queries} --target tofino --json")).json();
        let stages = document["stages"].as_array().unwrap();
        let of = |name: &str| {
            let has =
                |stage: &&serde_json::Value| stage["tables"].as_array().unwrap().iter().any(|of| of["table"] == name);
            stages.iter().position(|stage| has(&stage)).unwrap()
        };
        let set = of("set of queries");
        for acts in ["layer, hop and g", "hop and g of latency", "hop and g of queue"] {
            assert!(of(acts) > set, "{acts} of {queries}");
        }
    }
    let used = |queries: &str, target: &str| {
        let budget = format!("budget --program pint:queries={queries} --target {target} --json");
        weir(&budget).json()["stages_used"].clone()
    };
    assert_eq!((used(&crowded, "software"), used(&crowded, "tofino")), (5.into(), 9.into()));
    // The code of U is written in the eighth stage, whatever comes together.
    for queries in ["path:bits=4:instances=2+utilisation:bits=8", "utilisation:bits=8:aggregation=quantiles"] {
        assert_eq!(used(queries, "software"), 8, "{queries}");
    }
}

/// No chip looks up a logarithm within a read-modify-write: each refuses the query, and says why.
/// Without a target it is placed on software, and the budget says that it fits no chip.
#[test]
fn utilisation_fits_no_chip() {
    let words = "budget --program pint:queries=utilisation:bits=8";
    let why = "its stateful ALU subtracts times of 64 bits, which no stateful ALU of a chip does";
    for target in ["rmt", "tofino", "tofino2"] {
        let ended = weir(&format!("{words} --target {target}"));
        let refused = ended.refused(2);
        assert!(refused.contains("program[0].queries = ") && refused.contains(why), "{refused}");
        assert!(refused.contains("write none for utilisation, or switch.target = \"software\""), "{refused}");
    }
    let document = weir(&format!("{words} --json")).json();
    assert_eq!(document["target"]["name"], "software");
    let chips: Vec<_> = document["no_chip"].as_array().unwrap().iter().map(|of| of["target"].clone()).collect();
    assert_eq!(chips, ["rmt", "tofino", "tofino2"]);
    let entries = document["stages"].as_array().unwrap().iter().flat_map(|stage| stage["tables"].as_array().unwrap());
    assert_eq!(entries.map(|table| table["entries"].as_u64().unwrap()).sum::<u64>(), 15 * 1024 + 4096);
    let text = weir(words).stdout;
    assert!(text.contains("fits no chip, and is placed on software:") && text.contains(why), "{text}");
    let fits = |change: &str| json!([{ "change": change, "targets": ["rmt", "tofino", "tofino2"] }]);
    assert_eq!(document["would_fit"], fits("pint without queries for utilisation, for path instead"));
    let several = "budget --program pint:queries=path:bits=8+utilisation:bits=8 --json";
    assert_eq!(weir(several).json()["would_fit"], fits("pint without queries for utilisation"));
    assert!(!weir("budget --program pint").stdout.contains("fit"));
}

/// With vectors the path takes the paper's four stages too. On a Tofino one instance takes a stage more than
/// without, for its eight CRCs, and two take two; the match is wider. Simulated networks find their paths.
#[test]
fn vectors_take_a_hash_more() {
    let budget = |instances: u32| {
        let query = format!("path:bits=8:instances={instances}:acts=vectors");
        let document = weir(&format!("budget --program pint:queries={query} --target tofino --json")).json();
        let stages = document["stages"].as_array().unwrap().clone();
        let software = weir(&format!("budget --program pint:queries={query} --target software --json")).json();
        assert_eq!(software["stages_used"], 4, "{instances}");
        let all =
            |key: &str| stages.iter().flat_map(|stage| stage[key].as_array().unwrap().clone()).collect::<Vec<_>>();
        let crcs = all("hashes").iter().filter(|hash| hash["name"] == "vectors").count();
        let acts = all("tables").into_iter().filter(|table| table["table"].as_str().unwrap().contains("hop, vectors"));
        (document["stages_used"].as_u64(), crcs, acts.collect::<Vec<_>>())
    };
    let (stages, hashes, tables) = budget(1);
    let table = json!({
        "program": "pint", "logical": 4, "table": "layer, hop, vectors and g", "entries": 710, "sram_bits": 0,
        "tcam_blocks": 4
    });
    assert_eq!((stages, hashes, tables), (Some(8), 1, vec![table.clone()]));
    let (stages, hashes, tables) = budget(2);
    assert_eq!((stages, hashes, tables.len()), (Some(9), 2, 2));
    let longer =
        weir("budget --program pint:path_length=21,queries=path:bits=8:acts=vectors --target tofino --json").json();
    let stages = longer["stages"].as_array().unwrap();
    let tables = stages.iter().flat_map(|stage| stage["tables"].as_array().unwrap());
    let entries = tables.filter(|table| table["tcam_blocks"] != 0).map(|table| &table["entries"]);
    assert_eq!((&longer["stages_used"], entries.collect::<Vec<_>>()), (&8.into(), vec![&json!(822)]));
    let words = "sim --topology line:4 --workload isp/uniform,flows=40,packets=8k,seed=4 --epochs 2 \
                 --program pint:queries=path:bits=8:instances=2:acts=vectors";
    let document = weir(&format!("{words} --json")).json();
    let paths = &document["epochs"][0]["programs"]["pint"]["paths"];
    assert!(paths["sure_flows"].as_u64() > Some(10) && paths["contradicted_flows"] == 0, "{paths}");
}

/// One switch alone has no loop, and neither has a simulated network; both say so.
#[test]
fn loops_are_none_where_there_are_none() {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=40,packets=4000");
    let document = files.weir("replay t.pcap --program pint:queries=loops --json").json();
    assert_eq!(document["programs"]["pint"]["loops"], json!([]), "{document}");
    let text = files.weir("replay t.pcap --program pint:queries=path+loops").stdout;
    assert!(text.contains("weir  sure") && text.contains("no packet came back to a switch"), "{text}");
    let words = "sim --topology line:4 --workload isp/uniform,flows=40,packets=8k,seed=4 --epochs 2 \
                 --program pint:queries=path+loops";
    let document = weir(&format!("{words} --json")).json();
    let loops = &document["epochs"][0]["programs"]["pint"]["loops"];
    assert_eq!(loops, &json!({ "flows": 0, "packets": 0 }), "{document}");
    assert!(weir(words).stdout.contains("flows in loops"));
}

/// Queries for one value choose its hop by one hash, and those that ask switches for the same take
/// their bits together; each has a table of its own.
#[test]
fn several_queries_ask_for_one_value() {
    let hashes = |queries: &str| {
        let document = weir(&format!("budget --program pint:queries={queries} --target tofino --json")).json();
        let stages = document["stages"].as_array().unwrap().clone();
        let hashes = stages.iter().flat_map(|stage| stage["hashes"].as_array().cloned().unwrap_or_default());
        let names: Vec<_> = hashes.map(|hash| hash["name"].as_str().unwrap().to_owned()).collect();
        (document["stages_used"].as_u64(), names)
    };
    let one = hashes("path:bits=4+latency:bits=4");
    assert_eq!(hashes("path:bits=4+latency:bits=4+latency:bits=8+latency:bits=4:flow=dst"), one);
    assert_eq!(hashes("path:bits=4+latency:bits=4+latency:bits=4:aggregation=max"), one);
    // Sums round anew at each hop, in stages behind.
    let (stages, mut names) = hashes("path:bits=4+latency:bits=4+latency:bits=6:aggregation=sum");
    let of_sums = |name: &String| name.ends_with("rounding of sums");
    assert_eq!((stages, names.iter().filter(|name| of_sums(name)).count()), (Some(9), 2));
    names.retain(|name| !of_sums(name));
    assert_eq!(names, one.1);
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=40,packets=4000");
    let queries = "latency:bits=8+egress_port:bits=8+egress_port:bits=8:flow=dst+latency:bits=8:flow=src";
    let words = format!("replay t.pcap --program pint:queries={queries} --top 3");
    let document = files.weir(&format!("{words} --json")).json();
    let answers = &document["programs"]["pint"];
    let values = answers["values"].as_array().unwrap();
    let names: Vec<_> = values.iter().map(|of| (of["value"].as_str().unwrap(), &of["flow_definition"])).collect();
    assert_eq!(names, [("egress_port", &json!(null)), ("egress_port", &json!("dst")), ("latency", &json!("src"))]);
    assert_eq!(answers["latencies"].as_array().unwrap().len(), 3);
    assert_eq!(answers["latency_query"], "latency:bits=8");
    let samples = |of: &serde_json::Value| of["told"][0]["told"][0]["samples"].as_u64().unwrap();
    assert!(samples(&values[1]) >= samples(&values[0]) && samples(&values[0]) > 100, "{values:?}");
    let text = files.weir(&words).stdout;
    for title in [
        "latency:bits=8\nflow ",
        "egress_port, frequent of each hop\n",
        "egress_port, frequent of each hop, flow=dst\n",
        "latency, quantiles of each hop, flow=src;",
    ] {
        assert!(text.contains(title), "{title}: {text}");
    }
    let words = "sim --topology line:3 --workload isp/uniform,flows=10,packets=4k,seed=4 --epochs 1 \
                 --program pint:queries=queue:bits=5:to=60+queue:bits=5:to=60:aggregation=max:flow=dst";
    let text = weir(words).stdout;
    assert!(text.contains("packets of queue, quantiles") && text.contains("packets of queue, max, flow=dst"), "{text}");
    // Queries that nothing else tells apart have their words in titles.
    let queries = "queue:bits=5:to=60+queue:bits=6:to=60:frequency=1/2+path:bits=5";
    let document = files.weir(&format!("replay t.pcap --program pint:queries={queries} --json")).json();
    let words = |values: &serde_json::Value| {
        values.as_array().unwrap().iter().map(|of| of["query"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let of_capture = words(&document["programs"]["pint"]["values"]);
    assert_eq!(of_capture, ["queue:bits=5:to=60", "queue:bits=6:to=60"], "{document}");
    let sim = "sim --topology line:3 --workload isp/uniform,flows=10,packets=4k,seed=4 --epochs 1";
    let document = weir(&format!("{sim} --program pint:queries={queries} --json")).json();
    assert_eq!(words(&document["epochs"][0]["programs"]["pint"]["values"]), of_capture, "{document}");
    let replayed = files.weir(&format!("replay t.pcap --program pint:queries={queries}")).stdout;
    let simulated = weir(&format!("{sim} --program pint:queries={queries}")).stdout;
    for query in of_capture {
        assert!(replayed.contains(&format!("queue, quantiles of each hop ({query})")), "{replayed}");
        assert!(simulated.contains(&format!("packets of {query}")), "{simulated}");
    }
}

/// Values of a capture's only switch, of hops and of whole ways: what packets told is what there was.
#[test]
fn values_are_told_of_captures_and_networks() {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=40,packets=4000");
    let queries = "path:bits=4+egress_port:bits=4+queue:bits=4:aggregation=sum+ingress_time:bits=4";
    let document = files.weir(&format!("replay t.pcap --program pint:queries={queries} --top 3 --json")).json();
    let values = document["programs"]["pint"]["values"].as_array().unwrap().clone();
    let names: Vec<_> = values.iter().map(|of| (of["value"].as_str().unwrap(), of["unit"].as_str().unwrap())).collect();
    assert_eq!(names, [("egress_port", "port"), ("queue", "packets"), ("ingress_time", "ns")]);
    let [port, queue, time] = &values[..] else { unreachable!("three") };
    for value in &values {
        assert_eq!((value["told"].as_array().unwrap().len(), &value["flows"]), (3, &json!(40)), "{value}");
    }
    for flow in port["told"].as_array().unwrap() {
        let hop = &flow["told"][0];
        assert_eq!((&hop["hop"], &hop["switch"], &hop["p50"]), (&json!(1), &json!("weir"), &json!(null)), "{hop}");
        assert_eq!(hop["frequent"], json!([{ "number": 1.0, "share": 1.0 }]), "{hop}");
    }
    // Nothing waits where a capture is read, and no time passes.
    for (value, hop, mean) in [(queue, json!(null), json!(0.0)), (time, json!(1), json!(null))] {
        let told = &value["told"][0]["told"][0];
        let numbers = ["hop", "p50", "mean", "mean_error"].map(|key| &told[key]);
        assert_eq!(numbers, [&hop, &json!(0.0), &mean, &mean], "{value}");
        assert!(told["max"].as_f64() <= value["error"].as_f64(), "{value}");
        let ordered = ["p50_low", "p50", "p50_high", "max"].map(|key| told[key].as_f64().unwrap());
        assert!(told["samples"].as_u64() > Some(100) && ordered.is_sorted(), "{told}");
    }
    let text = files.weir(&format!("replay t.pcap --program pint:queries={queries} --top 3")).stdout;
    for part in
        ["paths and values of flows", "queue, sum of each packet's way", "1 (100.00 %)", "egress_port, frequent"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let words = "sim --topology line:3 --workload isp/uniform,flows=10,packets=4k,seed=4 --epochs 1 --rate 200Mbps \
                 --queue-timeout 3ms --program pint:queries=path:bits=8+queue:bits=8";
    let document = weir(&format!("{words} --json")).json();
    let queue = &document["epochs"][0]["programs"]["pint"]["values"][0];
    // Without a path no switch is known, and what is largest is there all the same.
    let blind = weir(&format!("{} --json", words.replace("path:bits=8+", ""))).json();
    let blind = &blind["epochs"][0]["programs"]["pint"]["values"][0];
    assert!(blind["largest_p99"].is_number() && blind["largest_switch"].is_null(), "{blind}");
    assert_eq!((&queue["value"], &queue["aggregation"]), (&json!("queue"), &json!("quantiles")), "{document}");
    assert!(queue["samples"].as_u64() > Some(1000) && queue["largest_p99"].is_number(), "{queue}");
    let text = weir(words).stdout;
    assert!(text.contains("packets of queue") && text.contains("largest p99"), "{text}");
    let refused = weir("budget --program pint:queries=queue:aggregation=median");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("one of quantiles, frequent, max, min, sum"), "{}", refused.stderr);
}
