//! The switch that all tests of the file share, its traffic, and what is waited for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir::api::view;
use weir::api::{NewPort, Service};
use weir::config::{Config, Length, PortConfig};
use weir::live::{Live, Rights};
use weir::port::MemoryHandle;
use weir::switch::Role;

/// What a reload reads in place of a file.
pub static FILE: Mutex<Option<Config>> = Mutex::new(None);

pub fn file(config: Config) {
    *FILE.lock().unwrap_or_else(PoisonError::into_inner) = Some(config);
}

pub fn port(name: &str, dev: &str) -> PortConfig {
    PortConfig::new(name, dev.parse().unwrap())
}

/// Two ports that stay through all changes, and a program.
pub fn base() -> Config {
    let mut config = Config { ports: vec![port("a", "memory"), port("b", "memory")], ..Config::default() };
    config.switch.name = format!("live-changes-{}", std::process::id());
    config.switch.cores = cores();
    config.switch.huge_pages = Some(false);
    config.switch.epoch = Length(Duration::from_millis(20));
    config.programs = vec!["hashpipe:stages=3,slots=512".parse().unwrap()];
    config
}

/// Two workers where the machine has two cores for us.
fn cores() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    };
    list.trim().split(',').flat_map(range).take(2).collect()
}

/// The switch as [`base`] has it, for the test that holds it.
pub fn switch() -> MutexGuard<'static, Live> {
    static LIVE: OnceLock<(Mutex<Live>, tempfile::TempDir)> = OnceLock::new();
    let (live, _) = LIVE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let reread = || FILE.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(|| "no file".to_owned());
        let socket = directory.path().join("weir.sock");
        let live = Live::start(base(), Some(Box::new(reread)), Vec::new(), Some(socket), Rights::Keep);
        (Mutex::new(live.expect("a switch in memory starts anywhere")), directory)
    });
    let live = live.lock().unwrap_or_else(PoisonError::into_inner);
    file(base());
    live.service().reload().unwrap();
    live
}

/// An IPv4 packet of flow number `flow`.
pub fn frame(from: u8, to: u8, flow: u16) -> Vec<u8> {
    let mut frame = [[2, 0, 0, 0, 0, to], [2, 0, 0, 0, 0, from]].concat();
    frame.extend([0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend([flow.to_be_bytes(), 53u16.to_be_bytes(), 26u16.to_be_bytes(), [0, 0]].concat());
    frame.resize(60, 0);
    frame
}

pub fn eventually(what: &str, live: &Live, done: impl Fn(&view::Ports) -> bool) -> view::Ports {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let ports = live.ports();
        if done(&ports) {
            return ports;
        }
        assert!(Instant::now() < end, "waited for {what}: {ports:#?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Every packet that came in has gone out or been dropped for a reason, and what a device refused
/// is what it says that it did.
pub fn balanced(live: &Live) -> view::Ports {
    let ports = eventually("the books to balance", live, |ports| ports.packets.unaccounted() == 0);
    for port in &ports.ports {
        let refused = ["tx_error", "tx_too_long"].map(|why| port.counts.device[why]);
        assert_eq!(port.counts.drops["tx_refused"], refused.iter().sum::<u64>(), "what the device says: {port:#?}");
    }
    ports
}

/// Packets from `a` to `b` and back without pause, through whatever is done to the switch.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Traffic {
    pub fn start(live: &Live) -> Self {
        let ends: Vec<MemoryHandle> = ["a", "b"].iter().map(|name| live.memory(name).unwrap()).collect();
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), sent.clone());
        let thread = std::thread::spawn(move || {
            let frames = [frame(1, 2, 1000), frame(2, 1, 2000)];
            while !stopped.load(Relaxed) {
                for (end, frame) in ends.iter().zip(&frames) {
                    counted.fetch_add(u64::from(end.inject(frame)), Relaxed);
                    while end.collect().is_some() {}
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        while sent.load(Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { stop, sent, thread }
    }

    pub fn stop(self) -> u64 {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Relaxed)
    }
}

pub fn new_port(name: &str, dev: &str) -> NewPort {
    NewPort { name: name.into(), dev: dev.parse().unwrap(), role: Role::Host, mtu_bytes: 1500, pair: None }
}
