//! `weir openapi`. tests/python.rs has its validator, and compares it with answers.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::weir;

/// All values of a document, each with its key.
fn values<'a>(key: &'a str, value: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
    found.push((key, value));
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| values(key, value, found)),
        Value::Array(list) => list.iter().for_each(|value| values("", value, found)),
        _ => {}
    }
}

#[test]
fn the_document_is_whole() {
    let document = weir("openapi").json();
    assert_eq!(
        (&document["openapi"], &document["info"]["version"]),
        (&"3.1.0".into(), &env!("CARGO_PKG_VERSION").into())
    );
    let mut all = Vec::new();
    values("", &document, &mut all);
    let of_key = |wanted: &'static str| all.iter().filter(move |(key, _)| *key == wanted).map(|(_, value)| *value);
    let references: BTreeSet<_> = of_key("$ref").map(|to| to.as_str().unwrap()).collect();
    for to in &references {
        let found = document.pointer(to.strip_prefix('#').unwrap());
        assert!(found.is_some(), "{to} is nowhere");
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in schemas.keys() {
        assert!(references.contains(&*format!("#/components/schemas/{name}")), "nothing refers to {name}");
        let other = name.trim_end_matches(char::is_numeric);
        assert!(other == name || !schemas.contains_key(other), "{other}: two types have this name");
    }
    let ids: Vec<_> = of_key("operationId").map(|id| id.as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    assert!(ids.contains(&"get_ports_since_reset") && ids.contains(&"delete_switches_name"), "{ids:?}");
    let summaries: Vec<_> = of_key("summary").map(|summary| summary.as_str().unwrap()).collect();
    assert_eq!(summaries.iter().collect::<BTreeSet<_>>().len(), summaries.len(), "{summaries:?}");
    // Comments of the sources are its descriptions, and their links would lead nowhere.
    for text in of_key("description").chain(of_key("summary")).filter_map(Value::as_str) {
        assert!(!text.contains("[`") && !text.contains("](") && !text.contains("::"), "{text}");
    }
}
