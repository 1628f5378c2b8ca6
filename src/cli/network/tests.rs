use std::sync::Arc;

use super::*;
use crate::program::answers::{EpochAnswers, LoopAnswers, PathAnswers};
use crate::telemetry::Selected;

/// The document of each task about flows, and its text.
fn answers(epoch: EpochAnswers) -> Vec<(serde_json::Value, String)> {
    let selected = Selected { epochs: vec![Arc::new(epoch)], first: 7, length: 1_000_000, ..Selected::default() };
    let paths = view::Paths::new(&selected, 9, 0);
    let loops = view::Loops::new(&selected, 9, 0);
    let latency = view::Latency::new(&selected, 9, 0);
    let utilisation = view::Utilisation::new(&selected, 9, 0);
    let values = view::Values::new(&selected, 9, 0);
    vec![
        (serde_json::to_value(&paths).unwrap(), paths_text(&paths)),
        (serde_json::to_value(&loops).unwrap(), loops_text(&loops)),
        (serde_json::to_value(&latency).unwrap(), latency_text(&latency)),
        (serde_json::to_value(&utilisation).unwrap(), utilisation_text(&utilisation)),
        (serde_json::to_value(&values).unwrap(), values_text(&values)),
    ]
}

/// What no query asks for is said to be so, and not to be nowhere.
#[test]
fn what_is_not_asked_for_is_told() {
    let none = EpochAnswers { epoch: 7, first_epoch: 7, ..EpochAnswers::default() };
    for (document, text) in answers(none.clone()) {
        assert!(document["incomplete"].as_array().unwrap().contains(&"not_asked".into()), "{document}");
        assert!(text.starts_with("not asked for: no query for "), "{text}");
        for wrong in ["no packet", "no flow"] {
            assert!(!text.contains(wrong), "{text}");
        }
    }
    let (paths, loops) = (Some(PathAnswers::default()), Some(LoopAnswers::default()));
    let asked = answers(EpochAnswers { paths, loops, ..none });
    for ((document, text), found) in asked.iter().zip(["no flow left the network", "no packet came back to a switch"]) {
        assert!(document["asked"] == true, "{document}");
        assert!(!document["incomplete"].as_array().unwrap().contains(&"not_asked".into()), "{document}");
        assert!(text.starts_with(found), "{text}");
    }
}
