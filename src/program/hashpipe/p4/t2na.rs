//! HashPipe's P4 form for Tofino 2 (`p4/hashpipe/t2na.p4`).

use super::super::{Config, HashPipe, Key, Scope, Unit, label};
use crate::pisa::hash::{Digest, HashLayout};
use crate::program::{P4Crc, P4Form, P4Register, P4Request, Program, ProgramError, word};
use crate::wire::Net;

/// Stages and slots that the sources have.
const STAGES: std::ops::RangeInclusive<u32> = 2..=6;
const SLOTS: u32 = 4096;

/// The P4 form of a configuration.
///
/// # Errors
/// If the sources have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    let Config { stages, slots, key, count, prefix, .. } = of.config;
    let wrong = |key: &'static str, value: String, right: &str| {
        let right = format!("{right} in the P4 sources for Tofino 2");
        Err(ProgramError::Value { program: HashPipe::NAME, key, value, right })
    };
    let is_digest = *key == Key::Digest32;
    if !is_digest && *key != Key::Source {
        return wrong("key", word(key), "digest32 or src, as a stateful ALU's words have 32 bits,");
    }
    if *prefix != u32::BITS as u8 {
        return wrong("prefix", prefix.to_string(), "32");
    }
    if !STAGES.contains(stages) {
        return wrong("stages", stages.to_string(), "2 to 6");
    }
    if *slots != SLOTS {
        return wrong("slots", slots.to_string(), "4096");
    }
    if of.config.slots6() > 0 {
        return wrong("slots6", of.config.slots6().to_string(), "0");
    }
    if *count != Unit::Packets {
        return wrong("count", word(count), "packets");
    }
    let mut form = P4Form::default();
    form.constant("STAGES", *stages);
    form.constant("SCOPE_NETWORK", of.config.scope == Scope::Network);
    if is_digest {
        form.constant("KEY_DIGEST32", 1u32);
    }
    form.crcs.push(P4Crc { action: "hashpipe.digest".into(), polynomial: Digest::<false>::POLYNOMIAL });
    for stage in 0..*stages {
        let polynomial = HashLayout::crc(label(Net::Ipv4), stage).polynomial(of.hashes);
        form.crcs.push(P4Crc { action: format!("hashpipe.ipv4_{stage}"), polynomial });
        // A cell of the register is the pair.
        form.registers.extend([("key", 0), ("count", 1)].map(|(part, field)| P4Register {
            register: format!("hashpipe.ipv4_{stage}.{part}"),
            array: "ipv4".into(),
            index: stage,
            field,
            shift: 0,
            bits: u32::BITS,
            cells: (*slots).into(),
        }));
    }
    Ok(form)
}
