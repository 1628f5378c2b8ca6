//! The options of the live page.

use std::net::TcpListener;

use clap::Args;

use super::Failure;
use crate::config::PageConfig;

/// A group of options.
const PAGE: &str = "Live page";

/// Where the live page is served.
#[derive(Clone, Debug, Default, Args)]
pub struct LivePage {
    /// Serve a live page for browsers at this address of the loopback, such as 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = PAGE)]
    page: Option<String>,
    /// A name that browsers may call the page's host by, beside localhost: that of a proxy in front of it; may
    /// be given several times
    #[arg(long = "page-host", value_name = "NAME", help_heading = PAGE)]
    hosts: Vec<String>,
}

impl LivePage {
    /// Puts the words of the command line on top of the file's.
    pub fn overrule(&self, config: &mut PageConfig) {
        config.listen = self.page.clone().or(config.listen.take());
        config.hosts.extend(self.hosts.iter().cloned());
    }

    pub fn is_asked_for(&self) -> bool {
        self.page.is_some()
    }

    /// The page as the command line alone has it.
    pub fn config(&self) -> PageConfig {
        PageConfig { listen: self.page.clone(), hosts: self.hosts.clone() }
    }
}

/// Listens where the page is to be served.
pub fn listener(config: &PageConfig) -> Result<Option<TcpListener>, Failure> {
    let listen = |address| {
        TcpListener::bind(address).map_err(|error| Failure::Usage(format!("page.listen = {address}: {error}")))
    };
    config.address()?.map(listen).transpose()
}
