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
        let (mut first_epoch, mut epochs, mut odd) = (0, 0, 0);
        let (mut registers, mut frames) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["program", program] => programs.push(program.parse().unwrap()),
                ["workload", text] => workload = text.parse().unwrap(),
                ["epochs", first, number] => (first_epoch, epochs) = (first.parse().unwrap(), number.parse().unwrap()),
                ["odd", number] => odd = number.parse().unwrap(),
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
        Self { path: path.into(), programs, passage, registers, frames }
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
const NARROW_CHAMELEMON: &str = "chamelemon:downstream=4096,hh=2048,hl=1024,ll=1024";

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
        for (key, (modulus, expected)) in &golden.registers {
            let (program, epoch, part, array) = key;
            let cells = left.registers.get(key).unwrap_or_else(|| panic!("{at}: weir has no {key:?}"));
            let before = || left.registers.get(&(program.clone(), epoch - 1, *part, array.clone()));
            let cells = modulus.map_or_else(|| cells.clone(), |modulus| half(*epoch, cells, before(), modulus));
            assert_eq!(&hash(&cells), expected, "{at}: registers {key:?}");
        }
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
