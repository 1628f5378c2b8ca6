//! Templates: which elements a record consists of.

use super::element::Element;

/// Set of templates, and of options templates.
pub const TEMPLATE_SET: u16 = 2;
pub const OPTIONS_TEMPLATE_SET: u16 = 3;
/// The lowest number that a template may have.
pub const FIRST: u16 = 256;

/// The elements of a kind of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The number of the template, from 256 on.
    pub id: u16,
    /// Number of its elements, from the first on, that say what an options record is about; 0 of a flow.
    pub scopes: u16,
    pub elements: Vec<Element>,
}

impl Template {
    /// The set that it is sent in.
    pub fn set(&self) -> u16 {
        if self.scopes == 0 { TEMPLATE_SET } else { OPTIONS_TEMPLATE_SET }
    }

    /// Whether its records are of flows.
    pub fn is_of_flows(&self) -> bool {
        self.scopes == 0
    }

    /// Bytes of its record.
    pub fn length(&self) -> usize {
        4 + 2 * usize::from(self.scopes > 0) + 4 * self.elements.len()
    }

    /// Adds its record to a message.
    pub fn write(&self, to: &mut Vec<u8>) {
        let mut number = |number: u16| to.extend(number.to_be_bytes());
        number(self.id);
        number(self.elements.len() as u16);
        if self.scopes > 0 {
            number(self.scopes);
        }
        for element in &self.elements {
            number(element.id);
            number(element.length);
        }
    }
}

/// Adds a value of variable length, of at most 65 535 bytes.
pub fn write_variable(to: &mut Vec<u8>, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    match u8::try_from(value.len()) {
        Ok(length) if length < u8::MAX => to.push(length),
        _ => {
            to.push(u8::MAX);
            to.extend((value.len() as u16).to_be_bytes());
        }
    }
    to.extend(value);
}
