//! `weir lab`: the topologies of `weir sim`, live.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::common::{BINARY, Lab, Lack, eventually, skip};
use crate::rootless::User;

/// Labs with their files in a directory of this test's.
struct Labs {
    // Dropped before the directory goes.
    _guard: Guard,
    lab: Lab,
    /// The interfaces of this process's namespace before, and the namespaces that mounts hold open.
    before: (String, usize),
}

/// Removes labs when the test ends, however it ends: a lab outlives the process that starts it.
struct Guard(Child);

impl Guard {
    /// `command` is a shell that will run `line`.
    fn new(mut command: Command, line: &str) -> Self {
        command.args(["-c", &format!("read _; exec {line}")]).stdin(Stdio::piped()).process_group(0);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sh starts"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn interfaces() -> String {
    let links = Command::new("ip").args(["-oneline", "link"]).output().expect("ip runs");
    String::from_utf8(links.stdout).unwrap()
}

/// Number of namespaces that a mount holds open.
fn mounted() -> usize {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().filter(|line| line.contains(" - nsfs ")).count()
}

/// The processes with a lab's token in their environment.
fn marked(token: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_marked = |path: &PathBuf| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == format!("WEIR_LAB={token}").as_bytes())
    };
    let command = |path: PathBuf| fs::read_to_string(path.join("cmdline")).unwrap_or_default().replace('\0', " ");
    entries.filter(is_marked).map(command).collect()
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

impl Labs {
    fn new(test: &str) -> Option<Self> {
        let lab = Lab::new(test)?;
        let line = format!("{BINARY} lab --dir {} down --all", lab.directory().display());
        Some(Self { _guard: Guard::new(Command::new("sh"), &line), lab, before: (interfaces(), mounted()) })
    }

    fn path(&self) -> &Path {
        self.lab.directory()
    }

    /// `weir lab` with these words.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.arg("lab").arg("--dir").arg(self.path()).args(words).current_dir(self.path()).stdin(Stdio::null());
        command.env_remove("RUST_LOG");
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(&line.split_whitespace().collect::<Vec<_>>()).output().expect("runs")
    }

    fn json(&self, line: &str) -> Value {
        let output = self.run(&format!("{line} --json"));
        assert!(output.status.success(), "weir lab {line}: {}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What is wrong: the exit code and the message.
    fn refused(&self, line: &str, code: i32) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(code), "weir lab {line}: {}", text(&output));
        String::from_utf8(output.stderr).unwrap()
    }

    fn pings(&self, lab: &str, from: &str, to: &str, count: u32) -> bool {
        let line = format!("exec --name {lab} {from} -- ping -n -q -c {count} -i 0.01 -W 2 {to}");
        self.run(&line).status.success()
    }

    fn token(&self, lab: &str) -> String {
        let record: Value = serde_json::from_slice(&fs::read(self.record(lab)).unwrap()).unwrap();
        record["token"].as_str().unwrap().to_owned()
    }

    fn record(&self, lab: &str) -> PathBuf {
        self.path().join("labs").join(lab).join("lab.json")
    }

    /// Neither processes, nor namespaces, interfaces, sockets and files of the lab are left.
    fn is_gone(&self, lab: &str, token: &str) {
        assert_eq!(marked(token), [""; 0]);
        assert!(!self.path().join("labs").join(lab).exists());
        let files = fs::read_dir(self.path()).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        let sockets: Vec<_> =
            files.filter(|name| name.starts_with(&format!("{lab}.")) && name.ends_with(".sock")).collect();
        assert_eq!(sockets, [""; 0]);
        assert_eq!((interfaces(), mounted()), self.before);
    }
}

impl Drop for Labs {
    fn drop(&mut self) {
        if thread::panicking() {
            for log in fs::read_dir(self.path().join("labs")).into_iter().flatten().flatten() {
                let logs = fs::read_dir(log.path()).into_iter().flatten().flatten().map(|entry| entry.path());
                for path in logs.filter(|path| path.extension().is_some_and(|extension| extension == "log")) {
                    eprintln!("{}:\n{}", path.display(), fs::read_to_string(&path).unwrap_or_default());
                }
            }
        }
    }
}

