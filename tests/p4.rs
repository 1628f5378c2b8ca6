//! The dataplane against what the P4 sources gave in BMv2: registers of each array and epoch, and the
//! packets that leave. `p4/check.py --golden` wrote the vectors; nothing of P4 is needed here.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use flate2::read::GzDecoder;
use ring::digest::{SHA256, digest};
use weir::config::Config;
use weir::pisa::ArrayCells;
use weir::program::ProgramConfig;
use weir::replay::{Replayer, RxPacket};
use weir::telemetry::{BankOrigin, RegisterSink};
use weir::trace::{Passage, Workload};

#[path = "p4/placement.rs"]
mod placement;

/// The program, the epoch, the part of the epoch, and the array.
type Array = (String, u64, u32, String);

/// What one run left.
#[derive(Debug, Default, PartialEq)]
struct Left {
    /// The cells of each array.
    registers: BTreeMap<Array, Vec<u8>>,
    /// By port: the packets that left.
    frames: BTreeMap<u16, Vec<Vec<u8>>>,
}

/// A file of vectors.
struct Golden {
    path: PathBuf,
    programs: Vec<ProgramConfig>,
    passage: Passage,
    /// An epoch that nobody prepared in the P4 switch: it measured nothing of it.
    unprepared: Option<u64>,
    /// The hash of each array's cells. Of an array with halves also the modulus of their sums: one half has
    /// the packets that entered in the epoch, and the record before has those of them that left soon.
    registers: BTreeMap<Array, (Option<u64>, String)>,
    /// By port: how many packets left, and their hash.
    frames: BTreeMap<u16, (usize, String)>,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/p4")
}

fn hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of packets: of the length of each in four bytes, and its bytes.
fn hash_of(frames: &[Vec<u8>]) -> String {
    let framed = frames.iter().flat_map(|frame| [&(frame.len() as u32).to_be_bytes()[..], frame].concat());
    hash(&framed.collect::<Vec<_>>())
}

fn array(words: &[&str]) -> Array {
    (words[0].into(), words[1].parse().unwrap(), words[2].parse().unwrap(), words[3].into())
}

/// An array of which one half has the packets that entered in this epoch: those of its record, and those of the
/// record before. The other half is 0.
fn half(epoch: u64, record: &[u8], before: Option<&Vec<u8>>, modulus: u64) -> Vec<u8> {
    let zeros = vec![0; record.len()];
    let (middle, before) = (record.len() / 2, before.unwrap_or(&zeros));
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word).into()).collect()
    };
    let mut cells = zeros.clone();
    let place = if epoch % 2 == 1 { middle..record.len() } else { 0..middle };
    let sums = words(&record[place.clone()]).into_iter().zip(words(&before[place.clone()]));
    let sums = sums.flat_map(|(one, other)| (((one + other) % modulus) as u32).to_le_bytes());
    cells[place].copy_from_slice(&sums.collect::<Vec<_>>());
    cells
}

