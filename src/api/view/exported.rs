//! How an export to a collector stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::output::{Cell, Page, Table, row};

/// `weir show ipfix`: totals since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exported {
    /// The collector's address.
    pub collector: String,
    /// Messages and records of flows that were sent. Over UDP some may not have come there.
    pub messages: u64,
    pub flow_records: u64,
    /// Messages that the system did not take, and the records of flows in them.
    pub unsent_messages: u64,
    pub unsent_flow_records: u64,
    /// Flows without an address, a port or a protocol that is known: they have a digest alone.
    pub unnamed_flows: u64,
    /// Records that were longer than a message.
    pub long_records: u64,
    /// Epochs that were not analysed, or were forgotten before they were exported, by kind of records.
    pub missed_epochs: u64,
    /// Answers that were exported and were not complete.
    pub incomplete_answers: u64,
    /// Why the last of the messages that were not sent was not.
    pub last_error: Option<String>,
}

impl Exported {
    pub fn page(&self) -> Page {
        let row = |(what, count): (&str, u64)| row![Cell::new(what, what.replace(' ', "_")), count];
        let counts = [
            ("messages", self.messages),
            ("flow records", self.flow_records),
            ("unsent messages", self.unsent_messages),
            ("unsent flow records", self.unsent_flow_records),
            ("unnamed flows", self.unnamed_flows),
            ("long records", self.long_records),
            ("missed epochs", self.missed_epochs),
            ("incomplete answers", self.incomplete_answers),
        ];
        let page = Page::default().text(format!("IPFIX to {} over UDP", self.collector));
        let page = page.table("ipfix", Table::new(["IPFIX|what", ">count"], counts.into_iter().map(row)));
        match &self.last_error {
            Some(error) => page.text(format!("the last message that was not sent: {error}")),
            None => page,
        }
    }

    /// Records of flows that were measured and not sent.
    pub fn not_sent(&self) -> u64 {
        self.unsent_flow_records.saturating_add(self.unnamed_flows).saturating_add(self.long_records)
    }
}
