//! The P4 form of a program: constants for the sources in `p4/`, beside those that follow from its layout;
//! CRCs and table entries that a control program sets, and registers that it reads (docs/p4.md).

use std::ops::RangeInclusive;

use serde::Serialize;

use crate::pisa::Layout;
use crate::pisa::hash::{HashFamily, Polynomial};

/// The architectures that there are P4 sources for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum P4Target {
    /// BMv2's simple_switch.
    V1model,
    /// Tofino 2.
    T2na,
}

impl P4Target {
    pub fn name(self) -> &'static str {
        match self {
            Self::V1model => "v1model",
            Self::T2na => "t2na",
        }
    }
}

/// The switch, the target and the epochs of a P4 form.
pub struct P4Request<'a, C> {
    pub config: &'a C,
    /// The byte form of the parameters that the epochs are measured with.
    pub parameters: &'a [u8],
    /// The name of the switch.
    pub switch: &'a str,
    pub hashes: &'a HashFamily,
    pub layout: &'a Layout,
    pub target: P4Target,
    /// The epochs whose table entries are asked for.
    pub epochs: RangeInclusive<u64>,
}

/// A number for the preprocessor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct P4Constant {
    /// Its name behind that of the program, in capitals.
    pub name: String,
    pub value: u64,
    /// Bits of a P4 number (`32w0x1234`); 0 for a plain number, which `#if` can compare.
    pub bits: u32,
}

/// A CRC of the P4 sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct P4Crc {
    /// The action that computes it, by its full name without the control at the top.
    pub action: String,
    pub polynomial: Polynomial,
}

/// A register of the P4 sources that holds an array, or some bits of each cell of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct P4Register {
    /// Its full name without the control at the top.
    pub register: String,
    /// The array of the layout, and its number among those of the name.
    pub array: String,
    pub index: u32,
    /// The field of a cell, and the lowest of its bits that this register holds.
    pub field: usize,
    pub shift: u32,
    pub bits: u32,
    /// Cells of one copy; of an array with [halves](P4Halves), those of a half.
    pub cells: u64,
}

/// An array with a half for each value of the lowest bit of the epoch in which packets entered the
/// network. A copy of its registers is the half of one epoch, with all of its packets. A switch
/// that exchanges banks has them in the record of that epoch and, as far as they left soon after
/// the epoch's begin, in the record before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct P4Halves {
    pub array: String,
    pub index: u32,
    /// Modulo which the cells of two records add up.
    pub modulus: u64,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct P4Entry {
    /// The table by its full name without the control at the top.
    pub table: String,
    /// The epoch that the entry is for; none for one that stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// A text for each key field, as simple_switch_CLI takes it: a number, `value&&&mask`
    /// or `low->high`.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
    pub action: String,
    pub data: Vec<u64>,
    /// Of ternary and range tables: the least one wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
}

/// The P4 form of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct P4Form {
    pub constants: Vec<P4Constant>,
    pub crcs: Vec<P4Crc>,
    pub registers: Vec<P4Register>,
    pub halves: Vec<P4Halves>,
    pub entries: Vec<P4Entry>,
}

impl P4Form {
    /// Adds a number that the preprocessor can compare.
    pub fn constant(&mut self, name: impl Into<String>, value: impl Into<u64>) {
        self.constants.push(P4Constant { name: name.into(), value: value.into(), bits: 0 });
    }

    /// Adds a P4 number of this many bits.
    pub fn number(&mut self, name: impl Into<String>, bits: u32, value: impl Into<u64>) {
        self.constants.push(P4Constant { name: name.into(), value: value.into(), bits });
    }
}

/// What BMv2 made of counters near their limits (`tests/golden/p4-limits.txt`).
#[cfg(test)]
pub mod limits {
    /// A counter behind the packets of a flow.
    #[derive(Clone, Debug)]
    pub struct Limited {
        pub register: &'static str,
        pub bits: u32,
        pub is_signed: bool,
        /// What it held before, and what the packets make of a zero.
        pub before: u64,
        pub alone: u64,
        pub after: u64,
    }

    /// Those of a program; at least one.
    pub fn of(program: &str) -> Vec<Limited> {
        let lines = include_str!("../../tests/golden/p4-limits.txt").lines().filter(|line| !line.starts_with('#'));
        let limited = lines.map(|line| line.split(' ').collect::<Vec<_>>()).filter(|words| words[0] == program);
        let limited: Vec<_> = limited
            .map(|words| {
                let number = |place: usize| words[place].parse::<u64>().unwrap();
                let (bits, is_signed) = (number(2) as u32, number(3) == 1);
                Limited { register: words[1], bits, is_signed, before: number(4), alone: number(5), after: number(6) }
            })
            .collect();
        assert!(limited.iter().any(|of| of.before != of.after), "{program}");
        limited
    }
}
