//! The access control list: an ordered list of rules over the parsed fields. The first rule that
//! matches decides.
//!
//! It is searched by bit vectors (Lakshman, Stiliadis, SIGCOMM 1998): each field has a sorted list
//! of the points at which the set of matching rules changes, and for each piece between them that
//! set as a bitmap. A look-up is a binary search a field and an AND of bitmaps. Its work depends on
//! the rules alone, never on the traffic before: there is no cache that crafted packets could
//! thrash.

mod counts;
mod fields;
mod intervals;
mod rule;
mod size;
#[cfg(test)]
mod tests;
mod words;

pub use counts::{Counted, RuleCounts};
pub use rule::{Action, Flags, FragmentMatch, MacPrefix, Match, Prefix, Rule};
pub use size::{check_rules, check_size};
pub use words::RuleConfig;

use fields::Fields;

use crate::pisa::table::{Shape, TableUse};
use crate::pisa::{LookupTrace, Phv, PortId};

/// Maximum rules.
pub const MAX_RULES: usize = 512;
/// Maximum rules that count and let the search go on: each costs a step for a packet that matches
/// it.
pub const MAX_COUNTING: usize = 16;
/// Counters that a list has: as many again as rules, so that one of a rule that has gone is not
/// soon another's.
pub const SLOTS: usize = 2 * MAX_RULES;
/// The counter of packets that no rule decides.
pub const DEFAULT_SLOT: usize = SLOTS;

/// Memory of the list: a table for IPv4 and other EtherTypes, and one for IPv6, of `rows` TCAM rows
/// each. The counters stand with the actions.
pub fn usage(rows: u32) -> TableUse {
    let one = |key_bits| Shape { capacity: rows as usize, key_bits, action_bits: ACTION_BITS }.ternary();
    TABLES.into_iter().fold(TableUse::default(), |sum, (_, key_bits)| {
        let one = one(key_bits);
        TableUse { sram_bits: sum.sram_bits + one.sram_bits, tcam_bits: sum.tcam_bits + one.tcam_bits, hashes: 0 }
    })
}

/// Port 9, MAC addresses 96, EtherType 16, VLAN 12, protocol 8, transport ports 32 and whether
/// there are any 1, TCP flags 8 and whether there are any 1, DSCP 6, fragment 2 bits.
const COMMON_KEY_BITS: u32 = 9 + 96 + 16 + 12 + 8 + 33 + 9 + 6 + 2;

/// The tables that hardware needs, with the width of their keys: an IPv6 address would not fit
/// beside IPv4's rows.
pub const TABLES: [(&str, u32); 2] = [("acl.ipv4", COMMON_KEY_BITS + 2 * 32), ("acl.ipv6", COMMON_KEY_BITS + 2 * 128)];

/// Action 2, mirror and its port 1 + 9 bits, two counters of 64.
pub const ACTION_BITS: u32 = 2 + 10 + 2 * 64;

/// The list's decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub permit: bool,
    /// A copy goes here.
    pub mirror: Option<PortId>,
}

/// A rule's action, and the slot of its counters.
#[derive(Clone, Copy, Debug)]
struct Verb {
    action: Action,
    mirror: Option<PortId>,
    slot: u16,
}

/// A list, ready to be searched.
#[derive(Debug)]
pub struct Acl {
    fields: Fields,
    verbs: Box<[Verb]>,
    /// For traces.
    names: Box<[String]>,
    /// Bitmap of the rules there are.
    all: Box<[u64]>,
    default: Decision,
}

impl Acl {
    /// The rules in their order, at most [`MAX_RULES`], each with its counter below [`SLOTS`].
    pub fn new(rules: &[(Rule, u16)], permit_by_default: bool) -> Self {
        let verb = |(rule, slot): &(Rule, u16)| Verb { action: rule.action, mirror: rule.mirror, slot: *slot };
        let mut all = vec![0; rules.len().div_ceil(64)];
        (0..rules.len()).for_each(|rule| all[rule / 64] |= 1 << (rule % 64));
        let matches: Vec<&Match> = rules.iter().map(|(rule, _)| &rule.matches).collect();
        Self {
            fields: Fields::new(&matches),
            verbs: rules.iter().map(verb).collect(),
            names: rules.iter().map(|(rule, _)| rule.name.clone()).collect(),
            all: all.into(),
            default: Decision { permit: permit_by_default, mirror: None },
        }
    }

    /// Some rule asks for TCP flags, which the parser does not look for.
    #[inline(always)]
    pub fn wants_flags(&self) -> bool {
        self.fields.wants_flags()
    }

    /// The look-ups of [`Self::decide`], in words. Counts nothing.
    pub fn trace(&self, phv: &Phv, flags: Option<u8>) -> Vec<LookupTrace> {
        let rows = self.fields.rows(phv, flags);
        let hit = |rule: &usize| {
            let (word, bit) = (rule / 64, 1 << (rule % 64));
            rows.iter().fold(self.all[word], |hits, row| hits & row[word]) & bit != 0
        };
        let lookup = |entry: Option<&String>, action: &str, port| LookupTrace {
            table: "acl",
            key: "parsed headers".into(),
            entry: entry.map(|name| format!("rule {name}")),
            port,
            action: action.into(),
        };
        let mut lookups = Vec::new();
        for rule in (0..self.verbs.len()).filter(hit) {
            let (verb, name) = (&self.verbs[rule], self.names.get(rule));
            match verb.action {
                Action::Count => lookups.push(lookup(name, "count", None)),
                Action::Permit | Action::Deny => {
                    let action = if verb.action == Action::Permit { "permit" } else { "deny" };
                    lookups.push(lookup(name, action, verb.mirror));
                    return lookups;
                }
            }
        }
        lookups.push(lookup(None, if self.default.permit { "permit by default" } else { "deny by default" }, None));
        lookups
    }

    /// Decides on a packet; its rules count it. `flags`: of a packet that has a TCP
    /// header.
    #[inline]
    pub fn decide(&self, phv: &Phv, flags: Option<u8>, counts: &RuleCounts) -> Decision {
        let rows = self.fields.rows(phv, flags);
        for (word, all) in self.all.iter().enumerate() {
            let mut hits = rows.iter().fold(*all, |hits, row| hits & row[word]);
            while hits != 0 {
                let verb = &self.verbs[64 * word + hits.trailing_zeros() as usize];
                counts.add(verb.slot.into(), phv.wire_bytes);
                if verb.action != Action::Count {
                    return Decision { permit: verb.action == Action::Permit, mirror: verb.mirror };
                }
                hits &= hits - 1;
            }
        }
        counts.add(DEFAULT_SLOT, phv.wire_bytes);
        self.default
    }
}