impl Golden {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let (mut programs, mut workload) = (Vec::new(), Workload::default());
        let (mut first_epoch, mut epochs, mut odd, mut unprepared) = (0, 0, 0, None);
        let (mut registers, mut frames) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["program", program] => programs.push(program.parse().unwrap()),
                ["workload", text] => workload = text.parse().unwrap(),
                ["epochs", first, number] => (first_epoch, epochs) = (first.parse().unwrap(), number.parse().unwrap()),
                ["odd", number] => odd = number.parse().unwrap(),
                ["unprepared", epoch] => unprepared = Some(epoch.parse().unwrap()),
                ["registers", ref of @ ..] => _ = registers.insert(array(of), (None, of[4].into())),
                ["half", modulus, ref of @ ..] => {
                    registers.insert(array(of), (Some(modulus.parse().unwrap()), of[4].into()));
                }
                ["frames", port, number, hash] => {
                    frames.insert(port.parse().unwrap(), (number.parse().unwrap(), hash.into()));
                }
                _ => panic!("{}: {line}", path.display()),
            }
        }
        let passage = Passage { workload, epoch_shift: 26, first_epoch, epochs, odd };
        Self { path: path.into(), programs, passage, unprepared, registers, frames }
    }

    /// The packets that left, where they are kept whole: beside the file as .frames.gz, each behind its port
    /// and its length, two bytes and four.
    fn whole(&self) -> Option<BTreeMap<u16, Vec<Vec<u8>>>> {
        let file = fs::File::open(self.path.with_extension("frames.gz")).ok()?;
        let (mut bytes, mut frames) = (Vec::new(), BTreeMap::<u16, Vec<Vec<u8>>>::new());
        GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        let mut rest = &bytes[..];
        while let Some((head, behind)) = rest.split_first_chunk::<6>() {
            let [a, b, length @ ..] = *head;
            let (frame, behind) = behind.split_at(u32::from_be_bytes(length) as usize);
            frames.entry(u16::from_be_bytes([a, b])).or_default().push(frame.into());
            rest = behind;
        }
        Some(frames)
    }

    /// What weir leaves of the same packets.
    fn replayed(&self) -> Left {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut config = Config::load(&root.join("p4/switch.toml")).unwrap();
        config.programs.clone_from(&self.programs);
        let mut replayer = Replayer::new(config).unwrap();
        let left = Arc::new(Mutex::new(Left::default()));
        let names = ProgramConfig::named(&self.programs).map(|(name, program)| {
            let layout = program.layout("weir").unwrap();
            let files = layout.arrays().iter().map(|array| format!("{}-{}", array.usage.name, array.index)).collect();
            (name, files)
        });
        replayer.collector().watch_registers(Box::new(Registers { names: names.collect(), left: left.clone() }));
        let departed = left.clone();
        replayer.watch_tx(Box::new(move |packet| {
            departed.lock().unwrap().frames.entry(packet.egress).or_default().push(packet.bytes.into());
        }));
        let taken: Result<(), std::convert::Infallible> = self.passage.for_each(|packet| {
            let arriving = RxPacket::new(packet.port, packet.at_ns, &packet.frame);
            replayer.receive(RxPacket { held_ns: packet.held_ns, ..arriving });
            Ok(())
        });
        taken.unwrap();
        replayer.finish();
        std::mem::take(&mut *left.lock().unwrap())
    }
}

struct Registers {
    /// By program: its name, and the names of its arrays.
    names: Vec<(String, Vec<String>)>,
    left: Arc<Mutex<Left>>,
}

impl RegisterSink for Registers {
    fn bank(&mut self, of: BankOrigin, arrays: &dyn Fn() -> Vec<ArrayCells>) {
        let (program, names) = &self.names[of.program];
        for (name, cells) in names.iter().zip(arrays()) {
            let key = (program.clone(), of.last, of.part, name.clone());
            self.left.lock().unwrap().registers.insert(key, cells.bytes);
        }
    }
}

/// The programs of a directory of `p4/constants`, and the target.
const CONSTANTS: &[(&str, &str, &[&str])] = &[
    ("hashpipe", "v1model", &["hashpipe"]),
    ("chamelemon", "v1model", &["chamelemon"]),
    ("pint", "v1model", &["pint"]),
    ("disketch", "v1model", &["disketch"]),
    ("hopcounters", "v1model", &["hopcounters"]),
    ("pint-utilisation", "v1model", &[SHIFTS]),
    ("all", "v1model", &["hashpipe", "chamelemon", "pint", "disketch"]),
    ("hashpipe", "t2na", &[NARROW_HASHPIPE]),
    ("chamelemon", "t2na", &[NARROW_CHAMELEMON]),
    ("pint", "t2na", &["pint"]),
    ("pint-latency", "t2na", &[LATENCY]),
    ("disketch", "t2na", &["disketch"]),
    ("all-latency", "t2na", &[NARROW_HASHPIPE, NARROW_CHAMELEMON, LATENCY, "disketch"]),
    ("all", "t2na", &[NARROW_HASHPIPE, NARROW_CHAMELEMON, "pint", "disketch"]),
];

