//! The live page in a browser: Debian's headless Chromium reads a simulation.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::skip::{Lack, skip};

const BROWSERS: [&str; 3] = ["chromium-headless-shell", "chromium", "chromium-browser"];

/// A simulation with a page, ended with the test.
struct Simulated {
    child: Child,
    address: String,
}

impl Simulated {
    fn new(arguments: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["sim", "--page", "127.0.0.1:0"]).args(arguments.split_whitespace());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut addresses = lines.filter_map(|line| Some(line.split_once("http://")?.1.split('/').next()?.to_owned()));
        let address = addresses.next().expect("the address of the page");
        // Whatever else it says is read, so that it never waits.
        std::thread::spawn(move || addresses.for_each(drop));
        Self { child, address }
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The document as the browser has it after some pushes.
fn dom(page: &Simulated, path: &str) -> Option<String> {
    let started = |browser: &&str| Command::new(browser).arg("--version").output().is_ok();
    let browser = BROWSERS.iter().find(started)?;
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg("--virtual-time-budget=8000")
        .arg(format!("http://{}{path}", page.address))
        .output()
        .unwrap();
    let dom = String::from_utf8(output.stdout).unwrap();
    assert!(dom.contains("<main"), "{}", String::from_utf8_lossy(&output.stderr));
    Some(dom)
}

/// The text between two others.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from:?} in {text}"));
    rest.split(to).next().unwrap()
}

#[test]
fn a_browser_keeps_the_page_as_it_is_pushed() {
    let page = Simulated::new("--topology line:3 --workload hadoop/uniform,flows=200 --loss link=0,rate=1% --program chamelemon --program pint --program hopcounters --epoch 100ms");
    let Some(dom) = dom(&page, "/") else {
        return skip("a_browser_keeps_the_page_as_it_is_pushed", Lack::Machine, "no chromium-headless-shell; make setup");
    };
    assert_eq!(between(&dom, "id=\"status\"", "</p>").rsplit('>').next(), Some("live"), "the stream is read");
    assert_eq!(dom.matches("data-node=").count(), 3);
    assert!(dom.contains("<g id=\"link-0\"") && dom.contains("class=\"l3"), "the first link loses most");
    let losses = between(&dom, "<section id=\"losses\"", "</section>");
    assert!(losses.contains("s0:l0 → s1:l0") && losses.contains("since"), "{losses}");
    assert!(dom.contains("data-took="), "an event was put in place");
    // A chosen flow stands with its hops, and on the map.
    let heavy = between(&dom, "<section id=\"heavy\"", "</section>");
    let flow = between(heavy, "href=\"", "\"").replace("&amp;", "&");
    let chosen = self::dom(&page, &flow).unwrap();
    assert!(between(&chosen, "<section id=\"flow\"", "</section>").contains("s0 → s1 → s2"), "{chosen}");
    assert!(chosen.contains("data-node=\"s1\"") && chosen.matches(" on\"").count() >= 3, "the path is marked");
}
