//! Layouts of programs and the content of their registers.

use schemars::JsonSchema;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};

use crate::json::{self, Time};
use crate::pisa::hash::{HashForm, HashLayout, SlotRange};
use crate::pisa::{self, ArrayCells, SlotSource};
use crate::telemetry::BankCells;

/// A program's pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramLayout {
    /// In the order in which a bank has them.
    pub arrays: Vec<ArrayLayout>,
    pub hashes: Vec<Hash>,
    /// Stages that have more than arrays, by side and number.
    pub stages: Vec<StageLayout>,
    /// Fields of packets.
    pub reads: Vec<String>,
    pub writes: Vec<String>,
}

/// A register array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArrayLayout {
    pub name: String,
    /// Number among the arrays of its name, from 0.
    pub index: u32,
    pub side: String,
    /// Stage of the program on this side, from 1.
    pub stage: u32,
    pub cells: u64,
    pub cell_bits: u32,
    /// Bits of each field of a cell.
    pub field_bits: Vec<u32>,
    /// The field of the packet that names the slot, where no hash does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_field: Option<String>,
    /// Place of the hash that names the slot in `hashes`, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
    /// The file of its cells in each directory of a bank.
    pub file: String,
}

/// From a hash to a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// `modulo`; `high_bits` of the hash, modulo the slots; or `parts`, the same within a part of the
    /// array, whose place and length are parameters.
    pub kind: String,
    pub slots: u32,
    /// Bits of the hash that are used.
    pub bits: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare_bits: Option<u32>,
}

/// A hash. Polynomials are secrets and stand nowhere; their names do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hash {
    /// `crc`, `standard`, `index` or `global`.
    pub form: String,
    /// Names of the polynomials, in the order in which the form has them.
    pub polynomials: Vec<PolynomialName>,
    /// The bytes that are hashed, the first field first.
    pub key: Vec<KeyField>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolynomialName {
    pub label: String,
    pub index: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyField {
    pub field: String,
    pub bits: u32,
    pub kept_bits: u32,
}

/// What a stage has beside arrays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageLayout {
    pub side: String,
    pub stage: u32,
    pub hashes: Vec<StageHash>,
    pub tables: Vec<StageTable>,
    /// Random numbers, by the hashes that stand for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<StageHash>,
    pub computes: Vec<String>,
}

/// A CRC that fills a field of the PHV.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageHash {
    pub name: String,
    pub bits: u32,
    /// Place in `hashes` of the hash that it is a part of; null of one that several share.
    pub hash: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageTable {
    pub name: String,
    pub entries: u64,
    pub key_bits: u32,
    /// Bits of an entry's number; null of a match, whose entries choose an action.
    pub action_bits: Option<u32>,
}

impl ProgramLayout {
    pub fn new(layout: &pisa::Layout) -> Self {
        let mut hashes = Vec::<Hash>::new();
        for hash in layout.hashes().into_iter().map(Hash::new) {
            if !hashes.contains(&hash) {
                hashes.push(hash);
            }
        }
        let place = |hash: &HashLayout| hashes.iter().position(|known| *known == Hash::new(hash));
        let arrays = layout.arrays().into_iter().map(|array| ArrayLayout::new(&array, place)).collect();
        let stages = layout.chains.iter().flat_map(|chain| {
            let stages = (1..).zip(&chain.stages).filter(|(_, stage)| !stage.has_arrays_alone());
            stages.map(|(number, stage)| StageLayout::new(chain.side, number, stage, place))
        });
        let stages = stages.collect();
        let texts = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect();
        Self { arrays, stages, reads: texts(&layout.fields()), writes: texts(layout.writes), hashes }
    }
}

