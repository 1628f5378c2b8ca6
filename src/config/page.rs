//! `[page]`: where the live page is served, and to whom.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, wrong};

/// The live page, for browsers of this machine. There is no authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("dependentRequired" = { "hosts": ["listen"] }))]
pub struct PageConfig {
    /// Address of the page: a loopback address and port, such as 127.0.0.1:8080. Left out: nowhere.
    #[schemars(regex(pattern = r"^(127(\.[0-9]{1,3}){3}|\[[0:]*:0*1\]):[0-9]{1,5}$"))]
    pub listen: Option<String>,
    /// Names that browsers may call the page's host by, beside the loopback addresses and localhost:
    /// those of a proxy in front of it.
    #[schemars(inner(regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$")))]
    pub hosts: Vec<String>,
}

impl PageConfig {
    /// The address to serve.
    ///
    /// # Errors
    /// If it is no loopback address, or a name is no host's.
    pub fn address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        if let Some(wrong_host) = self.hosts.iter().find(|host| !is_host(host)) {
            return wrong("page.hosts", format!("{wrong_host:?}"), "names of hosts without ports, as in weir.example");
        }
        match &self.listen {
            None if !self.hosts.is_empty() => {
                wrong("page.hosts", self.hosts.join(", "), "only with page.listen, the address to serve")
            }
            None => Ok(None),
            Some(text) => loopback("page.listen", text, 8080).map(Some),
        }
    }
}

/// Whether this can be the name of a host.
fn is_host(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let ends_well = |end: Option<char>| end.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= 254 && name.chars().all(is_inner) && ends_well(name.chars().next()) && ends_well(name.chars().last())
}

/// The address of something that is served without authentication.
pub(super) fn loopback(key: &str, text: &str, port: u16) -> Result<SocketAddr, ConfigError> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        _ => wrong(key, text, format!("a loopback address and a port: 127.0.0.1:{port} or [::1]:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(listen: &str, hosts: &[&str]) -> PageConfig {
        let listen = (!listen.is_empty()).then(|| listen.to_owned());
        PageConfig { listen, hosts: hosts.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn a_page_is_for_the_loopback() {
        assert_eq!(page("", &[]).address().unwrap(), None);
        for right in ["127.0.0.1:8080", "[::1]:1", "127.9.9.9:65535"] {
            assert_eq!(page(right, &["weir.example"]).address().unwrap().unwrap().to_string(), right);
        }
        for wrong in ["0.0.0.0:8080", "192.0.2.1:80", "[::]:80", "localhost:80", "8080", "127.0.0.1"] {
            let error = page(wrong, &[]).address().unwrap_err().to_string();
            assert!(error.starts_with(&format!("page.listen = {wrong}: a loopback address")), "{error}");
        }
        assert!(page("", &["a"]).address().unwrap_err().to_string().contains("only with page.listen"));
        for wrong in ["", "a:80", "a b", "-a", "a.", "<b>", &"a".repeat(255)] {
            assert!(page("127.0.0.1:1", &[wrong]).address().is_err(), "{wrong}");
        }
    }
}
