//! The API on any request: whatever the method, path, query and body, the answer is HTTP, an error
//! is a document with a message, and the switch is asked only for what the request's types allow.
//! And changes of tables on any body.

use std::sync::Arc;

use serde_json::Value;
use weir::answers::{Queryable, Task};
use weir::api::observers::ObservedPort;
use weir::api::view;
use weir::api::{Answering, HeavyQuery, NewPort, Service, respond};
use weir::observe::Observers;
use weir::port::FaultSpec;
use weir::tables::{Change, Tables};

/// A switch with one port, `a`, that holds what it is asked for to what the types promise.
#[derive(Default)]
struct Fake {
    tables: Tables,
    observers: Observers,
}

impl Answering for Fake {
    fn history(&self, task: Task, query: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        Err(format!("{task:?} top {} threshold {} seconds {}", query.top, query.threshold, query.seconds))
    }
}

impl Service for Fake {
    fn status(&self) -> view::Status {
        view::Status { totals: self.ports(), ..Default::default() }
    }

    fn since_reset(&self) -> view::SinceReset {
        view::SinceReset { ports: self.ports(), ..Default::default() }
    }

    fn reset(&self) {}

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn observers(&self) -> &Observers {
        &self.observers
    }

    fn observed_ports(&self) -> Vec<ObservedPort> {
        Vec::new()
    }

    fn ports(&self) -> view::Ports {
        view::Ports { ports: vec![view::Port { name: "a".into(), ..Default::default() }], ..Default::default() }
    }

    fn macs(&self) -> view::MacTable {
        view::MacTable::default()
    }

    fn add_port(&self, new: &NewPort) -> Result<view::Port, String> {
        let read: NewPort = serde_json::from_value(serde_json::to_value(new).unwrap()).unwrap();
        assert_eq!(read, *new, "what is asked for can be written and read again");
        Ok(view::Port { name: new.name.clone(), dev: new.dev.to_string(), ..Default::default() })
    }

    fn remove_port(&self, port: &str) -> Result<view::Port, String> {
        self.set_link(port, false).map(|()| view::Port::default())
    }

    fn reload(&self) -> Result<view::Reloaded, String> {
        Err("there is no file".into())
    }

    fn set_promiscuous(&self, port: &str, on: bool) -> Result<(), String> {
        self.set_link(port, on)
    }

    fn set_mtu(&self, port: &str, bytes: u32) -> Result<(), String> {
        self.set_link(port, bytes > 0)
    }

    fn set_fault(&self, port: &str, fault: Option<&FaultSpec>) -> Result<(), String> {
        if let Some(fault) = fault {
            assert_eq!(
                fault.to_string().parse().as_ref(),
                Ok(fault),
                "what is asked for can be written and read again"
            );
        }
        self.set_link(port, true)
    }

    fn set_link(&self, port: &str, _: bool) -> Result<(), String> {
        if port == "a" { Ok(()) } else { Err(format!("there is no port {port}")) }
    }
}

/// The first line is `METHOD TARGET`, the rest the body. Without a line's end the bytes come over
/// the socket as they are.
pub fn run(bytes: &[u8]) {
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
        let answer = respond(Arc::new(Fake::default()), bytes).unwrap();
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 "));
        return;
    };
    let (line, body) = (&bytes[..end], &bytes[end + 1..]);
    changes(body);
    let mut request = line.to_vec();
    let length = body.len();
    request.extend_from_slice(b" HTTP/1.1\r\nhost: weir\r\nconnection: close\r\ncontent-type: application/json\r\n");
    request.extend_from_slice(format!("content-length: {length}\r\n\r\n").as_bytes());
    request.extend_from_slice(body);
    let answer = respond(Arc::new(Fake::default()), &request).unwrap();
    let text = String::from_utf8_lossy(&answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { panic!("no answer") };
    let status: u16 = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    assert!((200..500).contains(&status), "{head}");
    // HTTP's own refusals, and answers to HEAD, have no body.
    if !body.is_empty() && head.contains("application/json") {
        let document: Value = serde_json::from_str(body).expect("a document");
        assert!(status == 200 || document["error"].as_str().is_some_and(|error| !error.is_empty()), "{text}");
    }
}

/// What is read as changes is written and read again as the same.
fn changes(body: &[u8]) {
    if let Ok(changes) = serde_json::from_slice::<Vec<Change>>(body) {
        let written = serde_json::to_vec(&changes).unwrap();
        assert_eq!(serde_json::from_slice::<Vec<Change>>(&written).unwrap(), changes);
    }
}
