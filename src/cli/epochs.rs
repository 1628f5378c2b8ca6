//! The epochs that commands ask about, and the documents of answers as they print them.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::archive::{Answerer, FromArchive};
use super::output::{self, Format, Page};
use super::show::Where;
use super::{Failure, help};
use crate::answers::Claimed;
use crate::api::{Flows, view};
use crate::config::Length;
use crate::text::url_encoded;
use crate::wire::Pattern;

/// How often a switch is asked whether an epoch has ended.
const FOLLOW_EVERY: Duration = Duration::from_millis(20);

/// Its group of options.
const EPOCHS: &str = "Flows and epochs";

/// The epochs asked for, and the flows that are named.
#[derive(Debug, Args)]
pub struct Epochs {
    /// Name at most this many flows
    #[arg(long, default_value_t = 20, value_name = "K", help_heading = EPOCHS)]
    top: usize,
    /// Name only flows of at least this many packets (or bytes, where they are counted)
    #[arg(long, default_value_t = 1, value_name = "PACKETS", help_heading = EPOCHS)]
    threshold: u64,
    /// Name only flows like this, as "10.0.0.1:80 → 10.0.0.0/24:* tcp" (-> for the arrow, * for any)
    #[arg(long, value_name = "FLOW", help_heading = EPOCHS)]
    flow: Option<Pattern>,
    /// Name only flows whose paths cross these switches in this order, as far as paths are known (`weir
    /// show paths`)
    #[arg(long, value_name = "SWITCH", value_delimiter = ',', help_heading = EPOCHS)]
    path: Vec<String>,
    #[command(flatten)]
    window: Window,
}

/// The epochs asked for.
#[derive(Debug, Args)]
pub struct Window {
    /// The epochs of this long; at least the last one
    #[arg(long, default_value = "10s", value_name = "LENGTH", conflicts_with = "each", help_heading = EPOCHS)]
    last: Length,
    /// Report each epoch once its answer is final, and again when late packets amend it, until
    /// interrupted; with --json one document a line
    #[arg(long, help_heading = EPOCHS)]
    each: bool,
    /// Answers that are not final yet as well: late packets may still change them
    #[arg(long, help_heading = EPOCHS)]
    provisional: bool,
    #[arg(
        long,
        value_name = "PROGRAM",
        help_heading = EPOCHS,
        help = help::of_programs("Ask this program; by default the first that can answer"),
        add = help::program_names(),
    )]
    program: Option<String>,
    /// With --each: stop after this many epochs
    #[arg(long, value_name = "N", requires = "each", help_heading = EPOCHS)]
    count: Option<u64>,
}

impl Epochs {
    /// [`Window::answerer`].
    pub fn answerer(&self, archive: &FromArchive, at: &Where) -> Result<Answerer, Failure> {
        self.window.answerer(archive, at)
    }

    /// Prints the document at `path`.
    pub fn show<A: DeserializeOwned + Serialize>(
        &self,
        answerer: &Answerer,
        format: &Format,
        path: &str,
        page: fn(&Claimed<A>) -> Page,
    ) -> Result<(), Failure> {
        self.show_with(answerer, format, path, "", page)
    }

    /// The same with further parameters of the query.
    pub fn show_with<A: DeserializeOwned + Serialize>(
        &self,
        answerer: &Answerer,
        format: &Format,
        path: &str,
        parameters: &str,
        page: fn(&Claimed<A>) -> Page,
    ) -> Result<(), Failure> {
        let Self { top, threshold, .. } = self;
        let mut flows = format!("top={top}&threshold={threshold}{parameters}");
        if let Some(flow) = &self.flow {
            flows += &format!("&{}", flow_parameter(flow));
        }
        if !self.path.is_empty() {
            flows += &format!("&path={}", url_encoded(&self.path.join(",")));
        }
        self.window.show(answerer, format, &format!("{path}?{flows}"), page)
    }
}

/// The flows of a question, as a parameter of a URL.
pub fn flow_parameter(flow: &Pattern) -> String {
    format!("flow={}", url_encoded(&flow.to_string()))
}

impl Window {
    /// Prints the answers about several flows.
    pub fn frequencies(&self, answerer: &Answerer, format: &Format, flows: &Flows) -> Result<(), Failure> {
        let program = self.program.as_ref().map_or_else(String::new, |program| format!("&program={program}"));
        let (provisional, seconds) = (self.provisional, self.last.0.as_secs_f64());
        let path = format!("/v1/frequency?provisional={provisional}{program}&seconds={seconds}");
        output::page(format, &answerer.frequencies(&path, flows)?, view::Frequencies::page)
    }

    /// What answers: the archive that is given, or a running switch.
    pub fn answerer(&self, archive: &FromArchive, at: &Where) -> Result<Answerer, Failure> {
        match archive.answers(self.last.0.as_secs_f64())? {
            Some(_) if self.each => {
                Err(Failure::Usage("--each: an archive has no epochs to come; ask a running switch".into()))
            }
            Some(archive) => Ok(Answerer::Archive(archive)),
            None => Ok(Answerer::Running(at.client()?)),
        }
    }

    /// Prints the document at `path`, which has a query.
    pub fn show<A: DeserializeOwned + Serialize>(
        &self,
        answerer: &Answerer,
        format: &Format,
        path: &str,
        page: fn(&Claimed<A>) -> Page,
    ) -> Result<(), Failure> {
        let program = self.program.as_ref().map_or_else(String::new, |program| format!("&program={program}"));
        let query = format!("{path}&provisional={}{program}", self.provisional);
        if !self.each {
            let document = answerer.get(&format!("{query}&seconds={}", self.last.0.as_secs_f64()))?;
            return output::page(format, &document, page);
        }
        let newest: Claimed<A> = answerer.get(&format!("{query}&seconds=0"))?;
        let mut seen = newest.claim.sequence;
        let mut left = self.count.unwrap_or(u64::MAX);
        let mut number = 0;
        while left > 0 {
            let document: Claimed<A> = answerer.get(&format!("{query}&since={seen}"))?;
            if document.claim.last_epoch.is_none() {
                std::thread::sleep(FOLLOW_EVERY);
                continue;
            }
            (seen, left) = (document.claim.sequence, left - 1);
            number += 1;
            if !output::next_page(format, &document, page, number)? {
                break;
            }
        }
        Ok(())
    }
}
