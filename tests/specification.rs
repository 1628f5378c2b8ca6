//! Every promise of SPECIFICATION.md names a test, and the test is there. And tests of promises that
//! belong to no module.

#[path = "common/skip.rs"]
#[expect(dead_code, reason = "no test here is skipped")]
mod skip;

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use etherparse::PacketBuilder;
use weir::answers::{Claimed, HeavyFlow, HeavyFlows, Query, Task};
use weir::assemble::assemble;
use weir::config::Config;
use weir::history::Window;
use weir::network::controller::LocalControllers;
use weir::pisa::DropReason;
use weir::switch::{Burst, TxBursts};
use weir::wire::{HeapFrame, Tuple4, Tuple6};

/// The numbered promises: number, words, and the tests in the last column of its table.
fn promises(text: &str) -> Vec<(String, Vec<String>)> {
    let row = |line: &str| {
        let cells: Vec<_> = line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let number = cells.first().filter(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))?;
        let tests = cells.last()?.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        Some((number.to_string(), tests))
    };
    text.lines().filter_map(row).collect()
}

/// Whether `place` (`file::test`, or a file whose whole is the test) is in the tree, and is a test.
fn is_there(root: &Path, place: &str) -> bool {
    let Some((file, test)) = place.split_once("::") else { return root.join(place).is_file() };
    let Ok(text) = fs::read_to_string(root.join(file)) else { return false };
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let heads = [format!("fn {test}("), format!("fn {test}<")];
    let tests = lines.iter().enumerate().filter(|(_, line)| heads.iter().any(|head| line.starts_with(head)));
    // Right above stand its attributes and comments; in `proptest!` as well.
    let mut above = tests.map(|(at, _)| lines[..at].iter().rev().take_while(|line| line.starts_with(['#', '/'])));
    above.any(|mut attributes| attributes.any(|line| *line == "#[test]"))
}

#[test]
fn every_promise_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("SPECIFICATION.md")).unwrap();
    let promises = promises(&text);
    assert!(promises.len() > 40, "{} promises were found: has the form of the tables changed?", promises.len());
    let mut seen = HashSet::new();
    for (number, tests) in &promises {
        assert!(seen.insert(number), "two promises have number {number}");
        assert!(!tests.is_empty(), "promise {number} names no test");
        let missing: Vec<_> = tests.iter().filter(|test| !is_there(root, test)).collect();
        assert!(missing.is_empty(), "promise {number} names tests that are not there: {missing:?}");
    }
}

#[test]
fn a_test_that_is_not_there_is_noticed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = "| 1.1 | x | `tests/specification.rs::every_promise_has_its_test` |\n| no | y | `z` |\n| 2 | y | — |";
    let promises = promises(table);
    assert_eq!(promises.len(), 2);
    assert!(is_there(root, &promises[0].1[0]) && promises[1].1.is_empty());
    assert!(!is_there(root, "tests/specification.rs::is_there"), "a function, but no test");
    assert!(!is_there(root, "tests/specification.rs::nothing") && !is_there(root, "tests/nothing.rs::x"));
}

/// `tests/breaks.toml`, by which `make mutants` breaks promises.
#[derive(serde::Deserialize)]
struct Breaks {
    #[serde(rename = "break")]
    breaks: Vec<Break>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Break {
    promise: String,
    file: String,
    find: String,
    replace: String,
    tests: Vec<String>,
}

#[test]
fn breaks_are_of_promises() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("SPECIFICATION.md")).unwrap();
    let Breaks { breaks } = toml::from_str(&fs::read_to_string(root.join("tests/breaks.toml")).unwrap()).unwrap();
    let promises = promises(&text);
    for Break { promise, file, find, replace, tests } in &breaks {
        let sound = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{promise}: {file}: {error}"));
        let times = sound.matches(find.as_str()).count();
        assert_eq!(times, 1, "{promise}: what is to be broken stands {times} times in {file}: {find}");
        assert!(find != replace && !tests.is_empty(), "{promise}: {find}");
        let (_, holders) =
            promises.iter().find(|(number, _)| number == promise).unwrap_or_else(|| panic!("no {promise}"));
        let strangers: Vec<_> = tests.iter().filter(|test| !holders.contains(test)).collect();
        assert!(strangers.is_empty(), "{promise} is not held by {strangers:?}");
    }
}

/// Where all tests are required the kernel alone excuses one.
#[test]
fn what_could_be_installed_excuses_no_test() {
    use skip::Lack;
    assert!(Lack::Kernel.excuses(true) && !Lack::Machine.excuses(true));
    assert!(Lack::Kernel.excuses(false) && Lack::Machine.excuses(false));
}

/// The words in backquotes of the promise with this number, but for its tests.
fn words(number: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("SPECIFICATION.md")).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("| {number} |"))).unwrap();
    line.split('|').nth(2).unwrap().split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_reason_is_promised() {
    assert_eq!(words("4.3"), DropReason::ALL.map(DropReason::name));
}

