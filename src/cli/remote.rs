//! A switch on another machine: its address, and the files that prove who asks.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use super::{Failure, help};
use crate::api::client::Client;
use crate::config::{self, PemFiles};
use crate::network::tls;

#[derive(Clone, Debug, Default, Args)]
pub struct Remote {
    /// A switch on another machine, by its api.listen; needs a certificate, its key and the
    /// switch's CA
    #[arg(long, global = true, value_name = "HOST:PORT", conflicts_with = "socket", help_heading = help::SWITCH)]
    connect: Option<String>,
    #[command(flatten)]
    files: Given,
}

/// Given as options, or in the file `weir/client.toml` of the user's configuration directory.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Given {
    /// With --connect: your certificate; this and the next two may stand in
    /// ~/.config/weir/client.toml instead
    #[arg(long, global = true, value_name = "FILE", requires = "connect", help_heading = help::SWITCH)]
    certificate: Option<PathBuf>,
    /// With --connect: the private key of the certificate
    #[arg(long, global = true, value_name = "FILE", requires = "connect", help_heading = help::SWITCH)]
    key: Option<PathBuf>,
    /// With --connect: the CA that the switch's certificate is from
    #[arg(long, global = true, value_name = "FILE", requires = "connect", help_heading = help::SWITCH)]
    ca: Option<PathBuf>,
}

impl Remote {
    /// The client of the switch that was asked for, if it is on another machine.
    pub fn client(&self) -> Result<Option<Client>, Failure> {
        let Some(address) = &self.connect else { return Ok(None) };
        config::host(address).map_err(|e| Failure::Usage(format!("--connect {address}: {e}")))?;
        let Given { certificate, key, ca } = self.files.clone().or_from_file(user_file().as_deref())?;
        let file = |name: &'static str, file: &Option<PathBuf>| match file {
            Some(file) => Ok((name, file.clone())),
            None => Err(Failure::Usage(format!("--connect {address} needs {name} FILE (docs/security.md)"))),
        };
        let (certificate, key, ca) = (file("--certificate", &certificate)?, file("--key", &key)?, file("--ca", &ca)?);
        let files = PemFiles { certificate: (certificate.0, &certificate.1), key: (key.0, &key.1), ca: (ca.0, &ca.1) };
        let config = tls::api_client(&files).map_err(|e| Failure::Usage(e.to_string()))?;
        Ok(Some(Client::connect_tls(address, config)?))
    }
}

impl Given {
    /// Takes what was not given from the file, if there is one. Its paths are relative to its
    /// directory.
    fn or_from_file(self, file: Option<&Path>) -> Result<Self, Failure> {
        let Some(file) = file else { return Ok(self) };
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(self),
            Err(e) => return Err(Failure::Usage(format!("{}: {e}", file.display()))),
        };
        let kept: Self = toml::from_str(&text).map_err(|e| Failure::Usage(format!("{}: {e}", file.display())))?;
        let there = |path: PathBuf| file.parent().map(|dir| dir.join(&path)).unwrap_or(path);
        Ok(Self {
            certificate: self.certificate.or(kept.certificate.map(there)),
            key: self.key.or(kept.key.map(there)),
            ca: self.ca.or(kept.ca.map(there)),
        })
    }
}

fn user_file() -> Option<PathBuf> {
    let directory = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let directory = directory.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(directory.join("weir/client.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_before_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("client.toml");
        std::fs::write(&file, "certificate = 'me.pem'\nkey = '/keys/me.pem'\n").unwrap();
        let given = Given { certificate: Some("mine.pem".into()), ..Given::default() };
        let all = given.clone().or_from_file(Some(&file)).unwrap();
        assert_eq!(all.certificate, Some("mine.pem".into()));
        assert_eq!((all.key, all.ca), (Some("/keys/me.pem".into()), None));
        assert_eq!(Given::default().or_from_file(Some(&file)).unwrap().certificate, Some(dir.path().join("me.pem")));
        assert!(given.clone().or_from_file(Some(&dir.path().join("none"))).is_ok());
        std::fs::write(&file, "cert = 'me.pem'\n").unwrap();
        assert!(
            matches!(given.or_from_file(Some(&file)), Err(Failure::Usage(text)) if text.contains("unknown field `cert`"))
        );
    }
}
