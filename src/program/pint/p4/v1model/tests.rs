//! The tables against the switch that weir is.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::pisa::Layout;
use crate::pisa::hash::{HashFamily, INIT, XOROUT, bitwise};
use crate::program::P4Target;
use crate::program::Parameters as _;
use crate::program::pint::dataplane::Measured;
use crate::program::pint::query::Queries;
use crate::program::pint::utilisation::shifts::rounded;

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
            let hash = |what: &str, place: usize| self.global(&format!("{name}.{what}"), identity, &arguments[place..]);
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
            kind @ (1 | 5) => {
                let number = if kind == 1 { packet.latency_ns } else { packet.utilisation };
                let part = match self.look_up(&format!("{name}.logarithm.exponents"), &[number]).unwrap() {
                    ("cut", data) => {
                        let key = [data[0] as u32, number >> data[1] & 0x7f];
                        self.look_up(&format!("{name}.logarithm.logarithms"), &key).unwrap().1[0]
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

const QUERIES: [&str; 7] = [
    "path:bits=8+utilisation:bits=8:filter=shifts:rate=1Gbps",
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
            let [latency_ns, utilisation] = [bits >> shift; 2];
            let (ingress, egress) = (bits as u16 & 127, (bits >> 7) as u16 & 127);
            let ingress_ns = u64::from(bits) << 20 | u64::from(identity);
            let packet =
                Measured { hop, identity, latency_ns, utilisation, ingress, egress, ingress_ns, ..Measured::default() };
            prop_assert_eq!(sources.encode(packet, digest), scheme.encode(&own, packet, digest), "{:?}", packet);
        }
    }
}

proptest! {
    /// The matches on a gap and on its sum give the shift that a switch takes.
    #[test]
    fn gaps_have_their_shift(last: u32, bits: u32, less in 0..32u32, period_ns in 2u32..1 << 31) {
        let (ticks, gap, mut form) = (Ticks::new(rounded(period_ns)), bits >> less, P4Form::default());
        link_utilisation(&mut form, ticks);
        let sources = Sources::new(form);
        let rounded = sources.look_up("pint.utilisation.gaps", &[gap]);
        let sum = rounded.map_or(gap, |(_, below)| gap + (last & below[0] as u32));
        let shift = sources.look_up("pint.utilisation.shifts", &[sum]).map_or(0, |(_, bits)| bits[0] as u32);
        prop_assert_eq!(shift, ticks.shift(last, gap));
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
