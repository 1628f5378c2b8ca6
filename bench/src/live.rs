//! The cycles of a packet in live switches, with and without programs. Each case is a `weir run` of
//! its own, and `weir top` says what it takes.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use weir::trace::Workload;

use crate::suite::Weir;
use crate::throughput::{Spread, machine};

#[derive(Args)]
pub struct Live {
    /// A program; of several, each by itself
    #[arg(long = "program", value_name = "PROGRAM", required = true)]
    programs: Vec<String>,
    /// Programs that each of the others is measured beside as well
    #[arg(long, value_name = "PROGRAM")]
    beside: Vec<String>,
    /// The packets, which are held in memory and come over and over
    #[arg(long, default_value = "isp/burst,flows=5k,packets=16k")]
    workload: String,
    /// Seconds in which a case is measured
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds; in each, every case is measured once
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    #[arg(long, default_value_t = 1)]
    core: usize,
    #[arg(long)]
    no_huge_pages: bool,
    /// Gives the worker a real-time priority, on a machine where something else runs
    #[arg(long)]
    real_time: bool,
    /// The switch [default: the `weir` beside this program]
    #[arg(long, value_name = "FILE")]
    weir: Option<PathBuf>,
}

/// Where in the network the switch stands: the roles of the ports by which packets come and leave.
#[derive(Clone, Copy)]
struct Place {
    name: &'static str,
    from: &'static str,
    to: &'static str,
}

const PLACES: [Place; 3] = [
    Place { name: "first", from: "host", to: "fabric" },
    Place { name: "between", from: "fabric", to: "fabric" },
    Place { name: "last", from: "fabric", to: "host" },
];

/// Packet buffers, of which each packet of the capture takes one.
const BUFFERS: usize = 60_000;
/// Longest time in which it forwards the packets once.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time after its start in which a switch is not measured.
const SETTLED: Duration = Duration::from_millis(500);

struct Case<'a> {
    place: Place,
    programs: Vec<&'a str>,
    /// Cycles of a packet, and those that the last program's stages take of them.
    cycles: Vec<f64>,
    own: Vec<f64>,
}

impl Live {
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds: at least one");
        let directory = tempfile::tempdir()?;
        let trace = self.workload.parse::<Workload>()?.generate();
        ensure!(trace.sequence.len() <= BUFFERS / 2, "--workload: at most {} packets", BUFFERS / 2);
        trace.write_pcap(BufWriter::new(File::create(capture(directory.path(), "host"))?))?;
        self.write_shims(directory.path())?;

