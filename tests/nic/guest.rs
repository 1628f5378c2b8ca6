//! A guest of qemu, emulated throughout, that a test runs commands in.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{BINARY, Lab, Lack, Totals, eventually, skip};

/// A network card of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    /// With two queues that it spreads flows over.
    Virtio,
    E1000e,
    Vmxnet3,
}

impl Card {
    /// Name of the kernel's driver for it, as `weir doctor` has it.
    pub fn kernel_driver(self) -> &'static str {
        match self {
            Self::Virtio => "virtio-pci",
            Self::E1000e => "e1000e",
            Self::Vmxnet3 => "vmxnet3",
        }
    }

    /// The module that has this driver.
    fn module(self) -> &'static str {
        match self {
            Self::Virtio => "virtio_net",
            Self::E1000e => "e1000e",
            Self::Vmxnet3 => "vmxnet3",
        }
    }

    /// Card `n`, on the TAP interface of host `n`.
    fn arguments(self, n: usize, iommu: bool) -> [String; 4] {
        let queues = if self == Self::Virtio { ",queues=2" } else { "" };
        let model = match self {
            // Its DMA goes through an IOMMU only if told so.
            Self::Virtio if iommu => "virtio-net-pci,disable-legacy=on,mq=on,rss=on,vectors=6,iommu_platform=on,ats=on",
            Self::Virtio => "virtio-net-pci,disable-legacy=on,mq=on,rss=on,vectors=6",
            Self::E1000e => "e1000e",
            Self::Vmxnet3 => "vmxnet3",
        };
        [
            "-netdev".into(),
            format!("tap,id=net{n},ifname=h{n},script=no,downscript=no,vhost=off{queues}"),
            "-device".into(),
            format!("{model},id=card{n},netdev=net{n},mac={}", mac(n)),
        ]
    }
}

/// MAC of a guest's card.
pub fn mac(n: usize) -> String {
    format!("52:54:00:00:00:{n:02x}")
}

/// What the guest is made of.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub card: Card,
    pub cards: usize,
    pub iommu: bool,
    /// Words of the kernel's command line.
    pub kernel: &'static str,
    /// Socket of a `vhost:` port outside, for one more card.
    pub vhost: Option<&'static str>,
}

impl Default for Machine {
    fn default() -> Self {
        Self { card: Card::Virtio, cards: 2, iommu: true, kernel: "intel_iommu=on iommu=pt", vhost: None }
    }
}

impl Machine {
    fn arguments(&self, directory: &Path) -> Vec<String> {
        let image = image();
        let words = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut arguments = words("-machine q35,memory-backend=memory -accel tcg,thread=multi -cpu max -smp 3 -m 1536");
        // A vhost-user switch maps it.
        arguments.extend(words("-object memory-backend-memfd,id=memory,size=1536M,share=on"));
        arguments.extend(words("-nodefaults -display none -no-reboot -serial file:console"));
        if self.iommu {
            arguments.extend(words("-device intel-iommu,intremap=on"));
        }
        for file in ["kernel", "initrd"] {
            let path = image.join(if file == "kernel" { "vmlinuz" } else { "initramfs" });
            arguments.extend([format!("-{file}"), path.display().to_string()]);
        }
        arguments.extend(["-append".into(), format!("console=ttyS0 quiet panic=-1 {}", self.kernel)]);
        let built = Path::new(BINARY).parent().expect("in a directory").to_owned();
        for (tag, path) in [("kernel", image.join("kernel")), ("usr", "/usr".into()), ("weir", built)] {
            let share = format!("local,path={},mount_tag={tag}", path.display());
            arguments.extend(["-virtfs".into(), format!("{share},security_model=none,readonly=on,multidevs=remap")]);
        }
        arguments.extend(words("-chardev socket,id=shell,path=shell,server=on,wait=off -device virtio-serial-pci"));
        arguments.extend(words("-device virtserialport,chardev=shell -monitor unix:monitor,server=on,wait=off"));
        arguments.extend((1..=self.cards).flat_map(|n| self.card.arguments(n, self.iommu)));
        if let Some(socket) = self.vhost {
            let path = directory.join(socket);
            arguments.extend(["-chardev".into(), format!("socket,id=vhost,path={}", path.display())]);
            arguments.extend(words("-netdev vhost-user,id=vhost,chardev=vhost"));
            // With MSI-X qemu 7.2 ends with a segmentation fault where there is no KVM.
            arguments.extend(words(&format!("-device virtio-net-pci,netdev=vhost,vectors=0,mac={}", mac(99))));
        }
        arguments
    }
}

fn image() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/nic")
}

/// Up and taking commands. Killed when dropped.
pub struct Guest {
    qemu: Child,
    shell: BufReader<UnixStream>,
    monitor: UnixStream,
    /// The serial console, and what qemu itself says: much, of BPF programs that it cannot load and
    /// of DMA that the IOMMU refuses at the end.
    logs: [PathBuf; 2],
    /// PCI addresses of the cards.
    pub cards: Vec<String>,
}

