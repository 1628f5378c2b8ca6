//! PINT's P4 form for BMv2 (`p4/pint/v1model.p4`).

use super::super::Config;
use super::super::Pint;
use super::super::compress::{Compression, Entry, Exponent};
use super::super::dataplane::{Code, Coded, Instance, Limits, MAX_HOPS, Part, Scheme};
use super::super::encoding::{HOP_BITS, LAYER_BITS, switch_id};
use super::super::query::{PathActs, Value};
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
    form.constant("VALUES", scheme.values.len() as u64);
    for (number, code) in scheme.values.iter().enumerate() {
        if !value_encoding(&mut form, number, code) {
            return wrong(
                "the P4 sources have latency (multiplicative), ingress_port, egress_port and ingress_time, no sums",
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
            form.entries.extend(latency(&format!("{name}.latency"), times));
            (1, true)
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

/// The tables of a latency's code.
fn latency(name: &str, times: &Compression) -> Vec<P4Entry> {
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
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::pisa::Layout;
    use crate::pisa::hash::{HashFamily, INIT, XOROUT, bitwise};
    use crate::program::P4Target;
    use crate::program::Parameters as _;
    use crate::program::pint::dataplane::Measured;
    use crate::program::pint::query::Queries;

    const SWITCH: &str = "leaf-1";

    fn form_of(queries: &str) -> Result<P4Form, ProgramError> {
        let queries = queries.parse::<Queries>().unwrap();
        let (config, hashes) = (Config { queries, ..Config::default() }, HashFamily::reproducible(7));
        let (target, layout) = (P4Target::V1model, Layout::new(Pint::NAME));
        let (switch, epochs, parameters) = (SWITCH, 0..=0, Pint::start(&config).encode());
        let (config, hashes, layout, parameters) = (&config, &hashes, &layout, &parameters);
        form(&P4Request { config, parameters, switch, hashes, layout, target, epochs })
    }

    /// The sources in `p4/pint`, in few words.
    struct Sources {
        crcs: BTreeMap<String, Polynomial>,
        constants: BTreeMap<String, u64>,
        tables: BTreeMap<String, Vec<P4Entry>>,
    }

    impl Sources {
        fn new(form: P4Form) -> Self {
            let mut tables = BTreeMap::<_, Vec<_>>::new();
            form.entries.into_iter().for_each(|entry| tables.entry(entry.table.clone()).or_default().push(entry));
            Self {
                crcs: form.crcs.into_iter().map(|crc| (crc.action, crc.polynomial)).collect(),
                constants: form.constants.into_iter().map(|constant| (constant.name, constant.value)).collect(),
                tables,
            }
        }

        fn constant(&self, name: &str) -> u32 {
            self.constants[name] as u32
        }

        /// The action and the data of the only entry that matches.
        fn look_up(&self, table: &str, keys: &[u32]) -> Option<(&str, &[u64])> {
            let number = |text: &str| text.parse::<u32>().unwrap();
            let is_match = |key: u32, wanted: &str| match (wanted.split_once("->"), wanted.split_once("&&&")) {
                (Some((low, high)), _) => (number(low)..=number(high)).contains(&key),
                (_, Some((value, mask))) => key & number(mask) == number(value),
                _ => key == number(wanted),
            };
            let matches = |entry: &&P4Entry| keys.iter().zip(&entry.matches).all(|(key, one)| is_match(*key, one));
            let mut found = self.tables[table].iter().filter(matches);
            let first = found.next()?;
            assert!(found.next().is_none(), "{table}: two entries for {keys:?}");
            Some((&first.action, &first.data))
        }

        fn crc(&self, action: &str, word: u32) -> u32 {
            bitwise::crc(self.crcs[action], INIT, XOROUT, &word.to_be_bytes())
        }

        fn global(&self, control: &str, packet: u32, argument: &[u64]) -> u32 {
            let inner = self.crc(&format!("{control}.inner"), packet.wrapping_add(argument[0] as u32));
            self.crc(&format!("{control}.outer"), inner.wrapping_add(argument[1] as u32))
        }

        fn encode(&self, packet: Measured, mut digest: u16) -> u16 {
            let (hop, identity) = (packet.hop.into(), packet.identity);
            let chosen = if self.constant("SETS") > 1 {
                let (_, argument) = self.look_up("pint.query_engine.arguments", &[hop]).unwrap();
                self.global("pint.query_engine.set_hash", identity, argument)
            } else {
                0
            };
            let (_, places) = self.look_up("pint.query_engine.plan", &[chosen]).unwrap();
            digest = if hop == 1 { 0 } else { digest };
            for (number, place) in places.chunks(2).enumerate().filter(|(_, place)| place[1] > 0) {
                let (shift, mask) = (place[0], place[1] as u16);
                let before = digest >> shift & mask;
                let after = match number {
                    0 => self.path(hop, identity, before),
                    _ => self.value(number - 1, packet, before),
                };
                digest = digest & !(mask << shift) | (after & mask) << shift;
            }
            digest
        }

        fn path(&self, hop: u32, identity: u32, mut part: u16) -> u16 {
            let mask = self.constant("PATH_MASK") as u16;
            for number in 0..self.constant("PATH_INSTANCES") {
                let name = format!("pint.path.instance_{number}");
                let Some((_, arguments)) = self.look_up(&format!("{name}.arguments"), &[hop]) else { continue };
                let hash =
                    |what: &str, place: usize| self.global(&format!("{name}.{what}"), identity, &arguments[place..]);
                let (layer, acts, mut value) = (hash("layer", 0), hash("acts", 2), hash("values", 4));
                if let bits @ 1.. = self.constant("PATH_FRAGMENT_BITS") {
                    value = self.look_up(&format!("{name}.fragments"), &[value >> (32 - bits)]).unwrap().1[0] as u32;
                }
                let shift = number * self.constant("PATH_BITS");
                let value = (value as u16 & mask) << shift;
                match self.look_up(&format!("{name}.limits"), &[hop, layer >> 24, acts >> 16]) {
                    Some(("write", _)) => part = part & !(mask << shift) | value,
                    Some(("xor", _)) => part ^= value,
                    _ => {}
                }
            }
            let bits = self.constant("PATH_CHECKSUM_BITS");
            let terms = (bits > 0).then(|| self.look_up("pint.path.checksum.terms", &[hop])).flatten();
            let Some((_, term)) = terms else { return part };
            let (shift, mask) = (self.constant("PATH_CHECKSUM_SHIFT"), (1u16 << bits) - 1);
            let sum = (part >> shift).wrapping_add(term[0] as u16) & mask;
            part & !(mask << shift) | sum << shift
        }

        fn value(&self, number: usize, packet: Measured, before: u16) -> u16 {
            let (name, hop) = (format!("pint.value_{number}"), u32::from(packet.hop));
            let constant = |what: &str| self.constant(&format!("VALUE_{number}{what}"));
            let random = || {
                let argument = self.look_up(&format!("{name}.roundings"), &[hop]).unwrap().1[0] as u32;
                self.crc(&format!("{name}.rounding.inner"), packet.identity.wrapping_add(argument))
            };
            let last = constant("_LAST") as u16;
            let own = match constant("") {
                1 => {
                    let time = packet.latency_ns;
                    let part = match self.look_up(&format!("{name}.latency.exponents"), &[time]).unwrap() {
                        ("cut", data) => {
                            let key = [data[0] as u32, time >> data[1] & 0x7f];
                            self.look_up(&format!("{name}.latency.logarithms"), &key).unwrap().1[0]
                        }
                        (_, data) => data[0],
                    };
                    ((part as u32 + (random() & 15)) >> 4) as u16
                }
                2 => packet.ingress.min(last),
                3 => packet.egress.min(last),
                _ => {
                    let step = constant("_STEP");
                    let below = (1u64 << step) - 1;
                    ((packet.ingress_ns + (u64::from(random()) & below)) >> step) as u16 & last
                }
            };
            match constant("_AGGREGATION") {
                1 => {
                    let argument = self.look_up(&format!("{name}.reservoir.arguments"), &[hop]);
                    let Some((_, argument)) = argument else { return before };
                    let acts = self.global(&format!("{name}.reservoir.acts"), packet.identity, argument);
                    let writes = self.look_up(&format!("{name}.reservoir.limits"), &[hop, acts >> 16]).is_some();
                    if writes { own } else { before }
                }
                _ if hop == 63 => before,
                2 => own.max(before),
                _ if hop == 1 => own,
                _ => own.min(before),
            }
        }
    }

    const QUERIES: [&str; 6] = [
        "path:bits=8:instances=2",
        "path:bits=8+latency:bits=8",
        "path:bits=4:instances=2:checksum=3+latency:bits=5:aggregation=max",
        "path:bits=4:coding=fragments+latency:bits=6:aggregation=min+ingress_port:bits=6",
        "latency:bits=4:instances=2+path:bits=2:instances=4",
        "path:bits=8:instances=2:frequency=1/4+latency:bits=8:frequency=1/4+egress_port:bits=6:frequency=1/8\
         +ingress_time:bits=10:frequency=1/8",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 8, ..ProptestConfig::default() })]

        /// Tables, CRCs and constants make the digest that a switch writes.
        #[test]
        fn tables_make_the_digest(
            which in 0..QUERIES.len(),
            packets in prop::collection::vec((any::<u32>(), 1..=63u8, any::<u16>(), 0..32u32, any::<u32>()), 300),
        ) {
            let sources = Sources::new(form_of(QUERIES[which]).unwrap());
            let config = Config { queries: QUERIES[which].parse().unwrap(), ..Config::default() };
            let scheme = config.scheme(&HashFamily::reproducible(7));
            let own = scheme.switch(switch_id(SWITCH));
            for (identity, hop, digest, shift, bits) in packets {
                let latency_ns = bits >> shift;
                let (ingress, egress) = (bits as u16 & 127, (bits >> 7) as u16 & 127);
                let ingress_ns = u64::from(bits) << 20 | u64::from(identity);
                let packet =
                    Measured { hop, identity, latency_ns, ingress, egress, ingress_ns, ..Measured::default() };
                prop_assert_eq!(sources.encode(packet, digest), scheme.encode(&own, packet, digest), "{:?}", packet);
            }
        }
    }

    #[test]
    fn what_the_sources_lack_is_said() {
        for (queries, why) in [
            ("loops", "loops"),
            ("path:acts=vectors", "acts = hashes"),
            ("path:bits=1:instances=8", "at most 4 instances of a path"),
            ("latency:bits=3:instances=5", "at most 4 instances of other values"),
            ("utilisation:bits=8", "no sums"),
            ("latency:aggregation=sum", "no sums"),
            ("latency:compression=additive", "multiplicative"),
        ] {
            let error = form_of(queries).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
