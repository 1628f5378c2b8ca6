//! ChameleMon in `weir replay`, `demo` and `budget`, beside exact counts.

use serde_json::Value;

use crate::{Files, weir};

/// How far an estimate is from the truth beside it, as a share.
fn error(document: &Value, key: &str) -> f64 {
    let number = |key: &str| document[key].as_f64().unwrap_or_else(|| panic!("{key} in {document}"));
    (number(key) / number(&format!("true_{key}")) - 1.0).abs()
}

#[test]
fn a_replay_beside_the_truth() {
    let files = Files::new();
    let trace = files.capture("t.pcap", "isp/burst,flows=4000,packets=200000,ipv6=0.2");
    // Of flows of nearly one size one that shares its counters may take the last place.
    let words = "replay t.pcap --program chamelemon:hh_threshold=50 --top 100 --score --min-recall 0.97 --json";
    let document = &files.weir(words).json()["programs"]["chamelemon"];
    assert_eq!(document["true_flows"], 4000);
    for (key, min) in [("flows", 0.02), ("entropy_bits", 0.01)] {
        assert!(error(document, key) < min, "{key}: {}", error(document, key));
    }
    let wmre = document["distribution_wmre"].as_f64().unwrap();
    assert!(wmre < 0.1, "{wmre}");
    let heavy = document["heavy"].as_array().unwrap();
    assert_eq!(heavy.len(), 100);
    let excess = heavy.iter().map(|flow| {
        // The classifier never undercounts, so neither is a decoded size too small; and it is taken
        // to have counted T_h - 1.
        let [packets, truth] = ["packets", "true_packets"].map(|key| flow[key].as_u64().unwrap());
        assert!((truth..truth + 50).contains(&packets), "{flow}");
        packets - truth
    });
    let excess = excess.sum::<u64>();
    assert!(excess < 500, "{excess} packets too many");
    assert!(document["heavy_complete"].as_bool().unwrap() && document["losses_complete"].as_bool().unwrap());
    assert_eq!((&document["lost_packets"], &document["losses"]), (&0.into(), &Value::Array(vec![])));
    let candidates = trace.truth().flows().iter().filter(|flow| flow.packets >= 50).count() as u64;
    // Those that the classifier takes for larger than they are come on top.
    assert!((candidates..candidates * 5 / 4).contains(&document["heavy_candidates"].as_u64().unwrap()));
}

/// Encoders as a Tofino has them: what they chose is powers of two, and losses are decoded all the same.
#[test]
fn parts_that_are_powers_are_decoded() {
    let words = "sim --topology line:3 --workload keyvalue/uniform,flows=3000,seed=4 --loss flows=30%,rate=5% --epochs 5 \
                 --program chamelemon:parts=powers,downstream=4096 --json";
    let document = weir(words).json();
    for (number, epoch) in document["epochs"].as_array().unwrap().iter().enumerate() {
        let chamelemon = &epoch["programs"]["chamelemon"];
        for key in ["hh_buckets", "hl_buckets", "ll_buckets"] {
            let buckets = chamelemon[key].as_u64().unwrap_or_else(|| panic!("{chamelemon}"));
            assert!([0, 512, 1024, 2048].contains(&buckets), "{key} = {buckets}");
        }
        let losses = &chamelemon["losses"];
        let exact = (losses["complete"] == true, losses["exact_flows"] == losses["true_flows"]);
        assert!(number < 2 || exact == (true, true), "{number}: {losses}");
    }
}

/// Without memory for heavy losses none are known, and none are invented.
#[test]
fn losses_that_are_not_measured_are_not_told() {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=100,packets=5000");
    let document = &files.weir("replay t.pcap --program chamelemon:hl=0 --json").json()["programs"]["chamelemon"];
    assert_eq!((&document["lost_packets"], &document["losses_complete"]), (&0.into(), &false.into()));
    assert!(document["losses_incomplete"].as_array().unwrap().contains(&"unmeasured".into()), "{document}");
}

/// A record names the IPv6 flows that entered. Where it has no room an answer has digests, and says
/// how many.
#[test]
fn ipv6_flows_have_names() {
    let files = Files::new();
    let trace = files.capture("t.pcap", "isp/burst,flows=60,packets=3000,ipv6=1");
    let replay = |names: u32, json: &str| {
        files.weir(&format!("replay t.pcap --program chamelemon:hh_threshold=20,names={names} --top 10 {json}"))
    };
    let document = &replay(100, "--json").json()["programs"]["chamelemon"];
    assert_eq!(document["lost_packets"], 0);
    let heavy = document["heavy"].as_array().unwrap();
    assert_eq!(heavy.len(), 10);
    for flow in heavy {
        let name = serde_json::from_value::<weir::wire::Flow>(flow["flow"].clone()).unwrap();
        let truth = trace.truth().flows().iter().find(|truth| truth.flow == name).map(|truth| truth.packets);
        assert!(truth.is_some_and(|truth| flow["packets"].as_u64() >= Some(truth)), "{flow}");
        assert_eq!(flow["ipv6_digest"], Value::Null);
    }
    let document = &replay(0, "--json").json()["programs"]["chamelemon"];
    for flow in document["heavy"].as_array().unwrap() {
        assert!(flow["ipv6_digest"].as_str().is_some_and(|digest| digest.len() == 24), "{flow}");
        assert_eq!(flow["flow"], serde_json::json!({}));
    }
    let says = "10 flows are known by a digest alone";
    assert!(replay(0, "").stdout.contains(says) && !replay(100, "").stdout.contains("digest"));
}

