//! The live page in a browser: Debian's headless Chromium reads a simulation.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::skip::{Lack, skip};

const BROWSERS: [&str; 3] = ["chromium-headless-shell", "chromium", "chromium-browser"];

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A simulation with a page, and the page's address.
fn simulated(arguments: &str) -> (Running, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["sim", "--page", "127.0.0.1:0"]).args(arguments.split_whitespace());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut addresses = lines.filter_map(|line| Some(line.split_once("http://")?.1.split('/').next()?.to_owned()));
    let address = addresses.next().expect("the address of the page");
    // Whatever else it says is read, so that it never waits.
    std::thread::spawn(move || addresses.for_each(drop));
    (Running(child), address)
}

/// A browser that is driven by the DevTools protocol, over a pipe.
struct Browser {
    _child: Running,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<Value>,
    sent: u64,
    _profile: TempDir,
}

impl Browser {
    /// `None` where there is no browser.
    fn open(url: &str) -> Option<Self> {
        let starts = |browser: &&&str| Command::new(browser).arg("--version").output().is_ok();
        let name = BROWSERS.iter().find(starts)?;
        let profile = tempfile::tempdir().unwrap();
        // The protocol's pipes are the file descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 >/dev/null 2>&1", name]);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--remote-debugging-pipe", &format!("--user-data-dir={}", profile.path().display())]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Self { _child: Running(child), to, from, session: None, sent: 0, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": url }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        browser.session = Some(browser.call("Target.attachToTarget", target)["sessionId"].clone());
        Some(browser)
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": parameters });
        message.as_object_mut().unwrap().extend(self.session.clone().map(|session| ("sessionId".into(), session)));
        write!(self.to, "{message}\0").unwrap();
        loop {
            let mut answer = Vec::new();
            assert!(self.from.read_until(0, &mut answer).unwrap() > 0, "the browser has ended");
            let answer: Value = serde_json::from_slice(&answer[..answer.len() - 1]).unwrap();
            if answer["id"] == self.sent {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The value of an expression in the page.
    fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        self.call("Runtime.evaluate", parameters)["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    fn until(&mut self, expression: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.value(expression) != true {
            assert!(Instant::now() < end, "{expression}; the page: {}", self.value("document.body.innerText"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_browser_keeps_the_page_as_it_is_pushed() {
    let (_simulation, address) = simulated(
        "--topology line:3 --workload hadoop/uniform,flows=200 --loss link=0,rate=3% --epoch 100ms \
         --program chamelemon --program pint --program hopcounters",
    );
    let Some(mut browser) = Browser::open(&format!("http://{address}/")) else {
        let lack = "there is no chromium-headless-shell; make setup installs it";
        return skip("a_browser_keeps_the_page_as_it_is_pushed", Lack::Machine, lack);
    };
    browser.until("document.getElementById('status')?.textContent === 'live'");
    browser.until("document.querySelectorAll('#map [data-node]').length === 3");
    // The link that loses is drawn as one, and said in words.
    browser.until("document.querySelector('#link-0 line')?.classList.contains('l4')");
    browser.until(
        "/s0:l0 → s1:l0: .*lost .* since/.test(document.querySelector('#link-0 title').textContent.replace(/\\n/g, ' '))",
    );
    browser.until("document.querySelector('#losses').innerText.includes('s0:l0 → s1:l0')");
    // Epochs go on, and what a reader has opened and focused stays so.
    browser.value("document.getElementById('claim-losses').open = true");
    browser.value("document.getElementById('pace-pause').focus()");
    browser.value("window.before = document.querySelector('#losses').innerText; 0");
    browser.until("document.querySelector('#losses').innerText !== window.before");
    browser.until("document.getElementById('claim-losses').open && document.activeElement.id === 'pace-pause'");
    // A flow is chosen by key, stands with its hops, and on the map.
    browser.value("document.querySelector('#heavy a').focus()");
    for kind in ["rawKeyDown", "char", "keyUp"] {
        browser.call(
            "Input.dispatchKeyEvent",
            json!({ "type": kind, "key": "Enter", "text": "\r", "windowsVirtualKeyCode": 13 }),
        );
    }
    browser.until("/s0 → s1 → s2|s2 → s1 → s0/.test(document.querySelector('#flow').innerText)");
    browser.until("document.querySelector('#node-1').classList.contains('on')");
    browser.until("location.search.startsWith('?flow=')");
    // A pause holds the simulation.
    browser.value("document.getElementById('pace-pause').click()");
    browser.until("document.getElementById('pace').textContent === 'paused'");
    // Nothing was refused by the policy of the page, which has neither errors nor other sources.
    assert_eq!(
        browser.value("performance.getEntriesByType('resource').every((of) => of.name.startsWith(location.origin))"),
        true
    );
}
