//! PINT's P4 form for BMv2 (`p4/pint/v1model.p4`).

use super::super::Config;
use super::super::Pint;
use super::super::compress::{Compression, Entry, Exponent};
use super::super::dataplane::{Code, Coded, Instance, Limits, MAX_HOPS, Part, Scheme};
use super::super::encoding::{HOP_BITS, LAYER_BITS, switch_id};
use super::super::query::{PathActs, Value};
use super::super::utilisation::shifts::Ticks;
use super::super::values::Aggregation;
use super::super::values::dataplane::{Codes, ValueCode};
use crate::pisa::hash::{Addends, Global, Polynomial};
use crate::program::{P4Crc, P4Entry, P4Form, P4Request, Program, ProgramError};

/// Most hashes of a path side by side, and most instances of other values, that the sources have.
const MAX_INSTANCES: usize = 4;
const MAX_VALUES: usize = 4;

/// The P4 form of a configuration.
///
/// # Errors
/// If the sources have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    let parameters = of.config.parameters();
    let scheme = parameters.scheme(of.hashes);
    let wrong = |right: &str| {
        let (program, key, value) = (Pint::NAME, "queries", parameters.queries.to_string());
        Err(ProgramError::Value { program, key, value, right: right.into() })
    };
    let queries = &parameters.queries.0;
    if queries.iter().any(|query| query.value == Value::Loops) {
        return wrong("the P4 sources do not look for loops");
    }
    if queries.iter().any(|query| query.acts == PathActs::Vectors) {
        return wrong("the P4 sources have acts = hashes");
    }
    if scheme.path.as_ref().is_some_and(|path| path.instances.len() > MAX_INSTANCES) {
        return wrong("the P4 sources have at most 4 instances of a path");
    }
    if scheme.values.len() > MAX_VALUES {
        return wrong("the P4 sources have at most 4 instances of other values than path");
    }
    let mut form = P4Form::default();
    query_engine(&mut form, &scheme);
    match &scheme.path {
        Some(path) => path_encoding(&mut form, path, &scheme.switch(switch_id(of.switch))),
        None => form.constant("PATH_INSTANCES", 0u32),
    }
    if let Some(query) = parameters.query(Value::Utilisation) {
        link_utilisation(&mut form, Ticks::new(query.links.period_ns()));
    }
    form.constant("VALUES", scheme.values.len() as u64);
    for (number, code) in scheme.values.iter().enumerate() {
        if !value_encoding(&mut form, number, code) {
            return wrong(
                "the P4 sources have latency (multiplicative), utilisation (filter = shifts), ingress_port, \
                 egress_port and ingress_time, no sums",
            );
        }
    }
    Ok(form)
}

/// The hash that identifies packets, the one that chooses their queries, and where these stand.
fn query_engine(form: &mut P4Form, scheme: &Scheme) {
    form.crcs.push(P4Crc { action: "pint.identity.crc".into(), polynomial: Polynomial::STANDARD[0] });
    form.constant("SETS", scheme.sets.len() as u64);
    if scheme.sets.len() > 1 {
        global(form, "pint.query_engine.set_hash", &scheme.chooses);
        form.entries.push(for_all("pint.query_engine.arguments", "choose_by", addends(scheme.set)));
    }
    let mut first = 0;
    for set in &scheme.sets {
        let place = |is_its: &dyn Fn(&&Part) -> bool| {
            let part = set.parts.iter().find(is_its);
            part.map_or([0, 0], |part| [u64::from(part.shift), part.mask.into()])
        };
        let path = place(&|part| part.value == Value::Path);
        let values = (0..scheme.values.len()).flat_map(|code| {
            let value = scheme.values[code].query.value;
            place(&move |part| (part.value, part.code) == (value, code))
        });
        form.entries.push(P4Entry {
            table: "pint.query_engine.plan".into(),
            epoch: None,
            matches: vec![range(first, set.last)],
            action: "carry".into(),
            data: path.into_iter().chain(values).collect(),
            priority: Some(1),
        });
        first = set.last.wrapping_add(1);
    }
}

