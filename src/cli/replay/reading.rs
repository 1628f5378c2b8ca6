//! Captures on their way into the dataplane, and what they say about themselves.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use indicatif::ProgressBar;
use serde::Serialize;

use super::ingress::Ingress;
use crate::cli::captures;
use crate::program::Exact;
use crate::replay::{Replayer, RxPacket};
use crate::trace::{Captured, LinkType, Metadata, Timeline};
use crate::wire::{Headers, Tunnels, parse};

/// The captures' statements about themselves, and the errors found in them.
#[derive(Default, Serialize)]
pub struct Said {
    #[serde(flatten)]
    pub metadata: Metadata,
    /// Packets with a time that cannot be right. They have that of a packet beside them.
    mistimed_packets: u64,
    /// How often times went back by more than a minute.
    backward_jumps: u64,
}

impl Said {
    /// A line for each thing.
    pub fn text(&self) -> Vec<String> {
        let mut lines = self.metadata.text();
        if self.mistimed_packets > 0 {
            let packets = self.mistimed_packets;
            let what = "packets with a time that cannot be right, which get that of a packet beside them";
            lines.push(format!("{what}: {packets}"));
        }
        if self.backward_jumps > 0 {
            let times = self.backward_jumps;
            lines.push(format!("jumps back by more than a minute, behind which gaps go on: {times}"));
        }
        lines
    }
}

/// Totals of the packets read.
#[derive(Default)]
pub struct Totals {
    pub packets: u64,
    pub bytes: u64,
    pub cut: u64,
    pub reframed: u64,
    /// Packets that went out by their interface. They are in no other number.
    pub outbound: u64,
    pub captures: Said,
    pub interrupted: bool,
    /// Why reading ended before the end of the captures.
    pub error: Option<String>,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Totals {
    /// The times of the first packet and of the last one, on the captures' clock.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        self.first_ns.map(|first| (first, self.last_ns.max(first)))
    }
}

/// A replay's reading of its captures.
pub struct Reading<'a> {
    replayer: &'a mut Replayer,
    ingress: Ingress,
    exact: &'a mut [Box<dyn Exact>],
    tunnels: Option<Tunnels>,
    timeline: Timeline,
    pub totals: Totals,
}

impl<'a> Reading<'a> {
    /// `tunnels`: those into which the exact counts look, as the switch does.
    pub fn new(
        replayer: &'a mut Replayer,
        ingress: Ingress,
        exact: &'a mut [Box<dyn Exact>],
        tunnels: Option<Tunnels>,
    ) -> Self {
        Self { replayer, ingress, exact, tunnels, timeline: Timeline::default(), totals: Totals::default() }
    }

    /// Takes one capture in, up to the first record that cannot be read. The error says which that
    /// is.
    pub fn file(&mut self, file: &Path, stop: &Arc<AtomicBool>) -> Result<(), String> {
        let name = captures::name(file);
        let mut reader = captures::open(file, stop)?;
        let progress = ProgressBar::new_spinner().with_message(format!("replaying {name}"));
        let Self { replayer, ingress, exact, tunnels, timeline, totals } = self;
        let (headers, tunnels) = (Headers::default(), *tunnels);
        let mut take = Take { replayer, ingress, exact, tunnels, headers, totals, number: 0, taken: Ok(()) };
        let mut read = Ok(());
        while take.taken.is_ok()
            && let Some(captured) = reader.next()
        {
            let captured = match captured {
                Ok(captured) => captured,
                Err(error) => {
                    read = Err(format!("{name}: {error}"));
                    break;
                }
            };
            if captured.link != LinkType::Ethernet {
                if take.totals.reframed == 0 {
                    progress.suspend(|| captures::say_reframed(file, captured.link));
                }
                take.totals.reframed += 1;
            }
            timeline.take(captured, |captured| take.next(&captured));
            if take.totals.packets.is_multiple_of(1 << 16) {
                progress.tick();
            }
        }
        timeline.end(|captured| take.next(&captured));
        if let Err(error) = std::mem::replace(&mut take.taken, Ok(())) {
            read = Err(format!("{name}: packet {}: {error}", take.number));
        }
        let said = &mut take.totals.captures;
        said.metadata.add(&reader.metadata());
        (said.mistimed_packets, said.backward_jumps) = (timeline.mistimed_packets(), timeline.set_back());
        progress.finish_and_clear();
        read
    }
}

/// Where packets go.
struct Take<'a> {
    replayer: &'a mut Replayer,
    ingress: &'a mut Ingress,
    exact: &'a mut [Box<dyn Exact>],
    tunnels: Option<Tunnels>,
    headers: Headers,
    totals: &'a mut Totals,
    /// Of the last packet in its capture.
    number: u64,
    /// Why no packet is taken after the last one.
    taken: Result<(), String>,
}

impl Take<'_> {
    #[inline]
    fn next(&mut self, captured: &Captured<'_>) {
        if self.taken.is_ok() {
            self.number += 1;
            self.taken = self.packet(captured);
        }
    }

    #[inline]
    fn packet(&mut self, captured: &Captured<'_>) -> Result<(), String> {
        let Self { totals, headers, .. } = self;
        let Some(ingress) = self.ingress.of(captured)? else {
            totals.outbound += 1;
            return Ok(());
        };
        let held_ns = captured.held_ns();
        let held_ns =
            held_ns.map_err(|word| format!("{word:?} in its comment is no number of nanoseconds below 2³²"))?;
        totals.first_ns.get_or_insert(captured.at_ns);
        totals.last_ns = totals.last_ns.max(captured.at_ns);
        totals.packets += 1;
        let wire_len = captured.wire_len as usize;
        totals.bytes += wire_len as u64;
        totals.cut += u64::from(wire_len > captured.bytes.len());
        let (at, bytes) = (captured.at_ns, captured.bytes);
        self.replayer.receive(RxPacket { ingress, at, held_ns, bytes, wire_len });
        if !self.exact.is_empty() && parse(captured.bytes, headers).is_ok() {
            if let Some(Ok(Some(inner))) = self.tunnels.map(|tunnels| tunnels.inner(captured.bytes, headers)) {
                headers.take_flow(&inner);
            }
            self.exact.iter_mut().for_each(|exact| exact.packet(headers, wire_len));
        }
        Ok(())
    }
}
