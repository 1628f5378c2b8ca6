//! The limits of a list as a whole.

use super::{Action, MAX_COUNTING, MAX_RULES, Rule, RuleConfig};
use crate::forward::text::{PortNames, Wrong, wrong};

/// Checks rules as a whole, in the order of the file; the number of the one that is wrong, from 0.
pub fn check_rules(rules: &[RuleConfig], ports: &PortNames, rows: u32) -> Result<Vec<Rule>, (usize, Wrong)> {
    let mut checked: Vec<Rule> = Vec::new();
    for (i, config) in rules.iter().enumerate() {
        let rule = config.rule(&format!("rule{}", i + 1), ports).map_err(|wrong| (i, wrong))?;
        if checked.iter().any(|other| other.name == rule.name) {
            return Err((i, wrong("name", &rule.name, "each name once")));
        }
        checked.push(rule);
        check_size(checked.iter(), rows).map_err(|wrong| (i, wrong))?;
    }
    Ok(checked)
}

/// Checks the number of rules, and the TCAM rows that they take.
pub fn check_size<'a>(rules: impl Iterator<Item = &'a Rule> + Clone, rows: u32) -> Result<(), Wrong> {
    let count = rules.clone().count();
    if count > MAX_RULES {
        return Err(wrong("acl", count, format!("at most {MAX_RULES} rules")));
    }
    if rules.clone().filter(|rule| rule.action == Action::Count).count() > MAX_COUNTING {
        return Err(wrong("action", "count", format!("at most {MAX_COUNTING} rules that count")));
    }
    let taken: u64 = rules.map(|rule| rule.matches.tcam_rows()).sum();
    if taken > rows.into() {
        let why = format!("at most {rows} TCAM rows (switch.acl_rows); a range takes a row for each prefix in it");
        return Err(wrong("acl", format!("{taken} rows"), why));
    }
    Ok(())
}
