//! Runs a case once.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use tempfile::TempDir;
use weir::trace::Workload;

use super::case::{Case, Contender, Group, Port, SIZES, Setting, Size};
use super::generate::{Curve, SENDING};
use super::native::{Loop, Native};
use super::place::{GENERATOR, Place, SWITCH};
use super::switch::{self, Weir};
use crate::child;
use crate::throughput::ovs::Ovs;
use crate::throughput::testpmd::{self, Testpmd};

/// The result of a case in one round.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Packets a second.
    Rate(f64),
    Load(Curve),
    Start(Footprint),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Footprint {
    /// From the start of the program to the first frame that comes through.
    pub first_frame_seconds: f64,
    /// Memory in pages of the usual size, and in huge pages. The kernel's bridge has no process.
    pub resident_bytes: Option<u64>,
    pub huge_bytes: Option<u64>,
}

/// Settings that all cases share.
pub struct Bench {
    weir: PathBuf,
    seconds: f64,
    /// The cores that forward; one core is the first. The generator has the last.
    cores: Vec<usize>,
    dir: TempDir,
    native: OnceCell<Native>,
}

/// Packets of a capture. Each is a buffer that the driver goes round.
const CAPTURED: u32 = 32_768;
/// Of a port with a capture.
const BUFFERS: u32 = 65_535;
/// Of others, as few as all have room for.
const FEW_BUFFERS: u32 = 16_384;
/// Until a rate is measured, so that a forwarder runs at its own.
const SETTLE: Duration = Duration::from_millis(300);
/// Longest wait for an interface, and for a line of the generator.
const PATIENCE: Duration = Duration::from_secs(40);

impl Bench {
    pub fn new(weir: PathBuf, seconds: f64, cores: Vec<usize>) -> Result<Self> {
        ensure!(weir.is_file(), "no {}: make build, or --weir PATH", weir.display());
        let bench = Self { weir, seconds, cores, dir: tempfile::tempdir()?, native: OnceCell::new() };
        for size in SIZES {
            let flows = 10_000;
            let workload: Workload = format!("isp/burst,flows={flows},packets={CAPTURED},len={size}").parse()?;
            workload.generate().write_pcap(BufWriter::new(File::create(bench.capture(size))?))?;
        }
        Ok(bench)
    }

    /// # Errors
    /// If a contender does not do what it should, with what it says.
    pub fn run(&self, case: &Case) -> Result<Outcome> {
        match case.group {
            Group::Load => self.load(case).map(Outcome::Load),
            Group::Start => self.start(case).map(Outcome::Start),
            _ => self.rate(case).map(Outcome::Rate),
        }
    }

    fn capture(&self, size: Size) -> PathBuf {
        self.dir.path().join(format!("{size}.pcap"))
    }

    fn socket(&self, i: usize) -> String {
        self.dir.path().join(format!("memif{i}.sock")).display().to_string()
    }

    fn cores(&self, setting: Setting) -> &[usize] {
        &self.cores[..setting.cores]
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    fn rate(&self, case: &Case) -> Result<f64> {
        let setting = case.setting;
        match &case.contender {
            Contender::Weir(programs) if setting.port == Port::Null && setting.flows.is_some() => {
                let flows = setting.flows.unwrap_or_default();
                let packets = (4 * flows).max(2_000_000);
                let mut words = vec!["--workload".into(), format!("isp/burst,flows={flows},packets={packets}")];
                words.extend(programs.iter().flat_map(|program| ["--program".into(), program.clone()]));
                self.forward(setting, &words)
            }
            Contender::Weir(_) if setting.port == Port::Ring => self.forward(setting, &["--dev".into(), "ring".into()]),
            Contender::WeirSwap => self.forward(setting, &["--swap-macs".into()]),
            Contender::Member(percent) => self.native(Loop::Member(f64::from(*percent) / 100.0), setting),
            Contender::Swx => self.native(Loop::Swx, setting),
            _ => {
                let mut running = self.forwarder(case, None)?;
                sleep(SETTLE);
                running.pid().map_or(Ok(()), |pid| check_pages(pid, setting.huge_pages))?;
                running.rate(self.time())
            }
        }
    }

    /// weir in a process of the bench's own.
    fn forward(&self, setting: Setting, words: &[String]) -> Result<f64> {
        let mut command = child::command(&[], std::env::current_exe()?);
        let cores: Vec<_> = self.cores(setting).iter().map(usize::to_string).collect();
        command.args(["forward", "--core", &cores.join(","), "--seconds", &self.seconds.to_string()]).args(words);
        if !setting.huge_pages {
            command.arg("--no-huge-pages");
        }
        let output = command.output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "bench forward: {}", error.lines().next().unwrap_or_default());
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }

