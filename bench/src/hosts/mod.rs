//! Two hosts on one machine, joined by weir, by `dpdk-testpmd`, by OVS-DPDK and by the kernel's
//! bridge, in turns: TCP, round trips, and what the switch costs while nobody sends.

mod site;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::throughput::{Spread, machine, ovs};
use site::{HOSTS, SWITCH, Site, run};

#[derive(Args)]
pub struct Hosts {
    /// Rounds; in each, every contender runs once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of TCP in each run
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Pings in each run, 2 ms apart
    #[arg(long, default_value_t = 1000)]
    pings: usize,
    /// Only contenders whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// The weir to run; by default the one beside this program
    #[arg(long)]
    weir: Option<PathBuf>,
}

/// How hosts are joined to the switch.
#[derive(Clone, Copy, PartialEq)]
enum Link {
    Tap,
    Veth,
    Xdp,
}

impl Link {
    /// DPDK's driver of such ports.
    fn driver(self) -> &'static str {
        ["net_tap", "net_af_packet", "net_af_xdp"][self as usize]
    }

    /// Both ports as DPDK's `--vdev` takes them.
    fn devices(self) -> [String; 2] {
        let interfaces = if self == Self::Tap { HOSTS } else { SWITCH };
        [0, 1].map(|port| format!("{}{port},iface={}", self.driver(), interfaces[port]))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Contender {
    Weir {
        link: Link,
        busy: bool,
    },
    /// In forwarding mode io, the fastest. Its drivers lose checksums that are left to a NIC and
    /// cut large frames, so the hosts' offloads have to be off.
    Testpmd(Link),
    /// One flow entry each way. It has the same drivers, but takes no port of net_tap.
    Ovs(Link),
    Bridge,
}

impl Contender {
    const ALL: [Self; 11] = [
        Self::Weir { link: Link::Tap, busy: false },
        Self::Weir { link: Link::Veth, busy: false },
        Self::Weir { link: Link::Xdp, busy: false },
        Self::Weir { link: Link::Veth, busy: true },
        Self::Weir { link: Link::Xdp, busy: true },
        Self::Testpmd(Link::Tap),
        Self::Testpmd(Link::Veth),
        Self::Testpmd(Link::Xdp),
        Self::Ovs(Link::Veth),
        Self::Ovs(Link::Xdp),
        Self::Bridge,
    ];

    fn name(self) -> String {
        match self {
            Self::Weir { link, busy } => {
                let kind = ["tap", "veth", "xdp"][link as usize];
                format!("weir {kind}{}", if busy { ", busy poll" } else { "" })
            }
            Self::Testpmd(link) => format!("testpmd {}, host offloads off", link.driver()),
            Self::Ovs(link) => format!("OVS-DPDK {}, host offloads off", link.driver()),
            Self::Bridge => "Linux bridge".into(),
        }
    }

    fn offloads(self) -> bool {
        !matches!(self, Self::Testpmd(_) | Self::Ovs(_))
    }

    /// Joins the hosts.
    fn join(self, site: &mut Site, weir: &str) -> Result<()> {
        let link = match self {
            Self::Weir { link, .. } | Self::Testpmd(link) | Self::Ovs(link) => link,
            Self::Bridge => Link::Veth,
        };
        if link != Link::Tap {
            site.veths()?;
        }
        match self {
            Self::Weir { busy, .. } => {
                let ports = HOSTS.iter().zip(SWITCH).map(|(host, port)| match link {
                    Link::Tap => format!("{host}=tap:{host}"),
                    Link::Veth => format!("{host}=veth:{port}"),
                    Link::Xdp => format!("{host}=xdp:{port}"),
                });
                let ports: Vec<_> = ports.collect();
                let name = format!("bench-{}", std::process::id());
                let mut words = vec![weir, "run", "--name", &name, "--port", &ports[0], "--port", &ports[1]];
                if busy {
                    words.push("--busy-poll");
                }
                site.start(&words)?;
            }
            Self::Testpmd(_) => {
                let devices = link.devices();
                let mut words = vec!["dpdk-testpmd", "--lcores", "0,1", "--no-pci", "--no-telemetry", "--no-huge"];
                words.extend(["-m", "256", "--no-shconf", "--file-prefix", "weir-bench"]);
                words.extend(devices.iter().flat_map(|device| ["--vdev", device]));
                words.extend([
                    "--",
                    "--nb-cores=1",
                    "--forward-mode=io",
                    "--stats-period=60",
                    "--total-num-mbufs=16384",
                ]);
                site.start(&words)?;
            }
            Self::Ovs(_) => site.start_ovs(&link.devices())?,
            Self::Bridge => {
                run(&site.in_switch(&["ip", "link", "add", "br0", "type", "bridge"]))?;
                run(&site.in_switch(&["ip", "link", "set", "br0", "up"]))?;
                for port in SWITCH {
                    run(&site.in_switch(&["ip", "link", "set", port, "master", "br0"]))?;
                }
            }
        }
        if link == Link::Tap {
            site.observers()?;
        }
        site.connect(self.offloads())
    }
}

#[derive(Default)]
struct Results {
    gigabits: Vec<f64>,
    median: Vec<f64>,
    tail: Vec<f64>,
    idle: Vec<f64>,
    failure: Option<String>,
}

impl Hosts {
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0 && self.pings > 0, "--rounds and --pings: at least one");
        let weir = match &self.weir {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("weir"),
        };
        let weir = weir.to_str().context("--weir: a path in UTF-8")?;
        let contenders = Contender::ALL.into_iter().filter(|contender| {
            let is_missing = matches!(contender, Contender::Ovs(_)) && !ovs::is_installed();
            contender.name().contains(&self.only) && !is_missing
        });
        if !ovs::is_installed() {
            eprintln!("OVS-DPDK: not installed (apt-get install openvswitch-switch-dpdk)");
        }
        let mut all: Vec<_> = contenders.map(|contender| (contender, Results::default())).collect();
        ensure!(!all.is_empty(), "--only {}: no contender's name contains this", self.only);
        for round in 1..=self.rounds {
            for (contender, results) in &mut all {
                if let Err(error) = self.measure(*contender, weir, results) {
                    eprintln!("{}: {error:#}", contender.name());
                    results.failure = Some(format!("{error:#}"));
                }
            }
            eprintln!("round {round} of {} done", self.rounds);
        }
        report(all, self.rounds);
        Ok(())
    }

    fn measure(&self, contender: Contender, weir: &str, results: &mut Results) -> Result<()> {
        let mut site = Site::new()?;
        contender.join(&mut site, weir)?;
        let times = site.round_trips(self.pings)?;
        let gigabits = site.tcp(self.seconds)? / 1e9;
        results.idle.extend(site.idle(Duration::from_secs(2))?);
        results.gigabits.push(gigabits);
        results.median.push(times[times.len() / 2]);
        results.tail.push(times[(times.len() * 99 / 100).min(times.len() - 1)]);
        Ok(())
    }
}

fn report(all: Vec<(Contender, Results)>, rounds: usize) {
    println!("{}; two hosts in network namespaces; median (least–most) of {rounds} runs in turns\n", machine());
    println!("| hosts joined by | TCP, Gbit/s | round trip p50, µs | p99, µs | CPU when idle, % of a core |");
    println!("| --- | --- | --- | --- | --- |");
    let spread = |values: Vec<f64>| if values.is_empty() { "–".into() } else { Spread::of(values).to_string() };
    for (contender, results) in all {
        let idle = spread(results.idle.iter().map(|share| share * 100.0).collect());
        let name = contender.name();
        match results.failure {
            Some(failure) if results.gigabits.is_empty() => println!("| {name} | {failure} | | | |"),
            _ => {
                let [tcp, median, tail] = [results.gigabits, results.median, results.tail].map(spread);
                println!("| {name} | {tcp} | {median} | {tail} | {idle} |");
            }
        }
    }
}
