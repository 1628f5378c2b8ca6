//! A live switch that has a controller.

use std::sync::Arc;

use super::facade::ApiFacade;
use super::{LiveError, Shared, service};
use crate::answers::CountedPort;
use crate::assemble::Assembly;
use crate::config::Config;
use crate::network::rpc::{Controlled, Dial, Hello, Link, Offer};
use crate::network::tls;
use crate::pisa::hash::HashFamily;
use crate::program::ProgramConfig;
use crate::telemetry::epoch::EpochClock;

/// What a controller is to know of a switch; `None` for one whose records it has no use for.
fn hello(config: &Config, ports: &[CountedPort]) -> Option<Hello> {
    let programs = config.programs_at(ports);
    let networked = programs.iter().filter(|program| program.is_networked());
    let offer = |program: &ProgramConfig| Ok(Offer { parameters: program.start(), program: program.clone() });
    let programs: Vec<_> = networked.map(offer).collect();
    let length = config.switch.epoch.nanos();
    let hello = Hello {
        name: config.known_as().to_owned(),
        length,
        transit: EpochClock::longest_transit(length).min(config.switch.transit.nanos()),
        header: config.switch.telemetry_header,
        key: config.switch.key,
        programs,
        software: format!("weir {}", env!("CARGO_PKG_VERSION")),
    };
    Some(hello).filter(|hello| !hello.programs.is_empty())
}

/// The way to the controller, if there is one. The collector's records go there from now on.
pub(super) fn link(config: &Config, assembly: &mut Assembly) -> Result<Option<(Dial, Arc<Link>)>, LiveError> {
    let Some(address) = config.controller.address()? else { return Ok(None) };
    let tls = config.controller.files()?.map(|files| tls::switch(&files, config.known_as())).transpose()?;
    let link = Link::new(address.to_string(), &assembly.schedules);
    assembly.collector.subscribe(link.reporter());
    Ok(Some((Dial::new(address, tls), link)))
}

impl Shared {
    /// The programs hash with this family from now on, and with it the switch becomes one of a
    /// network.
    fn hash_with(&self, hashes: HashFamily) -> Result<(), String> {
        let mut state = self.state();
        let next = service::hashing(&state, hashes);
        self.change(&mut state, next).map(drop).map_err(|error| error.to_string())
    }
}

impl Controlled for ApiFacade {
    fn hello(&self) -> Option<Hello> {
        let state = self.shared.state();
        hello(&state.config, &state.slots.counted())
    }

    fn hash_with(&self, hashes: &HashFamily) -> Result<(), String> {
        let hashes = hashes.clone();
        self.control.ask(move |shared| shared.hash_with(hashes))
    }
}
