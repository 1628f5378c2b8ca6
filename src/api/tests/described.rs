//! The OpenAPI document beside the routes that answer.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::api::openapi;
use crate::api::service::respond;

fn document() -> Value {
    serde_json::to_value(openapi::document()).unwrap()
}

/// The paths that a server with this tag answers, each with its operations by method.
fn paths<'a>(document: &'a Value, tag: &'a str) -> impl Iterator<Item = (&'a str, Vec<&'a str>)> {
    let has_tag = move |operation: &Value| operation["tags"].as_array().unwrap().contains(&tag.into());
    document["paths"].as_object().unwrap().iter().map(move |(path, operations)| {
        let operations = operations.as_object().unwrap().iter().filter(|(_, operation)| has_tag(operation));
        (path.as_str(), operations.map(|(method, _)| method.as_str()).collect())
    })
}

/// A path and a method are described exactly if the switch has a handler for them.
#[test]
fn a_switch_answers_what_is_described_and_nothing_else() {
    let document = document();
    let service = Arc::new(fake());
    let mut answered = 0;
    for (path, described) in paths(&document, "switch") {
        let path = path.replace("{name}", "a").replace("{id}", "1");
        for method in ["get", "put", "post", "delete", "patch"] {
            let request = format!("{} {path} HTTP/1.1\r\nhost: weir\r\n", method.to_ascii_uppercase());
            // A body that no handler takes, so that nothing is waited for.
            let request = format!("{request}content-length: 1\r\nconnection: close\r\n\r\n!");
            let answer = String::from_utf8(respond(service.clone(), request.as_bytes()).unwrap()).unwrap();
            let has_handler =
                !answer.contains("this switch has no such answer") && !answer.contains("only a controller");
            assert_eq!(has_handler, described.contains(&method), "{method} {path}: {answer}");
            answered += usize::from(has_handler);
        }
    }
    assert!(answered > 35, "{answered}");
}

#[test]
fn operations_say_who_may_and_what_is_refused() {
    let document = document();
    let of = |path: &str, method: &str| &document["paths"][path][method];
    let statuses =
        |operation: &Value| operation["responses"].as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let set = |statuses: &[&str]| statuses.iter().map(|status| (*status).to_owned()).collect::<BTreeSet<_>>();
    let roles = |operation: &Value| operation["security"].as_array().unwrap().len();
    assert_eq!(statuses(of("/v1/ports", "get")), set(&["200", "408"]));
    assert_eq!(statuses(of("/v1/ports", "post")), set(&["200", "400", "403", "408", "413"]));
    assert_eq!(statuses(of("/v1/trace", "post")), set(&["200", "400", "403", "413"]));
    assert_eq!(statuses(of("/v1/frequency", "post")), set(&["200", "400", "408", "413"]));
    assert_eq!(statuses(of("/v1/switches/{name}", "delete")), set(&["200", "400", "403", "404", "408", "409"]));
    // Without a certificate, a reader's, an operator's.
    assert_eq!((roles(of("/v1/frequency", "post")), roles(of("/v1/reset", "put"))), (3, 2));
    assert_eq!(of("/v1/heavy", "get")["tags"], json!(["switch", "controller"]));
    let metrics = of("/metrics", "get")["responses"]["200"]["content"].as_object().unwrap();
    assert_eq!(metrics.len(), 2);
}

/// The document of each task is the claim and an answer of the task's own.
#[test]
fn tasks_have_documents_of_their_own() {
    let document = document();
    let mut answers = BTreeSet::new();
    for task in Task::ALL {
        let path = format!("/v1/{}", task.name());
        let schema = &document["paths"][&path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        let of = |schema: &Value| schema["$ref"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let both = document["components"]["schemas"][of(schema)]["allOf"].as_array().unwrap().iter().map(of);
        let both: Vec<_> = both.collect();
        assert_eq!((both.len(), &*both[0]), (2, "Claim"), "{path}");
        assert_eq!(of(schema), format!("Claimed{}", both[1]));
        answers.insert(both[1].clone());
    }
    assert_eq!(answers.len(), Task::ALL.len());
}

/// The parameters of a question are the keys that its type takes, with their defaults.
#[test]
fn parameters_are_those_of_the_question() {
    let document = document();
    let parameters = document["components"]["parameters"].as_object().unwrap();
    let names: BTreeSet<_> = parameters.keys().map(String::as_str).collect();
    let taken =
        ["after", "alarm_rate", "flow", "path", "program", "provisional", "seconds", "since", "threshold", "top"];
    assert_eq!(names, taken.into());
    for (name, parameter) in parameters {
        assert!(parameter["schema"]["type"].is_string() && !parameter["required"].as_bool().unwrap(), "{parameter}");
        assert!(parameter["description"].as_str().is_some_and(|text| text.len() > 10), "{name}: {parameter}");
    }
    assert_eq!(parameters["top"]["schema"]["default"], 20);
}
