//! A service that is none, and what clients get of it.

mod claims;
mod described;
pub(in crate::api) mod places;

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::answers::{
    Answers, Certainty, Claimed, FlowCount, FlowName, FlowPath, FoundFlows, HeavyFlows, PathAnswers, Paths,
    ProgramAnswer, Query, Queryable, Task, Unit,
};
use crate::api::client::{Client, ClientError};
use crate::api::metrics;
use crate::history::{AnyHistory, Entry, Epochs, Gap, History, Kept, Room, Window};
use crate::network::socket;
use crate::observe::Observers;
use crate::port::FaultSpec;
use crate::program::hashpipe::Counts;
use crate::program::{KeptFlows, ProgramConfig};
use crate::tables::{self, Change, Op, Table, Tables};
use crate::wire::Flow;

/// Flows whose frequency is asked for.
const FLOW: &str = "10.0.0.1:1 -> *";

pub(crate) struct Fake(Tables, Observers);

pub(crate) fn fake() -> Fake {
    Fake(Tables::new([Box::new(Numbers(vec![1, 2])) as Box<dyn Table>]), Observers::default())
}

/// A table of numbers below 10.
struct Numbers(Vec<u64>);

impl Table for Numbers {
    fn name(&self) -> &'static str {
        "numbers"
    }

    fn rows(&self) -> Vec<serde_json::Value> {
        self.0.iter().map(|n| serde_json::json!({ "n": n })).collect()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        let mut next = self.0.clone();
        for (i, change) in changes.iter().enumerate() {
            let n = change.entry["n"].as_u64().filter(|n| *n < 10);
            next.push(n.ok_or_else(|| tables::refused(i, change, "n is below 10"))?);
        }
        self.0 = next;
        Ok(())
    }
}

/// The heavy flows of two epochs.
fn heavy() -> Arc<dyn Queryable> {
    let flow = |port| FlowName::Flow(Flow { sport: Some(port), ..Flow::default() });
    let flows = (1..=50).map(|n| FlowCount { flow: flow(n), count: u64::from(n).into() }).collect();
    let found = FoundFlows { unit: Unit::Bytes, flows, ..FoundFlows::default() };
    let history = History::new(Room { epochs: 9, bytes: usize::MAX });
    history.set_length(500_000_000);
    let entry = Entry::new(5, KeptFlows::<Counts>::new(&found));
    history.push(Entry { first_epoch: 4, switches: vec!["weir".into()], ..entry });
    Arc::new(history)
}

impl Answering for Fake {
    fn history(&self, _: Task, query: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        if query.seconds > 100.0 {
            return Err("nothing is kept for as long".into());
        }
        Ok(heavy())
    }
}

impl Service for Fake {
    fn ports(&self) -> view::Ports {
        let counts = view::Counts { rx_packets: 7, ..view::Counts::default() };
        let port = view::Port { name: "a".into(), link_up: true, counts, ..view::Port::default() };
        view::Ports {
            packets: view::Packets::of(std::slice::from_ref(&port), &view::Removed::default()),
            ports: vec![port],
            ..Default::default()
        }
    }

    fn status(&self) -> view::Status {
        view::Status { name: "weir".into(), totals: self.ports(), ..Default::default() }
    }

    fn since_reset(&self) -> view::SinceReset {
        let ports = self.ports();
        view::SinceReset { since_reset_seconds: 0.5, reset: true, total_packets: ports.packets, ports }
    }

    fn reset(&self) {}

    fn macs(&self) -> view::MacTable {
        let entry = view::MacEntry {
            mac: "02:00:00:00:00:01".into(),
            vlan: 0,
            port: "a".into(),
            age_seconds: 3,
            fixed: false,
            moves: 2,
        };
        view::MacTable { macs: vec![entry] }
    }

    fn set_link(&self, port: &str, _: bool) -> Result<(), String> {
        if port == "a" { Ok(()) } else { Err(format!("there is no port {port}; the ports are a")) }
    }

    fn set_promiscuous(&self, port: &str, on: bool) -> Result<(), String> {
        self.set_link(port, on)
    }

    fn set_mtu(&self, port: &str, bytes: u32) -> Result<(), String> {
        let fits = bytes <= 2000;
        self.set_link(port, fits).and(fits.then_some(()).ok_or_else(|| format!("mtu = {bytes}: at most 2000")))
    }

