//! What clients talk to: questions are answered by the API's thread, changes are made by the
//! control thread, which alone has the rights for them.

use std::sync::Arc;

use super::Shared;
use crate::answers::{Queryable, Task};
use crate::api::metrics::ProgramMetrics;
use crate::api::observers::ObservedPort;
use crate::api::view;
use crate::api::{Answering, HeavyQuery, NewPort, PendingDump, Service};
use crate::live::control_queue::ControlHandle;
use crate::observe::Observers;
use crate::port::FaultSpec;
use crate::tables::Tables;

pub(super) struct ApiFacade {
    pub shared: Arc<Shared>,
    pub control: ControlHandle<Shared>,
}

impl Answering for ApiFacade {
    fn history(&self, task: Task, query: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        self.shared.history(task, query)
    }

    fn measured(&self) -> Vec<ProgramMetrics> {
        self.shared.measured()
    }

    fn exported(&self) -> Result<view::Exported, String> {
        self.shared.exported()
    }

    fn otlp(&self) -> Result<view::Otlp, String> {
        self.shared.otlp()
    }
}

impl Service for ApiFacade {
    fn ports(&self) -> view::Ports {
        self.shared.ports()
    }

    fn macs(&self) -> view::MacTable {
        self.shared.macs()
    }

    fn set_link(&self, port: &str, up: bool) -> Result<(), String> {
        let port = port.to_owned();
        self.control.ask(move |shared| shared.set_link(&port, up))
    }

    fn set_promiscuous(&self, port: &str, on: bool) -> Result<(), String> {
        let port = port.to_owned();
        self.control.ask(move |shared| shared.set_promiscuous(&port, on))
    }

    fn set_mtu(&self, port: &str, bytes: u32) -> Result<(), String> {
        let port = port.to_owned();
        self.control.ask(move |shared| shared.set_mtu(&port, bytes))
    }

    fn set_fault(&self, port: &str, fault: Option<&FaultSpec>) -> Result<(), String> {
        let (port, fault) = (port.to_owned(), fault.cloned());
        self.control.ask(move |shared| shared.set_fault(&port, fault.as_ref()))
    }

    fn add_port(&self, port: &NewPort) -> Result<view::Port, String> {
        let port = port.clone();
        self.control.ask(move |shared| shared.add_port(&port))
    }

    fn remove_port(&self, port: &str) -> Result<view::Port, String> {
        let port = port.to_owned();
        self.control.ask(move |shared| shared.remove_port(&port))
    }

    fn reload(&self) -> Result<view::Reloaded, String> {
        self.control.ask(Shared::reload)
    }

    fn status(&self) -> view::Status {
        self.shared.status()
    }

    fn since_reset(&self) -> view::SinceReset {
        self.shared.since_reset()
    }

    fn reset(&self) {
        self.shared.reset();
    }

    fn tables(&self) -> &Tables {
        self.shared.tables()
    }

    fn controller(&self) -> Result<view::ControllerLink, String> {
        self.shared.controller()
    }

    fn observers(&self) -> &Observers {
        self.shared.observers()
    }

    fn registers(&self, program: Option<&str>) -> Result<PendingDump, String> {
        self.shared.registers(program)
    }

    fn observed_ports(&self) -> Vec<ObservedPort> {
        self.shared.observed_ports()
    }
}
