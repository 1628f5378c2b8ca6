//! What differs between the switch that runs and the one that is wanted.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::change::{ChangeError, Next, State};
use crate::answers::CountedPort;
use crate::config::{Config, ForwardMode, PortConfig};
use crate::pisa::PortId;

/// The parts that must be made anew.
#[derive(Debug, Default)]
pub(super) struct Diff {
    /// Some port comes, goes or is another.
    pub ports: bool,
    pub forward: bool,
    /// What the file says of routing.
    pub routing: bool,
    pub telemetry: bool,
    /// All differences, for people.
    pub words: Vec<String>,
}

impl Diff {
    /// An error names what takes a restart.
    pub fn new(state: &State, next: &Next) -> Result<Self, ChangeError> {
        let Config {
            switch,
            api,
            controller,
            archive,
            page,
            ipfix,
            otlp,
            ports: _,
            programs,
            routes,
            neighbours,
            acl: _,
            mirrors: _,
        } = &next.config;
        let running = &state.config.switch;
        restart("switch", running, switch)?;
        restart("api", &state.config.api, api)?;
        restart("controller", &state.config.controller, controller)?;
        restart("archive", &state.config.archive, archive)?;
        restart("page", &state.config.page, page)?;
        restart("ipfix", &state.config.ipfix, ipfix)?;
        restart("otlp", &state.config.otlp, otlp)?;
        // Documents leave their values out.
        if state.config.otlp.headers != otlp.headers {
            let [running, wanted] = ["those at the start", "others"].map(String::from);
            return Err(ChangeError::Restart { key: "otlp.headers".into(), wanted, running });
        }
        let mut diff = Self::default();
        diff.look_at_ports(&state.config.ports, &next.config.ports);
        if state.config.programs != *programs {
            diff.telemetry = true;
            let names = programs.iter().map(|program| program.name()).collect::<Vec<_>>().join(", ");
            diff.words.push(if names.is_empty() { "no programs".into() } else { format!("programs {names}") });
        }
        let ports = |ports: &[PortConfig]| -> BTreeMap<String, CountedPort> {
            ports.iter().map(|port| (format!("{} {}", port.name, port.dev), port.counted())).collect()
        };
        let know_ports =
            programs.iter().any(|program| program.at_ports(&[]) != program.at_ports(&[CountedPort::any()]));
        diff.telemetry |= know_ports && ports(&state.config.ports) != ports(&next.config.ports);
        if next.hashes.is_some() {
            diff.telemetry = true;
            diff.words.push("the network's hash functions".into());
        }
        diff.telemetry |= diff.value("switch.epoch", running.epoch, switch.epoch);
        diff.telemetry |= diff.value("switch.transit", running.transit, switch.transit);
        diff.forward |= diff.value("switch.forward", forward(running.forward), forward(switch.forward));
        let learns = switch.forward == ForwardMode::Learn;
        diff.forward |= diff.value("switch.mac_table", running.mac_table, switch.mac_table) && learns;
        let [was, link_local] = [running, switch].map(|switch| format!("{:?}", switch.link_local));
        diff.forward |= diff.value("switch.link_local", was, link_local) && learns;
        if !learns && (state.pairs != next.pairs || diff.ports) {
            diff.forward = true;
        }
        if switch.forward == ForwardMode::Route {
            diff.routing |= diff.value("switch.route_table", running.route_table, switch.route_table);
            diff.routing |= diff.value("switch.neighbour_table", running.neighbour_table, switch.neighbour_table);
            diff.routing |= diff.value("addresses", addresses(&state.config), addresses(&next.config));
            if state.config.routes != *routes || state.config.neighbours != *neighbours {
                diff.routing = true;
                diff.words.push(format!("{} routes, {} neighbours", routes.len(), neighbours.len()));
            }
            diff.forward |= diff.routing;
        }
        if state.pairs != next.pairs && switch.forward == ForwardMode::Xconnect {
            let pairs = next.pairs.iter().map(|[a, b]| format!("{a}-{b}")).collect::<Vec<_>>().join(", ");
            diff.words.push(format!("pairs {pairs}"));
        }
        diff.value("switch.mac_age", running.mac_age, switch.mac_age);
        diff.value("switch.history", running.history, switch.history);
        diff.value("switch.idle", running.idle, switch.idle);
        diff.value("switch.target", &running.target, &switch.target);
        diff.value("switch.order", format!("{:?}", running.order), format!("{:?}", switch.order));
        Ok(diff)
    }

