//! `[ipfix]`: the collector that measurements are exported to as IPFIX.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, Length, check_length, check_range, wrong};
use crate::text::named;

named! {
    /// A kind of records that are exported.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum IpfixRecords {
        /// The heaviest flows of each epoch.
        Heavy = "heavy",
        /// The flows of each epoch that lost packets.
        Losses = "losses",
        /// The switches that flows cross, as far as that is sure.
        Paths = "paths",
        /// Dropped packets by port and reason.
        Drops = "drops",
    }
}

/// Where measurements are exported to as IPFIX, over UDP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IpfixConfig {
    /// The collector's address and port, such as 192.0.2.1:4739. Without it nothing is exported.
    #[schemars(regex(pattern = r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$"))]
    pub collector: Option<String>,
    /// The kinds of records that are exported.
    #[schemars(length(min = 1))]
    pub records: BTreeSet<IpfixRecords>,
    /// Maximum flows that are exported of an epoch, of each kind.
    #[schemars(range(min = 1, max = MAX_FLOWS))]
    pub flows: u32,
    /// Identifies the switch or controller among those that export from one address.
    #[schemars(range(min = 1))]
    pub observation_domain: u32,
    /// How often templates are sent again, for a collector that has missed or forgotten them.
    pub template_refresh: Length,
    /// Maximum bytes of a message: the path's MTU less the IP and UDP headers.
    #[schemars(range(min = MIN_MESSAGE_BYTES, max = MAX_MESSAGE_BYTES))]
    pub message_bytes: u32,
}

/// Maximum flows of an epoch and a kind.
const MAX_FLOWS: u32 = 10_000;

/// Message sizes. Any record but that of a long path fits the smallest one, with its template.
const MIN_MESSAGE_BYTES: u32 = 512;
const MAX_MESSAGE_BYTES: u32 = 8192;

impl Default for IpfixConfig {
    fn default() -> Self {
        Self {
            collector: None,
            records: [IpfixRecords::Heavy, IpfixRecords::Losses, IpfixRecords::Drops].into(),
            flows: 100,
            observation_domain: 1,
            template_refresh: Length(Duration::from_secs(20)),
            message_bytes: 1400,
        }
    }
}

impl IpfixConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.records.is_empty() {
            let all = IpfixRecords::ALL.map(IpfixRecords::name).join(", ");
            return wrong("ipfix.records", "[]", format!("one or more of {all}"));
        }
        check_range("ipfix.flows", self.flows, 1, MAX_FLOWS)?;
        check_range("ipfix.observation_domain", self.observation_domain, 1, u32::MAX)?;
        check_range("ipfix.message_bytes", self.message_bytes, MIN_MESSAGE_BYTES, MAX_MESSAGE_BYTES)?;
        check_length(
            "ipfix.template_refresh",
            self.template_refresh,
            Duration::from_secs(1),
            Duration::from_secs(3600),
        )?;
        self.address().map(drop)
    }

    /// The collector's address, if there is one.
    ///
    /// # Errors
    /// If it is no address with a port.
    pub fn address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        let Some(text) = &self.collector else { return Ok(None) };
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() > 0 && !address.ip().is_unspecified() => Ok(Some(address)),
            _ => wrong("ipfix.collector", text, "an address and a port: 192.0.2.1:4739 or [2001:db8::1]:4739"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn a_collector_has_an_address_and_a_port() {
        let parse = |text: &str| Config::parse(&format!("[ipfix]\n{text}"));
        assert_eq!(parse("").unwrap().ipfix.address().unwrap(), None);
        for right in ["192.0.2.1:4739", "[2001:db8::1]:4739"] {
            let config = parse(&format!("collector = '{right}'")).unwrap();
            assert_eq!(config.ipfix.address().unwrap().unwrap().to_string(), right);
        }
        for wrong in ["192.0.2.1", "collector:4739", "0.0.0.0:4739", "[::]:4739", "192.0.2.1:0", ""] {
            let error = parse(&format!("collector = '{wrong}'")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("ipfix.collector = {wrong}: an address and a port")), "{error}");
        }
        for (text, starts) in [
            ("records = []", "ipfix.records = []: one or more of heavy, losses, paths, drops"),
            ("flows = 0", "ipfix.flows = 0: 1 to 10000"),
            ("flows = 10001", "ipfix.flows = 10001: 1 to 10000"),
            ("observation_domain = 0", "ipfix.observation_domain = 0: 1 to 4294967295"),
            ("message_bytes = 511", "ipfix.message_bytes = 511: 512 to 8192"),
            ("message_bytes = 8193", "ipfix.message_bytes = 8193: 512 to 8192"),
            ("template_refresh = '999ms'", "ipfix.template_refresh = 999ms: "),
            ("template_refresh = '3601s'", "ipfix.template_refresh = "),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(starts), "{error}");
        }
    }
}