impl ArrayLayout {
    fn new(array: &pisa::ArrayPlace<'_>, place: impl Fn(&HashLayout) -> Option<usize>) -> Self {
        let pisa::ArrayUse { name, cells, cell_bits, field_bits, slot, .. } = array.usage;
        let (slot_field, hash) = match slot {
            SlotSource::Field(field) => (Some((*field).to_owned()), None),
            SlotSource::Hash(hash) => (None, Some(hash)),
        };
        Self {
            name: (*name).into(),
            index: array.index,
            side: array.side.name().into(),
            stage: array.stage,
            cells: *cells,
            cell_bits: *cell_bits,
            field_bits: field_bits.clone(),
            slot_field,
            hash: hash.and_then(place),
            range: hash.and_then(|hash| hash.range).map(Range::new),
            file: format!("{}-{}.bin", name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"), array.index),
        }
    }
}

impl Range {
    fn new(range: SlotRange) -> Self {
        let (kind, spare_bits) = match range {
            SlotRange::Modulo(_) => ("modulo", None),
            SlotRange::High(slots) => ("high_bits", Some(slots.spare)),
            SlotRange::Parts(slots) => ("parts", Some(slots.spare)),
        };
        Self { kind: kind.into(), slots: range.slots().get(), bits: range.bits(), spare_bits }
    }
}

impl Hash {
    fn new(hash: &HashLayout) -> Self {
        let form = match hash.form {
            HashForm::Crc => "crc",
            HashForm::Standard => "standard",
            HashForm::Index { .. } => "index",
            HashForm::Global => "global",
        };
        let key = |key: &crate::wire::KeyField| KeyField {
            field: key.field.into(),
            bits: key.bits,
            kept_bits: key.kept_bits,
        };
        let name = |(label, index)| PolynomialName { label, index };
        Self {
            form: form.into(),
            polynomials: hash.names().into_iter().map(name).collect(),
            key: hash.key.iter().map(key).collect(),
        }
    }
}

impl StageLayout {
    fn new(side: pisa::Side, stage: u32, of: &pisa::StageUse, place: impl Fn(&HashLayout) -> Option<usize>) -> Self {
        let hash = |hash: &pisa::HashUse| StageHash {
            name: hash.name.into(),
            bits: hash.bits,
            hash: hash.of.as_ref().and_then(&place),
        };
        let draw = |draw: &pisa::DrawUse| StageHash { name: draw.name.into(), bits: draw.bits, hash: place(&draw.of) };
        let table = |name: &str, entries, key_bits, action_bits| StageTable {
            name: name.into(),
            entries,
            key_bits,
            action_bits,
        };
        let matches = of.matches.iter().map(|of| table(of.name, of.entries, of.key_bits, None));
        let lookups = of.lookups.iter().map(|of| table(of.name, of.entries, of.key_bits, Some(of.action_bits)));
        Self {
            side: side.name().into(),
            stage,
            hashes: of.hashes.iter().map(hash).collect(),
            tables: matches.chain(lookups).collect(),
            draws: of.draws.iter().map(draw).collect(),
            computes: of.computes.iter().map(|computed| computed.name().into()).collect(),
        }
    }
}

/// `POST /v1/registers`: the registers of programs at the end of one epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Registers<V = Vec<CellValue>> {
    pub programs: Vec<ProgramRegisters<V>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRegisters<V> {
    pub program: String,
    pub layout: ProgramLayout,
    /// By core, and of a program with sub-epochs by part.
    pub banks: Vec<RegisterBank<V>>,
}

/// The registers of one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegisterBank<V> {
    pub core: usize,
    /// The epochs that it covers: more than one where the collector was late.
    pub first_epoch: u64,
    pub last_epoch: u64,
    pub start: Option<Time>,
    pub end: Option<Time>,
    /// Number among the banks of the epoch, from 0: a program with sub-epochs has several.
    pub part: u32,
    /// What ended: `epoch`, `sub_epoch`, or `switch` within an epoch.
    pub ended: String,
    pub arrays: Vec<RegisterArray<V>>,
}

/// The cells of an array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegisterArray<V> {
    pub name: String,
    pub index: u32,
    pub cells: u64,
    pub cell_bits: u32,
    /// By slot.
    pub values: V,
}

/// The content of a cell: a number, or the numbers of its fields. One that doubles would round is a
/// string of digits, one of more than 64 bits a string of hexadecimal digits behind `0x`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CellValue {
    Number(u64),
    Text(String),
    Fields(Vec<CellValue>),
}

impl CellValue {
    fn new(bytes: &[u8]) -> Self {
        let digits = || bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
        if bytes.len() > size_of::<u64>() {
            return Self::Text(format!("0x{}", digits()));
        }
        let number = bytes.iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        if number <= json::LARGEST { Self::Number(number) } else { Self::Text(number.to_string()) }
    }

    /// The value of a cell with these fields.
    fn of_fields(fields: &[&[u8]]) -> Self {
        match fields {
            [only] => Self::new(only),
            fields => Self::Fields(fields.iter().map(|field| Self::new(field)).collect()),
        }
    }