        let beside: Vec<&str> = self.beside.iter().map(String::as_str).collect();
        let mut sets = vec![Vec::new()];
        sets.extend(self.programs.iter().map(|program| vec![program.as_str()]));
        if !beside.is_empty() {
            sets.extend(self.programs.iter().map(|program| [&beside[..], &[program]].concat()));
            sets.insert(1, beside);
        }
        let of_place = |place| sets.iter().map(move |set| (place, set.clone()));
        let case = |(place, programs)| Case { place, programs, cycles: Vec::new(), own: Vec::new() };
        let mut cases: Vec<_> = PLACES.into_iter().flat_map(of_place).map(case).collect();
        for _ in 0..self.rounds {
            for case in &mut cases {
                let (cycles, own) = self.measure(directory.path(), case)?;
                case.cycles.push(cycles);
                case.own.push(own);
            }
        }
        self.report(&cases);
        Ok(())
    }

    /// Packets as the first switch sends them to the next one, with the programs beside and the first of
    /// the others: a packet has room for one digest.
    fn write_shims(&self, directory: &Path) -> Result<()> {
        let devices = ["host", "fabric"].map(|role| format!("pcap:{}", capture(directory, role).display()));
        let devices = [devices[0].clone(), devices[1].replacen("pcap:", "pcap:,", 1)];
        let programs = self.beside.iter().chain(self.programs.first()).map(String::as_str);
        let switch = self.start(directory, PLACES[0], devices, programs)?;
        let (begin, packets) = (Instant::now(), self.workload.parse::<Workload>()?.packets);
        while switch.sent()? != packets {
            ensure!(begin.elapsed() < PATIENCE, "weir did not forward the {packets} packets");
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn measure(&self, directory: &Path, case: &Case) -> Result<(f64, f64)> {
        let devices = [format!("pcap:{},,infinite", capture(directory, case.place.from).display()), "null:rx=0".into()];
        let switch = self.start(directory, case.place, devices, case.programs.iter().copied())?;
        if self.real_time {
            prefer_worker(switch.pid())?;
        }
        sleep(SETTLED);
        let answer = switch.top(Duration::from_secs_f64(self.seconds))?;
        let core = answer["cores"].get(0).context("no core in the answer")?;
        let of = |value: &Value| value["cycles_per_packet"].as_f64();
        let own = core["programs"].as_array().and_then(|programs| of(programs.last()?));
        Ok((of(core).context("no packet came")?, own.unwrap_or_default()))
    }

    fn start<'a>(
        &self,
        directory: &Path,
        place: Place,
        devices: [String; 2],
        programs: impl Iterator<Item = &'a str>,
    ) -> Result<Weir> {
        let binary = match &self.weir {
            Some(weir) => weir.clone(),
            None => std::env::current_exe()?.with_file_name("weir"),
        };
        // A port's role stands in a file alone.
        let mut config = format!(
            "[switch]\nname = \"bench-live\"\nforward = \"xconnect\"\ncores = [{}]\nbuffers = {BUFFERS}\n",
            self.core
        );
        for (name, role, device) in [("in", place.from, &devices[0]), ("out", place.to, &devices[1])] {
            config += &format!("[[port]]\nname = \"{name}\"\ndev = \"{device}\"\nrole = \"{role}\"\n");
        }
        let file = directory.join("weir.toml");
        fs::write(&file, config)?;
        // Programs together may exceed what a switch chip has.
        let mut words: Vec<String> = ["run", "--target", "software", "--config"].map(str::to_owned).into();
        words.push(file.display().to_string());
        words.extend(programs.flat_map(|program| ["--program".to_owned(), program.to_owned()]));
        words.extend(self.no_huge_pages.then(|| "--no-huge-pages".to_owned()));
        Weir::with_arguments(&[], &binary, &words)?.when_it_answers()
    }

    fn report(&self, cases: &[Case]) {
        println!("{}", machine());
        println!(
            "{}, {} huge pages; live switches, least, median and most of {} rounds of {} s in turns\n",
            self.workload,
            if self.no_huge_pages { "without" } else { "with" },
            self.rounds,
            self.seconds
        );
        println!("| switch | programs | TSC cycles a packet | of these the last program's stages |");
        println!("| --- | --- | --- | --- |");
        for case in cases {
            let spread = |values: &[f64]| {
                let Spread { min, median, max } = Spread::of(values.to_vec());
                format!("{min:.0}, {median:.0}, {max:.0}")
            };
            let (programs, own) = match &case.programs[..] {
                [] => ("none".into(), String::new()),
                programs => (programs.join(", "), spread(&case.own)),
            };
            println!("| {} | {programs} | {} | {own} |", case.place.name, spread(&case.cycles));
        }
    }
}

/// Packets as they come by a port with this role.
fn capture(directory: &Path, role: &str) -> PathBuf {
    directory.join(format!("{role}.pcap"))
}

/// Gives the thread of this switch that polls a real-time priority. The others keep theirs, and
/// need another CPU then.
fn prefer_worker(pid: u32) -> Result<()> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        let name = fs::read_to_string(thread.path().join("comm"))?;
        if name.trim_end().strip_prefix("weir-").is_some_and(|core| core.parse::<usize>().is_ok()) {
            let mut command = Command::new("chrt");
            let status = command.args(["--fifo", "--pid", "50"]).arg(thread.file_name()).status()?;
            ensure!(status.success(), "chrt(1): {status}");
        }
    }
    Ok(())
}
