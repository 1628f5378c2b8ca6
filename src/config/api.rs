//! `[api]`: who may ask the switch, and how.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, wrong};

/// Who may ask the switch: local users by the control socket, other machines by TCP with mutual TLS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApiConfig {
    /// Rights of the control socket.
    pub mode: SocketMode,
    /// The group whose members may use the control socket, with mode "0660".
    pub group: Option<String>,
    /// Address and port for clients on other machines. Needs `certificate`, `key` and `client_ca`.
    pub listen: Option<String>,
    /// The switch's certificate and those between it and the CA (PEM).
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    pub key: Option<PathBuf>,
    /// The CA whose clients may ask (PEM).
    pub client_ca: Option<PathBuf>,
}

/// Rights of the control socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SocketMode {
    /// The user that weir runs as.
    #[default]
    #[serde(rename = "0600")]
    User,
    /// A group as well.
    #[serde(rename = "0660")]
    Group,
}

/// All that serving TCP needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsConfig<'a> {
    pub listen: SocketAddr,
    pub certificate: &'a Path,
    pub key: &'a Path,
    pub client_ca: &'a Path,
}

impl ApiConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        match (&self.group, self.mode) {
            (Some(group), SocketMode::User) => {
                wrong("api.group", format!("{group:?}"), "only with api.mode = \"0660\"")
            }
            (None, SocketMode::Group) => {
                wrong("api.mode", "\"0660\"", "only with api.group, the group that may connect")
            }
            _ => self.tls().map(drop),
        }
    }

    /// What serving TCP needs, when that is asked for: all of it, or none.
    pub fn tls(&self) -> Result<Option<TlsConfig<'_>>, ConfigError> {
        let files = [
            ("api.certificate", &self.certificate, "the switch's certificate (PEM)"),
            ("api.key", &self.key, "the certificate's private key (PEM)"),
            ("api.client_ca", &self.client_ca, "the CA whose clients may ask (PEM)"),
        ];
        let Some(listen) = &self.listen else {
            return match files.iter().find_map(|(key, file, _)| Some((key, file.as_ref()?))) {
                Some((key, file)) => wrong(*key, file.display(), "only with api.listen, the address to serve"),
                None => Ok(None),
            };
        };
        let Ok(address) = listen.parse() else {
            return wrong(
                "api.listen",
                format!("{listen:?}"),
                "an address and a port, as in 192.0.2.1:9470 or [::1]:9470",
            );
        };
        let [certificate, key, client_ca] = files.map(|(key, file, what)| match file {
            Some(file) => Ok(file.as_path()),
            None => wrong(key, "(missing)", format!("{what}: TCP is served with mutual TLS only")),
        });
        Ok(Some(TlsConfig { listen: address, certificate: certificate?, key: key?, client_ca: client_ca? }))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, ConfigError};

    const WHOLE: &str = "[api]\nlisten = '[::1]:9470'\ncertificate = 'c.pem'\nkey = 'k.pem'\nclient_ca = 'a.pem'\n";

    fn refused(text: &str) -> String {
        let error: ConfigError = Config::parse(text).unwrap_err();
        error.to_string()
    }

    #[test]
    fn tcp_needs_mutual_tls_whole() {
        let config = Config::parse(WHOLE).unwrap();
        assert_eq!(config.api.tls().unwrap().unwrap().listen.port(), 9470);
        assert_eq!(Config::default().api.tls().unwrap(), None);
        for key in ["certificate", "key", "client_ca"] {
            let without: String =
                WHOLE.lines().filter(|line| !line.starts_with(key)).map(|l| format!("{l}\n")).collect();
            let error = refused(&without);
            assert!(error.starts_with(&format!("api.{key} = (missing): ")), "{error}");
            assert!(error.ends_with("TCP is served with mutual TLS only"), "{error}");
        }
        assert_eq!(refused("[api]\nkey = 'k.pem'"), "api.key = k.pem: only with api.listen, the address to serve");
        let place = refused(&WHOLE.replace("[::1]:9470", "here"));
        assert!(place.starts_with("api.listen = \"here\": an address and a port"), "{place}");
    }

    #[test]
    fn a_group_goes_with_its_mode() {
        assert!(Config::parse("[api]\nmode = '0660'\ngroup = 'weir'").is_ok());
        assert_eq!(refused("[api]\ngroup = 'weir'"), "api.group = \"weir\": only with api.mode = \"0660\"");
        assert!(refused("[api]\nmode = '0660'").contains("only with api.group"));
        assert!(
            refused("[api]\nmode = '0666'").contains("expected `0600` or `0660`"),
            "{}",
            refused("[api]\nmode = '0666'")
        );
    }
}
