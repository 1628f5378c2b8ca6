//! Byte forms of records and parameters: LEB128 numbers in one encoding only, read from a peer
//! without trust.
//!
//! A reader allocates by what its configuration allows, never by a number that it has read.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum length of a number of 32 bits and of one of 64 bits, in bytes.
pub const MAX_U32: usize = 5;
pub const MAX_U64: usize = 10;

/// Why bytes are not what they should be. Places are counted in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("version {found}, and {known} is understood")]
    Version { found: u8, known: u8 },
    #[error("it ends after {length} bytes, in {what}")]
    Short { length: usize, what: &'static str },
    #[error("{what} before byte {at}: {right}")]
    Value { what: &'static str, at: usize, right: &'static str },
    #[error("{0} bytes too many")]
    Long(usize),
    #[error("{what}: {why}")]
    Json { what: &'static str, why: String },
    #[error("the hash functions of its switches are not given")]
    Hashes,
    #[error("the program keeps nothing in archives")]
    NoForm,
    #[error(transparent)]
    Parameters(#[from] super::ProgramError),
}

/// Writes a byte form.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// LEB128: seven bits a byte, the lowest first.
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The number of bytes before them.
    pub fn counted(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes(bytes);
    }

    /// A value as JSON. A value whose maps have keys of text can be written.
    pub fn json(&mut self, value: &impl Serialize) {
        self.counted(&serde_json::to_vec(value).unwrap_or_default());
    }
}

/// Reads a byte form from its beginning to its end.
pub struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, length: bytes.len() }
    }

    /// Number of bytes that have not been read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// All of them.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The error that what was just read is wrong.
    pub fn wrong<T>(&self, what: &'static str, right: &'static str) -> Result<T, DecodeError> {
        Err(DecodeError::Value { what, at: self.length - self.rest.len(), right })
    }

    pub fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Short { length: self.length, what })?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The first byte of a form.
    pub fn version(&mut self, known: u8) -> Result<(), DecodeError> {
        let [found] = self.take("the version")?;
        if found == known { Ok(()) } else { Err(DecodeError::Version { found, known }) }
    }

    pub fn number(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        const RIGHT: &str = "numbers have 64 bits at the most, and no zeros in front";
        let mut number = 0;
        for place in 0..MAX_U64 as u32 {
            let [byte] = self.take(what)?;
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 || byte == 0 && place > 0 {
                return self.wrong(what, RIGHT);
            }
            number |= bits << (7 * place);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        self.wrong(what, RIGHT)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        let number = self.number(what)?;
        u32::try_from(number).or_else(|_| self.wrong(what, "it has 32 bits at the most"))
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        let number = self.number(what)?;
        u16::try_from(number).or_else(|_| self.wrong(what, "it has 16 bits at the most"))
    }

    /// This number of bytes.
    pub fn slice(&mut self, what: &'static str, bytes: usize) -> Result<&'a [u8], DecodeError> {
        let short = DecodeError::Short { length: self.length, what };
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Bytes with their number before them.
    pub fn counted(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let number = self.number(what)?;
        self.slice(what, usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// A value that was written as JSON.
    pub fn json<T: DeserializeOwned>(&mut self, what: &'static str) -> Result<T, DecodeError> {
        let text = self.counted(what)?;
        serde_json::from_slice(text).map_err(|error| DecodeError::Json { what, why: error.to_string() })
    }

    /// Keys with a value each, this number of them in ascending order. Memory is taken as they come.
    pub fn ascending<K: PartialOrd, V>(
        &mut self,
        what: &'static str,
        number: u64,
        mut read: impl FnMut(&mut Self) -> Result<(K, V), DecodeError>,
    ) -> Result<Vec<(K, V)>, DecodeError> {
        let mut all: Vec<(K, V)> = Vec::new();
        for _ in 0..number {
            let next = read(self)?;
            if all.last().is_some_and(|(last, _)| *last >= next.0) {
                return self.wrong(what, "each once, in ascending order");
            }
            all.push(next);
        }
        Ok(all)
    }

    /// Nothing may stand behind what was read.
    pub fn end(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(DecodeError::Long(more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec(any::<u64>().prop_map(|n| n >> (n % 64)), 0..20)) {
            let mut writer = Writer::default();
            numbers.iter().for_each(|&number| writer.number(number));
            let mut reader = Reader::new(&writer.0);
            for number in numbers {
                prop_assert_eq!(reader.number("a number"), Ok(number));
            }
            prop_assert_eq!(reader.end(), Ok(()));
        }

        /// A number has one encoding: whatever is read is written with the same bytes.
        #[test]
        fn there_is_one_encoding(bytes in prop::collection::vec(prop_oneof![Just(0x80u8), Just(0u8), any::<u8>()], 0..12)) {
            let mut reader = Reader::new(&bytes);
            if let Ok(number) = reader.number("a number") {
                let mut writer = Writer::default();
                writer.number(number);
                prop_assert_eq!(&writer.0[..], &bytes[..bytes.len() - reader.remaining()]);
            }
        }
    }
}