    fn set_fault(&self, port: &str, _: Option<&FaultSpec>) -> Result<(), String> {
        self.set_link(port, true)
    }

    fn tables(&self) -> &Tables {
        &self.0
    }

    fn add_port(&self, port: &NewPort) -> Result<view::Port, String> {
        if port.name == "a" {
            return Err("port a: there is one of this name; the ports are a".into());
        }
        Ok(view::Port { name: port.name.clone(), mtu_bytes: port.mtu_bytes, ..view::Port::default() })
    }

    fn remove_port(&self, port: &str) -> Result<view::Port, String> {
        self.set_link(port, false).map(|()| self.ports().ports.remove(0))
    }

    fn reload(&self) -> Result<view::Reloaded, String> {
        Ok(view::Reloaded { changes: vec!["port b = null added".into()] })
    }

    fn observers(&self) -> &Observers {
        &self.1
    }

    fn observed_ports(&self) -> Vec<observers::ObservedPort> {
        vec![observers::ObservedPort { id: 3, name: "a".into(), dev: "memory".into(), mtu_bytes: 1500 }]
    }
}

/// The socket is there as long as the first part of the answer.
fn served() -> ((tempfile::TempDir, socket::SocketFile), PathBuf, Client) {
    let dir = tempfile::tempdir().unwrap();
    let (listener, file) = socket::listen("weir", Some(dir.path().join("weir.sock")), Default::default()).unwrap();
    serve(listener, None, Arc::new(fake())).unwrap();
    let (path, client) = (file.path.clone(), Client::connect(file.path.clone()).unwrap());
    ((dir, file), path, client)
}

