//! Counters that one worker writes and anyone reads.

use std::sync::{Arc, Mutex};

use crossbeam_utils::CachePadded;

use crate::lock::Hold;
pub use crate::pisa::Count;
use crate::pisa::{DropReason, MAX_PORTS, PortId};
use crate::wire::{Headers, MissingHeader, Unread};

/// Counters of one worker for one port. Over all ports and after a drain, `rx_packets + copies =
/// tx_packets + Σ drops`; a drop stands with the port that the packet came from, and one on the way
/// out (`tx_full`, `tx_refused`, `tx_limit`, `mirror`, or `port_down` after it was queued) with the
/// port that it was for.
#[derive(Debug, Default)]
pub struct PortStats {
    pub rx_packets: Count,
    pub rx_bytes: Count,
    pub tx_packets: Count,
    pub tx_bytes: Count,
    /// Packets that the switch made: by flooding, beyond the one that came in, by mirrors, and
    /// where it routes its own answers and questions.
    pub copies: Count,
    /// Packets that went to a fabric port without a shim, because the shim would have passed its
    /// MTU.
    pub without_shim: Count,
    /// Packets that came from a host with bits set that the fabric needs, and went to it without
    /// them.
    pub remarked: Count,
    drops: [Count; DropReason::ALL.len()],
}

impl PortStats {
    #[inline(always)]
    pub fn drop(&self, reason: DropReason, n: u64) {
        self.drops[reason as usize].add(n);
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize].get()
    }

    /// Sets all counters to 0, for the next port of this number. Only when the worker writes them
    /// no more.
    pub fn clear(&self) {
        let Self { rx_packets, rx_bytes, tx_packets, tx_bytes, copies, without_shim, remarked, drops } = self;
        let counts = [rx_packets, rx_bytes, tx_packets, tx_bytes, copies, without_shim, remarked];
        counts.into_iter().chain(drops).for_each(|count| count.set(0));
    }
}

/// Counters of one worker for a program, or for all programs with one name.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ProgramStats {
    /// Packets that went through its ingress stages.
    pub packets: Count,
    /// Cycles of the core that its ingress and egress stages took, estimated from a part of the
    /// bursts.
    pub cycles: Count,
}

/// Packets by what their flow lacks.
#[derive(Debug, Default)]
pub struct MissingCounts {
    pub ip: Count,
    pub ports: Count,
    pub fragment: Count,
    pub transport: Count,
}

impl MissingCounts {
    pub fn count(&self, missing: MissingHeader) {
        let count = match missing {
            MissingHeader::Ip => &self.ip,
            MissingHeader::Ports => &self.ports,
            MissingHeader::Fragment => &self.fragment,
            MissingHeader::Transport => &self.transport,
        };
        count.add(1);
    }
}

/// Packets of tunnels, where the flows inside are measured: those whose inner flow was read, and the
/// others by the reason.
#[derive(Debug, Default)]
pub struct TunnelCounts {
    pub read: Count,
    pub cut: Count,
    pub fragment: Count,
    pub too_deep: Count,
    pub other: Count,
}

impl TunnelCounts {
    /// Counts a packet by what [`Tunnels::inner`](crate::wire::Tunnels::inner) found.
    pub fn count(&self, found: &Result<Option<Headers>, Unread>) {
        let count = match found {
            Ok(None) => return,
            Ok(Some(_)) => &self.read,
            Err(Unread::Cut) => &self.cut,
            Err(Unread::Fragment) => &self.fragment,
            Err(Unread::TooDeep) => &self.too_deep,
            Err(Unread::Other) => &self.other,
        };
        count.add(1);
    }
}

