//! What is opened while the process has its rights: sockets, packet memory, ports.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use super::facade::ApiFacade;
use super::slots::PortSlots;
use super::{LiveError, Rights, setup};
use crate::api;
use crate::api::serve::TlsListener;
use crate::config::Config;
use crate::dpdk::{Eal, Mempool};
use crate::network::rpc::{self, Dial, Link};
use crate::network::socket::{self, SocketFile};
use crate::port::{Dev, PortError, pci};
use crate::privileges::Privileges;
use crate::switch::PortInfo;
use crate::web::{self, SwitchSource};

pub(super) struct Opened {
    pub privileges: Privileges,
    pub listeners: Listeners,
    pub socket: SocketFile,
    pub eal: Eal,
    pub pool: Arc<Mempool>,
    pub slots: PortSlots,
}

/// Where the switch answers.
pub(super) struct Listeners {
    control: UnixListener,
    tls: Option<TlsListener>,
    metrics: Option<TcpListener>,
    /// With the names that browsers may call it by.
    page: Option<(TcpListener, Vec<String>)>,
}

impl Opened {
    /// Opens all of it, and gives the rights up. `eal` and `socket` are what the command line says
    /// of DPDK and of the control socket's place.
    pub fn new(
        config: &Config,
        infos: Vec<PortInfo>,
        cores: &[usize],
        (eal, socket): (Vec<String>, Option<PathBuf>),
        rights: Rights,
    ) -> Result<Self, LiveError> {
        let privileges = Privileges::of(config)?;
        let tls = setup::tls_listener(config)?;
        let (control, socket) =
            socket::listen(&config.switch.name, socket, privileges.access()).map_err(LiveError::Socket)?;
        let page = setup::page_listener(config)?.map(|page| (page, config.page.hosts.clone()));
        let listeners = Listeners { control, tls, metrics: setup::metrics_listener(config)?, page };

        // Else DPDK would say so in half a dozen lines of its own.
        for port in &config.ports {
            if let Dev::Pci { address } = &port.dev
                && let Some(why) = pci::obstacle(address)
            {
                return Err(PortError::unfit(&port.name, &port.dev, why).into());
            }
        }
        let pool = setup::pool_options(config, cores.len());
        let eal = Eal::start(&setup::eal_options(config, cores.len(), pool.bytes(), eal))?;
        if config.switch.huge_pages == Some(true) && !eal.has_huge_pages() {
            return Err(LiveError::Usage(
                "switch.huge_pages = true: there are not enough free; `weir doctor` says how to get them".into(),
            ));
        }
        let pool = Arc::new(Mempool::new(&eal, pool).map_err(LiveError::Buffers)?);
        // DPDK's threads serve the peers of some ports as soon as these are open.
        let seal = || match rights {
            Rights::GiveUp if privileges.seals_early() => privileges.seal(),
            _ => Ok(()),
        };
        seal()?;
        let slots = setup::open_ports(config, infos, cores, &pool, seal)?;
        if rights == Rights::GiveUp {
            privileges.give_up()?;
        }
        Ok(Self { privileges, listeners, socket, eal, pool, slots })
    }
}

impl Listeners {
    /// Serves the API, and reports to the controller if there is one.
    pub fn serve(self, facade: Arc<ApiFacade>, controller: Option<(Dial, Arc<Link>)>) -> Result<(), LiveError> {
        api::serve(self.control, self.tls, facade.clone())?;
        if let Some((dial, link)) = controller {
            rpc::start(dial, link, facade.clone())?;
        }
        if let Some((page, hosts)) = self.page {
            web::serve(page, &hosts, Arc::new(SwitchSource::new(facade.clone())))?;
        }
        self.metrics.map_or(Ok(()), |metrics| Ok(api::serve_metrics(metrics, facade)?))
    }
}
