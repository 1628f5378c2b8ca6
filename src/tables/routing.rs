//! Keeps the router's tables: serves the workers' digests, and changes routes, neighbours and
//! addresses.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::config::{Config, ConfigError};
use crate::forward::Forward;
use crate::forward::route::{self, Control, Plan, RoutedPort};
use crate::lock::Hold;
use crate::pisa::PortId;
use crate::pisa::hash::Polynomial;
use crate::pisa::table::TableUse;
use crate::tables::Change;
use crate::telemetry::epoch::Nanos;
use crate::wire::Flow;

/// The control half of routing.
#[derive(Clone)]
pub struct Routing {
    control: Arc<Mutex<Control>>,
    /// The ports' numbers and names.
    names: Arc<[(PortId, String)]>,
}

impl Routing {
    /// The control half, and the dataplane half of each replica. `ports` are all ports by number.
    pub fn new(
        config: &Config,
        names: &[(PortId, String)],
        ports: Vec<RoutedPort>,
        polynomials: [Polynomial; 3],
        replicas: usize,
    ) -> Result<(Self, Vec<Forward>), ConfigError> {
        let id = |name: &str| names.iter().find(|(_, other)| other == name).map(|(id, _)| *id);
        let mut control = Control::new(config.tables(), config.plan(id)?, ports, polynomials);
        let forwards = (0..replicas).map(|_| Forward::Route(Box::new(control.dataplane()))).collect();
        Ok((Self { control: Arc::new(Mutex::new(control)), names: names.into() }, forwards))
    }

    /// The same tables for other ports: what belongs to those that are `removed` goes.
    pub fn renewed(
        &self,
        names: &[(PortId, String)],
        ports: Vec<RoutedPort>,
        removed: &[PortId],
        replicas: usize,
    ) -> (Self, Vec<Forward>) {
        let mut control = self.control();
        control.renew(ports, removed);
        let forwards = (0..replicas).map(|_| Forward::Route(Box::new(control.dataplane()))).collect();
        (Self { control: self.control.clone(), names: names.into() }, forwards)
    }

    /// Serves the digests that are there and forgets neighbours that are silent.
    pub fn serve(&self, now: Nanos) {
        self.control().serve(now);
    }

    /// Forgets the neighbours that were learned behind a port, also those in digests that wait to be
    /// served.
    pub fn flush_port(&self, port: PortId, now: Nanos) {
        let mut control = self.control();
        control.serve(now);
        control.flush_port(port);
    }

    /// New neighbours that were refused because the table was full of ones in use.
    pub fn refused(&self) -> u64 {
        self.control().refused()
    }

    /// The port by which packets of a five-tuple leave now; `None` if they are not forwarded.
    pub fn port_of(&self, flow: &Flow) -> Option<PortId> {
        self.control().port_of(flow)
    }

    /// Memory of the tables.
    pub fn usage(&self) -> [(&'static str, TableUse); 3] {
        self.control().usage()
    }

    /// Capacity of the tables.
    pub fn shape(&self) -> route::Config {
        self.control().config()
    }

    pub(super) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.hold()
    }

    pub(super) fn name(&self, port: PortId) -> &str {
        self.names.iter().find(|(id, _)| *id == port).map_or("", |(_, name)| name)
    }

    pub(super) fn port(&self, name: &str) -> Result<PortId, String> {
        let found = self.names.iter().find(|(_, other)| other == name).map(|(id, _)| *id);
        found.ok_or_else(|| {
            let names: Vec<_> = self.names.iter().map(|(_, name)| name.as_str()).collect();
            format!("port = {name}: a port's name ({})", names.join(", "))
        })
    }

    /// Makes all changes or none. An error names the change by its number.
    pub(super) fn apply(
        &self,
        changes: &[Change],
        apply: impl Fn(&mut Plan, &Change) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut control = self.control();
        let mut plan = control.plan().clone();
        for (n, change) in (1..).zip(changes) {
            apply(&mut plan, change)
                .map_err(|why| if changes.len() > 1 { format!("change {n}: {why}") } else { why })?;
        }
        control
            .change(|current| {
                *current = plan;
                Ok(())
            })
            .map_err(|e| e.to_string())
    }
}
