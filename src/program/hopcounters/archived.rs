//! An epoch in an archive:
//!
//! ```text
//! version 1 ‖ { name ‖ parameters as JSON ‖ groups ‖ 1 if whole ‖ 1 if full ‖ late packets ‖ rows }
//! late packets: number ‖ { epoch ‖ 1 if they left ‖ port ‖ packets }
//! ```
//! Texts and rows have their length in bytes before them.

use std::sync::Arc;

use super::kept::{KeptHops, KeptSwitch};
use super::record::{Counted, Shape};
use super::{Config, HopCounters};
use crate::answers::LatePacket;
use crate::history::ArchiveForm;
use crate::pisa::hash::HashFamily;
use crate::program::bytes::{DecodeError, Reader, Writer};

const VERSION: u8 = 1;

/// The form of an epoch.
pub fn form(kept: &KeptHops) -> ArchiveForm {
    let mut to = Writer(vec![VERSION]);
    for switch in &kept.switches {
        to.counted(switch.switch.as_bytes());
        to.json(&switch.shape.config);
        [switch.groups.into(), u64::from(switch.is_whole), u64::from(switch.is_full), switch.late.len() as u64]
            .into_iter()
            .for_each(|number| to.number(number));
        for LatePacket { epoch, leaves, port, packets } in &switch.late {
            [*epoch, u64::from(*leaves), u64::from(*port), *packets].into_iter().for_each(|number| to.number(number));
        }
        to.counted(&switch.bytes);
    }
    let hashes = kept.switches.first().map(|switch| switch.shape.hashes.family().name());
    ArchiveForm { bytes: to.0, hashes, counters: Vec::new() }
}

/// Reads the byte form of an archive. `known` are the shapes of the epoch before.
///
/// # Errors
/// If these are no such bytes.
pub fn restore(bytes: &[u8], hashes: &HashFamily, known: &mut Vec<Arc<Shape>>) -> Result<KeptHops, DecodeError> {
    let mut from = Reader::new(bytes);
    from.version(VERSION)?;
    let mut switches = Vec::new();
    while from.remaining() > 0 {
        let name = from.counted("a switch's name")?;
        let name = str::from_utf8(name)
            .map_err(|error| DecodeError::Json { what: "a switch's name", why: error.to_string() })?;
        let config: Config = from.json("a switch's parameters")?;
        config.validate()?;
        let shape = known.iter().find(|shape| shape.config == config && shape.hashes.are_of(hashes)).cloned();
        let shape = shape.unwrap_or_else(|| {
            let shape = HopCounters::shape(&config, hashes);
            known.push(shape.clone());
            shape
        });
        let groups = from.u32("groups")?;
        if !groups.is_power_of_two() || groups > shape.config.groups() {
            return from.wrong("groups", "a power of two, at most as many as the switch has");
        }
        let flag = |from: &mut Reader<'_>| match from.number("a mark")? {
            mark @ 0..=1 => Ok(mark == 1),
            _ => from.wrong("a mark", "0 or 1"),
        };
        let (is_whole, is_full) = (flag(&mut from)?, flag(&mut from)?);
        let mut late = Vec::new();
        for _ in 0..from.number("the number of late counts")? {
            let (epoch, leaves) = (from.number("an epoch")?, flag(&mut from)?);
            late.push(LatePacket { epoch, leaves, port: from.u16("a port")?, packets: from.number("late packets")? });
        }
        let bytes = from.counted("rows")?;
        let mut rows = Reader::new(bytes);
        Counted::read(&mut rows, &shape.config, groups)?;
        rows.end()?;
        let (switch, late) = (name.into(), late.into());
        switches.push(KeptSwitch { switch, shape, groups, bytes: bytes.into(), late, is_whole, is_full });
    }
    Ok(KeptHops { switches })
}
