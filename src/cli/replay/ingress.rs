//! The ports that the packets of captures come in by.

use crate::cli::Failure;
use crate::config::Config;
use crate::pisa::PortId;
use crate::trace::Captured;

/// Finds the port of each packet.
pub struct Ingress {
    /// By number.
    names: Vec<String>,
    /// The port of all packets, where the captures' interfaces say nothing about ports.
    fixed: Option<PortId>,
    /// The interface of the last packet, and its port.
    last: Option<(u32, Option<String>, PortId)>,
}

impl Ingress {
    /// All packets come in by this port.
    pub fn fixed(port: PortId) -> Self {
        Self { names: Vec::new(), fixed: Some(port), last: None }
    }

    /// The ports of a configuration, by the interfaces of captures, or for all packets the port of the
    /// given name.
    pub fn new(config: &Config, given: Option<&str>) -> Result<Self, Failure> {
        let names: Vec<_> = config.ports.iter().map(|port| port.name.clone()).collect();
        let unknown =
            |name| Failure::Usage(format!("--in: there is no port {name}; the ports are {}", names.join(", ")));
        match given {
            Some(name) => config.port(name).map(Self::fixed).ok_or_else(|| unknown(name)),
            None => Ok(Self { names, fixed: None, last: None }),
        }
    }

    /// The port of the interface's name, else of its number. `None` for a packet that went out by
    /// its interface.
    ///
    /// # Errors
    /// When there is no such port.
    #[inline]
    pub fn of(&mut self, captured: &Captured<'_>) -> Result<Option<PortId>, String> {
        if let Some(port) = self.fixed {
            return Ok(Some(port));
        }
        if captured.is_outbound() {
            return Ok(None);
        }
        let (id, name) = (captured.interface_id, captured.interface);
        match &self.last {
            Some((last, of_last, port)) if *last == id && of_last.as_deref() == name => Ok(Some(*port)),
            _ => self.find(id, name).map(Some),
        }
    }

    fn find(&mut self, id: u32, name: Option<&str>) -> Result<PortId, String> {
        let named = name.and_then(|name| self.names.iter().position(|port| port == name));
        let numbered = usize::try_from(id).ok().filter(|id| *id < self.names.len());
        let found = named.or(numbered).and_then(|port| PortId::try_from(port).ok());
        let port = found.ok_or_else(|| {
            let named = name.map(|name| format!(" or its name, {name:?}")).unwrap_or_default();
            format!("no port has the number of its interface, {id}{named}; the ports are {}", self.names.join(", "))
        })?;
        self.last = Some((id, name.map(str::to_owned), port));
        Ok(port)
    }
}
