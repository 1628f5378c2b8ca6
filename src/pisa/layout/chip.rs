//! How a stage is done on a chip that takes it apart ([`Target::takes_apart`](crate::pisa::Target)):
//! what other targets do within the stage takes hash units, tables and stages there.

/// The table of a switch that finds the copy of the registers which counts the running epoch, as
/// [needs](ChipStep::needs) name it.
pub const COPY: &str = "copy of the epoch";

/// The steps around a stage's own hashes, tables and arrays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChipForm {
    /// In order, in front of the stage.
    pub before: Vec<ChipStep>,
    /// In order, behind it.
    pub behind: Vec<ChipStep>,
    /// It waits for these alone, and neither for its needs nor for the stage before it.
    pub waits_for: Option<Vec<&'static str>>,
    /// Its actions take no stage: the hash units join halves on the way to an address of registers.
    pub is_on_the_way: bool,
}

impl ChipForm {
    /// Behind these steps.
    pub fn behind_steps(before: Vec<ChipStep>) -> Self {
        Self { before, ..Self::default() }
    }

    /// Waits for these alone.
    pub fn waiting_for(needs: &[&'static str]) -> Self {
        Self { waits_for: Some(needs.to_vec()), ..Self::default() }
    }

    /// The stage itself takes no place, and these steps do.
    pub fn steps_alone(behind: Vec<ChipStep>) -> Self {
        Self { behind, is_on_the_way: true, ..Self::default() }
    }

    /// The same with these steps behind the stage.
    #[must_use]
    pub fn then(self, behind: Vec<ChipStep>) -> Self {
        Self { behind, ..self }
    }

    /// Whether a table in front of the stage decides what it does.
    pub(in crate::pisa) fn is_decided(&self) -> bool {
        self.before.iter().any(|step| !step.tables.is_empty())
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.before.extend(other.before);
        self.behind.extend(other.behind);
        self.is_on_the_way &= other.is_on_the_way;
        if let Some(needs) = other.waits_for {
            self.waits_for.get_or_insert_default().extend(needs);
        }
    }
}

/// A step: parts of fields that are joined, tables, or actions alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChipStep {
    pub joins: Vec<JoinUse>,
    pub tables: Vec<StepTable>,
    /// Names of hashes, matches, joins and tables that stand in stages before.
    pub needs: Vec<&'static str>,
}

/// Bits of the PHV that hash units put together out of parts of fields: an ALU takes no two parts of
/// one field. Or the address of a counter, which passes a hash unit as well.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct JoinUse {
    pub name: &'static str,
    pub bits: u32,
}

/// A table of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepTable {
    pub name: &'static str,
    pub entries: u64,
    pub key_bits: u32,
    pub action_bits: u32,
    /// It matches ranges or prefixes, in TCAM.
    pub is_ternary: bool,
    /// Each value of the key has an entry and the same action, so that the key is the entry's address.
    pub is_direct: bool,
}

impl StepTable {
    /// An exact match.
    pub fn new(name: &'static str, entries: u64, key_bits: u32, action_bits: u32) -> Self {
        Self { name, entries, key_bits, action_bits, is_ternary: false, is_direct: false }
    }

    /// A match in TCAM.
    pub fn ternary(name: &'static str, entries: u64, key_bits: u32) -> Self {
        Self { is_ternary: true, ..Self::new(name, entries, key_bits, 0) }
    }

    /// An entry for each value of a key of `key_bits` bits.
    pub fn direct(name: &'static str, key_bits: u32, action_bits: u32) -> Self {
        Self { is_direct: true, ..Self::new(name, 1 << key_bits, key_bits, action_bits) }
    }
}

impl ChipStep {
    /// Actions alone.
    pub fn actions() -> Self {
        Self::default()
    }

    /// Joins of this name and number of bits.
    pub fn joining(joins: &[(&'static str, u32)]) -> Self {
        let joins = joins.iter().map(|(name, bits)| JoinUse { name, bits: *bits }).collect();
        Self { joins, ..Self::default() }
    }

    pub fn looking_up(table: StepTable) -> Self {
        Self { tables: vec![table], ..Self::default() }
    }

    /// The same behind these.
    #[must_use]
    pub fn behind(self, needs: &[&'static str]) -> Self {
        Self { needs: needs.to_vec(), ..self }
    }
}
