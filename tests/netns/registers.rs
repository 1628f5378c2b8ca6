//! Registers of a running switch.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{Lab, Link, eventually};

/// Echo requests during a dump.
const REQUESTS: u64 = 60;

/// All cells of the registers at an epoch's end, while traffic goes on.
#[test]
fn registers_of_a_running_switch() {
    let Some(lab) = Lab::new("registers_of_a_running_switch") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "--program hashpipe:slots=64 --program chamelemon");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    let late = || weir.ask("show ports")["measurement"]["late_epochs"].as_u64().expect("a number");
    let before = late();

    let dump = weir.ask("registers dump");
    let programs = dump["programs"].as_array().expect("a list");
    assert_eq!(
        programs.iter().map(|of| of["program"].as_str().unwrap()).collect::<Vec<_>>(),
        ["hashpipe", "chamelemon"]
    );
    let epochs: Vec<_> = programs.iter().map(|of| of["banks"][0]["last_epoch"].as_u64().unwrap()).collect();
    assert_eq!(epochs[0], epochs[1], "one epoch of all programs");
    for program in programs {
        let arrays = program["layout"]["arrays"].as_array().unwrap();
        let bank = &program["banks"][0];
        assert_eq!(bank["ended"], "epoch");
        assert_eq!(bank["arrays"].as_array().unwrap().len(), arrays.len());
        for (layout, array) in arrays.iter().zip(bank["arrays"].as_array().unwrap()) {
            assert_eq!((&layout["name"], &layout["index"]), (&array["name"], &array["index"]));
            assert_eq!(Some(array["values"].as_array().unwrap().len() as u64), layout["cells"].as_u64());
        }
    }

    // The key of a request is in HashPipe's first stage, in the epoch in which it came in.
    let address = |host: &crate::common::Host| host.address().parse::<Ipv4Addr>().unwrap().to_bits();
    let key = format!("0x{:08x}{:08x}0000000001", address(a), address(b));
    let found = |dump: &Value| {
        let cells = dump["programs"][0]["banks"][0]["arrays"][0]["values"].as_array().unwrap();
        cells.iter().find(|cell| cell[0] == *key.as_str()).and_then(|cell| cell[1].as_u64())
    };
    // Requests go on during the dump: it shows an epoch that ends after it was asked for.
    let count = eventually("a request in the registers", || {
        let mut pings = a.space.command("ping");
        pings.args(["-n", "-q", "-i", "0.02", "-c", &REQUESTS.to_string(), &b.address()]).stdout(Stdio::null());
        let mut pings = pings.spawn().expect("ping runs");
        let count = found(&weir.ask("registers dump --program hashpipe"));
        pings.wait().expect("ping ends");
        count
    });
    assert!((1..=REQUESTS).contains(&count), "{count}");

    let raw = lab.path("raw");
    let status = weir.command(&format!("registers dump --raw {}", raw.display())).status().expect("runs");
    assert!(status.success());
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/python/registers.py");
    let layout: Value = serde_json::from_slice(&std::fs::read(raw.join("layout.json")).unwrap()).unwrap();
    assert_eq!(layout["programs"]["chamelemon"]["arrays"][0]["file"], "tower-0.bin");
    // A dump has no records, which the reader looks for when it has HashPipe's registers.
    std::fs::remove_dir_all(raw.join("hashpipe")).unwrap();
    let python = Command::new("python3").args([reader.as_ref(), raw.as_os_str(), raw.as_os_str()]).output().unwrap();
    let text = String::from_utf8_lossy(&python.stdout).into_owned();
    assert!(
        python.status.success() && text.contains(" tower[1] "),
        "{text}{}",
        String::from_utf8_lossy(&python.stderr)
    );

    let refused = weir.command("registers dump --program nothing").output().expect("runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("the switch runs no program nothing; it runs hashpipe, chamelemon"), "{said}");
    let again = weir.command(&format!("registers dump --raw {}", raw.display())).output().expect("runs");
    assert_eq!(again.status.code(), Some(2), "the directory is not empty");
    assert_eq!(late(), before, "no epoch ran on for a dump");
    weir.stop();
}
