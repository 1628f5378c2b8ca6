//! `[controller]`: the controller that the switch reports to.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::{PemKey, pem_files};
use super::{Address, ConfigError, MAX_NETWORKED, NAME_PATTERN, PemFiles, check_name, wrong};
use crate::program::ProgramConfig;

/// The controller that the switch reports to, and takes its hash functions and the parameters of
/// its measurement from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("dependentRequired" = {
    "name": ["at"], "certificate": ["at", "key", "ca"], "key": ["at", "certificate", "ca"], "ca": ["at", "certificate", "key"],
}))]
pub struct ControllerConfig {
    /// Its address: the name of a controller of this machine, the path of its socket for switches,
    /// or HOST:PORT. Without it the switch reports to no controller.
    pub at: Option<String>,
    /// The switch's name for the controller; by default `switch.name`.
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: Option<String>,
    /// With HOST:PORT: the switch's certificate and those between it and the CA (PEM).
    pub certificate: Option<PathBuf>,
    /// With HOST:PORT: the private key of the certificate (PEM).
    pub key: Option<PathBuf>,
    /// With HOST:PORT: the CA that the controller's certificate is from (PEM).
    pub ca: Option<PathBuf>,
}

impl ControllerConfig {
    pub(super) fn validate(&self, programs: &[ProgramConfig]) -> Result<(), ConfigError> {
        self.name.iter().try_for_each(|name| check_name("controller.name", name))?;
        let Some(address) = self.address()? else { return Ok(()) };
        let networked: Vec<_> = programs.iter().filter(|program| program.is_networked()).collect();
        if networked.len() > MAX_NETWORKED {
            return wrong("controller.at", address, format!("with at most {MAX_NETWORKED} programs that report"));
        }
        if networked.is_empty() {
            let networked = ProgramConfig::networked_names().join(" or ");
            let own = programs_of_switches(programs);
            let right = format!("only with a program whose records a controller takes, by default {networked}{own}");
            return wrong("controller.at", address, right);
        }
        self.files().map(drop)
    }

    /// The controller's address, if there is one.
    pub fn address(&self) -> Result<Option<Address>, ConfigError> {
        let Some(at) = &self.at else {
            let others = [("controller.name", self.name.is_some())].into_iter();
            let files = self.given().map(|(key, file, _)| (key, file.is_some()));
            return match others.chain(files).find(|(_, given)| *given) {
                Some((key, _)) => wrong(key, "(set)", "only with controller.at, the controller's address"),
                None => Ok(None),
            };
        };
        match at.parse() {
            Ok(address) => Ok(Some(address)),
            Err(_) => wrong("controller.at", format!("{at:?}"), "a controller's name, its socket's path, or HOST:PORT"),
        }
    }

    fn given(&self) -> [PemKey<'_>; 3] {
        [
            ("controller.certificate", self.certificate.as_deref(), "the switch's certificate (PEM)"),
            ("controller.key", self.key.as_deref(), "the certificate's private key (PEM)"),
            ("controller.ca", self.ca.as_deref(), "the CA that the controller's certificate is from (PEM)"),
        ]
    }

    /// The files that TLS takes, when the controller is reached by TCP.
    pub fn files(&self) -> Result<Option<PemFiles<'_>>, ConfigError> {
        let tcp = matches!(self.address()?, Some(Address::Tcp(_)));
        pem_files(self.given(), tcp, "only with controller.at = HOST:PORT", "over TCP only with mutual TLS")
    }
}

/// Why a controller does not take the records of these programs.
fn programs_of_switches(programs: &[ProgramConfig]) -> String {
    let why = |program: &ProgramConfig| program.local_only().map(|why| format!("; {}: {why}", program.name()));
    programs.iter().filter_map(why).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    const PROGRAM: &str = "[[program]]\nname = 'chamelemon'\n[controller]\n";

    fn refused(text: &str) -> String {
        Config::parse(&format!("{PROGRAM}{text}")).unwrap_err().to_string()
    }

    #[test]
    fn an_address_and_what_it_needs() {
        for at in ["controller", "/run/weir/c.switches.sock"] {
            let config = Config::parse(&format!("{PROGRAM}at = '{at}'\nname = 'edge1'")).unwrap();
            assert_eq!(config.controller.address().unwrap(), Some(at.parse().unwrap()));
            assert!(config.controller.files().unwrap().is_none());
        }
        let files = "certificate = 'c.pem'\nkey = 'k.pem'\nca = 'a.pem'\n";
        let whole = format!("at = 'lab:9471'\n{files}");
        assert!(Config::parse(&format!("{PROGRAM}{whole}")).unwrap().controller.files().unwrap().is_some());
        for key in ["certificate", "key", "ca"] {
            let without: String = whole.lines().filter(|l| !l.starts_with(key)).map(|l| format!("{l}\n")).collect();
            let error = refused(&without);
            assert!(error.starts_with(&format!("controller.{key} = (missing): ")), "{error}");
        }
        assert!(refused(&format!("at = 'controller'\n{files}")).contains("only with controller.at = HOST:PORT"));
        assert!(refused(files).contains("only with controller.at, the controller's address"));
        assert!(refused("name = 'a'").contains("only with controller.at"));
        assert!(refused("at = 'a'\nname = '../a'").starts_with("controller.name = \"../a\": "));
        assert!(refused("at = 'host:'").starts_with("controller.at = \"host:\": "));
        let alone = Config::parse("[controller]\nat = 'controller'").unwrap_err().to_string();
        assert_eq!(
            alone,
            "controller.at = controller: only with a program whose records a controller takes, by default chamelemon or \
             pint or disketch or hopcounters"
        );
        let local = "[[program]]\nname = 'hashpipe'\n[controller]\nat = 'controller'";
        let local = Config::parse(local).unwrap_err().to_string();
        assert!(
            local.ends_with("; hashpipe: with scope = \"network\" alone a controller takes its records"),
            "{local}"
        );
        let whole = "[[program]]\nname = 'hashpipe'\nscope = 'network'\n[controller]\nat = 'controller'";
        assert!(Config::parse(whole).is_ok());
    }
}
