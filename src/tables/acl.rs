//! The access control list as a table.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Change, Configured, Desired, Op, Table, read, refused, shown, without_counters};
use crate::forward::acl::{
    Acl, Counted, DEFAULT_SLOT, MAX_RULES, Rule, RuleConfig, RuleCounts, SLOTS, check_size, usage,
};
use crate::forward::policy::{PortFeatures, Publisher};
use crate::forward::text::{PortNames, Word};
use crate::json::counter;
use crate::pisa::table::TableUse;

/// The setup of a list.
#[derive(Clone, Debug)]
pub struct AclSetup {
    pub permit_by_default: bool,
    /// TCAM rows that are set aside for each of its two tables.
    pub rows: u32,
    /// Why the target has no room for the list, when it was started without one.
    pub no_room: Option<String>,
}

/// Table `acl`: rules in their order. The key is `name`; `at` is the place, from 1.
pub struct AclTable {
    publisher: Publisher,
    ports: PortNames,
    setup: AclSetup,
    rules: Vec<Entry>,
    /// Counters that no rule has; the one that was free for longest is taken first.
    free: VecDeque<u16>,
    counts: Vec<Arc<RuleCounts>>,
}

#[derive(Clone)]
struct Entry {
    config: RuleConfig,
    rule: Rule,
    slot: u16,
    /// The counts of the slot when the rule took it.
    before: Counted,
}

impl AclTable {
    /// With rules that have been checked.
    pub fn new(
        publisher: Publisher,
        ports: PortNames,
        setup: AclSetup,
        rules: &[RuleConfig],
        counts: Vec<Arc<RuleCounts>>,
    ) -> Self {
        let free = (0..SLOTS as u16).collect();
        let mut table = Self { publisher, ports, setup, rules: Vec::new(), free, counts };
        let (entries, free) = table.renewed(rules);
        table.publish(entries, free);
        table
    }

    /// Entries of rules that have been checked. One that is there already, the same in all, keeps
    /// its counters.
    fn renewed(&self, rules: &[RuleConfig]) -> (Vec<Entry>, VecDeque<u16>) {
        let kept: Vec<_> = named(rules).map(|rule| self.rules.iter().find(|entry| entry.config == rule)).collect();
        let mut free = self.free.clone();
        let gone = |old: &&Entry| !kept.iter().flatten().any(|entry| entry.slot == old.slot);
        free.extend(self.rules.iter().filter(gone).map(|entry| entry.slot));
        let mut entries = Vec::new();
        for (config, old) in named(rules).zip(&kept) {
            let Ok(rule) = config.rule("", &self.ports) else { continue };
            entries.push(match old {
                Some(old) => Entry { config, rule, ..(*old).clone() },
                None => self.entry(config, rule, &mut free),
            });
        }
        (entries, free)
    }

    fn publish(&mut self, entries: Vec<Entry>, free: VecDeque<u16>) {
        let publisher = self.publisher.clone();
        publisher.publish(|settings| self.put(entries, free, settings));
    }

    fn counted(&self, slot: u16) -> Counted {
        Counted::sum(self.counts.iter().map(|worker| worker.get(slot.into())))
    }

    fn entry(&self, config: RuleConfig, rule: Rule, free: &mut VecDeque<u16>) -> Entry {
        // There are more slots than rules.
        let slot = free.pop_front().unwrap_or_default();
        Entry { config, rule, slot, before: self.counted(slot) }
    }

    fn put(&mut self, entries: Vec<Entry>, free: VecDeque<u16>, settings: &mut PortFeatures) {
        let rules: Vec<_> = entries.iter().map(|entry| (entry.rule.clone(), entry.slot)).collect();
        let needed = !rules.is_empty() || !self.setup.permit_by_default;
        settings.acl = needed.then(|| Arc::new(Acl::new(&rules, self.setup.permit_by_default)));
        (self.rules, self.free) = (entries, free);
    }

