//! Any sequence of changes, and what the switch should be after each.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir::api::Service;
use weir::api::view;
use weir::config::{BatchOrderConfig, ForwardMode};
use weir::live::Live;
use weir::switch::Role;

use crate::lab::{base, eventually, file, frame, new_port, port};

#[derive(Clone, Debug)]
pub enum Step {
    Add(u8, bool),
    Remove(u8),
    Link(u8, bool),
    Packets(u8, u8, u16),
    Fault(u8, u8),
    Reload { extra: Vec<u8>, xconnect: bool, program: u8, mac_table: u32, stage_major: bool, fabric: bool },
}

/// None of them loses what comes in.
const FAULTS: [Option<&str>; 4] =
    [None, Some("tx:drop=0.5"), Some("rx:delay=1ms;tx:delay=1ms"), Some("tx:duplicate=0.5,jitter=100us")];

pub fn step() -> impl Strategy<Value = Step> {
    let reload =
        (prop::collection::btree_set(0..5u8, 0..4), any::<bool>(), 0..3u8, 8..11u32, any::<bool>(), any::<bool>());
    prop_oneof![
        3 => (0..5u8, any::<bool>()).prop_map(|(n, ring)| Step::Add(n, ring)),
        3 => (0..5u8).prop_map(Step::Remove),
        1 => (0..5u8, any::<bool>()).prop_map(|(n, up)| Step::Link(n, up)),
        4 => (0..5u8, 0..9u8, 1..200u16).prop_map(|(n, to, count)| Step::Packets(n, to, count)),
        3 => (0..7u8, 0..4u8).prop_map(|(n, fault)| Step::Fault(n, fault)),
        3 => reload.prop_map(|(extra, xconnect, program, mac_table, stage_major, fabric)| Step::Reload {
            extra: extra.into_iter().collect(), xconnect, program, mac_table, stage_major, fabric,
        }),
    ]
}

/// What the switch should be, kept by hand.
pub struct Model<'a> {
    pub live: &'a Live,
    /// Ports beside `a` and `b`: name, whether it is a memory port, whether it is up.
    pub extra: Vec<(String, bool, bool)>,
    /// By port; none of a port that is not here.
    pub faults: BTreeMap<String, &'static str>,
    pub injected: u64,
}

impl Model<'_> {
    pub fn step(&mut self, step: &Step) {
        let service = self.live.service();
        let name = |n: &u8| format!("x{n}");
        let there = |name: &str, extra: &[(String, bool, bool)]| extra.iter().position(|(other, ..)| other == name);
        match step {
            Step::Add(n, ring) => {
                let dev = if *ring { format!("ring:r{n}") } else { "memory".into() };
                let added = service.add_port(&new_port(&name(n), &dev));
                assert_eq!(added.is_ok(), there(&name(n), &self.extra).is_none(), "{added:?}");
                if added.is_ok() {
                    self.extra.push((name(n), !ring, true));
                }
            }
            Step::Remove(n) => {
                let removed = service.remove_port(&name(n));
                let at = there(&name(n), &self.extra);
                assert_eq!(removed.is_ok(), at.is_some(), "{removed:?}");
                at.map(|at| self.extra.remove(at));
                self.faults.remove(&name(n));
            }
            Step::Link(n, up) => {
                let at = there(&name(n), &self.extra);
                assert_eq!(service.set_link(&name(n), *up).is_ok(), at.is_some());
                if let Some(at) = at {
                    self.extra[at].2 = *up;
                }
            }
            Step::Fault(n, fault) => {
                let name = ["a", "b"].get(usize::from(*n)).map_or_else(|| name(&(n - 2)), ToString::to_string);
                let fault = FAULTS[usize::from(*fault)];
                let parsed = fault.map(|text| text.parse().unwrap());
                let is_there = *n < 2 || there(&name, &self.extra).is_some();
                assert_eq!(service.set_fault(&name, parsed.as_ref()).is_ok(), is_there);
                self.faults.remove(&name);
                self.faults.extend(fault.filter(|_| is_there).map(|fault| (name, fault)));
            }
            Step::Packets(n, to, count) => self.packets(&name(n), *to, *count),
            Step::Reload { extra, xconnect, program, mac_table, stage_major, fabric } => {
                let mut config = base();
                config.ports.extend(extra.iter().map(|n| port(&name(n), "memory")));
                if let Some(last) = config.ports.last_mut().filter(|port| *fabric && port.name.starts_with('x')) {
                    last.role = Role::Fabric;
                }
                config.switch.forward = if *xconnect { ForwardMode::Xconnect } else { ForwardMode::Learn };
                config.switch.mac_table = 1 << mac_table;
                config.switch.order = if *stage_major { BatchOrderConfig::Stage } else { BatchOrderConfig::Packet };
                match program {
                    0 => config.programs.clear(),
                    1 => config.programs = vec!["hashpipe:stages=2,slots=64,key=pair".parse().unwrap()],
                    _ => {}
                }
                file(config);
                service.reload().unwrap();
                let kept = |n: &u8| self.extra.iter().find(|(other, memory, _)| *other == name(n) && *memory);
                self.faults.clear();
                self.extra = extra.iter().map(|n| (name(n), true, kept(n).is_none_or(|port| port.2))).collect();
            }
        }
        let ports = self.live.ports().ports;
        let faults = ports.iter().filter_map(|port| Some((port.name.clone(), port.fault.clone()?)));
        let wanted = self.faults.iter().map(|(name, fault)| (name.clone(), (*fault).to_owned()));
        assert_eq!(faults.collect::<BTreeMap<_, _>>(), wanted.collect());
        let names: Vec<_> = ports.iter().map(|port| port.name.clone()).collect();
        let mut wanted: Vec<_> = self.extra.iter().map(|port| port.0.clone()).chain(["a".into(), "b".into()]).collect();
        wanted.sort();
        assert_eq!(
            names.iter().cloned().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>(),
            wanted
        );
    }

    /// Lets packets in, and waits until the switch has seen them: what a device still holds when it
    /// goes is no part of the balance.
    fn packets(&mut self, name: &str, to: u8, count: u16) {
        let Some((_, true, true)) = self.extra.iter().find(|(other, ..)| other == name) else { return };
        let handle = self.live.memory(name).unwrap();
        let received = |ports: &view::Ports| {
            ports.ports.iter().find(|port| port.name == name).map_or(0, |port| port.counts.rx_packets)
        };
        let before = received(&self.live.ports());
        let taken = (0..count).filter(|flow| handle.inject(&frame(10 + name.as_bytes()[1], to, *flow))).count() as u64;
        eventually("packets to come in", self.live, |ports| received(ports) == before + taken);
        while handle.collect().is_some() {}
        self.injected += taken;
    }
}
