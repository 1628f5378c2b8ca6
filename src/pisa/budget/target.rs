//! The hardware targets, by their limits.

use serde::Serialize;

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
}

impl Target {
    /// Tofino: 12 stages of 4 stateful ALUs over pairs of 32 bits with one output, 80 SRAM blocks
    /// of 128 Kbit and 24 TCAM blocks of 512 × 44 bits a stage (the memories of the open compiler's
    /// model).
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
    };
    /// Tofino 2: 20 stages, else as Tofino, with up to four outputs of a stateful ALU. A chain of
    /// six stages of keys and counts of 32 bits takes 11 of them (tried with the open compiler).
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
        ..Self::TOFINO
    };
    pub const ALL: [Self; 4] = [Self::TOFINO, Self::TOFINO2, Self::RMT, Self::SOFTWARE];

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name == name)
    }
}