    /// Makes one change of the list.
    fn edit(&self, entries: &mut Vec<Entry>, free: &mut VecDeque<u16>, change: &Change) -> Result<(), String> {
        let (config, at) = split(&change.entry)?;
        let place = |name: &str| entries.iter().position(|entry| entry.rule.name == name);
        if change.op == Op::Remove {
            let name = config.name.as_ref().ok_or("name = (missing): the name of a rule")?;
            let at = place(&name.0).ok_or("there is no such rule")?;
            free.push_back(entries.remove(at).slot);
            return Ok(());
        }
        let usual = (1..).map(|n| format!("rule{n}")).find(|name| place(name).is_none()).unwrap_or_default();
        let rule = config.rule(&usual, &self.ports).map_err(|wrong| wrong.to_string())?;
        let known = place(&rule.name);
        let mut entry = match known {
            Some(_) if change.op == Op::Add => return Err("there is such a rule already".into()),
            Some(at) => Entry { config, rule, ..entries.remove(at) },
            None => self.entry(config, rule, free),
        };
        entry.config.name = Some(Word(entry.rule.name.clone()));
        let last = entries.len();
        let at = match at {
            None => known.unwrap_or(last),
            Some(at) if (1..=last + 1).contains(&at) => at - 1,
            Some(at) => return Err(format!("at = {at}: a place from 1 to {}", last + 1)),
        };
        entries.insert(at, entry);
        check_size(entries.iter().map(|entry| &entry.rule), self.setup.rows).map_err(|wrong| wrong.to_string())
    }
}

/// The rule, and its place when it is named. Counters of a row that was shown are passed over.
fn split(entry: &Value) -> Result<(RuleConfig, Option<usize>), String> {
    let mut entry = without_counters(entry);
    let mut at = None;
    if let Some(place) = entry.as_object_mut().and_then(|fields| fields.remove("at")) {
        let number = place.as_u64().and_then(|at| usize::try_from(at).ok());
        at = Some(number.ok_or_else(|| format!("at = {place}: a place from 1 on"))?);
    }
    Ok((read(&entry)?, at))
}

/// The rules of a file with the names that they have where it gives none.
fn named(rules: &[RuleConfig]) -> impl Iterator<Item = RuleConfig> {
    rules.iter().zip(1..).map(|(rule, n)| {
        let name = rule.name.clone().unwrap_or_else(|| Word(format!("rule{n}")));
        RuleConfig { name: Some(name), ..rule.clone() }
    })
}

impl Configured for AclTable {
    fn is(&self, desired: &Desired) -> bool {
        self.setup.permit_by_default == desired.acl_setup.permit_by_default
            && named(&desired.acl).eq(self.rules.iter().map(|entry| entry.config.clone()))
    }

    fn reconcile(&mut self, desired: &Desired, settings: &mut PortFeatures) {
        self.setup = desired.acl_setup.clone();
        let (entries, free) = self.renewed(&desired.acl);
        self.put(entries, free, settings);
    }
}

impl Table for AclTable {
    fn name(&self) -> &'static str {
        "acl"
    }

    fn rows(&self) -> Vec<Value> {
        let row = |(at, entry): (usize, &Entry)| {
            let mut row = shown(&entry.config);
            let counted = self.counted(entry.slot).since(entry.before);
            row["name"] = entry.rule.name.clone().into();
            row["at"] = (at + 1).into();
            row["hit_packets"] = counted.packets.into();
            row["hit_bytes"] = counter(counted.bytes);
            row
        };
        self.rules.iter().enumerate().map(row).collect()
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), String> {
        if let (Some(no_room), false) = (&self.setup.no_room, changes.is_empty()) {
            return Err(format!("the target has no room for an access control list: {no_room}"));
        }
        let (mut entries, mut free) = (self.rules.clone(), self.free.clone());
        for (i, change) in changes.iter().enumerate() {
            self.edit(&mut entries, &mut free, change).map_err(|why| refused(i, change, why))?;
        }
        self.publish(entries, free);
        Ok(())
    }

    fn configured(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn len(&self) -> usize {
        self.rules.len()
    }

    fn capacity(&self) -> Option<usize> {
        Some(MAX_RULES)
    }

    fn key(&self) -> &'static [&'static str] {
        &["name"]
    }

    fn usage(&self) -> Option<TableUse> {
        Some(usage(self.setup.rows))
    }

    /// The action for packets that no rule decides.
    fn default_row(&self) -> Option<Value> {
        let counted = self.counted(DEFAULT_SLOT as u16);
        let action = if self.setup.permit_by_default { "permit" } else { "deny" };
        Some(json!({"action": action, "hit_packets": counted.packets, "hit_bytes": counter(counted.bytes)}))
    }
}
