//! `[api]`: the clients that may ask the switch, and how.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, TlsConfig, wrong};
use crate::port::Dev;

/// The clients that may ask the switch: local users by the control socket, other machines by TCP
/// with mutual TLS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("dependentRequired" = {
    "group": ["mode"], "listen": ["certificate", "key", "client_ca"],
    "certificate": ["listen"], "key": ["listen"], "client_ca": ["listen"],
}, "if" = {"required": ["mode"], "properties": {"mode": {"const": "0660"}}}, "then" = {"required": ["group"]}))]
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
    /// Directories in which ports that are added at run time may have their sockets and captures.
    pub port_directories: Vec<PathBuf>,
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

/// A file that a port may not use when it is added at run time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortFileError {
    #[error("{}: at run time ports may use files in {allowed}", file.display())]
    Elsewhere { file: PathBuf, allowed: String },
    #[error("{}: {found}; at run time a port may use a capture or a socket, or make it", file.display())]
    Unfit { file: PathBuf, found: String },
}

impl ApiConfig {
    /// Whether a port that a client of the API adds may use its device's files: those directly in
    /// one of [`Self::port_directories`], by the path as it is written.
    pub fn allows(&self, dev: &Dev) -> Result<(), PortFileError> {
        for file in dev.files() {
            let within = |directory: &PathBuf| file.parent() == Some(directory.as_path()) && file.file_name().is_some();
            if !self.port_directories.iter().any(within) {
                let names: Vec<_> = self.port_directories.iter().map(|dir| dir.display().to_string()).collect();
                let allowed = match names.as_slice() {
                    [] => "no directory; name some in api.port_directories".into(),
                    names => format!("{} alone (api.port_directories)", names.join(", ")),
                };
                return Err(PortFileError::Elsewhere { file: file.into(), allowed });
            }
            let unfit = |found: &str| Err(PortFileError::Unfit { file: file.into(), found: found.into() });
            match file.symlink_metadata() {
                Ok(found) if found.is_file() || found.file_type().is_socket() => {}
                Ok(_) => return unfit("neither a regular file nor a socket"),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return unfit(&error.to_string()),
            }
        }
        Ok(())
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if let Some(directory) = self.port_directories.iter().find(|directory| !directory.is_absolute()) {
            return wrong("api.port_directories", directory.display(), "directories whose paths begin with /");
        }
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

    /// Address and files for serving TCP, if that is configured: all of them, or none.
    pub fn tls(&self) -> Result<Option<TlsConfig<'_>>, ConfigError> {
        let files = [
            ("api.certificate", self.certificate.as_deref(), "the switch's certificate (PEM)"),
            ("api.key", self.key.as_deref(), "the certificate's private key (PEM)"),
            ("api.client_ca", self.client_ca.as_deref(), "the CA whose clients may ask (PEM)"),
        ];
        TlsConfig::of("api.listen", self.listen.as_deref(), files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const WHOLE: &str = "[api]\nlisten = '[::1]:9470'\ncertificate = 'c.pem'\nkey = 'k.pem'\nclient_ca = 'a.pem'\n";

    fn refused(text: &str) -> String {
        let error: ConfigError = Config::parse(text).unwrap_err();
        error.to_string()
    }

    #[test]
    fn tcp_needs_mutual_tls_whole() {
        let config = Config::parse(WHOLE).unwrap();
        assert_eq!(config.api.tls().unwrap().unwrap().listen.port(), 9470);
        assert!(Config::default().api.tls().unwrap().is_none());
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

    /// Directly in a directory that is named, by no other way, and no link, pipe or device.
    #[test]
    fn ports_use_files_of_named_directories() {
        let dir = tempfile::tempdir().unwrap();
        let [open, deep, other] = ["open", "open/deep", "other"].map(|name| dir.path().join(name));
        [&open, &deep, &other].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let config = Config::parse(&format!("[api]\nport_directories = ['{}']", open.display())).unwrap().api;
        let allows = |dev: &str, file: &str| {
            let dev = format!("{dev}{}", dir.path().join(file).display()).parse().unwrap();
            config.allows(&dev)
        };
        let devices = ["vhost:", "virtio-user:", "memif:1,socket=", "pcap:", "pcap:,"];
        for dev in devices {
            assert_eq!(allows(dev, "open/new"), Ok(()));
            for file in ["other/new", "open/deep/new", "open/../other/new", "open/..", "opened/new", "new"] {
                assert!(matches!(allows(dev, file), Err(PortFileError::Elsewhere { .. })), "{dev}{file}");
            }
        }
        assert!(config.allows(&"pcap:in.pcap".parse().unwrap()).is_err(), "relative");
        assert!(config.allows(&"pcap:/dev/stdin,".parse().unwrap()).is_err());
        for dev in ["tap:a", "veth:a", "ring:a", "null", "pci:03:00.0"] {
            assert_eq!(ApiConfig::default().allows(&dev.parse().unwrap()), Ok(()), "{dev}");
        }
        std::fs::write(other.join("precious"), "").unwrap();
        std::os::unix::fs::symlink(other.join("precious"), open.join("link")).unwrap();
        let pipe = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, open.join("pipe"), rustix::fs::FileType::Fifo, pipe, 0).unwrap();
        for file in ["open/link", "open/pipe", "open/deep"] {
            assert!(matches!(allows("pcap:", file), Err(PortFileError::Unfit { .. })), "{file}");
        }
        let none = ApiConfig::default().allows(&"vhost:/run/a".parse().unwrap()).unwrap_err().to_string();
        assert_eq!(none, "/run/a: at run time ports may use files in no directory; name some in api.port_directories");
        assert!(refused("[api]\nport_directories = ['run']").starts_with("api.port_directories = run: "));
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
