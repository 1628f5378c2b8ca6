//! How many queues a port gets.

use super::Dev;

/// Buffers that net_af_xdp holds of each queue pair: 2048 wait to be filled, as many may be on
/// their way out.
#[cfg(feature = "dpdk")]
pub(super) const XDP_BUFFERS: u32 = 4096;

/// The queues that a device is opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlan {
    pub rx: u16,
    /// The device may have fewer receive queues.
    pub fewer_rx: bool,
    /// Each worker sends on one of its own.
    pub tx: u16,
}

impl Dev {
    /// The queues for as many workers. By default each worker has a receive queue where the device
    /// can spread flows, and else the port has one.
    pub fn queue_plan(&self, wanted: Option<u16>, workers: u16) -> QueuePlan {
        let wanted = wanted.or(self.queues());
        match self {
            // Packets sent on a ring's queue come back on the same one; the queues of the others
            // come in pairs.
            Self::Tap { .. }
            | Self::Ring { .. }
            | Self::Xdp { .. }
            | Self::Memif { .. }
            | Self::Vhost { .. }
            | Self::VirtioUser { .. } => {
                let pairs = wanted.unwrap_or(1).max(workers);
                QueuePlan { rx: pairs, fewer_rx: false, tx: pairs }
            }
            // One file, one channel: one queue.
            Self::Pcap { .. } | Self::Memory => QueuePlan { rx: 1, fewer_rx: false, tx: workers },
            Self::Veth { .. } => QueuePlan { rx: wanted.unwrap_or(workers), fewer_rx: false, tx: workers },
            Self::Pci { .. } | Self::Null { .. } => {
                QueuePlan { rx: wanted.unwrap_or(workers), fewer_rx: wanted.is_none(), tx: workers }
            }
        }
    }
}

#[cfg(feature = "dpdk")]
impl QueuePlan {
    /// Buffers that the device's queues may hold.
    pub fn buffers(&self, dev: &Dev, descriptors: u16) -> u32 {
        match dev {
            Dev::Xdp { .. } => u32::from(self.rx) * XDP_BUFFERS,
            _ => u32::from(self.rx + self.tx) * u32::from(descriptors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_for_each_worker_where_the_device_can() {
        let plan = |dev: &str, wanted, workers| dev.parse::<Dev>().unwrap().queue_plan(wanted, workers);
        assert_eq!(plan("veth:a", None, 3), QueuePlan { rx: 3, fewer_rx: false, tx: 3 });
        assert_eq!(plan("veth:a", Some(1), 3), QueuePlan { rx: 1, fewer_rx: false, tx: 3 });
        assert_eq!(plan("pci:00:03.0", None, 4), QueuePlan { rx: 4, fewer_rx: true, tx: 4 });
        assert_eq!(plan("pci:00:03.0", Some(8), 4), QueuePlan { rx: 8, fewer_rx: false, tx: 4 });
        assert_eq!(plan("memif:0", None, 2), QueuePlan { rx: 2, fewer_rx: false, tx: 2 });
        assert_eq!(plan("vhost:/run/v,queues=4", None, 2), QueuePlan { rx: 4, fewer_rx: false, tx: 4 });
        assert_eq!(plan("tap:a", Some(1), 2), QueuePlan { rx: 2, fewer_rx: false, tx: 2 });
        assert_eq!(plan("pcap:a", None, 1), QueuePlan { rx: 1, fewer_rx: false, tx: 1 });
    }
}
