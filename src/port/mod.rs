//! Ports: where packets come from and go to.
//!
//! A [`Port`] is opened on a [`Dev`] and gives out its queues, each to one worker. What a worker
//! does with a queue allocates nothing, takes no lock and cannot panic; all else goes through the
//! `Port`, on another thread.

#[cfg(feature = "dpdk")]
mod checksum;
#[cfg(feature = "dpdk")]
mod claim;
mod dev;
mod fault;
pub mod files;
#[cfg(feature = "dpdk")]
mod gso;
#[cfg(feature = "dpdk")]
mod join;
#[cfg(feature = "dpdk")]
mod kernel;
#[cfg(feature = "dpdk")]
mod memory;
#[cfg(feature = "dpdk")]
mod open;
pub mod pci;
mod plan;
#[cfg(feature = "dpdk")]
mod queue;
#[cfg(feature = "dpdk")]
mod rtnetlink;
#[cfg(feature = "dpdk")]
mod stats;
#[cfg(feature = "dpdk")]
mod tap;
#[cfg(feature = "dpdk")]
mod vdev;
#[cfg(feature = "dpdk")]
mod veth;
#[cfg(feature = "dpdk")]
mod xdp;

pub use dev::{Dev, DevError};
#[cfg(feature = "dpdk")]
pub use fault::HELD as FAULTS_HELD;
pub use fault::{FaultError, FaultSpec, Filter, Rate, Rule, Way};
#[cfg(feature = "dpdk")]
pub use memory::MemoryHandle;
#[cfg(feature = "dpdk")]
pub use open::{Port, PortError, PortProblem, Standing};
pub use plan::QueuePlan;
#[cfg(feature = "dpdk")]
pub use queue::{RxQueue, Sent, TxQueue};
#[cfg(feature = "dpdk")]
pub use stats::{FaultStats, PortDrop, PortStats};

#[cfg(feature = "dpdk")]
pub use crate::dpdk::{Burst, EthConfig as PortOptions, free_burst};
