//! The packet header vector: what travels with a packet from stage to stage.

use super::DropReason;
use crate::wire::{Headers, Shim, shim};

/// A port of the switch: from 0 in the order of the configuration, and a port that is added later
/// has the lowest number that is free. It keeps it as long as it is there.
pub type PortId = u16;

/// Most ports of a switch.
pub const MAX_PORTS: usize = 256;

/// The fields that every program and table sees: parsed headers and intrinsic metadata.
/// A program's own metadata is a type of its own.
///
/// On cache lines of its own, which are two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct Phv {
    pub headers: Headers,
    /// Length on the wire in bytes, without the FCS and without the telemetry shim.
    pub wire_bytes: u32,
    pub ingress: PortId,
    pub verdict: Verdict,
    /// Packets or bytes that the heavy-hitter program has counted so far for this packet's flow, 0
    /// when it does not run.
    pub flow_estimate: u32,
    /// It came in by a host port: here it enters the network.
    pub enters: bool,
    /// What admission made of it. Known to egress stages.
    pub disposition: Disposition,
    /// Content of the packet's shim. With the DSCP as telemetry header it holds the class and the
    /// epoch that the DSCP carries. The hop count is the switch's place on the packet's path, from 1
    /// where it enters; it is 1 where the telemetry header has none.
    pub shim: Shim,
    /// The digest in its shim. Only with [`Needs::DIGEST`](crate::program::Needs::DIGEST).
    pub digest: u16,

    /// The port that it leaves by. Known to egress stages, of packets that leave.
    pub egress: PortId,
    /// Packets ahead of it in the port's queue, as far as the switch holds them itself, and the share
    /// of the queue's room that these take, in units of 2⁻¹⁶. Known to egress stages with
    /// [`Needs::QUEUE_DEPTH`](crate::program::Needs::QUEUE_DEPTH).
    pub queue_depth: u16,
    pub queue_used: u16,
    /// A hash of what no hop changes of the packet ([`wire::identity`](crate::wire::identity)), the
    /// same in all switches. Known to egress stages with
    /// [`Needs::IDENTITY`](crate::program::Needs::IDENTITY).
    pub identity: u32,
    /// When it leaves, in nanoseconds of the switch's clock: packets of a live burst have one time,
    /// and a replayed one has its own. Known to egress stages with
    /// [`Needs::TIME`](crate::program::Needs::TIME).
    pub egress_ns: u64,
    /// For how long it was held back after its reception, in nanoseconds: it was received so long
    /// before [`Self::egress_ns`]. Known to egress stages with
    /// [`Needs::HELD`](crate::program::Needs::HELD).
    pub held_ns: u32,
    /// Its hop latency in nanoseconds: the time from its reception, when a device gave it to the
    /// switch, to egress stages. That is the time for which it was held back, by a fault of the port
    /// or as the switch stood still, and in a live switch the time since the program's ingress
    /// stages began with its burst. Known to egress stages with
    /// [`Needs::LATENCY`](crate::program::Needs::LATENCY).
    pub latency_ns: u32,
}

// More costs every program.
const _: () = assert!(size_of::<Phv>() <= 128);

impl Phv {
    /// What packets from a port begin with. The parser writes headers and length of each, admission
    /// what is known to egress stages.
    #[inline(always)]
    pub fn of_port(ingress: PortId) -> Self {
        Self { ingress, shim: Shim::new(1, 0, 0, shim::NO_CLASS), ..Self::default() }
    }

    /// The packet's random number: 32 bits, drawn before ingress stages and anew before egress stages.
    /// Only with [`Needs::DRAW`](crate::program::Needs::DRAW); [`Draws`](super::Draws) makes several of
    /// it.
    #[inline(always)]
    pub fn draw(&self) -> u32 {
        self.headers.draw
    }

    /// Whether the switch made it: a copy, a fragment, or a packet of the router's own. It did not come in.
    /// Known to egress stages.
    #[inline(always)]
    pub fn is_made(&self) -> bool {
        self.headers.made
    }

    #[inline(always)]
    pub fn set_draw(&mut self, draw: u32) {
        self.headers.draw = draw;
    }
}

/// What admission made of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Disposition {
    /// It is lost, or admission has not been asked yet. No egress stage sees it.
    #[default]
    Lost = 0,
    /// It leaves to a host, and so leaves the network.
    ToHost = 1,
    /// It leaves to another switch, with its class.
    ToFabric = 2,
    /// It leaves to another switch, and there is no room for what carries its class.
    Unmarked = 3,
    /// It ends here, no further than it was to go: the switch took it itself, or it has become
    /// several packets that all left to hosts. The egress stages of programs with
    /// [`Needs::ENDS`](crate::program::Needs::ENDS) see it.
    Ended = 4,
    /// It has become several packets, and some went on to other switches or could not be sent: what
    /// became of it is not known. Seen as [`Self::Ended`] is.
    Untracked = 5,
}

impl Disposition {
    /// Whether a packet leaves by a port.
    #[inline(always)]
    pub fn leaves(self) -> bool {
        matches!(self, Self::ToHost | Self::ToFabric | Self::Unmarked)
    }

    /// Whether a packet, or what is measured of it, leaves the network here.
    #[inline(always)]
    pub fn leaves_network(self) -> bool {
        matches!(self, Self::ToHost | Self::Ended | Self::Untracked)
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Port(PortId),
    /// To every port but the one it came from.
    Flood,
    Drop(DropReason),
}

impl Default for Verdict {
    fn default() -> Self {
        Self::Drop(DropReason::NoRoute)
    }
}