/// Counters of one worker. They outlive all changes of the worker's switch. No two workers write to one
/// cache line.
#[derive(Debug)]
#[repr(align(128))]
pub struct SwitchStats {
    ports: Box<[CachePadded<PortStats>]>,
    /// Packets that are neither IPv4 nor IPv6, which no program measures.
    pub unmeasured: Count,
    /// Of these, packets with more VLAN tags than are looked behind.
    pub too_many_tags: Count,
    /// Packets whose flow lacks something: see [`MissingHeader`].
    pub lacking: MissingCounts,
    /// Packets of tunnels.
    pub tunnels: TunnelCounts,
    /// Ends of an epoch at which a program found no zeroed bank, so that its record also covers the
    /// next epoch.
    pub late_epochs: Count,
    /// The same at the ends of sub-epochs.
    pub late_sub_epochs: Count,
    /// Banks that the collector did not take.
    pub lost_epochs: Count,
    /// Learn digests that found their queue full.
    pub lost_learn_digests: Count,
    /// ICMP errors and questions for neighbours that were not sent, because they would have passed
    /// their rate.
    pub suppressed_messages: Count,
    /// Times the poll loop went round, and of these the ones that found packets.
    pub polls: Count,
    pub busy_polls: Count,
    /// Packets that came in while the worker polled.
    pub packets: Count,
    /// Cycles of the core in rounds that found packets, and in those that found none, sleep
    /// included.
    pub busy_cycles: Count,
    pub idle_cycles: Count,
    /// By name. The worker takes no part in the lock: it holds what it writes to.
    programs: Mutex<Vec<(&'static str, Arc<ProgramStats>)>>,
    /// The worker's clock: nanoseconds since 1970, never going back.
    pub clock: Count,
}

impl Default for SwitchStats {
    fn default() -> Self {
        Self {
            ports: (0..MAX_PORTS).map(|_| CachePadded::default()).collect(),
            unmeasured: Count::default(),
            too_many_tags: Count::default(),
            lacking: MissingCounts::default(),
            tunnels: TunnelCounts::default(),
            late_epochs: Count::default(),
            late_sub_epochs: Count::default(),
            lost_epochs: Count::default(),
            lost_learn_digests: Count::default(),
            suppressed_messages: Count::default(),
            polls: Count::default(),
            busy_polls: Count::default(),
            packets: Count::default(),
            busy_cycles: Count::default(),
            idle_cycles: Count::default(),
            programs: Mutex::default(),
            clock: Count::default(),
        }
    }
}

impl SwitchStats {
    /// The counters of every number that a port can have.
    pub fn ports(&self) -> impl ExactSizeIterator<Item = &PortStats> {
        self.ports.iter().map(|port| &**port)
    }

    /// The counters of the programs with this name, which begin when it is first asked for.
    pub fn program(&self, name: &'static str) -> Arc<ProgramStats> {
        let mut programs = self.programs.hold();
        if let Some((_, stats)) = programs.iter().find(|(other, _)| *other == name) {
            return stats.clone();
        }
        let stats = Arc::<ProgramStats>::default();
        programs.push((name, stats.clone()));
        stats
    }

    /// The counters of all programs that there were, by name.
    pub fn programs(&self) -> Vec<(&'static str, Arc<ProgramStats>)> {
        self.programs.hold().clone()
    }

    /// The counters of a port.
    #[inline(always)]
    pub fn port(&self, port: PortId) -> &PortStats {
        &self.ports[usize::from(port)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// The cache lines of a value.
    fn lines<T>(value: &T) -> impl Iterator<Item = usize> + use<T> {
        const LINE: usize = 64;
        let begin = std::ptr::from_ref(value).addr();
        begin / LINE..=(begin + size_of::<T>() - 1) / LINE
    }

    #[test]
    fn workers_share_no_cache_line() {
        let workers: Vec<Arc<SwitchStats>> = (0..16).map(|_| Arc::default()).collect();
        workers.iter().for_each(|stats| _ = (stats.program("one"), stats.program("other")));
        let mut owners = HashMap::new();
        for (worker, stats) in workers.iter().enumerate() {
            let ports = stats.ports().flat_map(lines);
            let programs: Vec<_> = stats.programs().iter().flat_map(|(_, stats)| lines(&**stats)).collect();
            for line in lines(&**stats).chain(ports).chain(programs) {
                assert_eq!(*owners.entry(line).or_insert(worker), worker, "a cache line of two workers");
            }
        }
        assert!(owners.len() > 16 * MAX_PORTS);
    }
}
