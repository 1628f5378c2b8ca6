//! An epoch's records in an archive:
//!
//! ```text
//! version 1 ‖ epoch ‖ switches that were to report ‖ unit and decoding as JSON ‖
//! { name ‖ parameters as JSON ‖ record }
//! ```
//! Texts and records have their length in bytes before them.

use std::collections::HashMap;
use std::sync::Arc;

use super::config::Config;
use super::hashes::LABEL;
use super::kept::Packed;
use super::record::{Fragment, Shape};
use super::{DiSketch, KeptFragments};
use crate::history::{ArchiveForm, SwitchCounters};
use crate::pisa::hash::HashFamily;
use crate::program::Coverage;
use crate::program::bytes::{DecodeError, Reader, Writer};

const VERSION: u8 = 1;

/// The form of an epoch.
pub fn form(kept: &KeptFragments) -> ArchiveForm {
    let mut to = Writer(vec![VERSION]);
    to.number(kept.epoch);
    to.number(kept.expected as u64);
    to.json(&(kept.unit, kept.decode));
    for Packed { switch, shape, bytes, .. } in &kept.switches {
        to.counted(switch.as_bytes());
        to.json(&shape.config);
        to.counted(bytes);
    }
    let hashes = kept.switches.first().map(|packed| packed.shape.hashes.family().name());
    let counters = kept.switches.iter().flat_map(Packed::counters).collect();
    ArchiveForm { bytes: to.0, hashes, counters }
}

impl KeptFragments {
    /// Reads the byte form of an archive.
    ///
    /// # Errors
    /// If these are no such bytes, or hold a record that is none.
    pub(super) fn restore(bytes: &[u8], hashes: &HashFamily, shapes: &mut Shapes) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let (epoch, expected) = (from.number("the epoch")?, from.number("the switches")?);
        let Ok(expected) = usize::try_from(expected) else { return from.wrong("the switches", "a number of switches") };
        let (unit, decode) = from.json("unit and decoding")?;
        let mut switches = Vec::new();
        while from.remaining() > 0 {
            let name = from.counted("a switch's name")?;
            let parameters = from.counted("a switch's parameters")?;
            let shape = shapes.get(name, parameters, hashes)?;
            let bytes = from.counted("a switch's record")?;
            switches.push(Packed::new(shape.0, &Fragment::decode(&shape.1, bytes)?));
        }
        Ok(Self { unit, decode, epoch, expected, switches })
    }
}

/// The shapes of the switches in an archive, each made once.
#[derive(Debug, Default)]
pub struct Shapes(HashMap<[Vec<u8>; 2], Known>);

/// The name of a switch, and the shape of its records.
type Known = (Arc<str>, Arc<Shape>);

impl Shapes {
    /// Most shapes that are remembered.
    const MOST: usize = 4096;

    /// The name of the switch, and the shape of records of the switch of this name with these
    /// parameters.
    fn get(&mut self, name: &[u8], parameters: &[u8], hashes: &HashFamily) -> Result<Known, DecodeError> {
        let key = [name, parameters].map(<[u8]>::to_vec);
        if let Some(known) = self.0.get(&key).filter(|(_, shape)| shape.hashes.are_of(hashes)) {
            return Ok(known.clone());
        }
        let json = |what, why: String| DecodeError::Json { what, why };
        let name = str::from_utf8(name).map_err(|error| json("a switch's name", error.to_string()))?;
        let config: Config =
            serde_json::from_slice(parameters).map_err(|error| json("a switch's parameters", error.to_string()))?;
        config.validate()?;
        let shape = (name.into(), DiSketch::shape(&config, name, hashes));
        if self.0.len() >= Self::MOST {
            self.0.clear();
        }
        self.0.insert(key, shape.clone());
        Ok(shape)
    }
}

impl Packed {
    /// The counters of each sub-epoch.
    fn counters(&self) -> Vec<SwitchCounters> {
        let parts = Fragment::decode(&self.shape, &self.bytes).map(|fragment| fragment.parts).unwrap_or_default();
        let counters = parts.into_iter().map(|part| {
            let Coverage { of, sub_epochs, later_epochs } = part.coverage;
            let is_one = sub_epochs.is_power_of_two() && later_epochs == 0;
            SwitchCounters {
                switch: self.switch.clone(),
                hash: LABEL.into(),
                sub_epochs: of,
                sub_epoch: is_one.then(|| sub_epochs.trailing_zeros()),
                counters: part.counters,
            }
        });
        counters.collect()
    }
}
