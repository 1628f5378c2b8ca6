//! The MAC addresses of `learn` as a table: those that were learned, and those that the operator
//! has set.

use std::sync::{Arc, Mutex, MutexGuard};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Change, Op, Table, read, refused};
use crate::forward::learn::{Edit, MacKey};
use crate::forward::text::{self, PortNames, Word, Wrong, wrong};
use crate::lock::Hold;
use crate::pisa::table::TableUse;
use crate::tables::Learning;
use crate::telemetry::epoch::wall_clock;

/// Table `macs`. Entries added or set here are static: they neither move nor age. Static and
/// learned entries can be removed.
pub struct Macs {
    learning: Arc<Mutex<Option<Learning>>>,
    ports: PortNames,
}

/// An entry as it is written. A row that was shown can be given back: how old it is does not
/// matter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    mac: Word,
    /// 0 for untagged frames.
    vlan: Option<Word>,
    port: Option<Word>,
    #[serde(rename = "static")]
    _fixed: Option<bool>,
    #[serde(rename = "age_seconds")]
    _age_seconds: Option<u64>,
    #[serde(rename = "moves")]
    _moves: Option<u64>,
}

impl Macs {
    pub fn new(learning: Arc<Mutex<Option<Learning>>>, ports: PortNames) -> Self {
        Self { learning, ports }
    }

    fn learning(&self) -> MutexGuard<'_, Option<Learning>> {
        self.learning.hold()
    }

    /// `None` when the switch does not learn.
    fn control<T>(&self, act: impl FnOnce(&mut crate::forward::learn::Control) -> T) -> Option<T> {
        self.learning().as_mut().map(|learning| act(learning.control()))
    }

    fn edit(&self, change: &Change) -> Result<Edit, String> {
        let entry: Entry = read(&change.entry)?;
        self.checked(&entry, change.op).map_err(|wrong| wrong.to_string())
    }

    fn checked(&self, entry: &Entry, op: Op) -> Result<Edit, Wrong> {
        let mac = text::mac("mac", &entry.mac.0)?;
        if mac.is_group() || mac == Default::default() {
            return Err(wrong("mac", mac, "the address of one host: not 0, not a group"));
        }
        let vid = entry.vlan.as_ref().map_or(Ok(0), |vlan| text::number("vlan", &vlan.0, 0, 4094))?;
        let key = MacKey::new(vid, mac);
        if op == Op::Remove {
            return Ok(Edit::Forget(key));
        }
        let missing = || wrong("port", "(missing)", format!("a port's name ({})", self.ports.list()));
        let port = self.ports.id("port", &entry.port.as_ref().ok_or_else(missing)?.0)?;
        Ok(Edit::Fix { key, port, replace: op == Op::Set })
    }
}

impl Table for Macs {
    fn name(&self) -> &'static str {
        "macs"
    }

    fn rows(&self) -> Vec<Value> {
        let entries = self.control(|control| control.entries(wall_clock())).unwrap_or_default();
        let row = |entry: crate::forward::learn::Entry| {
            json!({
                "mac": entry.mac.to_string(),
                "vlan": entry.vid,
                "port": self.ports.name(entry.port),
                "static": entry.fixed,
                "age_seconds": entry.idle_seconds,
                "moves": entry.moves,
            })
        };
        entries.into_iter().map(row).collect()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        let mut edits = Vec::with_capacity(changes.len());
        for (i, change) in changes.iter().enumerate() {
            edits.push(self.edit(change).map_err(|why| refused(i, change, why))?);
        }
        let edited = self.control(|control| control.edit(&edits)).ok_or("the switch does not learn MAC addresses")?;
        edited.map_err(|(i, why)| refused(i, &changes[i], why))
    }

    fn len(&self) -> usize {
        self.control(|control| control.len()).unwrap_or_default()
    }

    /// There is no room in a switch that does not learn.
    fn capacity(&self) -> Option<usize> {
        self.control(|control| control.capacity()).or(Some(0))
    }

    fn key(&self) -> &'static [&'static str] {
        &["mac", "vlan"]
    }

    fn usage(&self) -> Option<TableUse> {
        self.control(|control| control.usage())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SwitchConfig;
    use crate::pisa::hash::Polynomial;

    fn table(capacity: u32) -> Macs {
        let config = SwitchConfig { mac_table: capacity, ..SwitchConfig::default() };
        let (learning, _) = Learning::new(&config, Polynomial::STANDARD[0], 1);
        Macs::new(Arc::new(Mutex::new(Some(learning))), PortNames::new([("a".into(), false), ("b".into(), false)]))
    }

    fn change(op: Op, entry: Value) -> Change {
        Change { op, entry }
    }

    #[test]
    fn entries_are_added_set_and_removed_all_or_none() {
        let mut macs = table(2);
        let one = json!({"mac": "02:00:00:00:00:01", "port": "a"});
        let two = json!({"mac": "02:00:00:00:00:02", "vlan": "7", "port": "b"});
        macs.change(&[change(Op::Add, one.clone()), change(Op::Set, two.clone())]).unwrap();
        assert_eq!((macs.len(), macs.capacity()), (2, Some(2)));
        assert_eq!(macs.rows()[1]["vlan"], 7);
        let three = json!({"mac": "02:00:00:00:00:03", "port": "a"});
        for (changes, says) in [
            (vec![change(Op::Remove, one.clone()), change(Op::Remove, one.clone())], "change 2, remove"),
            (vec![change(Op::Add, one.clone())], "there is such an entry already"),
            (vec![change(Op::Add, three)], "full with 2 entries"),
            (vec![change(Op::Remove, json!({"mac": "02:00:00:00:00:02"}))], "there is no such entry"),
        ] {
            let error = macs.change(&changes).unwrap_err();
            assert!(error.contains(says) && error.ends_with("nothing was changed"), "{error}");
            assert_eq!(macs.len(), 2);
        }
        let row = macs.rows().remove(0);
        macs.change(&[
            change(Op::Remove, row),
            change(Op::Set, json!({"mac": "02-00-00-00-00-02", "vlan": 7, "port": "a"})),
        ])
        .unwrap();
        assert_eq!(macs.rows()[0]["port"], "a");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mut macs = table(8);
        for (entry, says) in [
            (json!({"mac": "nonsense", "port": "a"}), "mac = nonsense: a MAC address such as"),
            (json!({"mac": "ff:ff:ff:ff:ff:ff", "port": "a"}), "not a group"),
            (json!({"mac": "02:00:00:00:00:01", "port": "z"}), "port = z: a port's name (a, b)"),
            (json!({"mac": "02:00:00:00:00:01"}), "port = (missing): a port's name (a, b)"),
            (
                json!({"mac": "02:00:00:00:00:01", "vlan": 4095, "port": "a"}),
                "vlan = 4095: a whole number from 0 to 4094",
            ),
            (json!({"mac": "02:00:00:00:00:01", "prot": "a"}), "unknown field `prot`, expected one of `mac`"),
            (json!({"mac": ["02"], "port": "a"}), "expected a word in quotes or a whole number"),
            (json!(7), "expected struct Entry"),
        ] {
            let error = macs.change(&[change(Op::Add, entry)]).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(macs.len(), 0);
    }
}
