//! Hop counters' P4 form for BMv2 (`p4/hopcounters/v1model.p4`).

use super::super::Config;
use super::{crcs, rows};
use crate::program::{P4Entry, P4Form, P4Request};
use crate::wire::shim;

/// The P4 form of a configuration.
pub fn form(of: &P4Request<'_, Config>) -> P4Form {
    let mut form = rows(of.config);
    form.constant("GROUP_SHIFT", u32::BITS - of.config.groups().ilog2());
    form.crcs.extend(crcs(of, ["group.ipv4_shared", "group.ipv4_group"]));
    form.crcs.extend(crcs(of, ["group.ipv6_shared", "group.ipv6_group"]));
    form.entries.extend(of.epochs.clone().map(|epoch| P4Entry {
        table: "hopcounters.epochs".into(),
        epoch: Some(epoch),
        matches: vec![shim::epoch_of(epoch).to_string()],
        action: "count".into(),
        data: Vec::new(),
        priority: None,
    }));
    form
}

#[cfg(test)]
mod tests {
    use super::super::super::dataplane::{Count, Hop};
    use crate::pisa::Salu;
    use crate::program::p4::limits;

    #[test]
    fn counters_end_where_those_of_bmv2_do() {
        for of in limits::of("hopcounters") {
            let count = |count: u32, _| Count.rmw(count, &Hop::default()).0;
            assert_eq!(u64::from((0..of.alone).fold(of.before as u32, count)), of.after, "{of:?}");
        }
    }
}
