//! What a program needs of the switch.

use std::ops::BitOr;

/// What a program needs of the switch, a bit each. What no program needs is not computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs(u16);

impl Needs {
    pub const NONE: Self = Self(0);
    /// The program has egress stages: they see each packet that leaves by a port.
    pub const EGRESS: Self = Self(1);
    /// The egress stages also see packets whose way ends in this switch without a loss: see
    /// [`Disposition`](crate::pisa::Disposition). The program counts these, so copies and fragments
    /// carry no class on.
    pub const ENDS: Self = Self(1 << 1 | Self::EGRESS.0);
    /// [`Phv::egress_ns`](crate::pisa::Phv::egress_ns) in egress stages.
    pub const TIME: Self = Self(1 << 2 | Self::EGRESS.0);
    /// [`Phv::queue_depth`](crate::pisa::Phv::queue_depth) and
    /// [`Phv::queue_used`](crate::pisa::Phv::queue_used) in egress stages. A live worker looks at all
    /// its transmit queues before each burst.
    pub const QUEUE_DEPTH: Self = Self(1 << 3 | Self::EGRESS.0);
    /// [`Phv::identity`](crate::pisa::Phv::identity) in egress stages.
    pub const IDENTITY: Self = Self(1 << 4 | Self::EGRESS.0);
    /// [`Phv::digest`](crate::pisa::Phv::digest): 16 bits of the shim. Four bits of the epoch's
    /// number are left then.
    pub const DIGEST: Self = Self(1 << 5);

    /// Sub-epochs: the program's banks rotate at the end of each, ingress and egress stages
    /// together. An epoch is cut into [`Dataplane::sub_epochs`](super::Dataplane::sub_epochs).
    pub const SUB_EPOCHS: Self = Self(1 << 6);

    /// The egress stages change what the shim or the DSCP carries: hop count, loop count, class,
    /// epoch or digest. Without it, a packet may be written before egress stages see its PHV, as
    /// they see PHVs alone.
    pub const SHIM: Self = Self(1 << 7 | Self::EGRESS.0);

    /// [`Phv::latency_ns`](crate::pisa::Phv::latency_ns) in egress stages. A live worker reads the
    /// cycle counter once more for a burst, and once for each run of the egress stages.
    pub const LATENCY: Self = Self(1 << 8 | Self::EGRESS.0);

    /// [`Phv::held_ns`](crate::pisa::Phv::held_ns) in egress stages.
    pub const HELD: Self = Self(1 << 9 | Self::EGRESS.0);

    /// The egress stages sort packets by the epoch that each carries, so their registers rotate a
    /// transit time after those of the ingress stages. Without it both rotate together, and a packet
    /// is counted in the epoch in which it leaves.
    pub const TRANSIT: Self = Self(1 << 10 | Self::EGRESS.0);

    /// [`Phv::draw`](crate::pisa::Phv::draw), a random number of each packet.
    pub const DRAW: Self = Self(1 << 11);

    /// [`Dataplane::dropped`](super::Dataplane::dropped) is called for each packet that is dropped.
    pub const DROPS: Self = Self(1 << 12);

    /// Whether all of `other` is needed.
    #[inline(always)]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Needs {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