fn refused<T>(answer: Result<T, ClientError>) -> String {
    match answer {
        Err(ClientError::Refused { error }) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[test]
fn documents_go_round() {
    let (_dir, _, client) = served();
    assert_eq!(client.get::<view::Ports>("/v1/ports").unwrap(), fake().ports());
    assert_eq!(client.get::<view::MacTable>("/v1/macs").unwrap(), fake().macs());
    let query = HeavyQuery { top: 3, threshold: 49, seconds: 1.5, ..HeavyQuery::default() };
    let heavy: Claimed<HeavyFlows> = client.get("/v1/heavy?top=3&threshold=49&seconds=1.5").unwrap();
    let own = super::tests::heavy().ask(&query.query(Task::Heavy).unwrap()).unwrap();
    assert_eq!(*heavy, *own.into_document::<HeavyFlows>().unwrap());
    assert_eq!(heavy.heavy.iter().map(|flow| flow.bytes).collect::<Vec<_>>(), [Some(50), Some(49)]);
    assert_eq!(heavy.claim.seconds, 1.0);
    let all: Claimed<HeavyFlows> = client.get("/v1/heavy").unwrap();
    assert_eq!(all.heavy.len(), HeavyQuery::default().top);
    assert_eq!(client.get::<view::Status>("/v1/status").unwrap(), fake().status());
    assert_eq!(client.get::<view::SinceReset>("/v1/ports/since-reset").unwrap(), fake().since_reset());
    assert_eq!(client.put::<view::SinceReset>("/v1/reset", &()).unwrap(), fake().since_reset());
    for format in [metrics::Format::Openmetrics, metrics::Format::Prometheus] {
        let text = client.text("/metrics", format.content_type()).unwrap();
        assert_eq!(text, metrics::text(&fake().status(), Vec::new(), Default::default(), format));
    }
    let link: Link = client.put("/v1/ports/a/link", &Link { up: false }).unwrap();
    assert!(!link.up);
    let on: Promiscuous = client.put("/v1/ports/a/promiscuous", &Promiscuous { on: true }).unwrap();
    assert!(on.on);
    assert_eq!(client.put::<Mtu>("/v1/ports/a/mtu", &Mtu { mtu_bytes: 1400 }).unwrap().mtu_bytes, 1400);
    for fault in [Some("rx:drop=0.01;tx:delay=5ms".parse().unwrap()), None] {
        let fault = Fault { fault };
        assert_eq!(client.put::<Fault>("/v1/ports/a/fault", &fault).unwrap(), fault);
    }
}

#[test]
fn a_time_that_is_none_is_refused() {
    let (_dir, _, client) = served();
    for seconds in ["NaN", "-1", "-0.001", "inf", "-inf", "1e999"] {
        let heavy = client.get::<Claimed<HeavyFlows>>(&format!("/v1/heavy?seconds={seconds}"));
        let error = heavy.unwrap_err().to_string();
        assert!(error.contains("a number from 0 up"), "{seconds}: {error}");
    }
    client.get::<Claimed<HeavyFlows>>("/v1/heavy?seconds=0").unwrap();
}

#[test]
fn what_cannot_be_done_is_refused_with_a_message() {
    let (_dir, _, client) = served();
    let heavy = |query: &str| refused(client.get::<Claimed<HeavyFlows>>(&format!("/v1/heavy?{query}")));
    assert_eq!(heavy("seconds=1000"), "nothing is kept for as long");
    assert!(heavy("top=many").contains("top: invalid digit"), "{}", heavy("top=many"));
    assert!(heavy("tops=3").contains("unknown field `tops`, expected one of `top`, `threshold`, `seconds`"));
    let link = |path: &str, body| refused(client.put::<Link>(path, &body));
    assert_eq!(link("/v1/ports/b/link", serde_json::json!({"up": true})), "there is no port b; the ports are a");
    assert!(link("/v1/ports/a/link", serde_json::json!({"upp": true})).contains("unknown field `upp`"));
    assert!(link("/v1/ports/a/link", serde_json::json!({"up": 1})).contains("expected a boolean"));
    let port = |path: &str, body| refused(client.put::<serde_json::Value>(path, &body));
    assert_eq!(port("/v1/ports/a/mtu", serde_json::json!({"mtu_bytes": 9000})), "mtu = 9000: at most 2000");
    assert_eq!(port("/v1/ports/b/promiscuous", serde_json::json!({"on": true})), "there is no port b; the ports are a");
    assert!(port("/v1/ports/a/mtu", serde_json::json!({"mtu_bytes": -1})).contains("expected u32"));
    assert!(port("/v1/ports/a/promiscuous", serde_json::json!({"up": true})).contains("unknown field `up`"));
    let fault = |body| port("/v1/ports/a/fault", body);
    assert!(fault(serde_json::json!({"fault": "rx:lose=1"})).contains("lose: no such setting; there are drop"));
    // A key that is missing or has another name ends no faults.
    assert!(fault(serde_json::json!({})).contains("missing field `fault`"));
    assert!(fault(serde_json::json!({"faults": null})).contains("unknown field `faults`"));
    let nothing = refused(client.get::<view::Ports>("/v1/weather"));
    assert_eq!(nothing, "GET /v1/weather: this switch has no such answer");
    let evicted = refused(client.delete::<view::EvictedSwitch>("/v1/switches/edge1"));
    assert_eq!(evicted, "this is a switch, and only a controller answers that");
    assert!(refused(client.get::<Link>("/v1/ports/a/link")).starts_with("GET /v1/ports/a/link"));
    assert!(matches!(client.get::<view::MacTable>("/v1/ports"), Err(ClientError::Broken { .. })), "another document");
}

#[test]
fn tables_are_listed_shown_and_changed_as_a_whole() {
    let (_dir, _, client) = served();
    let change = |n| Change { op: Op::Add, entry: serde_json::json!({ "n": n }) };
    let post = |changes| client.post::<view::TableChanged>("/v1/tables/numbers", &Changes { changes });
    assert_eq!(client.get::<view::Tables>("/v1/tables").unwrap().tables[0].name, "numbers");
    assert_eq!(
        refused(post(vec![change(3), change(30)])),
        "change 2, add {\"n\":30}: n is below 10; nothing was changed"
    );
    assert_eq!(client.get::<view::TableRows>("/v1/tables/numbers").unwrap().rows.len(), 2, "none of them");
    assert_eq!(post(vec![change(3), change(4)]).unwrap().table.entries, 4);
    // As many as a body of 1 MiB holds: `{"changes":[]}`, and for each 28 bytes and a comma.
    let max = ((1 << 20) - 13) / 29;
    assert_eq!(post(vec![change(5); max]).unwrap().changed, max);
    let many = refused(post(vec![change(5); max + 1]));
    assert_eq!(many, "the request has 1048595 bytes; a switch takes at most 1048576. Send it in parts");
    let unknown = client.get::<view::TableRows>("/v1/tables/letters");
    assert_eq!(refused(unknown), "there is no table letters; the tables are numbers");
    let misread =
        client.post::<view::TableChanged>("/v1/tables/numbers", &serde_json::json!({"changes": [{"op": "ad"}]}));
    assert!(refused(misread).contains("unknown variant `ad`, expected one of `add`, `set`, `remove`"));
}

/// Each pattern of a list has the answer that it has alone. A list that is too long or has a wrong pattern is
/// refused as a whole.
#[test]
fn several_flows_are_asked_for_at_once() {
    let (_socket, _path, client) = served();
    let post = |flows: &[&str]| {
        let flows = Flows { flows: flows.iter().map(|flow| (*flow).to_owned()).collect() };
        client.post::<view::Frequencies>("/v1/frequency?seconds=60", &flows)
    };
    let patterns = [FLOW, "* → *", "10.0.0.9 → *"];
    let all = post(&patterns).unwrap();
    for (pattern, answered) in patterns.iter().zip(&all.frequencies) {
        let path = format!("/v1/frequency?seconds=60&flow={}", pattern.replace(' ', "%20"));
        let alone: Claimed<crate::answers::Frequency> =
            client.get(&path.replace('→', "->").replace('>', "%3E")).unwrap();
        assert_eq!((answered.flow.clone(), answered.count()), (alone.flow.clone(), alone.count()), "{pattern}");
    }
    assert_eq!(all.frequencies.len(), 3);
    let page = all.page().to_text(crate::output::Style::default());
    assert!(page.contains("10.0.0.9 → *"), "{page}");
    assert_eq!(post(&[]).unwrap().frequencies, []);
    assert!(refused(post(&["10.0.0.1 ="])).contains("no source, arrow and destination"));
    let refused_as_too_many = refused(post(&vec![FLOW; Flows::MOST + 1]));
    assert_eq!(refused_as_too_many, "1001 flows: a question is about at most 1000");
}

#[test]
fn ports_come_and_go() {
    let (_dir, _, client) = served();
    let new = |name: &str| serde_json::json!({"name": name, "dev": "null"});
    assert_eq!(client.post::<view::Port>("/v1/ports", &new("b")).unwrap().mtu_bytes, 1500);
    let taken = refused(client.post::<view::Port>("/v1/ports", &new("a")));
    assert_eq!(taken, "port a: there is one of this name; the ports are a");
    let wrong = serde_json::json!({"name": "c", "dev": "ufo:1"});
    assert!(refused(client.post::<view::Port>("/v1/ports", &wrong)).contains("`ufo:1` is no device"));
    assert_eq!(client.delete::<view::Port>("/v1/ports/a").unwrap().counts.rx_packets, 7);
    assert_eq!(refused(client.delete::<view::Port>("/v1/ports/b")), "there is no port b; the ports are a");
    let reloaded: view::Reloaded = client.post("/v1/reload", &()).unwrap();
    assert_eq!(reloaded.changes, ["port b = null added"]);
}

#[test]
fn over_tcp_there_are_metrics_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    serve_metrics(listener, Arc::new(fake())).unwrap();
    let ask = |request: &str, accept: &str| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nhost: weir\r\nconnection: close\r\naccept: {accept}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let metrics = ask("GET /metrics", "application/openmetrics-text;version=1.0.0,*/*;q=0.1");
    assert!(metrics.contains("content-type: application/openmetrics-text; version=1.0.0"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    let plain = ask("GET /metrics", "*/*");
    assert!(plain.contains("content-type: text/plain; version=0.0.4") && !plain.contains("# EOF"), "{plain}");
    for other in ["GET /v1/ports", "PUT /v1/reset", "PUT /v1/ports/a/link", "POST /metrics"] {
        let answer = ask(other, "*/*");
        assert!(answer.starts_with("HTTP/1.1 404") || answer.starts_with("HTTP/1.1 405"), "{other}: {answer}");
    }
}

#[test]
fn nobody_at_the_socket() {
    let (_dir, path, client) = served();
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(client.get::<view::Ports>("/v1/ports"), Err(ClientError::NoSwitch { .. })));
}

#[test]
fn something_else_at_the_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let other = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"220 mail.example.org ESMTP\r\n");
    });
    let answer = Client::connect(path).unwrap().get::<view::Ports>("/v1/ports");
    assert!(matches!(answer, Err(ClientError::Broken { .. })));
    other.join().unwrap();
}

