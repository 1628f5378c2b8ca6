//! The page as a browser gets it, of a source whose epochs close when a test says so.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use super::*;
use crate::answers::{FlowCount, FlowName, FoundFlows, HeavyFlows, Queryable, Task};
use crate::api::tests::fake;
use crate::api::{HeavyQuery, document};
use crate::history::{AnyHistory, Entry, History, Room};
use crate::program::KeptFlows;
use crate::program::hashpipe::Counts;
use crate::web::events::READERS;
use crate::wire::Flow;

/// A program that finds heavy flows, and a time that is controlled.
#[derive(Clone)]
struct Living {
    history: History<KeptFlows<Counts>>,
    asked: Arc<AtomicUsize>,
    pace: Arc<Pace>,
}

impl Living {
    fn new() -> Self {
        let history = History::new(Room { epochs: 9, bytes: usize::MAX });
        history.set_length(500_000_000);
        Self { history, asked: Arc::default(), pace: Arc::default() }
    }

    /// An epoch closes in which a flow from this port was heavy.
    fn closes(&self, epoch: u64, port: u16) {
        let src = Some([10, 0, 0, 1].into());
        let flow = FlowName::Flow(Flow { src, sport: Some(port), ..Flow::default() });
        let flows = vec![FlowCount { flow, count: 7.into() }];
        let found = FoundFlows { flows, ..FoundFlows::default() };
        let mut entry = Entry::new(epoch, KeptFlows::<Counts>::new(&found));
        entry.finality.is_final = true;
        entry.switches = vec!["<s1>".into()];
        self.history.push(entry);
    }
}

impl Answering for Living {
    fn is_live(&self) -> bool {
        false
    }

    fn history(&self, task: Task, _: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        self.asked.fetch_add(1, SeqCst);
        if task == Task::Heavy { Ok(Arc::new(self.history.clone())) } else { Err("nothing <answers> this".into()) }
    }
}

impl Source for Living {
    const KIND: &'static str = "simulation";

    fn name(&self) -> String {
        "<b>name".into()
    }

    fn map(&self) -> Map {
        let mut map = Map::default();
        map.link([("<s1>", "a"), ("s2", "b")]);
        map
    }

    fn drops(&self) -> Option<Page> {
        Some(Page::default().text("no packet was dropped"))
    }

    fn pace(&self) -> Option<&Pace> {
        Some(&self.pace)
    }
}

struct Browser(SocketAddr);

impl Browser {
    fn of<S: Source>(source: S) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve(listener, &["page.example".into()], Arc::new(source)).unwrap();
        Self(address)
    }

    fn send(&self, request: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.0).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "{request} HTTP/1.1\r\n{headers}connection: close\r\n\r\n").unwrap();
        stream
    }

    /// The head and the body of an answer.
    fn ask(&self, request: &str, headers: &str) -> (String, String) {
        let mut text = String::new();
        self.send(request, headers).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    fn get(&self, path: &str) -> (String, String) {
        self.ask(&format!("GET {path}"), "host: localhost\r\n")
    }
}

