//! The JSON Schema beside `weir config check`: an editor that knows the schema refuses what weir
//! would refuse, as far as a schema can, and nothing that is right.

use std::path::Path;

use serde_json::Value;

use crate::config::WRONG;
use crate::{Files, weir};

/// Of [`WRONG`], by what is said of it: mistakes that lie between two tables, in the words of
/// faults, or before the TOML is read.
const BEYOND: [&str; 12] = [
    "otlp.ca = (missing)",
    "switch.epoch = 1us",
    "port[1].name = a: each name once",
    "port[0].cores = 1",
    "a pcap port serves one worker",
    "drop=2",
    "switch.pairs[0] = a",
    "acl[0].port = z",
    "acl[1].name = x",
    "mirror[0].to = b",
    "each device once",
    "unclosed table",
];

/// More that is wrong in itself.
const MORE: [&str; 46] = [
    "[otlp]\nto = \"http://a:4317/v1/logs\"",
    "[otlp]\nevery = 10",
    "[otlp]\nflows = 101",
    "[otlp]\nheaders = { Key = \"x\" }",
    "[otlp]\nheaders = { key = \"\" }",
    "[switch]\nname = \"\"",
    "[switch]\nname = \"-w\"",
    "[switch]\nname = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
    "[switch]\nhistory = \"soon\"",
    "[switch]\nidle = \"never\"",
    "[switch]\nmac_table = 0",
    "[switch]\nacl_rows = 4097",
    "[switch]\nmetrics = \"127.0.0.1\"",
    "[switch]\nmetrics = \"[::2]:9469\"",
    "[page]\nlisten = \"0.0.0.0:8080\"",
    "[page]\nlisten = \"127.0.0.1:8080\"\nhosts = [\"a b\"]",
    "[page]\nhosts = [\"a\"]",
    "[ipfix]\ncollector = \"host:4739\"",
    "[ipfix]\nrecords = []",
    "[ipfix]\nflows = 0",
    "[ipfix]\ntemplate_refresh = 20",
    "[switch]\npairs = [[\"a\"]]",
    "[switch]\ntelemetry_header = \"mpls\"",
    "[switch]\nkey = \"src\"",
    "[api]\nmode = \"0666\"",
    "[api]\nmode = \"0660\"",
    "[api]\nkey = \"k.pem\"",
    "[controller]\nname = \"edge\"",
    "[[port]]\nname = \"a b\"\ndev = \"null\"",
    "[[port]]\nname = \"a\"\ndev = \"ufo:1\"",
    "[[port]]\nname = \"a\"\ndev = \"veth:a/b\"",
    "[[port]]\nname = \"a\"\ndev = \"vhost:relative\"",
    "[[port]]\nname = \"a\"\ndev = \"pci:3\"",
    "[[port]]\nname = \"a\"\ndev = \"null\"\nfault = \"drop=1%\"",
    "[[port]]\nname = \"a\"\ndev = \"null\"\naddresses = [\"10.0.0.1\"]",
    "[[port]]\nname = \"a\"\ndev = \"null\"\ntrunk = \"10..20\"",
    "[[acl]]\nname = \"x\"",
    "[[acl]]\naction = \"deny\"\nproto = \"tcpp\"",
    "[[acl]]\naction = \"deny\"\ndscp = 64",
    "[[acl]]\naction = \"deny\"\nsrc_mac = \"02:00:00\"",
    "[[acl]]\naction = \"deny\"\ntcp_flags = \"sin\"",
    "[[acl]]\naction = \"deny\"\nfragment = \"none\"",
    "[[mirror]]\nfrom = \"a\"",
    "[[mirror]]\nfrom = \"a\"\nto = \"b\"\ndirection = \"in\"",
    "[[route]]\nprefix = \"10.0.0.0/8\"",
    "[[program]]\nname = \"chamelemon\"\ntower = \"9x3\"",
];