#[test]
fn a_replay_shows_estimates() {
    let files = Files::new();
    files.capture("t.pcap", "isp/burst,flows=500,packets=20000");
    let ended = files.weir("replay t.pcap --top 3 --program chamelemon:hh_threshold=20");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for part in ["chamelemon: the heaviest flows", "entropy of flow sizes", "lost packets", "heavy candidates"] {
        assert!(ended.stdout.contains(part), "{part} is not in\n{}", ended.stdout);
    }
}

/// The paper's Table 1: 32 of 48 stateful ALUs.
#[test]
fn budget_of_the_papers_configuration() {
    let document = weir("budget --program chamelemon --json").json();
    assert_eq!((&document["target"]["name"], &document["salus_used"]), (&"tofino".into(), &32.into()));
    assert!((document["salus_share"].as_f64().unwrap() - 0.6667).abs() < 1e-4);
    // Two for each of eight CRCs: one that all share, two for counter arrays, three for rows, fingerprint
    // and sampling hash. Four for their halves, two for a fragment, two for counters and one for strays, and one for
    // the bucket of each row in each stage that has arrays of it, which are twelve.
    assert_eq!((&document["hash_units_used"], &document["stages_used"]), (&37.into(), &12.into()));
    let hashes = document["stages"].as_array().unwrap().iter().flat_map(|stage| stage["hashes"].as_array().unwrap());
    assert_eq!(hashes.filter(|hash| hash["added"].as_bool().unwrap()).count(), 7);
    let small = weir("budget --program chamelemon:small=4 --json").json();
    assert_eq!((&small["salus_used"], &small["target"]["name"]), (&42.into(), &"tofino2".into()));
    let both = weir("budget --program hashpipe --program chamelemon --json").json();
    assert_eq!(both["target"]["name"], "software");
    let why = both["no_chip"][1].as_object().unwrap();
    assert_eq!(why["target"], "tofino");
    assert!(why["why"].as_str().is_some_and(|why| why.contains("write a narrower one, key = \"src\"")), "{why:?}");
    let fits = |change: &str, targets: &[&str]| serde_json::json!({ "change": change, "targets": targets });
    let less = [fits("without hashpipe", &["tofino", "tofino2"]), fits("without chamelemon", &["rmt"])];
    assert_eq!(both["would_fit"].as_array().unwrap()[..2], less);
    let text = weir("budget --program hashpipe --program chamelemon").stdout;
    assert!(text.contains("with less it would fit:\n  without hashpipe: fits tofino, tofino2\n"), "{text}");
    assert_eq!(small.get("would_fit"), None);
}

#[test]
fn wrong_parameters_say_what_would_be_right() {
    for (words, says) in [
        ("chamelemon:tower=8x0", "written like 8x32768+16x16384"),
        ("chamelemon:tower=16x4+8x4", "written like 8x32768+16x16384"),
        ("chamelemon:arrays=1", "a whole number from 2 to 4"),
        ("chamelemon:hl=3073", "hl = 3073: a whole number from 0 to 3072"),
        ("chamelemon:hh=4096", "hh = 4096: a whole number from 0 to 3584"),
        ("chamelemon:hh_threshold=5,hl_threshold=6", "hl_threshold = 6: a whole number from 0 to 5"),
        ("chamelemon:sample=65537", "a whole number from 0 to 65536"),
        ("chamelemon:names=65537", "names = 65537: a whole number from 0 to 65536"),
    ] {
        let ended = weir(&format!("budget --program {words}"));
        assert!(ended.refused(2).contains(says), "{}", ended.stderr);
    }
}

/// A classifier that is too full for the distribution of sizes does not give one, and with hardly
/// an empty counter no number of flows.
#[test]
fn a_full_classifier_says_so() {
    let files = Files::new();
    files.capture("t.pcap", "isp-scaled/uniform,flows=24k,packets=240k");
    let replay = |tower: &str, words: &str| {
        files.weir(&format!("replay t.pcap --program chamelemon:tower={tower},hh_threshold=100 --score {words}"))
    };
    let roomy = &replay("8x16384+16x8192", "--json").json()["programs"]["chamelemon"];
    assert!(roomy["distribution_wmre"].as_f64().unwrap() < 0.25 && error(roomy, "flows") < 0.03, "{roomy}");
    let full = &replay("8x6144+16x3072", "--json").json()["programs"]["chamelemon"];
    assert_eq!((&full["distribution"], &full["distribution_wmre"]), (&Value::Array(vec![]), &Value::Null));
    assert!(full["flows"].is_f64(), "{}", full["flows"]);
    let brimming = &replay("8x1024+16x512", "--json").json()["programs"]["chamelemon"];
    assert_eq!(brimming["flows"], Value::Null);
    let text = replay("8x1024+16x512", "").stdout;
    assert!(text.matches("too many to tell").count() >= 2, "{text}");
}

/// A scan of 20 000 addresses or ports, one packet each: with linear hashes the number of flows was
/// off by 25 to 72 %, the distribution by up to its maximum, and nothing said so.
#[test]
fn a_scan_beside_the_truth() {
    for keys in ["range", "scan", "clients"] {
        let files = Files::new();
        files.capture("t.pcap", &format!("zipf0/uniform,flows=20k,packets=20k,keys={keys}"));
        let words = "replay t.pcap --program chamelemon --score --json --reproducible 3";
        let document = &files.weir(words).json()["programs"]["chamelemon"];
        assert_eq!(document["true_flows"], 20_000);
        let wmre = document["distribution_wmre"].as_f64().unwrap();
        // The standard error is 0.37 %.
        assert!(error(document, "flows") < 0.015 && wmre < 0.05, "{keys}: {} {wmre}", error(document, "flows"));
        assert!(document["losses_complete"].as_bool().unwrap(), "{keys}");
    }
}
