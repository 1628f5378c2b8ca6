use std::sync::Arc;

use super::*;
use crate::cli::output::Style;
use crate::json::Epoch;
use crate::program::answers::{EpochAnswers, Finality, LoopAnswers, Losses, PathAnswers};
use crate::telemetry::{AnswerStore, Selected};

fn written<D>(page: fn(&D) -> Page, document: &D) -> String {
    page(document).to_text(Style::Plain)
}

/// The document of each task about flows, and its text.
fn answers(epoch: EpochAnswers) -> Vec<(serde_json::Value, String)> {
    let selected = Selected { epochs: vec![Arc::new(epoch)], first: 7, length: 1_000_000, ..Selected::default() };
    let paths = view::Paths::new(&selected, 9, 0);
    let loops = view::Loops::new(&selected, 9, 0);
    let latency = view::Latency::new(&selected, 9, 0);
    let utilisation = view::Utilisation::new(&selected, 9, 0);
    let values = view::Values::new(&selected, 9, 0);
    vec![
        (serde_json::to_value(&paths).unwrap(), written(paths_page, &paths)),
        (serde_json::to_value(&loops).unwrap(), written(loops_page, &loops)),
        (serde_json::to_value(&latency).unwrap(), written(latency_page, &latency)),
        (serde_json::to_value(&utilisation).unwrap(), written(utilisation_page, &utilisation)),
        (serde_json::to_value(&values).unwrap(), written(values_page, &values)),
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

/// The number of the last code stands for larger ones, and where a table has it the line below says so.
#[test]
fn the_last_code_means_that_or_more() {
    use crate::api::view::value_answers as answers;
    let epoch = |number: f64| {
        let of = |(task, query)| answers(task, query, &[(1, 50, number)]);
        let values = [(Task::Latency, "l"), (Task::Utilisation, "u")].map(of);
        EpochAnswers { epoch: 7, first_epoch: 7, values: values.into(), ..EpochAnswers::default() }
    };
    let [_, _, latency, utilisation, _] = super::tests::answers(epoch(9.0)).try_into().unwrap();
    assert_eq!((&latency.0["largest_ns"], &utilisation.0["largest"]), (&9.into(), &9.0.into()));
    assert!(latency.1.contains("; 9 ns means that or more\n"), "{}", latency.1);
    assert!(utilisation.1.contains("; 900.00 % means that or more\n"), "{}", utilisation.1);
    for (_, text) in super::tests::answers(epoch(8.0)) {
        assert!(!text.contains("or more"), "{text}");
    }
}

/// When nothing was lost in the epochs that were asked for, the answer says when something was.
/// Packets that only came late are none.
#[test]
fn the_last_loss_is_said_though_it_was_before() {
    let store = AnswerStore::default();
    store.resize(100, 1 << 20);
    store.set_length(500_000_000);
    for epoch in 10..50u64 {
        let lost_packets = [(20, 7), (25, 40), (27, 3)].into_iter().find(|(lossy, _)| *lossy == epoch);
        let losses = Losses { lost_packets: lost_packets.map_or(0, |(_, lost)| lost), ..Losses::default() };
        let finality = Finality { is_final: epoch < 48, ..Finality::default() };
        let first_epoch = epoch;
        store.push(EpochAnswers { epoch, first_epoch, losses: Some(losses), finality, ..EpochAnswers::default() });
    }
    store.count_late(27, 3);
    let answer = |seconds: f64| view::Losses::new(&store.last(seconds, false), 9, 0);
    let ten = answer(10.0);
    let last = view::LastLoss { epoch: Epoch::new(25, 500_000_000), lost_packets: 40 };
    assert_eq!((ten.lost_packets, &ten.last_loss), (0, &Some(last)));
    let text = written(losses_page, &ten);
    assert!(
        text.contains("the last loss before: 40 packets in the epoch from 00:00:12.500 UTC, 1.5 s earlier"),
        "{text}"
    );
    let all = answer(20.0);
    assert_eq!((all.lost_packets, all.last_loss.as_ref().map(|last| last.epoch.number)), (50, Some(25)));
    assert!(!written(losses_page, &all).contains("the last loss before"), "it is among these");
    assert_eq!(answer(1.0).last_loss, ten.last_loss);
    store.forget_from(20);
    assert_eq!(answer(1.0).last_loss, None);
    assert!(!written(losses_page, &answer(1.0)).contains("the last loss"));
}