/// The hashes of the path query, and the limits that they are compared with.
fn path_encoding(form: &mut P4Form, path: &Code, own: &Coded) {
    form.constant("PATH_INSTANCES", path.instances.len() as u64);
    form.constant("PATH_BITS", path.bits);
    form.number("PATH_MASK", u16::BITS, path.mask());
    form.constant("PATH_FRAGMENT_BITS", path.fragments.map_or(0, |fragments| fragments.number_bits));
    form.constant("PATH_CHECKSUM_BITS", path.checksum.as_ref().map_or(0, |checksum| checksum.mask.count_ones()));
    form.constant("PATH_CHECKSUM_SHIFT", path.checksum.as_ref().map_or(0, |checksum| checksum.shift));
    for (number, (instance, switch)) in path.instances.iter().zip(&own.path).enumerate() {
        let Instance { acts, values, layer, fragment, hops, .. } = instance;
        let name = format!("pint.path.instance_{number}");
        global(form, &format!("{name}.layer"), acts);
        global(form, &format!("{name}.acts"), acts);
        global(form, &format!("{name}.values"), values);
        let writes = if path.fragments.is_some() { *fragment } else { *switch };
        let arguments = |hop: usize| [*layer, hops[hop], writes].into_iter().flat_map(addends).collect();
        let arguments =
            (1..=MAX_HOPS).map(|hop| of_hop(&format!("{name}.arguments"), hop, "hash_with", arguments(hop)));
        form.entries.extend(arguments);
        form.entries.extend(limits(&format!("{name}.limits"), &path.limits));
        if let Some(fragments) = path.fragments {
            form.entries.extend((0..1 << fragments.number_bits).map(|number| P4Entry {
                table: format!("{name}.fragments"),
                epoch: None,
                matches: vec![number.to_string()],
                action: "fragment".into(),
                data: vec![u64::from(fragments.of(own.id, number) & path.mask())],
                priority: None,
            }));
        }
    }
    let terms = (1..=MAX_HOPS).zip(own.terms.iter().skip(1));
    form.entries.extend(terms.map(|(hop, term)| of_hop("pint.path.checksum.terms", hop, "add", vec![(*term).into()])));
}

/// Which hops act in which layer, and how.
fn limits(table: &str, limits: &Limits) -> Vec<P4Entry> {
    let (layer, acts) = (u32::BITS - LAYER_BITS, u32::BITS - HOP_BITS);
    let entry = |action: &str, hops: [u32; 2], layers: [u32; 2], limit: u32| P4Entry {
        table: table.into(),
        epoch: None,
        matches: vec![range(hops[0], hops[1]), range(layers[0], layers[1]), range(0, limit >> acts)],
        action: action.into(),
        data: Vec::new(),
        priority: Some(1),
    };
    let ends: Vec<_> = limits.layers.iter().map(|end| end >> layer).collect();
    let baseline = (1..).zip(&limits.hops[1..=MAX_HOPS]);
    let baseline = baseline.map(|(hop, limit)| entry("write", [hop, hop], [0, ends[0]], *limit));
    let xor = ends.windows(2).zip(&limits.xor).filter(|(ends, _)| ends[0] < ends[1]);
    let xor = xor.map(|(ends, limit)| entry("xor", [1, MAX_HOPS as u32], [ends[0] + 1, ends[1]], *limit));
    baseline.chain(xor).collect()
}

/// An instance of another value. False, and nothing useful done, of one that the sources do not have.
fn value_encoding(form: &mut P4Form, number: usize, code: &ValueCode) -> bool {
    let name = format!("pint.value_{number}");
    let constant = |form: &mut P4Form, what: &str, value: u64| form.constant(format!("VALUE_{number}{what}"), value);
    let aggregation = match code.query.aggregation {
        Aggregation::Quantiles | Aggregation::Frequent => 1,
        Aggregation::Max => 2,
        Aggregation::Min => 3,
        Aggregation::Sum => return false,
    };
    let (value, is_rounded) = match (code.query.value, code.codes()) {
        (Value::Latency, Codes::Times(times)) => {
            form.entries.extend(logarithm(&format!("{name}.logarithm"), times));
            (1, true)
        }
        (Value::Utilisation, Codes::Volumes(codes, _)) => {
            form.entries.extend(logarithm(&format!("{name}.logarithm"), codes));
            (5, true)
        }
        (Value::IngressPort, _) => (2, false),
        (Value::EgressPort, _) => (3, false),
        (Value::IngressTime, Codes::Clock(_)) => (4, true),
        _ => return false,
    };
    let step = if let Codes::Clock(clock) = code.codes() { clock.step().into() } else { 0 };
    constant(form, "", value);
    constant(form, "_AGGREGATION", aggregation);
    constant(form, "_LAST", (1 << code.query.bits) - 1);
    constant(form, "_STEP", step);
    if is_rounded {
        let [inner, _] = code.rounds.chained();
        form.crcs.push(P4Crc { action: format!("{name}.rounding.inner"), polynomial: inner });
        let [argument, _] = code.hops[0][1].words().map(u64::from);
        form.entries.push(for_all(&format!("{name}.roundings"), "round_with", [argument]));
    }
    if aggregation == 1 {
        let reservoir = format!("{name}.reservoir");
        global(form, &format!("{reservoir}.acts"), &code.acts);
        for hop in 1..=MAX_HOPS {
            let arguments = addends(code.hops[hop][0]).to_vec();
            form.entries.push(of_hop(&format!("{reservoir}.arguments"), hop, "hash_with", arguments));
            let limit = of_hop(&format!("{reservoir}.limits"), hop, "write", Vec::new());
            let acts = range(0, code.limits[hop] >> (u32::BITS - HOP_BITS));
            let matches = limit.matches.into_iter().chain([acts]).collect();
            form.entries.push(P4Entry { matches, priority: Some(1), ..limit });
        }
    }
    true
}