/// Another command of weir's, to a switch or the controller of a lab.
fn ask(words: &str, socket: &Value) -> Value {
    let mut command = Command::new(BINARY);
    command.args(words.split_whitespace()).arg("--socket").arg(socket.as_str().expect("a path")).arg("--json");
    let output = command.stdin(Stdio::null()).output().expect("runs");
    assert!(output.status.success(), "weir {words}: {}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

const GRAPH: &str = r#"graph [
    node [ id 1 label "Porto" ] node [ id 2 label "Lisboa" ] node [ id 3 label "Faro" ]
    edge [ source 1 target 2 ] edge [ source 2 target 3 ]
]"#;

/// The names of the switches at the ends of the links that lost packets.
fn lost_in_simulation(path: &Path) -> BTreeSet<BTreeSet<String>> {
    let words = "sim --topology net.gml --epochs 2 --workload hadoop/uniform,flows=200 --loss link=1,rate=20% --json";
    let mut command = Command::new(BINARY);
    let output = command.args(words.split_whitespace()).current_dir(path).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let losses = array(&report["epochs"]).iter().flat_map(|epoch| array(&epoch["losses"]));
    let ends = |at: &Value| [&at["switch"], &at["towards"]].map(|name| name.as_str().unwrap().to_owned()).into();
    losses.map(ends).collect()
}

/// The commands under the answer of `weir lab up` run as they are printed, with a directory of one's own as well.
#[test]
fn what_is_printed_next_can_be_typed() {
    let Some(labs) = Labs::new("what_is_printed_next_can_be_typed") else { return };
    let output = labs.run("up line:2");
    assert!(output.status.success(), "{}", text(&output));
    let token = labs.token("line-2");
    let said = String::from_utf8(output.stdout).unwrap();
    let (_, next) = said.split_once("What next:\n").unwrap_or_else(|| panic!("{said}"));
    let lines: Vec<&str> = next.lines().map(str::trim).collect();
    assert!(lines.len() >= 6 && lines.iter().all(|line| line.starts_with("weir ")), "{said}");
    // One is a screen.
    for line in lines.into_iter().filter(|line| !line.starts_with("weir top ")) {
        let mut command = Command::new(BINARY);
        command.args(line.split_whitespace().skip(1)).env_remove("RUST_LOG").stdin(Stdio::null());
        let output = command.output().expect("runs");
        assert!(output.status.success(), "{line}: {}", text(&output));
    }
    labs.is_gone("line-2", &token);
}

#[test]
fn one_file_is_simulated_and_live() {
    let Some(labs) = Labs::new("one_file_is_simulated_and_live") else { return };
    fs::write(labs.path().join("net.gml"), GRAPH).unwrap();
    let simulated = lost_in_simulation(labs.path());
    assert_eq!(simulated.len(), 1, "{simulated:?}");

    let up = labs.json("up net.gml");
    assert_eq!((&up["lab"], &up["state"]), (&"net".into(), &"running".into()));
    let token = labs.token("net");
    let hosts = array(&up["hosts"]);
    // Every host reaches every other, with the first packet.
    for (from, to) in hosts.iter().flat_map(|from| hosts.iter().map(move |to| (from, to))) {
        let (from, to) = (from["name"].as_str().unwrap(), to["address"].as_str().unwrap());
        assert!(labs.pings("net", from, to, 1), "{from} to {to}");
    }
    assert_eq!(labs.json("status net"), up);

    // The same link as in the simulation loses one packet in five of one direction.
    let link = &array(&up["links"])[1];
    assert_eq!(link["link"], 1);
    let ends: BTreeSet<_> =
        array(&link["ports"]).iter().map(|end| end.as_str().unwrap().split(':').next().unwrap().to_owned()).collect();
    assert_eq!(simulated, [ends].into());
    let end = link["ports"][0].as_str().unwrap();
    let (switch, port) = end.split_once(':').unwrap();
    let socket = &array(&up["switches"]).iter().find(|of| of["name"] == switch).unwrap()["socket"];
    let controller = &up["controller"]["socket"];
    ask(&format!("port fault {port} tx:every=5"), socket);
    let dropped = || {
        let ports = ask("show ports", socket);
        let port = array(&ports["ports"]).iter().find(|of| of["name"] == port).expect("a port").clone();
        port["device"]["fault_drop"].as_u64().unwrap_or(0)
    };
    let [first, .., last] = &hosts[..] else { panic!("three hosts") };
    eventually("the link to be named", || {
        let line = format!("exec h0 -- ping -n -q -c 100 -i 0.01 -W 1 {}", last["address"].as_str().unwrap());
        labs.run(&line);
        thread::sleep(Duration::from_millis(2500));
        let answer = ask("show losses --where --last 60s --top 1000", controller);
        let failed: Vec<_> = array(&answer["places"]).iter().filter(|place| place["failed"] == true).collect();
        assert!(failed.iter().all(|place| place["switch"] == switch && place["port"] == port), "{answer}");
        let lost = failed.first()?["unexplained_packets"].as_u64()?;
        (lost == dropped() && lost >= 20).then_some(())
    });
    let paths = eventually("the path of the pings", || {
        let paths = ask("show paths --last 60s --top 1000", controller);
        let is_there =
            |path: &&Value| path["flow"]["src"] == first["address"] && path["flow"]["dst"] == last["address"];
        array(&paths["paths"]).iter().find(is_there).map(|path| path["switches"].clone())
    });
    assert_eq!(paths, serde_json::json!(["Porto", "Lisboa", "Faro"]));
    let top = Command::new(BINARY).args(["top", "--once", "--socket", controller.as_str().unwrap()]).output().unwrap();
    assert!(top.status.success(), "{}", text(&top));

    let names: Vec<_> = array(&up["switches"]).iter().map(|of| of["name"].as_str().unwrap()).collect();
    let unknown = labs.refused("exec h9 -- true", 2);
    assert!(unknown.contains("lab net has no node h9; its nodes are h0, h1, h2, Porto, Lisboa, Faro"), "{unknown}");
    assert_eq!(names, ["Porto", "Lisboa", "Faro"]);
    // By the file that it was started from.
    assert_eq!(labs.json("down net.gml")["removed"], serde_json::json!(["net"]));
    labs.is_gone("net", &token);
}

/// Losses, rates and delays of the command line are those of the simulation. A ping takes twice the delay, and a large one
/// the time besides that four links need for it.
#[test]
fn losses_can_be_there_from_the_start() {
    let Some(labs) = Labs::new("losses_can_be_there_from_the_start") else { return };
    let up = labs.json("up line:2 --loss link=0,rate=100% --rate 2Mbps --delay 20ms");
    let to = array(&up["hosts"])[1]["address"].as_str().unwrap();
    assert!(!labs.pings("line-2", "h0", to, 2));
    for switch in array(&up["switches"]) {
        ask("port fault l0 tx:rate=2Mbps,delay=20ms", &switch["socket"]);
    }
    let milliseconds = |bytes: u32| {
        let output = labs.run(&format!("exec h0 -- ping -n -q -c 2 -i 0.1 -W 2 -s {bytes} {to}"));
        let text = text(&output);
        let times = text.split("mdev = ").nth(1).unwrap_or_else(|| panic!("{text}"));
        times.split('/').next().unwrap().parse::<f64>().unwrap()
    };
    let [small, large] = [56, 1400].map(milliseconds);
    assert!(small >= 40.0 && large >= 40.0 + 4.0 * 5.8, "{small} ms, {large} ms");
}

#[test]
fn a_lab_that_cannot_be_started_leaves_nothing() {
    let Some(labs) = Labs::new("a_lab_that_cannot_be_started_leaves_nothing") else { return };
    let before = fs::read_dir(labs.path()).unwrap().count();
    // A switch cannot have its socket there.
    let socket = labs.path().join("line-2.s1.sock");
    fs::create_dir(&socket).unwrap();
    let running = labs.command(&["up", "line:2"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let token = eventually("the record", || labs.record("line-2").exists().then(|| labs.token("line-2")));
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("s1 has ended") && said.contains("line-2.s1.sock"), "{said}");
    fs::remove_dir(&socket).unwrap();
    labs.is_gone("line-2", &token);

    // Its controller has no address for its page.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let said = labs.refused(&format!("up line:2 --page {}", taken.local_addr().unwrap()), 1);
    assert!(said.contains("controller has ended") && said.contains("page.listen"), "{said}");
    // What is wrong is found before anything is started.
    for (line, why) in [
        ("up line:2 --loss flows=10%,rate=1%", "weir port fault"),
        ("up line:99", "1 to 63"),
        ("up spine-leaf:1,250,250", "switches: a lab on this machine has at most"),
        ("up line:2 --name a/b", "no lab can be called"),
        ("up absent.gml", "absent.gml"),
        ("up line:2 --epoch 10ms", "transit"),
        ("down line-2", "there is no lab line-2; no lab is there"),
        ("status line:2", "there is no lab"),
        ("exec h0 -- true", "no lab is there"),
    ] {
        let said = labs.refused(line, 2);
        assert!(said.contains(why), "{line}: {said}");
    }
    let left: Vec<_> = fs::read_dir(labs.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), before + 1, "the directory of labs alone: {left:?}");
    assert_eq!(fs::read_dir(labs.path().join("labs")).unwrap().count(), 0);
}

#[test]
fn what_is_left_of_a_killed_start_is_removed() {
    let Some(labs) = Labs::new("what_is_left_of_a_killed_start_is_removed") else { return };
    let mut running = labs.command(&["up", "line:3"]).stderr(Stdio::null()).spawn().unwrap();
    let token = eventually("the record", || {
        let record = fs::read(labs.record("line-3")).ok()?;
        let record: Value = serde_json::from_slice(&record).ok()?;
        record["token"].as_str().map(ToOwned::to_owned)
    });
    eventually("a switch", || marked(&token).iter().any(|command| command.contains(" run ")).then_some(()));
    assert_eq!(labs.json("status line-3")["state"], "starting");
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(!marked(&token).is_empty());
    assert_eq!(labs.json("status")["labs"][0]["state"], "incomplete");
    assert!(labs.refused("up line:3", 2).contains("there is a lab line-3 already"));
    assert!(labs.run("down line-3").status.success());
    labs.is_gone("line-3", &token);

    // One that is interrupted removes what it has started.
    let running = labs.command(&["up", "line:3"]).stderr(Stdio::piped()).spawn().unwrap();
    let token = eventually("the record", || {
        let record = fs::read(labs.record("line-3")).ok()?;
        let record: Value = serde_json::from_slice(&record).ok()?;
        record["token"].as_str().map(ToOwned::to_owned)
    });
    eventually("a namespace", || (!marked(&token).is_empty()).then_some(()));
    let id = running.id().to_string();
    assert!(Command::new("sh").args(["-c", &format!("kill -INT {id}")]).status().unwrap().success());
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{}", text(&output));
    labs.is_gone("line-3", &token);
}

#[test]
fn labs_are_side_by_side() {
    let Some(labs) = Labs::new("labs_are_side_by_side") else { return };
    let [one, two] = ["one", "two"].map(|name| labs.json(&format!("up line:1 --name {name}")));
    let tokens = ["one", "two"].map(|name| labs.token(name));
    let to = array(&two["hosts"])[1]["address"].as_str().unwrap();
    assert!(labs.pings("one", "h0", to, 1) && labs.pings("two", "h0", to, 1), "both have the same addresses");
    assert!(labs.refused("exec h0 -- true", 2).contains("which lab? --name NAME; there are one, two"));
    let names: Vec<_> = array(&labs.json("status")["labs"]).iter().map(|lab| lab["lab"].clone()).collect();
    assert_eq!(names, ["one", "two"]);

    // A process that stays behind in a host, and a switch that is killed.
    let stays = ["exec", "--name", "one", "h0", "--", "sh", "-c", "setsid --fork sleep 600 >/dev/null 2>&1"];
    assert!(labs.command(&stays).status().unwrap().success());
    eventually("the process", || marked(&tokens[0]).iter().any(|line| line.contains("sleep 600")).then_some(()));
    let switch = array(&one["switches"])[0]["process"].as_u64().unwrap();
    assert!(Command::new("sh").args(["-c", &format!("kill -KILL {switch}")]).status().unwrap().success());
    eventually("the state", || (labs.json("status one")["state"] == "broken").then_some(()));
    assert_eq!(array(&labs.json("status one")["switches"])[0]["running"], false);
    assert!(labs.run("down one").status.success());
    labs.is_gone("one", &tokens[0]);
    assert!(labs.pings("two", "h0", to, 1), "the other lab goes on");
    assert!(labs.run("down --all").status.success());
    labs.is_gone("two", &tokens[1]);
}

#[test]
fn a_lab_of_an_ordinary_user() {
    const TEST: &str = "a_lab_of_an_ordinary_user";
    let Some(_turn) = Lab::new(TEST) else { return };
    let user = User::new();
    let mut unshare = user.command(Path::new("unshare"));
    let allowed = unshare.args(["--user", "--map-root-user", "--net", "true"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return skip(TEST, Lack::Machine, "an ordinary user may make no user namespace here");
    }
    let _guard = Guard::new(user.command(Path::new("sh")), "./weir-bin lab down --all");
    let up = user.run("lab up line:1 --json");
    assert!(up.status.success(), "{}", text(&up));
    let document: Value = serde_json::from_slice(&up.stdout).unwrap();
    let to = array(&document["hosts"])[1]["address"].as_str().unwrap().to_owned();
    let ping = user.run(&format!("lab exec h0 -- ping -n -c 1 -W 2 {to}"));
    let ports = user.run("show ports --name line-1.s0");
    let down = user.run("lab down line-1");
    assert!(ping.status.success() && ports.status.success(), "{}{}", text(&ping), text(&ports));
    assert_eq!(document["rootless"], true);
    assert!(down.status.success(), "{}", text(&down));
    let ended = |process: &Value| {
        !Path::new(&format!("/proc/{process}/ns")).exists() || {
            let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            state.contains(") Z ")
        }
    };
    let processes =
        ["switches", "hosts"].map(|nodes| array(&document[nodes]).iter().map(|node| node["process"].clone()));
    assert!(processes.into_iter().flatten().all(|process| ended(&process)));
}
