//! `weir config`: what the file may say, and what is said of a file that is wrong.

use std::path::Path;

use serde_json::Value;

use crate::{Files, weir, weir_in};

/// (file, line of the mistake, what the message names)
pub const WRONG: [(&str, usize, &str); 46] = [
    ("[switch]\nname = \"a b\"\n", 2, "switch.name = \"a b\": 1 to 32 letters"),
    ("[switch]\n\nepok = \"1s\"\n", 3, "unknown field `epok`, expected one of `name`, `forward`"),
    ("[switch]\nepoch = 5\n", 2, "expected a length of time in quotes: \"50ms\""),
    ("[switch]\nepoch = \"1us\"\n", 2, "switch.epoch = 1us: 1ms to 1h"),
    ("[switch]\ntarget = \"abacus\"\n", 2, "switch.target = abacus: one of auto, tofino, tofino2, rmt, software"),
    ("[switch]\nforward = \"bridge\"\n", 2, "unknown variant `bridge`, expected one of `learn`, `xconnect`, `route`"),
    ("[switch]\ncores = [1, -1]\n", 2, "expected a whole number"),
    ("[switch]\ncores = [1, 1]\n", 2, "switch.cores = 1: each core at most once"),
    ("[switch]\nbuffers = 3\n", 2, "switch.buffers = 3: 256 to 16777216"),
    (
        "[[port]]\nname = \"a\"\ndev = \"null\"\n[[port]]\nname = \"a\"\ndev = \"null\"\n",
        5,
        "port[1].name = a: each name once",
    ),
    ("[[port]]\nname = \"a\"\ndev = \"tap:\"\n", 3, "an interface name has 1 to 15 characters"),
    ("[[port]]\nname = \"a\"\n", 1, "missing field `dev`"),
    ("[[port]]\nname = \"a\"\ndev = \"null\"\nmtu = 99999\n", 4, "port[0].mtu = 99999: 68 to 9216"),
    ("[[port]]\nname = \"a\"\ndev = \"memif:x\"\n", 3, "a memif has a number"),
    ("[[port]]\nname = \"a\"\ndev = \"null\"\nqueues = 0\n", 4, "port[0].queues = 0: 1 to 64"),
    ("[[port]]\nname = \"a\"\ndev = \"null\"\nqueues = 65\n", 4, "port[0].queues = 65: 1 to 64"),
    ("[page]\nlisten = \"0.0.0.0:8080\"\n", 2, "page.listen = 0.0.0.0:8080: a loopback address"),
    ("[ipfix]\ncollector = \"host:4739\"\n", 2, "ipfix.collector = host:4739: an address and a port"),
    ("[otlp]\nto = \"127.0.0.1:4317\"\n", 2, "otlp.to = 127.0.0.1:4317: http://HOST:PORT"),
    ("[otlp]\nto = \"https://a:4317\"\n", 1, "otlp.ca = (missing): "),
    ("[ipfix]\nrecords = [\"all\"]\n", 2, "unknown variant `all`"),
    ("[switch]\nmetrics = \"0.0.0.0:9469\"\n", 2, "switch.metrics = 0.0.0.0:9469: a loopback address"),
    (
        "[switch]\ncores = [0]\n[[port]]\nname = \"a\"\ndev = \"null\"\ncores = [1]\n",
        6,
        "port[0].cores = 1: cores of switch.cores = [0]",
    ),
    (
        "[switch]\ncores = [0, 1]\n[[port]]\nname = \"a\"\ndev = \"pcap:a.pcap\"\n",
        5,
        "a pcap port serves one worker, and switch.cores = [0, 1] are 2",
    ),
    ("[[port]]\nname = \"a\"\ndev = \"null\"\nfault = \"rx:drop=2\"\n", 4, "drop=2: write 0.01 or 1%"),
    ("[switch]\npairs = [[\"a\", \"b\"]]\n", 2, "switch.pairs[0] = a: a port's name"),
    ("[[program]]\nname = \"hashpip\"\n", 2, "program[0].name = \"hashpip\": one of hashpipe"),
    (
        "[[program]]\nname = \"hashpipe\"\n[[program]]\nname = \"hashpipe\"\nslots = \"many\"\n",
        5,
        "program[1].slots = \"many\": a whole number from 1 to 16777216",
    ),
    ("[[program]]\nslotz = 4\nname = \"hashpipe\"\n", 2, "program[0].slotz = 4: no such key, there are count"),
    ("[[program]]\nname = \"hashpipe\"\nstages = 99\n", 3, "program[0].stages = 99: a whole number from 1 to 16"),
    ("[[acl]]\naction = \"drop\"\n", 2, "acl[0].action = drop: one of permit, deny, count"),
    ("[[acl]]\naction = \"deny\"\n\nsrc = \"10.0.0.0/40\"\n", 4, "acl[0].src = 10.0.0.0/40: an address or a prefix"),
    ("[[acl]]\naction = \"deny\"\nport = \"z\"\n", 3, "acl[0].port = z: a port's name"),
    ("[[acl]]\naction = \"deny\"\nsport = 99999\n", 3, "acl[0].sport = 99999: numbers from 0 to 65535"),
    ("[[acl]]\naction = \"deny\"\nprot = 6\n", 3, "unknown field `prot`, expected one of `name`, `action`"),
    (
        "[[acl]]\nname = \"x\"\naction = \"deny\"\n[[acl]]\nname = \"x\"\naction = \"deny\"\n",
        5,
        "acl[1].name = x: each name once",
    ),
    ("[switch]\nkey = \"src\"\n", 2, "unknown variant `src`, expected `outer` or `inner`"),
    ("[switch]\nacl_default = \"maybe\"\n", 2, "unknown variant `maybe`, expected `permit` or `deny`"),
    (
        "[[port]]\nname = \"a\"\ndev = \"null\"\n[[mirror]]\nfrom = \"a\"\nto = \"b\"\n",
        6,
        "mirror[0].to = b: a port's name (a)",
    ),
    (
        "[[port]]\nname = \"a\"\ndev = \"null\"\nrx_limit = \"1Tbps\"\n",
        4,
        "1Tbps: a rate such as 1Gbps, 500kpps or 1Gbps,burst=64KB",
    ),
    ("[[port]]\nname = \"a\"\ndev = \"null\"\nvlan = 4095\n", 4, "port[0].vlan = 4095: a whole number from 1 to 4094"),
    ("[[port]]\nname = \"a\"\ndev = \"null\"\ntrunk = [0]\n", 4, "VLAN numbers from 1 to 4094"),
    ("[[port]]\nname = \"a\"\ndev = \"null\"\nqinq = 5\nvlan = 6\n", 4, "port[0].qinq = 5: without vlan and trunk"),
    (
        "[[port]]\nname = \"a\"\ndev = \"null\"\nvlan = 6\nrole = \"fabric\"\n",
        5,
        "port[0].role = fabric: host: a fabric port carries every VLAN",
    ),
    (
        "[[port]]\nname = \"a\"\ndev = \"veth:p1\"\n[[port]]\nname = \"b\"\ndev = \"xdp:p1,copy\"\n",
        6,
        "port[1].dev = xdp:p1,copy: each device once, and port a has veth:p1",
    ),
    ("[switch\n", 1, "unclosed table"),
];