/// What a stateful ALU's words have room for, and parts of which the sources have the lengths.
const NARROW_HASHPIPE: &str = "hashpipe:key=src,slots6=0,scope=network";
const LATENCY: &str = "pint:queries=path:bits=8+latency:bits=8";
const SHIFTS: &str = "pint:queries=path:bits=8+utilisation:bits=8:filter=shifts";
const NARROW_CHAMELEMON: &str = "chamelemon:parts=powers,downstream=4096,hh=2048,hl=1024,ll=1024";

/// The constants beside the sources are those that the command writes.
#[test]
fn constants_are_those_of_the_command() {
    for (name, target, programs) in CONSTANTS {
        let written = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["p4", "--target", target, "--reproducible", "7", "--out"]).arg(written.path());
        programs.iter().for_each(|program| _ = command.args(["--program", program]));
        assert!(command.status().unwrap().success(), "{name}");
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("p4/constants").join(name).join(target);
        for file in ["constants.p4", "control.json"] {
            let [written, committed] =
                [written.path(), &committed].map(|at| fs::read_to_string(at.join(file)).unwrap());
            assert!(written == committed, "p4/constants/{name}/{target}/{file} is not what `weir p4` writes");
        }
    }
}

/// The scripts of a BMv2 switch make the record that weir makes of the same registers, byte for byte.
#[test]
fn python_encodes_registers_as_weir_does() {
    for (program, ipv6) in [
        ("hashpipe:scope=network,stages=4,slots=128", 0.25),
        ("disketch:memory=4KB,counter_bits=8,max_sub_epochs=1", 0.25),
        ("disketch:sketch=cms,memory=4KB,max_sub_epochs=1", 0.25),
        ("disketch:sketch=univmon,memory=16KB,counter_bits=16,max_sub_epochs=1", 0.25),
        ("hopcounters:memory=4KB", 0.25),
        ("chamelemon:attention=fixed,names=0", 0.0),
        (
            "chamelemon:attention=fixed,names=0,tower=8x500+16x100,arrays=4,small=2,upstream=3000,downstream=2000,\
             hh=1100,hl=1000,ll=900,hh_threshold=60,hl_threshold=8,sample=30000",
            0.0,
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let [capture, registers, records] = ["t.pcap", "registers", "records"].map(|file| directory.path().join(file));
        let workload = format!("isp/burst,flows=2000,packets=20000,ipv6={ipv6},rate=100000");
        let mut pcap = Vec::new();
        workload.parse::<Workload>().unwrap().generate().write_pcap(&mut pcap).unwrap();
        fs::write(&capture, pcap).unwrap();
        let weir = || Command::new(env!("CARGO_BIN_EXE_weir"));
        let epochs = ["--program", program, "--epoch", "67108864ns"];
        let replayed = weir()
            .arg("replay")
            .arg(&capture)
            .args(epochs)
            .args(["--registers".as_ref(), registers.as_os_str()])
            .args(["--records".as_ref(), records.as_os_str()])
            .output()
            .unwrap();
        assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
        let config = directory.path().join("switch.toml");
        fs::write(&config, table_of(program)).unwrap();
        let written = weir()
            .args(["p4", "--target", "v1model", "--reproducible", "7", "-c"])
            .arg(&config)
            .arg("--out")
            .arg(directory.path())
            .status()
            .unwrap();
        assert!(written.success(), "{program}");
        let name = program.split(':').next().unwrap();
        let mut compared = 0;
        for file in fs::read_dir(records.join(name)).unwrap() {
            let file = file.unwrap().path();
            let epoch = file.file_stem().unwrap().to_str().unwrap().trim_start_matches("epoch-").to_owned();
            let encoder = Path::new(env!("CARGO_MANIFEST_DIR")).join("p4/control/records.py");
            let mut python = Command::new("python3");
            python.arg(encoder).arg(&registers).arg(directory.path().join("member.json")).args([name, &epoch]);
            let encoded = python.output().unwrap();
            assert!(encoded.status.success(), "{}", String::from_utf8_lossy(&encoded.stderr));
            assert!(encoded.stdout == fs::read(&file).unwrap(), "{program}: epoch {epoch}");
            compared += 1;
        }
        assert!(compared > 2, "{program}: {compared} epochs");
    }
}

/// A program of the command line as a configuration file.
fn table_of(program: &str) -> String {
    let config: ProgramConfig = program.parse().unwrap();
    let program = toml::to_string(&config).unwrap();
    format!("[switch]\nname = \"s\"\nepoch = \"67108864ns\"\n[[program]]\n{program}")
}

/// The schedule of a member of a controller's network, without switch and controller.
#[test]
fn a_member_reports_the_epochs_that_it_prepared() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("p4/control/test_member.py");
    let output = Command::new("python3").arg(tests).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A secret and parameters as a controller tells them: those of the seed and of the start give the same files.
#[test]
fn secret_and_parameters_of_a_controller_are_taken() {
    let directory = tempfile::tempdir().unwrap();
    let out = |name: &str| directory.path().join(name);
    let secret = format!("07{}", "00".repeat(31));
    fs::write(out("secret"), &secret).unwrap();
    fs::write(out("short"), &secret[2..]).unwrap();
    let weir = |to: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.current_dir(&directory).args(["p4", "--target", "v1model", "--program", "chamelemon", "--out", to]);
        command.args(arguments).output().unwrap()
    };
    let read = |of: &str, file: &str| fs::read_to_string(out(of).join(file)).unwrap();
    assert!(weir("seed", &["--reproducible", "7"]).status.success());
    let member: serde_json::Value = serde_json::from_str(&read("seed", "member.json")).unwrap();
    let start = member["programs"][0]["parameters"].as_str().unwrap();
    let given = format!("chamelemon={start}");
    assert!(weir("secret-7", &["--secret", "secret", "--parameters", &given]).status.success());
    assert_eq!(read("seed", "control.json"), read("secret-7", "control.json"));
    assert_eq!(read("seed", "member.json"), read("secret-7", "member.json"));
    // T_h, the fourth number, is 250; 8 of its 14 bits stand in the first byte.
    let raised = start.replacen("fa01", "fb01", 1);
    assert_ne!(start, raised);
    assert!(weir("raised", &["--secret", "secret", "--parameters", &format!("chamelemon={raised}")]).status.success());
    let thresholds = |of: &str| {
        let control: serde_json::Value = serde_json::from_str(&read(of, "control.json")).unwrap();
        let entries = control["entries"].as_array().unwrap().clone();
        let sets = entries.into_iter().filter(|entry| entry["action"] == "set");
        sets.map(|entry| entry["data"][0].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((thresholds("seed"), thresholds("raised")), (vec![250, 250], vec![251, 251]));
    for (arguments, why) in [
        (&["--secret", "short"][..], "short: not 64 hexadecimal digits"),
        (&["--secret", "secret", "--parameters", "hashpipe="], "no such program"),
        (&["--secret", "secret", "--parameters", "chamelemon=00"], "--parameters chamelemon=…: it ends after 1 bytes"),
        (&["--secret", "secret", "--parameters", "chamelemon=0"], "not PROGRAM=HEX"),
    ] {
        let output = weir("refused", arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{arguments:?}: {said}");
    }
}

/// The constant by which the sources take a digest as the key, and the CRCs of zlib that compute it.
#[test]
fn digests_have_a_form_on_both_targets() {
    let written = tempfile::tempdir().unwrap();
    for (target, program, actions) in [
        ("v1model", "hashpipe:key=digest32", &["hashpipe.key4", "hashpipe.key6"][..]),
        ("t2na", "hashpipe:key=digest32,slots6=0", &["hashpipe.digest"]),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["p4", "--reproducible", "7", "--target", target, "--program", program, "--out"]);
        assert!(command.arg(written.path()).status().unwrap().success(), "{target}");
        let [constants, control] =
            ["constants.p4", "control.json"].map(|file| fs::read_to_string(written.path().join(file)).unwrap());
        assert!(constants.contains("#define HASHPIPE_KEY_DIGEST32 1\n"), "{target}");
        let control: serde_json::Value = serde_json::from_str(&control).unwrap();
        let crcs = control["programs"]["hashpipe"]["crcs"].as_array().unwrap();
        for action in actions {
            let crc = crcs.iter().find(|crc| crc["action"] == *action).unwrap();
            assert_eq!(crc["polynomial"], "0x04c11db7", "{target} {action}");
        }
    }
}

/// Without a program, with one twice, and with keys that the sources have no form for.
#[test]
fn what_the_sources_lack_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty.toml");
    fs::write(&empty, "[switch]\nname = \"s\"\n").unwrap();
    let empty = empty.to_str().unwrap();
    for (arguments, why) in [
        (&["v1model", "-c", empty][..], "no program is configured"),
        (
            &["v1model", "--program", "hashpipe", "--program", "hashpipe"],
            "hashpipe_2: a P4 switch has each program once",
        ),
        (&["v1model", "--program", "pint:queries=loops"], "loops"),
        (&["t2na", "--program", "hashpipe"], "key = 5tuple"),
        (&["t2na", "--program", "hopcounters"], "no form for Tofino"),
        (&["t2na", "--program", "hashpipe:key=src,prefix=24,slots6=0"], "prefix = 24"),
        (&["t2na", "--program", "hashpipe:key=digest32"], "slots6 = 1024"),
        (&["v1model", "--program", "hashpipe:key=src"], "key = src"),
        (&["t2na", "--program", "chamelemon"], "parts = any"),
        (&["t2na", "--program", "chamelemon:parts=powers"], "downstream = 3072"),
    ] {
        let out = directory.path().join("out");
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["p4", "--reproducible", "7", "--out"]).arg(&out).arg("--target").args(arguments);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{arguments:?}: {said}");
        assert!(!out.exists(), "{arguments:?}: files were written");
    }
}

