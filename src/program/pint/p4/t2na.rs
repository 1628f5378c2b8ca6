//! PINT's P4 form for Tofino (`p4/pint/t2na.p4`).

use super::super::compress::{Compression, Entry, Exponent};
use super::super::dataplane::{Code, Coded, Instance, Limits, MAX_HOPS};
use super::super::encoding::{HOP_BITS, LAYER_BITS, switch_id};
use super::super::query::{PathActs, Value};
use super::super::values::Aggregation;
use super::super::values::dataplane::{Codes, ValueCode};
use super::super::{Config, Pint};
use crate::pisa::hash::{Global, Polynomial};
use crate::program::{P4Crc, P4Entry, P4Form, P4Request, Program, ProgramError};

/// Bits of a part of the digest that the sources have, and parts in it.
const BITS: u32 = 8;
const PARTS: usize = 2;

/// The P4 form of a configuration.
///
/// # Errors
/// If the sources have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    let parameters = of.config.parameters();
    let scheme = parameters.scheme(of.hashes);
    let wrong = |right: &str| {
        let (program, key, value) = (Pint::NAME, "queries", parameters.queries.to_string());
        let right = format!("{right} in the P4 sources for Tofino");
        Err(ProgramError::Value { program, key, value, right })
    };
    let [set] = &scheme.sets[..] else {
        return wrong("one set of queries");
    };
    let is_plain = parameters.queries.0.iter().all(|query| query.bits == BITS && query.acts == PathActs::Hashes);
    let instances = scheme.path.as_ref().map_or(0, |path| path.instances.len());
    if !is_plain || instances > PARTS || scheme.path.as_ref().is_some_and(|path| !path.is_plain || path.has_checksum())
    {
        return wrong("parts of 8 bits, with plain hashes and no checksum");
    }
    let mut form = P4Form::default();
    form.crcs.push(P4Crc { action: "pint.identity".into(), polynomial: Polynomial::STANDARD[0] });
    form.constant("PATH_INSTANCES", instances as u64);
    if let Some(path) = &scheme.path {
        // The sources have the instances in the lowest bytes.
        if set.parts.iter().any(|part| part.value == Value::Path && part.shift > 0) {
            return wrong("the path before other values");
        }
        path_encoding(&mut form, path, &scheme.switch(switch_id(of.switch)));
    }
    for code in &scheme.values {
        match (code.query.value, code.query.aggregation, code.codes()) {
            (Value::Latency, Aggregation::Quantiles | Aggregation::Frequent, Codes::Times(times)) => {
                let shift = set.parts.iter().find(|part| part.value == Value::Latency).map_or(0, |part| part.shift);
                form.constant("LATENCY", 1u32);
                form.constant("LATENCY_BYTE", shift / BITS);
                latency(&mut form, code, times);
            }
            _ => return wrong("path and latency"),
        }
    }
    Ok(form)
}

/// The two CRCs of a global hash.
fn global(form: &mut P4Form, name: &str, hash: &Global) {
    let crcs = ["inner", "outer"].into_iter().zip(hash.chained());
    form.crcs.extend(crcs.map(|(crc, polynomial)| P4Crc { action: format!("pint.{name}.{crc}"), polynomial }));
}

/// An entry of a table that stays over all epochs.
fn entry(table: &str, matches: Vec<String>, action: &str, data: Vec<u64>, priority: Option<u32>) -> P4Entry {
    P4Entry { table: format!("pint.{table}"), epoch: None, matches, action: action.into(), data, priority }
}

/// The hashes of the path query, and the limits that they are compared with.
fn path_encoding(form: &mut P4Form, path: &Code, own: &Coded) {
    for (number, (instance, switch)) in path.instances.iter().zip(&own.path).enumerate() {
        let Instance { acts, values, layer, hops, .. } = instance;
        global(form, &format!("acts_{number}"), acts);
        global(form, &format!("values_{number}"), values);
        for (hop, hop_argument) in hops.iter().enumerate().take(MAX_HOPS + 1).skip(1) {
            let arguments = [*layer, *hop_argument, *switch].map(|argument| argument.words().map(u64::from));
            for (at, (table, action)) in
                [("inner", "first_arguments"), ("outer", "second_arguments")].iter().enumerate()
            {
                let data = arguments.iter().map(|words| words[at]).collect();
                let (table, action) = (format!("{table}_{number}"), format!("{action}_{number}"));
                form.entries.push(entry(&table, vec![hop.to_string()], &action, data, None));
            }
        }
        form.entries.extend(limits(number, &path.limits));
    }
}