/// The ids of sections in their order.
fn sections(html: &str) -> Vec<&str> {
    html.split("<section id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

/// The lines of events, and what they hold.
struct Events(BufReader<TcpStream>);

impl Events {
    fn of(browser: &Browser, seen: u64) -> Self {
        let stream = browser.send(&format!("GET /events?seen={seen}"), "host: localhost\r\n");
        Self(BufReader::new(stream))
    }

    fn line(&mut self, begins: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended before {begins:?}");
            if let Some(rest) = line.trim_end().strip_prefix(begins) {
                return rest.trim_start().to_owned();
            }
        }
    }

    /// The elements of the next event, by id.
    fn next(&mut self) -> Vec<(String, String)> {
        serde_json::from_str(&self.line("data:")).unwrap()
    }
}

#[test]
fn a_page_has_the_answers_of_the_api() {
    let living = Living::new();
    living.closes(3, 1234);
    let (head, html) = Browser::of(living.clone()).get("/");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-type: text/html; charset=utf-8"), "{head}");
    assert_eq!(sections(&html), ["claims", "map", "flow", "heavy", "drops"]);
    let answer = document(&living, Task::Heavy, &HeavyQuery::default()).unwrap();
    let answer = answer.into_document::<HeavyFlows>().unwrap();
    assert!(html.contains(&answer.heavy[0].name.to_string()), "{html}");
    assert!(html.contains(answer.claim.text("all heavy flows").lines().next().unwrap()), "{html}");
    // Names are text, whatever they hold.
    assert!(html.contains("&lt;b&gt;name") && html.contains("&lt;s1&gt;") && !html.contains("<b>name"), "{html}");
    let [_, script, style] = ["/", "/page.js", "/page.css"].map(|path| Browser::of(Living::new()).get(path).1);
    assert!(script.contains("EventSource") && style.contains("prefers-color-scheme"));
    // Nothing is loaded from elsewhere, and nothing is written into elements that would run or style.
    for text in [&html, &script, &style] {
        assert!(!text.contains("//cdn") && !text.contains("https:") && !text.contains("@import"), "{text}");
    }
    assert!(!html.contains("style=") && !html.contains("onclick") && !html.contains("<script>"), "{html}");
}

/// A switch has its ports on the map, and its drops.
#[test]
fn a_switch_shows_its_ports() {
    let (_, html) = Browser::of(SwitchSource::new(Arc::new(fake()))).get("/");
    assert!(sections(&html).contains(&"drops"), "{html}");
    assert!(html.contains("data-node=\"weir\"") && html.contains("data-node=\"a\""), "{html}");
    // The counts of ports can be read without a pointer.
    assert!(html.contains("<td>a</td>") && html.contains("packets in, "), "{html}");
}

#[test]
fn each_epoch_is_pushed_and_nothing_else() {
    let living = Living::new();
    living.closes(3, 1000);
    let browser = Browser::of(living.clone());
    let (_, html) = browser.get("/");
    let frame: u64 = html.split("data-frame=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    let mut events = Events::of(&browser, frame);
    living.closes(4, 2000);
    let mut epoch = 4;
    // A frame may have been made between the page and the epoch.
    let changed = events.next();
    assert!(changed.iter().all(|(id, _)| ["heavy", "claims"].contains(&&**id)), "{changed:?}");
    let has = |changed: &[(String, String)], port: &str| {
        changed.iter().any(|(id, html)| id == "heavy" && html.contains(port))
    };
    assert!(has(&changed, "2000"), "{changed:?}");
    for port in [3000, 4000] {
        epoch += 1;
        living.closes(epoch, port);
        assert!(has(&events.next(), &port.to_string()));
    }
    // A reader of a page that another process made is given all.
    let all = Events::of(&browser, 1).next();
    let ids: Vec<_> = all.iter().map(|(id, _)| &**id).collect();
    assert_eq!(ids, ["head", "claims", "map", "heavy", "drops"]);
}

#[test]
fn nothing_is_asked_without_readers() {
    let living = Living::new();
    let browser = Browser::of(living.clone());
    browser.get("/page.js");
    assert_eq!(living.asked.load(SeqCst), 0);
    Events::of(&browser, 0).next();
    assert!(living.asked.load(SeqCst) > 0);
}

#[test]
fn readers_are_bounded() {
    let browser = Browser::of(Living::new());
    let mut readers: Vec<_> = (0..READERS).map(|_| Events::of(&browser, 0)).collect();
    readers.iter_mut().for_each(|events| drop(events.next()));
    assert!(browser.get("/events?seen=0").0.starts_with("HTTP/1.1 503"));
    assert!(browser.get("/").0.starts_with("HTTP/1.1 200"), "a page is still shown");
}

#[test]
fn other_hosts_are_refused() {
    let browser = Browser::of(Living::new());
    for host in ["127.0.0.1:8080", "page.example", "[::1]"] {
        let (head, _) = browser.ask("GET /", &format!("host: {host}\r\n"));
        assert!(head.starts_with("HTTP/1.1 200"), "{host}: {head}");
        assert!(
            head.contains("content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';"),
            "{head}"
        );
        assert!(head.contains("x-content-type-options: nosniff") && !head.contains("unsafe-"), "{head}");
    }
    for (path, headers) in [("/", "host: evil.example\r\n"), ("/events", "host: evil.example\r\n"), ("/", "")] {
        let (head, body) = browser.ask(&format!("GET {path}"), headers);
        assert!(head.starts_with("HTTP/1.1 421") || head.starts_with("HTTP/1.1 400"), "{path} {headers}: {head}");
        assert!(!body.contains("evil") && !body.contains("<"), "{body}");
    }
}

#[test]
fn what_is_asked_is_typed_and_never_repeated() {
    let browser = Browser::of(Living::new());
    let long = format!("/?flow=10.0.0.1+-%3E+*{}", "+".repeat(300));
    for path in [
        "/?flow=%3Cscript%3E",
        "/flow?flow=%3Cscript%3E",
        "/?x=%3Cscript%3E",
        "/?flow=1&flow=2",
        "/events?seen=x",
        &long,
    ] {
        let (head, body) = browser.get(path);
        assert!(head.starts_with("HTTP/1.1 400"), "{path}: {head}");
        assert!(!body.contains("script") && !body.contains('<'), "{path}: {body}");
    }
    assert!(browser.get("/%3Cscript%3E").0.starts_with("HTTP/1.1 404"));
    let (head, html) = browser.get("/?flow=10.0.0.1%20-%3E%20*");
    assert!(head.starts_with("HTTP/1.1 200") && html.contains("<strong>10.0.0.1 → *</strong>"), "{html}");
}

#[test]
fn only_the_pace_can_be_changed() {
    let living = Living::new();
    let browser = Browser::of(living.clone());
    let post = |path: &str, origin: &str| {
        browser.ask(&format!("POST {path}"), &format!("host: localhost\r\norigin: {origin}\r\ncontent-length: 0\r\n")).0
    };
    assert!(post("/pace/pause", "http://evil.example").starts_with("HTTP/1.1 421"));
    assert_eq!(living.pace.text(), "1 × real time");
    assert!(post("/pace/pause", "http://localhost").starts_with("HTTP/1.1 303"));
    assert_eq!(living.pace.text(), "paused");
    assert!(post("/pace/stop", "http://localhost").starts_with("HTTP/1.1 404"));
    for path in ["/", "/flow", "/events"] {
        assert!(post(path, "http://localhost").starts_with("HTTP/1.1 405"), "{path}");
    }
    let switch = Browser::of(SwitchSource::new(Arc::new(fake())));
    let (head, _) = switch.ask("POST /pace/pause", "host: localhost\r\ncontent-length: 0\r\n");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
}