#[cfg(feature = "dpdk")]
#[test]
fn every_loss_of_a_device_is_promised() {
    assert_eq!(words("4.4"), weir::port::PortDrop::ALL.map(weir::port::PortDrop::name));
}

fn refused(text: &str) -> String {
    Config::parse(text).expect_err(text).to_string()
}

#[test]
fn ranges_are_closed() {
    for (key, min, max, below, above) in [
        ("epoch", "'1ms'", "'1h'", "'999us'", "'3601s'"),
        ("history", "'0s'", "'1h'", "'-1s'", "'3601s'"),
        ("mac_table", "1", "1048576", "0", "1048577"),
        ("mac_age", "'1s'", "'1000000s'", "'999ms'", "'1000001s'"),
        ("buffers", "256", "16777216", "255", "16777217"),
        ("route_table", "16", "1048576", "15", "1048577"),
        ("neighbour_table", "1", "1048576", "0", "1048577"),
        ("acl_rows", "1", "4096", "0", "4097"),
        ("metrics_flows", "0", "100", "-1", "101"),
        ("idle", "'1us'", "'1s'", "'999ns'", "'1001ms'"),
    ] {
        let line = |value: &str| format!("[switch]\n{key} = {value}\n");
        for value in [min, max] {
            assert!(Config::parse(&line(value)).is_ok(), "{key} = {value}");
        }
        for value in [below, above] {
            assert!(!refused(&line(value)).is_empty(), "{key} = {value}");
        }
    }
    let port = |mtu: u32| format!("[[port]]\nname = 'a'\ndev = 'null'\nmtu = {mtu}\n");
    assert!(Config::parse(&port(68)).is_ok() && Config::parse(&port(9216)).is_ok());
    assert_eq!(refused(&port(67)), "port[0].mtu = 67: 68 to 9216");
    assert_eq!(refused(&port(9217)), "port[0].mtu = 9217: 68 to 9216");
}

#[test]
fn ports_and_their_names() {
    let ports = |n: usize| (0..n).map(|i| format!("[[port]]\nname = 'p{i}'\ndev = 'null'\n")).collect::<String>();
    assert!(Config::parse(&ports(256)).is_ok());
    assert_eq!(refused(&ports(257)), "port = 257: at most 256 ports");
    let named = |name: &str| format!("[[port]]\nname = '{name}'\ndev = 'null'\n");
    for name in ["a", "A-b_c.9", &"n".repeat(32)] {
        assert!(Config::parse(&named(name)).is_ok(), "{name}");
    }
    for name in ["", "-a", ".a", "a b", "a/b", "ü", &"n".repeat(33)] {
        assert!(refused(&named(name)).contains("1 to 32 letters, digits"), "{name}");
    }
    assert_eq!(refused(&named("a").repeat(2)), "port[1].name = a: each name once");
}

/// A collector that never runs: two spares are used up, then the registers run on. Each packet goes
/// out all the same, and nothing that was measured is lost.
#[test]
fn forwarding_goes_on_without_a_collector() {
    assert!(size_of::<(Tuple4, u32)>() <= 32 && size_of::<(Tuple6, u32)>() <= 64);
    let text = "[switch]\nforward = 'xconnect'\n[[port]]\nname = 'a'\ndev = 'memory'\n[[port]]\nname = 'b'\ndev = 'memory'\n\
                [[program]]\nname = 'hashpipe'\nstages = 2\nslots = 8\n";
    let config = Config::parse(text).unwrap();
    let mut assembly = assemble(&config, Some(1000), 1).unwrap();
    let (controllers, answers) = LocalControllers::of_run(&assembly.schedules, Some(1000), 0);
    assembly.collector.subscribe(Box::new(controllers));
    let mut switch = assembly.switches.remove(0);
    let mut bytes = Vec::new();
    let packet = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(1, 2);
    packet.write(&mut bytes, &[0; 30]).unwrap();
    let epochs = 6;
    for epoch in 1..=epochs {
        let (mut burst, mut out) = (Burst::new(), TxBursts::new(2));
        burst.push(HeapFrame::new(&bytes));
        switch.process(0, &mut burst, epoch * 1000, &mut out);
        assert_eq!(out.queues().map(|(port, queue)| (port, queue.len())).collect::<Vec<_>>(), [(1, 1)]);
    }
    let stats = switch.stats().clone();
    assert_eq!((stats.late_epochs.get(), stats.lost_epochs.get()), (epochs - 1 - 2, 0));
    switch.finish();
    assembly.collector.finish();
    let heavy: Claimed<HeavyFlows> = answers.all()[0].answer(&Query::new(Task::Heavy, Window::All)).unwrap();
    let packets: u64 = heavy.heavy.iter().map(HeavyFlow::count).sum();
    assert_eq!((packets, heavy.claim.first_epoch, heavy.claim.last_epoch), (epochs, Some(1), Some(epochs)));
}