/// Which hops act in which layer, and how.
fn limits(number: usize, limits: &Limits) -> Vec<P4Entry> {
    let (layer, acts) = (u32::BITS - LAYER_BITS, u32::BITS - HOP_BITS);
    let table = format!("layers_{number}");
    let entries = |action: &str, hop: &str, layers: [u32; 2], limit: u32| -> Vec<P4Entry> {
        let layers = prefixes(layers[0], layers[1], LAYER_BITS);
        let pairs = layers
            .iter()
            .flat_map(|layer| prefixes(0, limit >> acts, HOP_BITS).into_iter().map(move |acts| (layer, acts)));
        let matches = |(layer, acts): (&String, String)| vec![hop.to_owned(), layer.clone(), acts];
        pairs.map(|pair| entry(&table, matches(pair), &format!("{action}_{number}"), Vec::new(), Some(2))).collect()
    };
    let ends: Vec<_> = limits.layers.iter().map(|end| end >> layer).collect();
    let baseline = (1..).zip(&limits.hops[1..=MAX_HOPS]);
    let baseline = baseline.flat_map(|(hop, limit)| entries("write", &format!("{hop}&&&63"), [0, ends[0]], *limit));
    let xor = ends.windows(2).zip(&limits.xor).filter(|(ends, _)| ends[0] < ends[1]);
    let xor = xor.flat_map(|(ends, limit)| entries("xor", "0&&&0", [ends[0] + 1, ends[1]], *limit));
    // Behind more hops the number of the hop is not known, and the digest stays.
    let stays = entry(
        &table,
        vec![format!("{}&&&63", MAX_HOPS + 1), "0&&&0".into(), "0&&&0".into()],
        "NoAction",
        Vec::new(),
        Some(1),
    );
    [stays].into_iter().chain(baseline).chain(xor).collect()
}

/// The tables of a latency's code.
fn latency(form: &mut P4Form, code: &ValueCode, times: &Compression) {
    let [inner, _] = code.rounds.chained();
    form.crcs.push(P4Crc { action: "pint.rounding.inner".into(), polynomial: inner });
    global(form, "latency", &code.acts);
    form.entries.extend(times.exponents().map(|Exponent { exponent, value, mask, shift, part }| {
        let (action, data) = match part {
            Some(part) => ("logarithm".into(), vec![part.into()]),
            None => (format!("shift_{shift}"), vec![exponent.into()]),
        };
        entry("latency.exponents", vec![format!("{value}&&&{mask}")], &action, data, Some(1))
    }));
    form.entries.extend(times.entries().map(|Entry { exponent, mantissa, part }| {
        let matches = vec![exponent.to_string(), mantissa.to_string()];
        entry("latency.parts", matches, "part", vec![part.into()], None)
    }));
    let [argument, _] = code.hops[0][1].words().map(u64::from);
    form.entries.push(entry("latency.rounding_argument", Vec::new(), "round", vec![argument], None));
    for hop in 1..=MAX_HOPS {
        let [first, second] = code.hops[hop][0].words().map(u64::from);
        form.entries.push(entry("latency.inner", vec![hop.to_string()], "first_argument", vec![first], None));
        form.entries.push(entry("latency.outer", vec![hop.to_string()], "second_argument", vec![second], None));
        let limits = prefixes(0, code.limits[hop] >> (u32::BITS - HOP_BITS), HOP_BITS);
        form.entries.extend(
            limits
                .into_iter()
                .map(|acts| entry("latency.hops", vec![hop.to_string(), acts], "write", Vec::new(), Some(1))),
        );
    }
}

/// A range of numbers of this many bits as ternary matches, both ends included. A TCAM's own ranges of 16 bits take
/// five times as many blocks.
fn prefixes(first: u32, last: u32, bits: u32) -> Vec<String> {
    let all = (1u64 << bits) - 1;
    let (mut next, end) = (u64::from(first), u64::from(last) + 1);
    let mut matches = Vec::new();
    while next < end {
        let aligned = if next == 0 { bits } else { next.trailing_zeros() };
        let length = 1u64 << aligned.min((end - next).ilog2());
        matches.push(format!("{next}&&&{}", all & !(length - 1)));
        next += length;
    }
    matches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::prefixes;

    proptest! {
        /// A number is in one match if it is in the range, and else in none.
        #[test]
        fn prefixes_are_the_range(ends: [u8; 2], number: u8) {
            let [first, last] = [ends[0].min(ends[1]), ends[0].max(ends[1])].map(u32::from);
            let matches = |text: &String| {
                let (value, mask) = text.split_once("&&&").unwrap();
                u32::from(number) & mask.parse::<u32>().unwrap() == value.parse::<u32>().unwrap()
            };
            let found = prefixes(first, last, 8).iter().filter(|text| matches(text)).count();
            prop_assert_eq!(found, usize::from((first..=last).contains(&number.into())));
        }
    }
}
