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

#[test]
fn a_simulated_network_decides_paths() {
    let words = "sim --topology line:4 --workload isp/uniform,flows=40,packets=8k,seed=4 --epochs 2 --program pint";
    let document = weir(&format!("{words} --json")).json();
    for epoch in document["epochs"].as_array().unwrap() {
        let paths = &epoch["programs"]["pint"]["paths"];
        let number = |key: &str| paths[key].as_u64().unwrap();
        assert!(number("flows") >= number("decided_flows") && number("decided_flows") >= number("sure_flows"));
        assert!(number("sure_flows") > 0 && number("contradicted_flows") == 0, "{paths}");
    }
    let text = weir(words).stdout;
    assert!(text.contains("paths decided") && !text.contains("recall"), "{text}");
}

/// Six stages, at most six hashes each, on the switch with twelve.
#[test]
fn it_fits_tofino() {
    let document = weir("budget --program pint --target tofino --json").json();
    assert_eq!(document["reports"], json!([{ "program": "pint", "reports": 16384, "report_bits": 414 }]));
}