/// A client that is killed while its trace waits gives its place back, whatever time it had asked
/// for.
#[test]
fn a_trace_ends_with_its_client() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let (_dir, path, client) = served();
    let trace = |seconds: u32| {
        let body = format!("{{\"timeout_seconds\": {seconds}}}");
        let mut stream = UnixStream::connect(&path).unwrap();
        let head = "POST /v1/trace HTTP/1.1\r\nhost: weir\r\ncontent-type: application/json\r\ncontent-length:";
        write!(stream, "{head} {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        (String::from_utf8_lossy(&answer).into_owned(), stream)
    };
    let waiting: Vec<_> = (0..4).map(|_| trace(3600)).collect();
    assert!(waiting.iter().all(|(answer, _)| answer == "HTTP/1.1 200"), "{waiting:?}");
    assert_eq!(trace(1).0, "HTTP/1.1 400", "all places are taken");
    drop(waiting);
    let end = Instant::now() + Duration::from_secs(10);
    let wait = || {
        assert!(Instant::now() < end, "the places are not given back");
        std::thread::sleep(Duration::from_millis(20));
    };
    let taken_again = |_| {
        loop {
            match trace(3600) {
                (answer, stream) if answer == "HTTP/1.1 200" => break stream,
                _ => wait(),
            }
        }
    };
    drop((0..4).map(taken_again).collect::<Vec<_>>());
    assert_eq!(trace(3601).0, "HTTP/1.1 400", "longer than any may wait");
    // Blanks before an answer are nothing to a reader of JSON.
    let query = observers::TraceQuery { timeout_seconds: 1.5, ..Default::default() };
    let nothing = loop {
        match client.post::<Option<view::packet::Packet>>("/v1/trace", &query) {
            Err(ClientError::Refused { .. }) => wait(),
            answer => break answer.unwrap(),
        }
    };
    assert_eq!(nothing, None);
}

