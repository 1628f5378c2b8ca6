//! Mirrors of ports, as they are configured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{PortNames, Word, Wrong, wrong};

/// A copy of a port's packets for another port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("required" = ["from", "to"]))]
pub struct MirrorConfig {
    /// The port whose packets are copied; it has one mirror.
    pub from: Word,
    /// The port that the copies go to.
    #[serde(default)]
    pub to: Option<Word>,
    /// rx: what comes in there; tx: what goes out; both.
    #[serde(default = "both")]
    #[schemars(extend("enum" = ["rx", "tx", "both"]))]
    pub direction: Word,
}

fn both() -> Word {
    Word("both".into())
}

impl MirrorConfig {
    pub fn check(&self, ports: &PortNames) -> Result<(), Wrong> {
        ports.id("from", &self.from.0)?;
        let to = self.to.as_ref().ok_or_else(|| wrong("to", "(missing)", "the name of the port for the copies"))?;
        ports.id("to", &to.0)?;
        if *to == self.from {
            return Err(wrong("to", &to.0, "another port than from"));
        }
        match self.direction.0.as_str() {
            "rx" | "tx" | "both" => Ok(()),
            other => Err(wrong("direction", other, "one of rx, tx, both")),
        }
    }
}