/// Right, in words that a narrow schema would refuse.
const RIGHT: [&str; 12] = [
    "",
    "[otlp]\nto = \"https://[2001:db8::1]:4317/\"\nca = \"ca.pem\"\nheaders = { authorization = \"Bearer x\" }\nresource = { place = \"lab\" }",
    "[ipfix]\ncollector = \"[2001:db8::1]:4739\"\nrecords = [\"paths\", \"heavy\"]",
    "[page]\nlisten = \"[::1]:8080\"\nhosts = [\"weir.example\"]",
    "[switch]\nname = \"w.1-x_y\"\nepoch = \"1m 30s\"\nidle = \"off\"\nmetrics = \"[::1]:9469\"\ncores = [0, 2]",
    "[api]\nmode = \"0660\"\ngroup = \"weir\"",
    "[[port]]\nname = \"a\"\ndev = \"xdp:eth0,queues=2,copy\"\nrx_limit = \"burst=64KB, 1.5Gbps,500kpps\"\ntrunk = [10, \"20-30\"]",
    "[[port]]\nname = \"a\"\ndev = \"memif:0,role=client\"\nvlan = 7\ntrunk = \"10,20-30\"\nfault = \"rx:drop=1%;tx:delay=5ms\"",
    "[[port]]\nname = \"a\"\ndev = \"pcap:,out.pcap\"\n[[port]]\nname = \"b\"\ndev = \"pci:03:00.0\"\n\
     [[port]]\nname = \"c\"\ndev = \"null:size=64,copy=1\"\n[[port]]\nname = \"d\"\ndev = \"vhost:/run/vm1.sock,client\"",
    "[[acl]]\naction = \"deny\"\nsrc = \"2001:db8::/32\"\nsport = 80\ndport = \"22, 80-443\"\nproto = 6\n\
     tcp_flags = \"syn,!ack\"\nethertype = \"0x86dd\"\nvlan = 0\nsrc_mac = \"02-00-00-00-00-00/24\"\ndscp = \"46\"",
    "[switch]\nforward = \"route\"\n[[port]]\nname = \"a\"\ndev = \"null\"\naddresses = [\"10.0.1.1/24\", \"fd00::1/64\"]\n\
     [[route]]\nprefix = \"::/0\"\nvia = \"fd00::2,fd00::3\"\n[[route]]\nprefix = \"10.2.0.0/16\"\ndrop = true",
    "[[program]]\nname = \"chamelemon\"\ntower = \"8x512+8x512+32x64\"\nattention = \"fixed\"\n\
     [[program]]\nname = \"hashpipe\"\nkey = \"pair\"\nprefix = 24",
];

/// What the schema that is printed says against files: nothing, or the reason. `None` without
/// Debian's python3-jsonschema, which is a failure where tests may not be skipped.
fn refusals(texts: &[&str]) -> Option<Vec<Option<String>>> {
    const VALIDATE: &str = "import json, sys\n\
        from jsonschema import Draft202012Validator as Draft\n\
        given = json.load(sys.stdin)\n\
        Draft.check_schema(given['schema'])\n\
        schema = Draft(given['schema'])\n\
        first = lambda file: next((error.message for error in schema.iter_errors(file)), None)\n\
        print(json.dumps([first(file) for file in given['files']]))\n";
    let there = std::process::Command::new("/usr/bin/python3").args(["-c", "import jsonschema"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("WEIR_REQUIRE_NETNS").is_none(), "no python3-jsonschema: make setup");
        eprintln!("skipped: no python3-jsonschema: make setup");
        return None;
    }
    let file = |text: &&str| toml::from_str::<Value>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let given = serde_json::json!({
        "schema": weir("config schema").json(),
        "files": texts.iter().map(file).collect::<Vec<_>>(),
    });
    let mut python = assert_cmd::Command::new("/usr/bin/python3");
    let output = python.args(["-c", VALIDATE]).write_stdin(given.to_string()).unwrap();
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn the_schema_refuses_what_check_refuses() {
    let files = Files::new();
    let beyond = |says: &str| BEYOND.iter().any(|beyond| says.contains(beyond));
    let wrong = WRONG.iter().filter(|(_, _, says)| !beyond(says)).map(|(text, _, _)| *text);
    let texts: Vec<_> = wrong.chain(MORE).collect();
    for text in &texts {
        files.write("weir.toml", text);
        files.weir("config check weir.toml").refused(2);
    }
    let Some(refusals) = refusals(&texts) else { return };
    let passed: Vec<_> = texts.iter().zip(refusals).filter(|(_, refusal)| refusal.is_none()).collect();
    assert!(passed.is_empty(), "the schema lets these pass: {passed:#?}");
}

#[test]
fn the_schema_takes_what_check_takes() {
    let files = Files::new();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let examples =
        ["weir", "route", "edge"].map(|name| std::fs::read_to_string(docs.join(format!("{name}.toml"))).unwrap());
    let texts: Vec<_> = RIGHT.into_iter().chain(examples.iter().map(String::as_str)).collect();
    for text in &texts {
        files.write("weir.toml", text);
        let checked = files.weir("config check weir.toml");
        assert_eq!(checked.code, 0, "{text}\n{}", checked.stderr);
    }
    let Some(refusals) = refusals(&texts) else { return };
    let refused: Vec<_> = texts.iter().zip(refusals).filter(|(_, refusal)| refusal.is_some()).collect();
    assert!(refused.is_empty(), "the schema refuses what is right: {refused:#?}");
}