#[test]
fn a_switch_that_says_nothing_is_given_ten_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("silent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let waited = |ask: fn(&Client) -> Result<view::Ports, ClientError>| {
        let started = Instant::now();
        let answer = ask(&Client::connect(path.clone()).unwrap());
        assert!(matches!(answer, Err(ClientError::Broken { why, .. }) if why == "the switch does not answer"));
        started.elapsed().as_secs_f64()
    };
    let (answer, trace) = std::thread::scope(|scope| {
        let trace = scope.spawn(|| waited(|client| client.post_within("/v1/trace", &(), Duration::from_secs(2))));
        (waited(|client| client.get("/v1/ports")), trace.join().unwrap())
    });
    assert!((9.8..15.0).contains(&answer) && (11.8..17.0).contains(&trace), "{answer} s, {trace} s");
    drop(listener);
}

/// The document that a service answers to a question.
fn answered<A: Answering>(service: Arc<A>, question: &str) -> serde_json::Value {
    let router = super::routes::ApiRoutes::<Arc<A>>::new().tasks().router(super::answers::only_metrics, service);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let request = format!("GET /v1/{question} HTTP/1.1\r\nhost: weir\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    runtime.block_on(serve::converse(tokio::io::join(request.as_bytes(), &mut answer), router));
    let answer = String::from_utf8(answer).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// What a program keeps that answers paths.
struct KeptPaths(PathAnswers);

impl Kept for KeptPaths {
    fn bytes(&self) -> usize {
        0
    }
}

impl Answers for KeptPaths {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        (query.task == Task::Paths).then(|| Paths::over(epochs, query, |kept| Some(&kept.0)))
    }
}

/// Two programs: one counts flows, the other knows the paths of all but the heaviest.
struct Beside;

impl Answering for Beside {
    fn history(&self, task: Task, _: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        if task != Task::Paths {
            return Ok(heavy());
        }
        let switches = |port: u16| vec![Some("a".into()), Some(if port.is_multiple_of(2) { "b" } else { "c" }.into())];
        let path = |port: u16| FlowPath {
            switches: switches(port).into(),
            certainty: Certainty::Sure,
            ..FlowPath::of(FlowName::Flow(Flow { sport: Some(port), ..Flow::default() }))
        };
        let history = History::new(Room { epochs: 9, bytes: usize::MAX });
        let flows = (1..50).map(path).collect();
        history.push(Entry::new(5, KeptPaths(PathAnswers { flows, ..PathAnswers::default() })));
        Ok(Arc::new(history))
    }
}

/// The paths are those of the program beside the one that is asked. A flow without one is left out.
#[test]
fn flows_are_chosen_by_paths_of_another_program() {
    let ports = |question: &str| {
        let document = answered(Arc::new(Beside), question);
        let heavy = document["heavy"].as_array().unwrap();
        let ports: Vec<_> = heavy.iter().map(|flow| flow["flow"]["sport"].as_u64().unwrap()).collect();
        (ports, document["incomplete"].as_array().unwrap().contains(&"paths_unknown".into()))
    };
    assert_eq!(ports("heavy?top=3"), (vec![50, 49, 48], false));
    assert_eq!(ports("heavy?top=3&path=a,b"), (vec![48, 46, 44], true));
    assert_eq!(ports("heavy?top=3&path=c"), (vec![49, 47, 45], true));
    assert_eq!(ports("heavy?top=3&path=b,a"), (vec![], true));
    let none = answered(Arc::new(fake()), "heavy?path=a");
    assert!(none["error"].as_str().unwrap().contains("chosen by the paths that another program answers"), "{none}");
}

/// A live switch's programs, each with four epochs.
struct Registry(claims::Programs);

impl Registry {
    /// The document of a task as a client gets it; `route` is that of the task.
    fn document(self: &Arc<Self>, program: &str, task: Task, route: &str) -> serde_json::Value {
        let flow = if task == Task::Frequency {
            format!("&flow={}", FLOW.replace(' ', "%20").replace('>', "%3E"))
        } else {
            String::new()
        };
        answered(self.clone(), &format!("{route}?program={program}&seconds=3{flow}"))
    }
}

impl Answering for Registry {
    fn history(&self, _: Task, query: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        let of = |(program, _): &&(ProgramConfig, Arc<dyn Queryable>)| Some(program.name()) == query.program.as_deref();
        let (_, history) = self.0.iter().find(of).ok_or("no such program")?;
        Ok(history.clone())
    }
}

/// No answer is zero without a word: whatever the task and the driver, the document and its page say
/// which epochs they cover and which were not analysed, what is missing and of which switch, and
/// whether they are complete and final.
#[test]
fn every_document_says_what_is_missing() {
    let documents: usize = claims::cases().map(|case| case.hold()).sum();
    assert!(documents > 250, "{documents}");
}

#[test]
fn every_task_has_its_route() {
    let registry = Arc::new(Registry(claims::programs()));
    for (program, history) in &registry.0 {
        for task in Task::ALL.into_iter().filter(|task| program.rank(*task).is_some()) {
            let entropy = (task == Task::Cardinality).then_some("entropy");
            for route in [task.name()].into_iter().chain(entropy) {
                let document = registry.document(program.name(), task, route);
                assert_eq!(document, claims::expected(history, task), "{route} of {}", program.name());
            }
        }
    }
}

/// A gap that is found late is in the changes to the next epoch as well.
#[test]
fn changes_lack_what_the_epoch_before_lacks() {
    let mut programs = claims::programs();
    programs.retain(|(program, _)| program.rank(Task::Changes).is_some());
    assert!(!programs.is_empty());
    for (_, history) in &programs {
        let changes = || claims::expected(history, Task::Changes);
        let why = |changes: &serde_json::Value| changes["incomplete"].as_array().unwrap().clone();
        let small = ["below_threshold".into(), "unnamed".into()];
        assert!(why(&changes()).iter().all(|reason| small.contains(reason)), "{}", changes());
        let mut sequence = changes()["sequence"].as_u64().unwrap();
        history.spoil(claims::FIRST + 2, &"away".into(), Gap::Missing);
        let changes = changes();
        assert_eq!(changes["gaps"][0]["switch"], "away", "{changes}");
        assert!(why(&changes).contains(&"gap".into()), "{changes}");
        let amended = [(); 2].map(|()| {
            let claim = history.ask(&Query::new(Task::Changes, Window::Since { sequence })).unwrap().claim;
            sequence = claim.sequence;
            claim.last_epoch
        });
        assert_eq!(amended, [Some(claims::FIRST + 2), Some(claims::FIRST + 3)], "both are told again");
    }
}