#[test]
fn a_mistake_is_named_with_its_place() {
    let files = Files::new();
    for (text, line, says) in WRONG {
        files.write("weir.toml", text);
        for words in ["config check weir.toml", "run -c weir.toml", "budget -c weir.toml"] {
            let ended = files.weir(words);
            let message = ended.refused(2);
            assert!(message.starts_with(&format!("weir: weir.toml:{line}: ")), "{text}\n{message}");
            assert!(message.contains(says), "{text}\n{message}");
            assert!(message.lines().count() <= 2, "{message}");
        }
    }
    files.write("bytes.toml", [0xff, 0xfe]);
    for (name, says) in [("bytes.toml", "UTF-8"), ("absent.toml", "No such file"), (".", "Is a directory")] {
        let ended = files.weir(&format!("config check {name}"));
        assert!(
            ended.refused(2).starts_with(&format!("weir: {name}: ")) && ended.stderr.contains(says),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_pipeline_that_does_not_fit_is_refused_with_the_key_and_ways_out() {
    let files = Files::new();
    for (text, starts, ends) in [
        (
            "[switch]\ntarget = \"tofino\"\n[[program]]\nname = \"hashpipe\"\n",
            "weir: weir.toml:3: program[0].key = \"5tuple\": hashpipe.ipv4 of stage 1: the cell's width",
            "has at most 64; write a narrower one, key = \"src\" and slots6 = 0, or switch.target = \"rmt\", or switch.target = \"software\"",
        ),
        (
            "[[program]]\nname = \"hashpipe\"\nslots6 = 0\n\nslots = 3000000\n",
            "weir: weir.toml:5: program[0].slots = 3000000: hashpipe.ipv4 of stage 1: its memory in bits",
            "; write fewer",
        ),
        (
            "[switch]\ntarget = \"rmt\"\n[[program]]\nname = \"hashpipe\"\nstages = 12\n",
            "weir: weir.toml:5: program[0].stages = 12: hashpipe.ipv6 of stage",
            "; write fewer, or switch.target = \"software\"",
        ),
        (
            "[switch]\ntarget = \"tofino\"\n[[program]]\nname = \"chamelemon\"\nupstream = 1048576\n",
            "weir: weir.toml:5: program[0].upstream = 1048576: chamelemon.upstream of stage",
            "; write fewer, or switch.target = \"software\"",
        ),
        (
            "[switch]\nforward = \"route\"\nroute_table = 1048576\n",
            "weir: weir.toml:3: switch.route_table = 1048576: routes4: ",
            "; write fewer, or switch.target = \"software\"",
        ),
    ] {
        files.write("weir.toml", text);
        for words in ["config check weir.toml", "run -c weir.toml --port z=null", "budget -c weir.toml"] {
            let ended = files.weir(words);
            let message = ended.refused(2);
            assert!(message.starts_with(starts) && message.ends_with(ends), "{words}\n{message}");
        }
    }
}

#[test]
fn an_access_control_list_has_its_place_in_the_budget() {
    let files = Files::new();
    let rule = "[[acl]]\naction = \"deny\"\ndport = \"80-443\"\n";
    files.write("weir.toml", format!("[switch]\ntarget = \"tofino2\"\n{rule}"));
    let document = files.weir("budget -c weir.toml --json").json();
    let tables = |stage: usize| document["stages"][stage]["tables"].as_array().unwrap().clone();
    // 255 bits of key are six blocks of 44 bits, 447 are eleven.
    let names: Vec<_> = tables(0).iter().map(|table| (table["table"].clone(), table["tcam_blocks"].clone())).collect();
    assert_eq!(names[..2], [("acl.ipv4".into(), 6.into()), ("acl.ipv6".into(), 11.into())]);
    assert_eq!(document["tcam_blocks_used"], 17);
    let text = files.weir("budget -c weir.toml").stdout;
    assert!(text.contains("6 TCAM blocks of 24") && text.contains("macs.source"), "{text}");
    for (keys, says) in [
        ("acl_rows = 4", "acl[0].acl = 8 rows: at most 4 TCAM rows (switch.acl_rows)"),
        ("mac_table = 1048576", "macs.source: "),
    ] {
        files.write("weir.toml", format!("[switch]\ntarget = \"tofino\"\n{keys}\n{rule}"));
        let ended = files.weir("config check weir.toml");
        let message = ended.refused(2);
        assert!(message.contains(says) || message.contains("macs.destination: "), "{message}");
    }
}

#[test]
fn the_example_is_right_and_has_every_key() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checked = weir_in(root, "config check docs/weir.toml");
    assert_eq!(
        (checked.code, checked.stdout.as_str()),
        (0, "docs/weir.toml: right (2 ports, 1 program)\n"),
        "{}",
        checked.stderr
    );

    for more in ["route", "edge"] {
        let checked = weir_in(root, &format!("config check docs/{more}.toml"));
        assert_eq!(checked.code, 0, "{}", checked.stderr);
    }

    let read = |name: &str| std::fs::read_to_string(root.join("docs").join(name)).unwrap();
    let (page, example, others) = (read("config.md"), read("weir.toml"), [read("route.toml"), read("edge.toml")]);
    // What stands behind a # is right too, each by itself.
    let commented = |table: &str| -> Vec<&str> {
        let below = example.lines().skip_while(|line| *line != table).skip(1);
        below.take_while(|line| line.starts_with("# ")).collect()
    };
    let files = Files::new();
    let mut table = String::new();
    for line in example.lines() {
        if line.starts_with('[') {
            table = line.to_string();
        }
        let Some((key, _)) = line.strip_prefix("# ").and_then(|line| line.split_once(" = ")) else { continue };
        if key.contains(' ') {
            continue;
        }
        // The keys of these go together.
        let together = if ["[api]", "[otlp]", "[page]"].contains(&&*table) { commented(&table) } else { vec![line] };
        let on = |each: &str| together.contains(&each);
        let uncommented = |each| if on(each) { each.strip_prefix("# ").unwrap() } else { each };
        let on = example
            .lines()
            .map(uncommented)
            .collect::<Vec<_>>()
            .join("\n")
            .replace("key = \"5tuple\"", "key = \"pair\"");
        files.write("weir.toml", on);
        let checked = files.weir("config check weir.toml --json");
        let document = checked.json();
        let place = match table.as_str() {
            "[switch]" => &document["switch"],
            "[[port]]" => &document["port"][1],
            "[[acl]]" => &document["acl"][0],
            "[api]" => &document["api"],
            "[archive]" => &document["archive"],
            "[ipfix]" => &document["ipfix"],
            "[otlp]" => &document["otlp"],
            "[page]" => &document["page"],
            _ => &document["program"][0],
        };
        assert!(!place[key].is_null(), "{table} {key}");
    }
    for (table, properties) in tables(&weir("config schema").json()) {
        for key in properties {
            assert!(page.contains(&format!("| `{key}` |")), "docs/config.md does not have {table} {key}");
            let stands = |line: &str| line.trim_start_matches(['#', ' ']).starts_with(&format!("{key} = "));
            // What only a router, or a switch of a network, has a use for stands in an example of
            // its own.
            let found = example.lines().chain(others.iter().flat_map(|text| text.lines())).any(stands);
            assert!(found, "none of docs/weir.toml, route.toml and edge.toml has {table} {key}");
        }
    }
}

/// The tables of the file and their keys, as the schema has them. Every key must have a
/// description.
fn tables(schema: &Value) -> Vec<(&'static str, Vec<String>)> {
    let program = &schema["$defs"]["ProgramConfig"]["oneOf"][0];
    let tables = [
        ("switch", &schema["$defs"]["SwitchConfig"]),
        ("api", &schema["$defs"]["ApiConfig"]),
        ("controller", &schema["$defs"]["ControllerConfig"]),
        ("archive", &schema["$defs"]["ArchiveConfig"]),
        ("ipfix", &schema["$defs"]["IpfixConfig"]),
        ("otlp", &schema["$defs"]["OtlpConfig"]),
        ("port", &schema["$defs"]["PortConfig"]),
        ("program", program),
        ("route", &schema["$defs"]["RouteConfig"]),
        ("neighbour", &schema["$defs"]["NeighbourConfig"]),
        ("acl", &schema["$defs"]["RuleConfig"]),
        ("mirror", &schema["$defs"]["MirrorConfig"]),
    ];
    let keys = |(name, table): (&'static str, &Value)| {
        let properties = table["properties"].as_object().unwrap_or_else(|| panic!("{name}: {table}"));
        for (key, property) in properties {
            let fixed = property.get("const").is_some();
            assert!(fixed || property["description"].is_string(), "{name}.{key} is not documented");
        }
        (name, properties.keys().cloned().collect())
    };
    tables.into_iter().map(keys).collect()
}

#[test]
fn the_schema_describes_the_whole_file() {
    let schema = weir("config schema").json();
    assert_eq!(
        crate::keys(&schema["properties"]),
        [
            "acl",
            "api",
            "archive",
            "controller",
            "ipfix",
            "mirror",
            "neighbour",
            "otlp",
            "page",
            "port",
            "program",
            "route",
            "switch"
        ]
    );
    assert_eq!(schema["additionalProperties"], false);
    let found = tables(&schema);
    assert_eq!(found.iter().map(|(_, keys)| keys.len()).collect::<Vec<_>>(), [26, 7, 5, 6, 6, 9, 14, 12, 4, 3, 16, 3]);
    assert_eq!(weir("config schema --json").stdout, weir("config schema").stdout);
}

/// `config check --json` prints what the switch would run with, defaults filled in.
#[test]
fn defaults_are_filled_in() {
    let files = Files::new();
    files.write("weir.toml", "");
    let document = files.weir("config check weir.toml --json").json();
    assert_eq!(document["switch"]["epoch"], "67ms 108us 864ns");
    assert_eq!((&document["port"], &document["program"]), (&serde_json::json!([]), &serde_json::json!([])));
}

/// Its date is said. A file that is not here is another machine's, and left unchecked.
#[test]
#[cfg(feature = "control")]
fn a_certificate_that_has_expired_is_refused() {
    let files = Files::new();
    let mut params = rcgen::CertificateParams::new(vec!["switch1".into()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = |params: &rcgen::CertificateParams| params.self_signed(&key).unwrap().pem();
    files.write("good.pem", pem(&params));
    params.not_after = rcgen::date_time_ymd(2021, 5, 4);
    files.write("old.pem", pem(&params));
    let check = |name: &str| {
        let lines = format!("listen = '0.0.0.0:9470'\ncertificate = '{name}.pem'\nkey = 'k.pem'\nclient_ca = 'c.pem'");
        files.write("weir.toml", format!("[api]\n{lines}\n"));
        files.weir("config check weir.toml")
    };
    let old = check("old");
    assert!(old.refused(2).contains("the certificate expired on 2021-05-04 00:00:00 UTC"), "{}", old.stderr);
    assert_eq!((check("good").code, check("good").stderr.as_str()), (0, ""));
    let absent = check("absent");
    assert!(absent.code == 0 && absent.stderr.contains("not checked"), "{}", absent.stderr);
}