    /// What the file says of the tables set on ports, which may have been changed since.
    pub fn look_at_tables(&mut self, differing: &[&str]) {
        self.words.extend(differing.iter().map(|table| format!("table {table} as in the file")));
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    fn value(&mut self, key: &str, running: impl ToString, wanted: impl ToString) -> bool {
        let (running, wanted) = (running.to_string(), wanted.to_string());
        let differs = running != wanted;
        if differs {
            self.words.push(format!("{key} = {}, was {}", wanted.to_lowercase(), running.to_lowercase()));
        }
        differs
    }

    fn look_at_ports(&mut self, running: &[PortConfig], wanted: &[PortConfig]) {
        let same = |a: &PortConfig, b: &PortConfig| a.name == b.name && a.dev == b.dev;
        for port in running.iter().filter(|port| !wanted.iter().any(|other| same(port, other))) {
            self.words.push(format!("port {} = {} removed", port.name, port.dev));
        }
        for port in wanted {
            match running.iter().find(|other| same(port, other)) {
                None => self.words.push(format!("port {} = {} added", port.name, port.dev)),
                Some(old) => {
                    self.value(&format!("port {}: mtu", port.name), old.mtu, port.mtu);
                    self.value(&format!("port {}: role", port.name), old.role.name(), port.role.name());
                    let key = format!("port {}: promiscuous", port.name);
                    self.value(&key, old.promiscuous, port.promiscuous);
                    let fault = |port: &PortConfig| {
                        port.fault.as_ref().map_or_else(|| "none".into(), crate::port::FaultSpec::to_string)
                    };
                    self.value(&format!("port {}: fault", port.name), fault(old), fault(port));
                }
            }
        }
        self.ports = !self.words.is_empty();
    }
}

/// The own addresses of all ports.
fn addresses(config: &Config) -> String {
    let of = |port: &PortConfig| {
        let name = port.name.clone();
        port.addresses.iter().map(move |net| format!("{name} {net}")).collect::<Vec<_>>()
    };
    config.ports.iter().flat_map(of).collect::<Vec<_>>().join(", ")
}

fn forward(mode: ForwardMode) -> String {
    format!("{mode:?}")
}

/// The keys of `[switch]` that can change at run time.
const CHANGEABLE: [&str; 14] = [
    "acl_default",
    "epoch",
    "forward",
    "history",
    "idle",
    "link_local",
    "mac_age",
    "mac_table",
    "neighbour_table",
    "order",
    "pairs",
    "route_table",
    "target",
    "transit",
];

/// Refuses a change of any other key of a section. One that cannot be written as a document, as with
/// a path that is no text, is compared as a whole.
fn restart<T: PartialEq + Serialize>(section: &str, running: &T, wanted: &T) -> Result<(), ChangeError> {
    if running == wanted {
        return Ok(());
    }
    let (running, wanted) = match [running, wanted].map(serde_json::to_value) {
        [Ok(Value::Object(running)), Ok(Value::Object(wanted))] => (running, wanted),
        documents => {
            let [running, wanted] = documents.map(|d| d.map_or_else(|why| format!("({why})"), |_| "another".into()));
            return Err(ChangeError::Restart { key: section.into(), wanted, running });
        }
    };
    let keys = wanted.keys().chain(running.keys()).filter(|key| !CHANGEABLE.contains(&key.as_str()));
    let value = |section: &Map<String, Value>, key: &str| section.get(key).cloned().unwrap_or_default();
    keys.into_iter().try_for_each(|key| same(&format!("{section}.{key}"), &value(&running, key), &value(&wanted, key)))
}

fn same<T: PartialEq + Serialize>(key: &str, running: &T, wanted: &T) -> Result<(), ChangeError> {
    if running == wanted {
        return Ok(());
    }
    let text = |value: &T| match serde_json::to_value(value).unwrap_or_default() {
        Value::Null => "(not set)".into(),
        Value::Array(items) if items.is_empty() => "(not set)".into(),
        value => value.to_string(),
    };
    Err(ChangeError::Restart { key: key.into(), wanted: text(wanted), running: text(running) })
}

/// What becomes of each port.
#[derive(Debug)]
pub(super) struct Ports {
    pub kept: Vec<(PortId, PortConfig)>,
    pub added: Vec<(PortId, PortConfig)>,
    /// New ones as well, whose devices ports have that go: these close first.
    pub taking_over: Vec<(PortId, PortConfig)>,
    pub removed: Vec<PortId>,
}

/// A port is the same when its name and device are. New ones get the lowest free numbers; numbers
/// that become free by this change are not given out by it.
pub(super) fn ports(state: &State, wanted: &Config) -> Result<Ports, ChangeError> {
    let (mut kept, mut new) = (Vec::new(), Vec::new());
    for (i, config) in wanted.ports.iter().enumerate() {
        let running =
            state.slots.iter().find(|(_, slot)| slot.config.name == config.name && slot.config.dev == config.dev);
        match running {
            Some((id, slot)) => {
                let (key, old) = (|name: &str| format!("port[{i}].{name}"), &slot.config);
                same(&key("queues"), &old.queues, &config.queues)?;
                same(&key("cores"), &old.cores, &config.cores)?;
                kept.push((id, config.clone()));
            }
            None => new.push(config),
        }
    }
    let stays = |id: PortId| kept.iter().any(|(other, _)| *other == id);
    let (mut added, mut taking_over) = (Vec::new(), Vec::new());
    let mut vacant = state.slots.vacant();
    for (i, config) in new.iter().enumerate() {
        if let Some(other) = new[..i].iter().find(|other| other.dev.is_one_with(&config.dev)) {
            return Err(taken(config, other));
        }
        let holders: Vec<_> = state.slots.iter().filter(|(_, slot)| slot.has(&config.dev)).collect();
        if let Some((_, other)) = holders.iter().find(|(id, _)| stays(*id)) {
            return Err(taken(config, &other.config));
        }
        let to = if holders.is_empty() { &mut added } else { &mut taking_over };
        let id = vacant.next().ok_or_else(|| ChangeError::NoSlot { name: config.name.clone() })?;
        to.push((id, (*config).clone()));
    }
    let removed = state.slots.iter().map(|(id, _)| id).filter(|id| !stays(*id)).collect();
    Ok(Ports { kept, added, taking_over, removed })
}

fn taken(config: &PortConfig, by: &PortConfig) -> ChangeError {
    ChangeError::DeviceTaken { name: config.name.clone(), dev: by.dev.to_string(), other: by.name.clone() }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use super::*;

    #[derive(Clone, PartialEq, Serialize)]
    struct Section {
        idle: u32,
        cores: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<PathBuf>,
    }

    fn refused(running: &Section, wanted: &Section) -> Option<String> {
        restart("section", running, wanted).err().map(|error| error.to_string())
    }

    #[test]
    fn other_keys_than_those_that_can_change_take_a_restart() {
        let running = Section { idle: 1, cores: None, key: Some("a".into()) };
        let changed = |section: Section| refused(&running, &section);
        assert_eq!(changed(running.clone()), None);
        assert_eq!(changed(Section { idle: 2, ..running.clone() }), None);
        let cores = changed(Section { cores: Some(3), ..running.clone() });
        assert_eq!(cores.unwrap(), "section.cores = 3: it is (not set), and to change it takes a restart");
        // Also one that the wanted document lacks.
        let key = changed(Section { key: None, ..running.clone() });
        assert_eq!(key.unwrap(), "section.key = (not set): it is \"a\", and to change it takes a restart");
    }

    /// Two sections that cannot be written are not taken for equal, and equal ones not for two.
    #[test]
    fn a_section_that_cannot_be_written_is_compared_all_the_same() {
        let path = |bytes| Some(PathBuf::from(OsStr::from_bytes(bytes)));
        let running = Section { idle: 1, cores: None, key: path(b"\xffa") };
        assert_eq!(refused(&running, &running.clone()), None);
        let none = "(path contains invalid UTF-8 characters)";
        for (wanted, found) in [
            (Section { key: path(b"\xffb"), ..running.clone() }, none),
            (Section { cores: Some(3), ..running.clone() }, none),
            (Section { key: path(b"b"), ..running.clone() }, "another"),
        ] {
            let why = refused(&running, &wanted).expect("it differs");
            assert_eq!(why, format!("section = {found}: it is {none}, and to change it takes a restart"));
        }
    }
}
