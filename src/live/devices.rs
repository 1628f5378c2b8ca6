//! Ports without a switch, for a program that sends and receives by itself.

use std::sync::Arc;

use super::LiveError;
use super::setup;
use super::slots::PortSlot;
use crate::config::Config;
use crate::dpdk::{Eal, Mempool};
use crate::port::Port;

/// The open ports of a configuration, in its order, and what they stand on.
#[derive(Debug)]
pub struct Devices {
    pub ports: Vec<Port>,
    pub pool: Arc<Mempool>,
    pub eal: Eal,
}

impl Devices {
    /// Starts DPDK with these arguments of the user's, takes packet buffers and opens the ports for
    /// as many workers, all as a switch of this configuration does.
    ///
    /// # Errors
    /// If something is missing or refused. DPDK cannot be started again then.
    pub fn open(config: &Config, workers: usize, eal: Vec<String>) -> Result<Self, LiveError> {
        config.validate()?;
        let options = setup::pool_options(config, workers);
        let eal = Eal::start(&setup::eal_options(config, workers, options.bytes(), eal))?;
        let pool = Arc::new(Mempool::new(&eal, options).map_err(LiveError::Buffers)?);
        let cores: Vec<usize> = (0..workers).collect();
        let open = |port| PortSlot::open_with(port, &cores, &pool, false).map(|slot| slot.port);
        let ports = config.ports.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { ports, pool, eal })
    }
}