    /// Appends the cell's fields as little-endian numbers, in whole bytes; `None` where it has others.
    pub fn write(&self, field_bits: &[u32], to: &mut Vec<u8>) -> Option<()> {
        let [bits, more @ ..] = field_bits else { return None };
        if let Self::Fields(fields) = self {
            let same = fields.len() == field_bits.len();
            return same.then(|| fields.iter().zip(field_bits).try_for_each(|(of, bits)| of.write(&[*bits], to)))?;
        }
        let len = bits.div_ceil(8) as usize;
        let mut bytes = match self {
            Self::Number(number) => number.to_le_bytes().to_vec(),
            Self::Text(text) => match text.strip_prefix("0x") {
                None => text.parse::<u64>().ok()?.to_le_bytes().to_vec(),
                Some(digits) => {
                    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
                    (0..digits.len()).step_by(2).rev().map(byte).collect::<Option<_>>()?
                }
            },
            Self::Fields(_) => return None,
        };
        if bytes.iter().skip(len).any(|byte| *byte != 0) {
            return None;
        }
        bytes.resize(len, 0);
        to.extend(bytes);
        more.is_empty().then_some(())
    }

    /// Whether all fields are 0.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Text(text) => text.trim_start_matches("0x").bytes().all(|digit| digit == b'0'),
            Self::Fields(fields) => fields.iter().all(Self::is_zero),
        }
    }
}

/// Cells that are written as values one after the other.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(with = "Vec<CellValue>")]
pub struct CellStream(pub ArrayCells);

impl Serialize for CellStream {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut values = to.serialize_seq(Some(self.0.cells as usize))?;
        for fields in self.0.fields() {
            values.serialize_element(&CellValue::of_fields(&fields))?;
        }
        values.end()
    }
}

impl RegisterBank<CellStream> {
    /// Of a program with this layout; `None` where the bank has other arrays.
    pub fn new(bank: BankCells, layout: &ProgramLayout, core: usize, epoch_ns: u64) -> Option<Self> {
        let array = |(of, cells): (&ArrayLayout, ArrayCells)| {
            ((of.cells, &of.field_bits) == (cells.cells, &cells.field_bits)).then(|| RegisterArray {
                name: of.name.clone(),
                index: of.index,
                cells: of.cells,
                cell_bits: of.cell_bits,
                values: CellStream(cells),
            })
        };
        if bank.arrays.len() != layout.arrays.len() {
            return None;
        }
        let (start, end) = json::span((bank.of.first, bank.of.last), epoch_ns);
        Some(Self {
            core,
            first_epoch: bank.of.first,
            last_epoch: bank.of.last,
            start,
            end,
            part: bank.of.part,
            ended: bank.of.end.name().into(),
            arrays: layout.arrays.iter().zip(bank.arrays).map(array).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn widths() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(prop_oneof![Just(1), Just(8), Just(16), Just(32), Just(64), Just(104), Just(296)], 1..4)
    }

    proptest! {
        /// What is read of the JSON form is, byte for byte, what was in the registers.
        #[test]
        fn values_are_the_cells(field_bits in widths(), cells in 0..9u64, seed: u64) {
            let width: usize = field_bits.iter().map(|bits| bits.div_ceil(8) as usize).sum();
            let mut word = seed | 1;
            let mut byte = || {
                word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (word >> 40) as u8 & if word & 1 == 0 { 255 } else { 0 }
            };
            let bytes: Vec<u8> = (0..cells as usize * width).map(|_| byte()).collect();
            let stream = CellStream(ArrayCells { cells, field_bits: field_bits.clone(), bytes: bytes.clone() });
            let text = serde_json::to_string(&stream).unwrap();
            let values: Vec<CellValue> = serde_json::from_str(&text).unwrap();
            let mut read = Vec::new();
            values.iter().for_each(|value| value.write(&field_bits, &mut read).unwrap());
            prop_assert_eq!(read, bytes);
            prop_assert_eq!(serde_json::to_string(&values).unwrap(), text);
        }
    }

    #[test]
    fn values_of_other_widths_are_refused() {
        let write = |value: CellValue, bits: &[u32]| value.write(bits, &mut Vec::new());
        assert_eq!(write(CellValue::Number(256), &[8]), None);
        assert_eq!(write(CellValue::Number(1), &[8, 8]), None);
        assert_eq!(write(CellValue::Text("0xzz".into()), &[104]), None);
        assert_eq!(write(CellValue::Text("-1".into()), &[64]), None);
        assert_eq!(write(CellValue::Fields(vec![CellValue::Number(1)]), &[8, 8]), None);
        assert_eq!(write(CellValue::Fields(vec![CellValue::Fields(Vec::new())]), &[8]), None);
        assert!(CellValue::Text("0x00".into()).is_zero() && !CellValue::Text("0x10".into()).is_zero());
    }
}