    fn native(&self, which: Loop, setting: Setting) -> Result<f64> {
        let native = match self.native.get() {
            Some(native) => native,
            None => {
                let built = Native::build()?;
                self.native.get_or_init(|| built)
            }
        };
        native.rate(which, &self.dpdk_devices(setting)?, self.cores[0], setting.huge_pages, self.seconds)
    }

    fn load(&self, case: &Case) -> Result<Curve> {
        let setting = case.setting;
        let place = setting.port.is_of_the_kernel().then(Place::new).transpose()?;
        if let Some(place) = &place
            && setting.port != Port::Tap
        {
            place.veths()?;
        }
        let running = self.forwarder(case, place.as_ref())?;
        if let Some(place) = &place {
            let ends = self.generator_ends(setting.port);
            wait_for("an interface", || ends.iter().all(|end| place.is_up(end)))?;
        }
        sleep(SETTLE);
        running.pid().map_or(Ok(()), |pid| check_pages(pid, setting.huge_pages))?;
        let mut generator = self.generator(setting, place.as_ref(), false)?;
        let output = generator.lines.collect::<std::io::Result<Vec<_>>>()?;
        let status = generator.child.0.wait()?;
        ensure!(status.success(), "the generator ended with {status}: {}", self.generator_said());
        serde_json::from_str(output.last().context("the generator said nothing")?).context("the generator's answer")
    }

    fn start(&self, case: &Case) -> Result<Footprint> {
        let place = Place::new()?;
        place.veths()?;
        let mut generator = self.generator(case.setting, Some(&place), true)?;
        let sending = generator.lines.next().with_context(|| self.generator_said())??;
        ensure!(sending == SENDING, "the generator: {sending}");
        let begin = SystemTime::now();
        let running = self.forwarder(case, Some(&place))?;
        let first = generator.lines.next().context("no frame came through")??;
        let first = SystemTime::UNIX_EPOCH + Duration::from_nanos(first.parse()?);
        sleep(SETTLE);
        let memory = running.pid().map(memory).transpose()?;
        memory.map_or(Ok(()), |(_, huge)| check_huge(huge, case.setting.huge_pages))?;
        Ok(Footprint {
            first_frame_seconds: first.duration_since(begin).context("a frame came before")?.as_secs_f64(),
            resident_bytes: memory.map(|memory| memory.0),
            huge_bytes: memory.map(|memory| memory.1),
        })
    }

    fn generator_ends(&self, port: Port) -> [&'static str; 2] {
        match port {
            Port::Tap => SWITCH,
            _ => GENERATOR,
        }
    }

    fn generator_log(&self) -> PathBuf {
        self.dir.path().join("generator.log")
    }

    /// The last line of its log.
    fn generator_said(&self) -> String {
        let log = std::fs::read_to_string(self.generator_log()).unwrap_or_default();
        log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("the generator said nothing").to_owned()
    }

    /// The generator on the last core.
    fn generator(&self, setting: Setting, place: Option<&Place>, first: bool) -> Result<Generator> {
        let devices: [String; 2] = match setting.port {
            Port::Memif => [0, 1].map(|i| format!("memif:{i},role=client,socket={}", self.socket(i))),
            port => self.generator_ends(port).map(|end| format!("veth:{end}")),
        };
        let core = self.cores.last().context("no core")?;
        let prefix = place.map(Place::prefix);
        let prefix = prefix.as_ref().map_or(&[][..], |words| &words[..]);
        let mut command = child::command(prefix, std::env::current_exe()?);
        command.args(["generate", "--tx", &devices[0], "--rx", &devices[1]]);
        command.arg(format!("--core={core}")).arg(format!("--flows={}", setting.flows.unwrap_or(1)));
        command.arg(format!("--seconds={}", self.seconds / 3.0)).args(first.then_some("--first"));
        command.args((!setting.huge_pages).then_some("--no-huge-pages"));
        let log = File::create(self.generator_log())?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().context("the generator does not start")?;
        let lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        Ok(Generator { lines, child: Killed(child) })
    }

