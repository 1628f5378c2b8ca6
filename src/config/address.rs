//! A controller's address, and the certificates of the two sides of a connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{ConfigError, wrong};
use crate::text::is_name;

/// A controller's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A controller of this machine, by its name.
    Name(String),
    /// Its socket for switches.
    Socket(PathBuf),
    /// HOST:PORT, with mutual TLS.
    Tcp(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no controller: write its name, the path of its socket for switches, or HOST:PORT")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text {
            _ if text.contains('/') => Ok(Self::Socket(text.into())),
            _ if host(text).is_ok() => Ok(Self::Tcp(text.into())),
            _ if is_name(text) => Ok(Self::Name(text.into())),
            _ => Err(AddressError(text.into())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) | Self::Tcp(text) => f.write_str(text),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

/// The name of `HOST:PORT` without brackets.
pub fn host(address: &str) -> io::Result<&str> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "write HOST:PORT, as in switch1:9470 or [::1]:9470");
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    port.parse::<u16>().map_err(|_| wrong())?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare.unwrap_or(host) {
        "" => Err(wrong()),
        host if bare.is_none() && host.contains(':') => Err(wrong()),
        host => Ok(host),
    }
}

/// The files of one side, each with the name that error messages call it.
#[derive(Clone, Copy, Debug)]
pub struct PemFiles<'a> {
    pub certificate: (&'static str, &'a Path),
    pub key: (&'static str, &'a Path),
    /// The CA that the other side must have its certificate from.
    pub ca: (&'static str, &'a Path),
}

/// A file of [`PemFiles`] as it is configured: its key, its path, and what it holds.
pub(super) type PemKey<'a> = (&'static str, Option<&'a Path>, &'static str);

/// The files of mutual TLS: all of them where they are `needed`, or else none. `only` says where
/// they have a use, `mutual` why each is needed.
pub(super) fn pem_files<'a>(
    files: [PemKey<'a>; 3],
    needed: bool,
    only: &str,
    mutual: &str,
) -> Result<Option<PemFiles<'a>>, ConfigError> {
    if !needed {
        return match files.iter().find_map(|(key, file, _)| Some((*key, (*file)?))) {
            Some((key, file)) => wrong(key, file.display(), only),
            None => Ok(None),
        };
    }
    let [certificate, key, ca] = files.map(|(key, file, what)| match file {
        Some(file) => Ok((key, file)),
        None => wrong(key, "(missing)", format!("{what}: {mutual}")),
    });
    Ok(Some(PemFiles { certificate: certificate?, key: key?, ca: ca? }))
}

/// All that serving TCP needs.
#[derive(Clone, Copy, Debug)]
pub struct TlsConfig<'a> {
    pub listen: SocketAddr,
    pub files: PemFiles<'a>,
}

impl<'a> TlsConfig<'a> {
    /// The address at the key `key`, if there is one, with these files.
    pub(super) fn of(key: &str, listen: Option<&str>, files: [PemKey<'a>; 3]) -> Result<Option<Self>, ConfigError> {
        let address = match listen.map(str::parse) {
            Some(Err(_)) => {
                let right = "an address and a port, as in 192.0.2.1:9470 or [::1]:9470";
                return wrong(key, format!("{:?}", listen.unwrap_or_default()), right);
            }
            address => address.and_then(Result::ok),
        };
        let only = format!("only with {key}, the address to serve");
        let files = pem_files(files, address.is_some(), &only, "TCP is served with mutual TLS only")?;
        Ok(address.zip(files).map(|(listen, files)| Self { listen, files }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        let read = |text: &str| text.parse::<Address>();
        assert_eq!(read("controller"), Ok(Address::Name("controller".into())));
        assert_eq!(read("/run/weir/c.switches.sock"), Ok(Address::Socket("/run/weir/c.switches.sock".into())));
        assert_eq!(read("./c.sock"), Ok(Address::Socket("./c.sock".into())));
        for tcp in ["192.0.2.1:9471", "[::1]:9471", "controller.lab:9471"] {
            assert_eq!(read(tcp), Ok(Address::Tcp(tcp.into())));
            assert_eq!(read(tcp).unwrap().to_string(), tcp);
        }
        for wrong in ["", "a b", "::1:9471", "host:", "-x"] {
            assert!(read(wrong).unwrap_err().to_string().contains("HOST:PORT"), "{wrong}");
        }
    }

    #[test]
    fn addresses_name_a_host() {
        for (address, name) in [("a.b:1", "a.b"), ("[::1]:9470", "::1"), ("192.0.2.1:65535", "192.0.2.1")] {
            assert_eq!(host(address).unwrap(), name);
        }
        for address in ["", "a", ":1", "a:", "a:65536", "::1:9470", "[]:1"] {
            assert!(host(address).is_err(), "{address}");
        }
    }
}