/// The matches of a link's average on the gap since the packet before, in ticks, and on the gap's sum.
fn link_utilisation(form: &mut P4Form, ticks: Ticks) {
    form.constant("TICK_SHIFT", ticks.tick);
    let entry = |table: &str, [value, mask]: [u32; 2], action: &str, data: u32| P4Entry {
        table: format!("pint.utilisation.{table}"),
        epoch: None,
        matches: vec![format!("{value}&&&{mask}")],
        action: action.into(),
        data: vec![data.into()],
        priority: Some(1),
    };
    form.entries.push(entry("shifts", [0, u32::MAX], "fade", u32::BITS));
    for bit in 0..ticks.period {
        let (highest, below) = (1 << bit, (1 << bit) - 1);
        form.entries.push(entry("gaps", [highest, !below], "round_gap", below));
        form.entries.push(entry("shifts", [highest, !below], "fade", ticks.period - bit));
    }
}

/// The tables of a logarithm's code.
fn logarithm(name: &str, times: &Compression) -> Vec<P4Entry> {
    let exponents = times.exponents().map(|Exponent { exponent, value, mask, shift, part }| P4Entry {
        table: format!("{name}.exponents"),
        epoch: None,
        matches: vec![format!("{value}&&&{mask}")],
        action: if part.is_some() { "logarithm" } else { "cut" }.into(),
        data: part.map_or(vec![exponent.into(), shift.into()], |part| vec![part.into()]),
        priority: Some(1),
    });
    let logarithms = times.entries().map(|Entry { exponent, mantissa, part }| P4Entry {
        table: format!("{name}.logarithms"),
        epoch: None,
        matches: vec![exponent.to_string(), mantissa.to_string()],
        action: "logarithm".into(),
        data: vec![part.into()],
        priority: None,
    });
    exponents.chain(logarithms).collect()
}

/// The two CRCs of a control that computes a global hash.
fn global(form: &mut P4Form, control: &str, hash: &Global) {
    let crcs = ["inner", "outer"].into_iter().zip(hash.chained());
    form.crcs.extend(crcs.map(|(crc, polynomial)| P4Crc { action: format!("{control}.{crc}"), polynomial }));
}

fn addends(argument: Addends) -> [u64; 2] {
    argument.words().map(u64::from)
}

/// What a range matches, both ends included.
fn range(first: u32, last: u32) -> String {
    format!("{first}->{last}")
}

/// An entry of a table that is looked up with the number of the hop.
fn of_hop(table: &str, hop: usize, action: &str, data: Vec<u64>) -> P4Entry {
    let (table, matches, action) = (table.into(), vec![hop.to_string()], action.into());
    P4Entry { table, epoch: None, matches, action, data, priority: None }
}

/// The only entry of a table that gives all packets the same.
fn for_all(table: &str, action: &str, data: impl Into<Vec<u64>>) -> P4Entry {
    let (table, matches, action) = (table.into(), vec!["0&&&0".into()], action.into());
    P4Entry { table, epoch: None, matches, action, data: data.into(), priority: Some(1) }
}

#[cfg(test)]
mod tests;