    /// Starts what forwards between two ports of its own.
    fn forwarder(&self, case: &Case, place: Option<&Place>) -> Result<Running> {
        let setting = case.setting;
        let prefix = place.map(Place::prefix);
        let prefix = prefix.as_ref().map_or(&[][..], |words| &words[..]);
        let (cores, buffers) = (self.cores(setting), (setting.port == Port::Pcap).then_some(BUFFERS));
        let weir = |programs: &[String], busy_poll| {
            let devices = self.weir_devices(setting);
            let plan = switch::Plan {
                binary: &self.weir,
                prefix,
                devices: &devices,
                programs,
                cores,
                huge_pages: setting.huge_pages,
                buffers,
                busy_poll,
            };
            // Its start is what is measured, or how fast it is then.
            let weir = if case.group == Group::Start { Weir::spawn(&plan) } else { Weir::start(&plan) };
            weir.map(Running::Weir)
        };
        Ok(match &case.contender {
            Contender::Weir(programs) => weir(programs, false)?,
            Contender::WeirBusy => weir(&[], true)?,
            Contender::Testpmd(mode) => Running::Testpmd(Testpmd::start(&testpmd::Plan {
                prefix,
                mode,
                devices: &self.dpdk_devices(setting)?,
                cores,
                huge_pages: setting.huge_pages,
                buffers: buffers.unwrap_or(FEW_BUFFERS),
                sends_first: setting.port == Port::Ring,
            })?),
            Contender::Ovs => Running::Ovs(Ovs::start(prefix, &self.dpdk_devices(setting)?, self.cores[0])?),
            Contender::Bridge => {
                place.context("a bridge is between interfaces")?.bridge()?;
                Running::Bridge
            }
            other => bail!("{other} is not a switch of its own"),
        })
    }

    /// Both ports as weir calls them.
    fn weir_devices(&self, setting: Setting) -> [String; 2] {
        let both = |of: &dyn Fn(usize) -> String| [of(0), of(1)];
        match setting.port {
            Port::Pcap => [format!("pcap:{},,infinite", self.capture(setting.size).display()), "null:rx=0".into()],
            Port::Memif => both(&|i| format!("memif:{i},role=server,socket={}", self.socket(i))),
            Port::Veth | Port::Xdp | Port::Tap => both(&|i| format!("{}:{}", setting.port.name(), SWITCH[i])),
            port => both(&|_| port.name().into()),
        }
    }

    /// Both ports as DPDK calls them.
    fn dpdk_devices(&self, setting: Setting) -> Result<[String; 2]> {
        let both = |of: &dyn Fn(usize) -> String| [of(0), of(1)];
        Ok(match setting.port {
            Port::Null => both(&|i| format!("net_null{i}")),
            Port::NullCopy => both(&|i| format!("net_null{i},copy=1")),
            Port::Ring => both(&|i| format!("net_ring{i}")),
            Port::Pcap => [
                format!("net_pcap0,rx_pcap={},infinite_rx=1", self.capture(setting.size).display()),
                "net_null1,no-rx=1".into(),
            ],
            Port::Memif => both(&|i| {
                format!("net_memif{i},role=server,id={i},socket={},socket-abstract=no,bsize=2048", self.socket(i))
            }),
            Port::Veth => both(&|i| format!("net_af_packet{i},iface={}", SWITCH[i])),
            Port::Xdp => both(&|i| format!("net_af_xdp{i},iface={}", SWITCH[i])),
            Port::Tap => both(&|i| format!("net_tap{i},iface={}", SWITCH[i])),
        })
    }
}

/// What forwards until it is dropped.
enum Running {
    Weir(Weir),
    Testpmd(Testpmd),
    Ovs(Ovs),
    Bridge,
}

