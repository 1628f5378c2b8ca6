//! HashPipe's P4 form for BMv2 (`p4/hashpipe/v1model.p4`).

use super::super::{Config, HashPipe, Key, Scope, Unit, label};
use crate::pisa::hash::{Digest, HashLayout};
use crate::program::{P4Crc, P4Form, P4Register, P4Request, Program, ProgramError, word};
use crate::wire::Net;

/// Stages that the sources have.
const MAX_STAGES: u32 = 6;

/// Registers of the v1model form that hold a key, first bits first, with their bits.
const KEY4: &[(&str, u32)] = &[("src", 32), ("dst", 32), ("ports", 32), ("proto", 8)];
const KEY6: &[(&str, u32)] = &[
    ("src0", 32),
    ("src1", 32),
    ("src2", 32),
    ("src3", 32),
    ("dst0", 32),
    ("dst1", 32),
    ("dst2", 32),
    ("dst3", 32),
    ("ports", 32),
    ("proto", 8),
];
/// The same of a digest.
const DIGEST: &[(&str, u32)] = &[("key", 32)];

/// The P4 form of a configuration.
///
/// # Errors
/// If the sources have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    let Config { stages, key, count, scope, .. } = of.config;
    let wrong = |key: &'static str, value: String, right: &str| {
        Err(ProgramError::Value { program: HashPipe::NAME, key, value, right: right.into() })
    };
    if *stages > MAX_STAGES {
        return wrong("stages", stages.to_string(), "the P4 sources have at most 6");
    }
    let is_digest = match key {
        Key::Tuple => false,
        Key::Digest32 => true,
        _ => return wrong("key", word(key), "the v1model sources have key = \"5tuple\" and key = \"digest32\""),
    };
    let mut form = P4Form::default();
    form.constant("STAGES", *stages);
    form.constant("IPV6", of.config.slots6() > 0);
    form.constant("COUNT_BYTES", *count == Unit::Bytes);
    form.constant("SCOPE_NETWORK", *scope == Scope::Network);
    if is_digest {
        form.constant("KEY_DIGEST32", 1u32);
    }
    for (net, name, parts) in [(Net::Ipv4, "ipv4", KEY4), (Net::Ipv6, "ipv6", KEY6)] {
        let cells = if net == Net::Ipv4 { of.config.slots } else { of.config.slots6() };
        let parts = if is_digest { DIGEST } else { parts };
        if is_digest && cells > 0 {
            let action = if net == Net::Ipv4 { "hashpipe.key4" } else { "hashpipe.key6" };
            form.crcs.push(P4Crc { action: action.into(), polynomial: Digest::<false>::POLYNOMIAL });
        }
        (0..*stages).filter(|_| cells > 0).for_each(|stage| {
            let polynomial = HashLayout::crc(label(net), stage).polynomial(of.hashes);
            form.crcs.push(P4Crc { action: format!("hashpipe.{name}_{stage}.crc"), polynomial });
            form.registers.extend(registers(name, stage, cells, parts));
        });
    }
    Ok(form)
}

/// The registers of one stage.
fn registers(name: &str, stage: u32, cells: u32, parts: &[(&str, u32)]) -> Vec<P4Register> {
    let mut shift = parts.iter().map(|(_, bits)| bits).sum::<u32>();
    let register = |part: &str, field: usize, shift: u32, bits: u32| P4Register {
        register: format!("hashpipe.{name}_{stage}.{part}"),
        array: name.into(),
        index: stage,
        field,
        shift,
        bits,
        cells: cells.into(),
    };
    let key = parts.iter().map(|(part, bits)| {
        shift -= bits;
        register(part, 0, shift, *bits)
    });
    let key = key.collect::<Vec<_>>();
    key.into_iter().chain([register("count", 1, 0, u32::BITS)]).collect()
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use super::super::super::dataplane::{Carry, For, Insert};
    use super::*;
    use crate::pisa::Salu;
    use crate::pisa::hash::{HashFamily, HashLayout, SlotHash, SlotRange};
    use crate::program::p4::limits;
    use crate::wire::{FlowKey, Tuple4};

    /// The packets of a flow that is in the slot already.
    #[test]
    fn counters_end_where_those_of_bmv2_do() {
        let layout = HashLayout::crc(label(Net::Ipv4), 0)
            .over(Tuple4::FIELDS)
            .within(SlotRange::Modulo(std::num::NonZeroU32::MIN));
        let hash = SlotHash::of(&layout, &HashFamily::reproducible(7));
        let insert = For::<Insert<0>, Tuple4>(Insert { hash }, PhantomData);
        let packet = Carry { own: [], key: Tuple4(7), count: 1, estimate: 0 };
        for of in limits::of("hashpipe") {
            let count = |count: u32, _| insert.rmw((Tuple4(7), count), &packet).0.1;
            assert_eq!(u64::from((0..of.alone).fold(of.before as u32, count)), of.after, "{of:?}");
        }
    }
}
