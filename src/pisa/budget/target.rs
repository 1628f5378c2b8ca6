//! The hardware targets, by their limits.

use serde::Serialize;

use crate::pisa::ArrayUse;

/// The limits of a hardware pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    pub name: &'static str,
    /// It stands for hardware.
    pub chip: bool,
    pub stages: u32,
    /// Stateful ALUs, so register arrays, a stage.
    pub salus: u32,
    /// Register memory a stage, in bits.
    pub sram_bits: u64,
    /// Index hashes a stage.
    pub hash_units: u32,
    /// The widest cell that one stateful ALU reads and writes.
    pub cell_bits: u32,
    /// PHV fields that one stateful ALU can fill.
    pub outputs: u32,
    /// Stages between a stateful ALU whose output decides what comes next and the stage that obeys.
    pub decision_stages: u32,
    /// TCAM blocks a stage; a wide key takes several side by side.
    pub tcam_blocks: u32,
    /// Rows of a TCAM block, and their width.
    pub tcam_rows: u32,
    pub tcam_bits: u32,
    /// A logical stage is placed with the steps of its [`ChipForm`](crate::pisa::ChipForm): an ALU takes
    /// neither parts of a field nor a number from a table beside a hash, and each address of registers
    /// passes a hash unit.
    pub takes_apart: bool,
    /// Bits that a hash unit gives to the PHV.
    pub hash_bits: u32,
    /// Copies of a register array, by an epoch's lowest bit: a chip cannot swap banks between two packets.
    pub copies: u32,
    /// Bits of an SRAM block, and blocks of a register array beside those that its cells fill.
    pub block_bits: u32,
    pub spare_blocks: u32,
}

impl Target {
    /// Tofino: 12 stages of 4 stateful ALUs over pairs of 32 bits with one output, 80 SRAM blocks
    /// of 128 Kbit and 24 TCAM blocks of 512 × 44 bits a stage (the memories of the open compiler's
    /// model), and six hash units that give 16 bits each to the PHV.
    pub const TOFINO: Self = Self {
        name: "tofino",
        chip: true,
        stages: 12,
        salus: 4,
        sram_bits: 80 * 128 * 1024,
        hash_units: 6,
        cell_bits: 64,
        outputs: 1,
        decision_stages: 1,
        tcam_blocks: 24,
        tcam_rows: 512,
        tcam_bits: 44,
        takes_apart: true,
        hash_bits: 16,
        copies: 2,
        block_bits: 128 * 1024,
        spare_blocks: 1,
    };
    /// Tofino 2: 20 stages, else as Tofino, with up to four outputs of a stateful ALU.
    pub const TOFINO2: Self = Self { name: "tofino2", stages: 20, outputs: 4, ..Self::TOFINO };
    /// RMT, with the array form of telemetry papers: 16 stages, each with one wide array,
    /// 106 SRAM blocks of 1024 × 112 bits (1.4 MB) and 16 TCAM blocks of 2048 × 40 bits a
    /// stage (Bosshart et al., SIGCOMM 2013, §5), and a match on what was read within the stage.
    pub const RMT: Self = Self {
        name: "rmt",
        chip: true,
        stages: 16,
        salus: 1,
        sram_bits: 106 * 1024 * 112,
        hash_units: 1,
        cell_bits: 640,
        outputs: u32::MAX,
        decision_stages: 0,
        tcam_blocks: 16,
        tcam_rows: 2048,
        tcam_bits: 40,
        takes_apart: false,
        hash_bits: u32::BITS,
        copies: 1,
        block_bits: 1,
        spare_blocks: 0,
    };
    /// No hardware: programs side by side that no one of these chips would hold. It bounds memory
    /// only, to 1 GiB of SRAM and 1024 TCAM blocks as Tofino's a stage.
    pub const SOFTWARE: Self = Self {
        name: "software",
        chip: false,
        stages: 64,
        salus: 64,
        sram_bits: 1 << 27,
        hash_units: 64,
        cell_bits: 640,
        outputs: u32::MAX,
        decision_stages: 0,
        tcam_blocks: 1024,
        tcam_rows: Self::TOFINO.tcam_rows,
        tcam_bits: Self::TOFINO.tcam_bits,
        ..Self::RMT
    };
    pub const ALL: [Self; 4] = [Self::TOFINO, Self::TOFINO2, Self::RMT, Self::SOFTWARE];

    /// The same with room for everything, so that stages wait for what they depend on alone.
    pub(super) fn boundless(self) -> Self {
        let (stages, salus, hash_units, tcam_blocks) = (256, 1 << 16, 1 << 16, 1 << 16);
        let (sram_bits, cell_bits, outputs) = (u64::MAX, u32::MAX, u32::MAX);
        Self { chip: false, stages, salus, hash_units, tcam_blocks, sram_bits, cell_bits, outputs, ..self }
    }

    /// SRAM of a register array.
    pub fn register_bits(&self, array: &ArrayUse) -> u64 {
        let (copies, block_bits) = (if array.is_halved { 1 } else { self.copies }, u64::from(self.block_bits));
        let blocks = (array.sram_bits() * u64::from(copies)).div_ceil(block_bits);
        (blocks + u64::from(self.spare_blocks)) * block_bits
    }

    /// Hash units that give this number of bits to the PHV.
    pub fn units(&self, bits: u32) -> u32 {
        bits.div_ceil(self.hash_bits).max(1)
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name == name)
    }
}