impl Running {
    fn rate(&mut self, time: Duration) -> Result<f64> {
        match self {
            Self::Weir(weir) => weir.rate(time),
            Self::Testpmd(testpmd) => testpmd.rate(time),
            Self::Ovs(ovs) => ovs.rate(time),
            Self::Bridge => bail!("the kernel's bridge has no counters here"),
        }
    }

    fn pid(&self) -> Option<u32> {
        match self {
            Self::Weir(weir) => Some(weir.pid()),
            Self::Testpmd(testpmd) => Some(testpmd.pid()),
            Self::Ovs(ovs) => ovs.pid(),
            Self::Bridge => None,
        }
    }
}

struct Generator {
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    child: Killed,
}

/// A process that does not outlive its handle.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) -> Result<()> {
    let begin = Instant::now();
    while !there() {
        ensure!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Refuses a process that has no huge pages where the case says that it has, or has some where the
/// case says that it has none.
pub fn check_pages(pid: u32, wanted: bool) -> Result<()> {
    check_huge(memory(pid)?.1, wanted)
}

fn check_huge(bytes: u64, wanted: bool) -> Result<()> {
    ensure!(bytes > 0 || !wanted, "a process that was to have huge pages got none");
    ensure!(bytes == 0 || wanted, "a process that was to have no huge pages has {bytes} bytes in them");
    Ok(())
}

/// Bytes that a process has in pages of the usual size, and in huge pages.
fn memory(pid: u32) -> Result<(u64, u64)> {
    let path = Path::new("/proc").join(pid.to_string()).join("status");
    let status = std::fs::read_to_string(path).context("the switch has ended")?;
    pages(&status).context("a line of /proc/PID/status")
}

fn pages(status: &str) -> Option<(u64, u64)> {
    let bytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    // A kernel without huge pages has no line for them.
    Some((bytes("VmRSS")?, bytes("HugetlbPages").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        let status = "Name:\tweir\nVmPeak:\t  999 kB\nVmRSS:\t   60416 kB\nHugetlbPages:\t  204800 kB\n";
        assert_eq!(pages(status), Some((60_416 << 10, 200 << 20)));
        assert_eq!(pages("VmRSS:\t   8 kB\n"), Some((8 << 10, 0)));
        assert_eq!(pages("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn a_process_must_have_the_pages_that_its_case_says() {
        assert!(check_huge(2 << 20, true).is_ok() && check_huge(0, false).is_ok());
        assert!(check_huge(0, true).unwrap_err().to_string().contains("got none"));
        assert!(check_huge(2 << 20, false).unwrap_err().to_string().contains("2097152 bytes"));
        let this = std::process::id();
        assert!(check_pages(this, false).is_ok() && check_pages(this, true).is_err(), "a test has none");
        assert!(check_pages(u32::MAX, false).is_err(), "there is no such process");
    }

    #[test]
    fn both_sides_get_the_same_devices() {
        let weir = std::env::current_exe().unwrap();
        let bench = Bench::new(weir, 0.1, vec![1, 0]).unwrap();
        let setting = Setting { port: Port::Pcap, size: Size::Imix, flows: None, cores: 1, huge_pages: false };
        let (ours, theirs) = (bench.weir_devices(setting), bench.dpdk_devices(setting).unwrap());
        let capture = bench.capture(Size::Imix);
        assert!(capture.is_file());
        let capture = capture.display().to_string();
        assert!(ours[0].contains(&capture) && theirs[0].contains(&capture), "{ours:?} {theirs:?}");
        for device in &ours {
            assert!(device.parse::<weir::port::Dev>().is_ok(), "{device}");
        }
        let veth = Setting { port: Port::Veth, ..setting };
        assert_eq!(bench.weir_devices(veth), ["veth:p1", "veth:p2"]);
        assert_eq!(bench.dpdk_devices(veth).unwrap()[1], "net_af_packet1,iface=p2");
        let xdp = Setting { port: Port::Xdp, ..setting };
        assert!(bench.weir_devices(xdp).iter().all(|device| device.parse::<weir::port::Dev>().is_ok()));
        assert_eq!(bench.dpdk_devices(xdp).unwrap()[0], "net_af_xdp0,iface=p1");
    }
}
