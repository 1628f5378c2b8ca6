use std::collections::BTreeMap;

use super::*;
use crate::json::{Epoch, Time, span};
use crate::program::answers::{
    Adaptation, Changes, Described, EpochAnswers, Finality, FlowAnswers, Gap as Missing, Losses as LossAnswers,
    SwitchAnswers, SwitchGap,
};
use crate::telemetry::AnswerStore;

const LENGTH: u64 = 50_000_000;

/// An epoch with a gap, that lost packets and changes what later ones are measured with.
fn answers(epoch: u64) -> EpochAnswers {
    let described = || Described { state: "ill".into(), parameters: serde_json::Map::new() };
    let gap = SwitchGap { switch: "far".into(), gap: Missing::Foreign };
    EpochAnswers {
        epoch,
        first_epoch: epoch,
        switches: vec![SwitchAnswers { switch: "near".into(), answers: FlowAnswers::default() }],
        losses: Some(LossAnswers { lost_packets: 3, ..LossAnswers::default() }),
        changes: Some(Changes { gaps: vec![gap.clone()], ..Changes::default() }),
        gaps: vec![gap],
        adaptation: Some(Adaptation {
            measured: described(),
            facts: serde_json::Map::new(),
            update: Some((epoch + 2, described())),
            why: String::new(),
        }),
        finality: Finality::at_once(),
        ..EpochAnswers::default()
    }
}

/// Checks that each epoch number has its times of day beside it, and counts the numbers by key.
fn dated(value: &Json, found: &mut BTreeMap<String, u32>) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| dated(item, found)),
        Json::Object(object) => {
            let number = |key: &str| object.get(key).and_then(Json::as_u64);
            let time = |key: &str| object[key].as_str().map(|text| text.parse::<Time>().unwrap());
            let mut count = |key: &str| *found.entry(key.into()).or_default() += 1;
            if let Some(epoch) = number("epoch") {
                let Epoch { start, end, .. } = Epoch::new(epoch, LENGTH);
                assert_eq!((time("start"), time("end")), (start, end), "{object:?}");
                count("epoch");
            }
            if let (Some(first), Some(last)) = (number("first_epoch"), number("last_epoch")) {
                assert_eq!((time("start"), time("end")), span((first, last), LENGTH), "{object:?}");
                count("first_epoch");
            }
            if let Some(from) = number("update_epoch") {
                assert_eq!(time("update_start"), Epoch::new(from, LENGTH).start, "{object:?}");
                count("update_epoch");
            }
            object.values().for_each(|below| dated(below, found));
        }
        _ => {}
    }
}

#[test]
fn epoch_numbers_have_times_of_day() {
    let store = AnswerStore::default();
    store.resize(9, 1 << 20);
    store.set_length(LENGTH);
    (700..704).for_each(|epoch| store.push(answers(epoch)));
    let mut found = BTreeMap::new();
    for task in Task::ALL {
        let document = document(task, "p", store.last(1.0, false), 9, 0).unwrap();
        let document = serde_json::to_value(document).unwrap();
        assert!(document["first_epoch"].is_u64() && document["start"].is_string(), "{task:?}: {document}");
        dated(&document, &mut found);
    }
    let gaps_and_others = found["epoch"];
    assert!(gaps_and_others > 20, "{found:?}");
    assert_eq!((found["first_epoch"], found["update_epoch"]), (Task::ALL.len() as u32, 4));
}

/// Without an epoch, and where their length is not known, there is no time of day.
#[test]
fn what_has_no_time_of_day_has_null() {
    let document = |selected| serde_json::to_value(document(Task::Losses, "p", selected, 9, 0).unwrap()).unwrap();
    let none = document(Selected::default());
    assert!(none["first_epoch"].is_null() && none["start"].is_null() && none["end"].is_null());
    let epochs = vec![std::sync::Arc::new(answers(7))];
    let whole = document(Selected { epochs, first: 7, ..Selected::default() });
    assert!(whole["last_epoch"] == 7 && whole["start"].is_null() && whole["gaps"][0]["start"].is_null(), "{whole}");
    let claim = serde_json::from_value::<Claim>(whole).unwrap().of_capture((Time(5), Time(9)));
    assert_eq!((claim.start, claim.end), (Some(Time(5)), Some(Time(9))));
    let live = Claim { epoch_ns: LENGTH, ..claim.clone() }.of_capture((Time(1), Time(2)));
    assert_eq!((live.start, live.end), (claim.start, claim.end));
}
