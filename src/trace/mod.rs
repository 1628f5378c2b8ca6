//! Workloads with known truth: the one seeded generator that demo, tests, traffic generator and
//! figures share.
//!
//! A workload is flow sizes *and* the order of packets, because order decides a sketch's accuracy
//! as much as sizes do. The same [`Workload`] gives the same packets on every machine: its floating
//! point uses only operations that IEEE 754 fixes (see `math.rs`).
//!
//! ```
//! use weir::trace::Workload;
//! let trace = "isp/burst,flows=400,packets=10000,seed=7".parse::<Workload>()?.generate();
//! assert_eq!(trace.sequence.len(), 10_000);
//! # Ok::<(), weir::trace::WorkloadError>(())
//! ```

mod arrivals;
mod cdf;
mod frames;
mod keys;
mod lengths;
mod math;
mod order;
mod passage;
mod pcap;
mod rng;
mod sizes;
mod timeline;
mod truth;
mod tuple;
mod workload;
mod workload_text;

pub use arrivals::{Arrival, Arrivals};
pub use cdf::Cdf;
pub use frames::Frames;
pub use keys::Keys;
pub(crate) use keys::{EPHEMERAL, EPHEMERAL_BITS, ephemeral};
pub use lengths::Lengths;
pub use order::Order;
pub use passage::{Arriving, Passage};
pub use pcap::{
    CaptureError, CaptureReader, CaptureWriter, Captured, CompressionError, INBOUND, LinkType, Metadata, OUTBOUND,
    PcapNgStream,
};
pub use rng::SplitMix64;
pub use sizes::SizeLaw;
pub use timeline::Timeline;
pub use truth::{FlowTruth, Truth};
pub use tuple::Tuple;
pub(crate) use tuple::scramble;
pub use workload::{MAX_FLOWS, MAX_PACKETS, Trace, Workload};
pub use workload_text::WorkloadError;
