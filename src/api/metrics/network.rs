//! The metrics of a controller beside what its programs measure: the switches of its network.

use std::fmt::Error;

use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;

use super::Families;
use crate::api::view::{NetworkSwitch, NetworkSwitches};

/// A controller at one moment.
#[derive(Clone, Debug)]
pub struct Network {
    pub name: String,
    /// After 1970-01-01 UTC.
    pub start_time_seconds: f64,
    pub switches: NetworkSwitches,
}

type SwitchCounter = (&'static str, &'static str, fn(&NetworkSwitch) -> u64);

const SWITCH_COUNTERS: [SwitchCounter; 4] = [
    ("switch_connections", "Times that the controller took the switch in", |switch| switch.connections),
    ("switch_records", "Records that came", |switch| switch.records),
    ("switch_unsent_records", "Records that the switch could not send", |switch| switch.unsent_records),
    ("switch_refused_records", "Records that came and were of no use", |switch| switch.refused_records),
];

impl Families<'_> {
    pub(super) fn network(&mut self, network: &Network) -> Result<(), Error> {
        self.build(env!("CARGO_PKG_VERSION"), ("controller", &network.name), network.start_time_seconds)?;
        let help = "Epochs that the controller passed over, as it stood still";
        let mut passed_over = self.0.encode_descriptor("passed_over_epochs", help, None, MetricType::Counter)?;
        passed_over.encode_counter::<NoLabelSet, _, u64>(&network.switches.passed_over_epochs, None)?;
        let labels = |switch: &NetworkSwitch| [("switch", switch.name.clone())];
        let switches = || network.switches.switches.iter();
        let connected = switches().map(|switch| (labels(switch), f64::from(u8::from(switch.connected))));
        self.gauges("switch_connected", "Whether the switch is connected to the controller", connected)?;
        for (name, help, read) in SWITCH_COUNTERS {
            self.counters(name, help, switches().map(|switch| (labels(switch), read(switch))))?;
        }
        Ok(())
    }
}