impl Guest {
    /// Boots a guest whose cards are on TAP interfaces `h1`, `h2`, … in the lab's switch namespace.
    /// `None` where there is no image.
    pub fn boot(test: &str, lab: &Lab, machine: &Machine) -> Option<Self> {
        if !image().join("initramfs").exists() {
            skip(test, Lack::Machine, "no image of the guest: make test-nic makes it");
            return None;
        }
        let directory = lab.directory();
        let mut command = lab.switch.command("qemu-system-x86_64");
        let logs = ["console", "qemu"].map(|name| directory.join(name));
        command.args(machine.arguments(directory)).current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null());
        let mut qemu = command.stderr(File::create(&logs[1]).expect("written")).spawn().expect("starts");
        let mut connect = |name: &str| {
            eventually("qemu to listen", || {
                let ended = qemu.try_wait().expect("ours").is_some();
                assert!(!ended, "qemu ended: {}", std::fs::read_to_string(&logs[1]).unwrap_or_default());
                UnixStream::connect(directory.join(name)).ok()
            })
        };
        let (shell, monitor) = (connect("shell"), connect("monitor"));
        // Longer than any command of a test takes on a loaded machine.
        shell.set_read_timeout(Some(Duration::from_secs(180))).expect("not zero");
        let mut guest = Self { qemu, shell: BufReader::new(shell), monitor, logs, cards: Vec::new() };
        guest.answer();
        guest.run(&format!("modprobe {}", machine.card.module()));
        // The addresses of PCI class 02, network, in the order in which qemu has made them.
        guest.cards = guest
            .run("grep -l 0x02 /sys/bus/pci/devices/*/class")
            .lines()
            .filter_map(|line| Some(line.split('/').nth(5)?.to_owned()))
            .collect();
        Some(guest)
    }

    /// Exit code and output of the command that was sent.
    fn answer(&mut self) -> (i32, String) {
        self.read_answer().expect("the guest answers")
    }

    fn read_answer(&mut self) -> Option<(i32, String)> {
        let mut line = String::new();
        self.shell.read_line(&mut line).ok()?;
        let (code, length) = line.trim().split_once(' ')?;
        let mut output = vec![0; length.parse().ok()?];
        self.shell.read_exact(&mut output).ok()?;
        Some((code.parse().ok()?, String::from_utf8_lossy(&output).into_owned()))
    }

    /// Runs a line of the guest's shell; returns its exit code and what it printed.
    pub fn try_run(&mut self, line: &str) -> (i32, String) {
        writeln!(self.shell.get_mut(), "{line}").expect("the guest listens");
        self.answer()
    }

    /// Runs a line that must succeed.
    pub fn run(&mut self, line: &str) -> String {
        let (code, output) = self.try_run(line);
        assert_eq!(code, 0, "guest: {line}\n{output}");
        output
    }

    /// Plugs the cable of a card in, or pulls it.
    pub fn set_link(&mut self, card: usize, up: bool) {
        let state = if up { "on" } else { "off" };
        writeln!(self.monitor, "set_link card{card} {state}").expect("qemu listens");
    }

    pub fn json(&mut self, line: &str) -> Value {
        let output = self.run(&format!("{line} --json"));
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error} in {output}"))
    }

    /// The checks of `weir doctor` in the guest.
    pub fn doctor(&mut self) -> Vec<Value> {
        self.json("weir doctor")["checks"].as_array().expect("checks").clone()
    }

    /// Binds the cards by the commands that doctor prints, and reserves huge pages as it says.
    pub fn bind(&mut self) {
        for check in self.doctor() {
            if ["pci", "huge-pages"].map(Value::from).contains(&check["name"])
                && let Some(command) = check["mend"].as_str()
            {
                self.run(command);
            }
        }
        for card in self.cards.clone() {
            let checks = self.doctor();
            let ready = checks.iter().any(|check| text(&check["found"]).ends_with(&format!("=pci:{card}")));
            assert!(ready, "{card} is bound: {checks:#?}");
        }
    }

    /// Ports `port1`, `port2`, … on the cards.
    pub fn ports(&self) -> String {
        let port = |(n, address): (usize, &String)| format!("--port port{}=pci:{address}", n + 1);
        self.cards.iter().enumerate().map(port).collect::<Vec<_>>().join(" ")
    }

    /// Starts a switch, and waits until its ports are up.
    pub fn start(&mut self, arguments: &str) {
        self.run("rm -f /tmp/weir.json /tmp/weir.log /tmp/weir.pid /tmp/weir.code");
        self.run(&format!(
            "(weir run --json {arguments} >/tmp/weir.json 2>/tmp/weir.log & \
             echo $! >/tmp/weir.pid; wait $!; echo $? >/tmp/weir.code) &"
        ));
        eventually("weir to be ready", || {
            let log = self.log();
            assert_ne!(self.try_run("test -e /tmp/weir.code").0, 0, "weir run {arguments}:\n{log}");
            log.contains("ready").then_some(())
        });
        eventually("the links to be up", || {
            let ports = self.json("weir show ports");
            ports["ports"].as_array()?.iter().all(|port| port["link_up"] == true).then_some(())
        });
    }

    pub fn log(&mut self) -> String {
        self.try_run("cat /tmp/weir.log").1
    }

    /// SIGTERM, then the totals; every packet must be accounted for.
    pub fn stop(&mut self) -> Totals {
        self.run("kill -TERM $(cat /tmp/weir.pid)");
        // The file is there before the code is in it.
        let code = eventually("weir to end", || {
            let (found, code) = self.try_run("cat /tmp/weir.code");
            (found == 0 && !code.trim().is_empty()).then_some(code)
        });
        let (log, results) = (self.log(), self.run("cat /tmp/weir.json"));
        assert_eq!(code.trim(), "0", "{log}");
        let totals =
            Totals(serde_json::from_str(&results).unwrap_or_else(|error| panic!("{error} in {results}\n{log}")));
        totals.balance();
        totals
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let [console, qemu] = self.logs.each_ref().map(|log| std::fs::read_to_string(log).unwrap_or_default());
            // Its shell may be what has failed.
            let asked = writeln!(self.shell.get_mut(), "cat /tmp/weir.log");
            let log = if asked.is_ok() { self.read_answer().map(|answer| answer.1) } else { None };
            eprintln!("weir said in the guest:\n{}\nits console:\n{console}", log.unwrap_or_default());
            eprintln!("qemu said:\n{qemu}");
        }
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
