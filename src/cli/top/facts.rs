//! What programs found out about single switches in the newest epoch.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::if_any;
use crate::answers::{Attention, Claimed, parameter, parameter_name, switches_table};
use crate::api::client::{Client, ClientError};
use crate::cli::output::Page;

/// The facts of one program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchFacts {
    pub program: String,
    pub epoch: u64,
    /// By name of the switch, an object each.
    pub switches: Map<String, Value>,
}

impl SwitchFacts {
    /// Those of these programs that have any.
    pub fn look<'a>(client: &Client, programs: impl Iterator<Item = &'a str>) -> Result<Vec<Self>, ClientError> {
        let mut all = Vec::new();
        for program in programs.collect::<BTreeSet<_>>() {
            let attention = client.get(&format!("/v1/attention?seconds=0&program={program}"));
            let attention: Option<Claimed<Attention>> = if_any(attention)?;
            let newest = attention.as_ref().and_then(|attention| attention.epochs.last());
            let facts = newest.and_then(|newest| Some((newest.epoch.number, newest.switches()?)));
            all.extend(facts.map(|(epoch, switches)| Self {
                program: program.into(),
                epoch,
                switches: switches.clone(),
            }));
        }
        Ok(all)
    }

    pub fn page(&self) -> Page {
        let title = format!("{} in each switch, epoch {}", self.program, self.epoch);
        Page::default().text(title).table("switches", switches_table(&self.switches)).of(&self.program)
    }

    /// A line for each switch.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.switches.iter().map(|(switch, facts)| {
            let fact = |(key, value): (&String, &Value)| format!("{} {}", parameter_name(key), parameter(key, value));
            let facts: Vec<_> = facts.as_object().into_iter().flatten().map(fact).collect();
            format!("{} in {switch}: {}", self.program, facts.join(", "))
        })
    }
}