fn vectors() -> Vec<Golden> {
    let files = fs::read_dir(directory()).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|text| text == "txt")).collect();
    files.sort();
    files.iter().map(|path| Golden::read(path)).collect()
}

#[test]
fn registers_and_packets_are_those_of_bmv2() {
    let vectors = vectors();
    assert!(!vectors.is_empty());
    // Two at a time: some have hundreds of thousands of packets.
    let (one, other) = vectors.split_at(vectors.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| compare(one));
        compare(other);
    });
}

fn compare(vectors: &[Golden]) {
    for golden in vectors {
        let (at, left) = (golden.path.display(), golden.replayed());
        assert!(!golden.registers.is_empty() || !golden.frames.is_empty(), "{at}: nothing is compared");
        let mut differs = golden.unprepared.is_none();
        for (key, (modulus, expected)) in &golden.registers {
            let (program, epoch, part, array) = key;
            let cells = left.registers.get(key).unwrap_or_else(|| panic!("{at}: weir has no {key:?}"));
            let before = || left.registers.get(&(program.clone(), epoch - 1, *part, array.clone()));
            let mut cells = modulus.map_or_else(|| cells.clone(), |modulus| half(*epoch, cells, before(), modulus));
            if golden.unprepared == Some(*epoch) {
                differs |= cells.iter().any(|byte| *byte > 0);
                cells.fill(0);
            }
            assert_eq!(&hash(&cells), expected, "{at}: registers {key:?}");
        }
        assert!(differs, "{at}: weir measured nothing of the epoch that nobody prepared");
        for (port, expected) in golden.whole().unwrap_or_default() {
            let frames = left.frames.get(&port).map_or(&[][..], Vec::as_slice);
            let differing = expected.iter().zip(frames).position(|(expected, frame)| expected != frame);
            assert_eq!(differing, None, "{at}: a packet that leaves by port {port}");
        }
        for (port, (number, expected)) in &golden.frames {
            let frames = left.frames.get(port).map_or(&[][..], Vec::as_slice);
            assert_eq!(
                (frames.len(), &hash_of(frames)),
                (*number, expected),
                "{at}: packets that leave by port {port}"
            );
        }
    }
}
