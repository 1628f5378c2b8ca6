//! Messages: records in sets, behind the templates that they need, in as many bytes as fit a packet.

use std::collections::BTreeSet;

use super::template::Template;

/// Version in a message's header.
const VERSION: u16 = 10;
/// Bytes of a message's header, and of a set's.
const HEADER: usize = 16;
const SET_HEADER: usize = 4;

/// A message that is ready to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub bytes: &'a [u8],
    /// Number of records of flows in it.
    pub flows: u32,
}

/// Takes messages as they become full.
pub trait Sink {
    /// Returns false if the message could not be sent. The templates in it are then sent again.
    fn take(&mut self, message: Message<'_>) -> bool;
}

/// A record that fits no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of {bytes} bytes, with its template, fits no message of {limit}")]
pub struct Refused {
    pub bytes: usize,
    pub limit: usize,
}

/// Packs records into messages of one observation domain.
#[derive(Debug)]
pub struct Messages {
    domain: u32,
    /// Maximum bytes of a message.
    limit: usize,
    /// Records in the messages so far, those that were not sent included: a collector sees these as missing.
    sequence: u32,
    /// Templates that were sent since the last refresh.
    sent: BTreeSet<u16>,
    /// The message that is filled: empty, or with room for its header.
    message: Vec<u8>,
    /// The set that is filled, and where it begins.
    set: Option<(u16, usize)>,
    records: u32,
    flows: u32,
}

impl Messages {
    pub fn new(domain: u32, limit: usize) -> Self {
        let limit = limit.min(usize::from(u16::MAX));
        let (message, sent) = (Vec::with_capacity(limit), BTreeSet::new());
        Self { domain, limit, sequence: 0, sent, message, set: None, records: 0, flows: 0 }
    }

    /// Sends each template again before its next record.
    pub fn refresh(&mut self) {
        self.sent.clear();
    }

    /// Adds a record of this template. `now` is the time in seconds since 1970.
    ///
    /// # Errors
    /// If it fits no message.
    pub fn add(&mut self, template: &Template, record: &[u8], now: u32, sink: &mut impl Sink) -> Result<(), Refused> {
        if self.message.len() + self.needed(template, record) > self.limit {
            self.flush(now, sink);
        }
        let bytes = self.message.len() + self.needed(template, record);
        if bytes > self.limit {
            return Err(Refused { bytes, limit: self.limit });
        }
        if self.message.is_empty() {
            self.message.resize(HEADER, 0);
        }
        if self.sent.insert(template.id) {
            self.enter(template.set());
            template.write(&mut self.message);
        }
        self.enter(template.id);
        self.message.extend(record);
        self.records += 1;
        self.flows += u32::from(template.is_of_flows());
        Ok(())
    }

    /// Hands over what there is of a message.
    pub fn flush(&mut self, now: u32, sink: &mut impl Sink) {
        if self.records > 0 {
            self.close();
            let header = [VERSION, self.message.len() as u16].map(u16::to_be_bytes);
            let numbers = [now, self.sequence, self.domain].map(u32::to_be_bytes);
            self.message[..4].copy_from_slice(header.as_flattened());
            self.message[4..HEADER].copy_from_slice(numbers.as_flattened());
            if !sink.take(Message { bytes: &self.message, flows: self.flows }) {
                self.refresh();
            }
            self.sequence = self.sequence.wrapping_add(self.records);
        }
        self.message.clear();
        (self.set, self.records, self.flows) = (None, 0, 0);
    }

    /// Bytes that a record adds to the message.
    fn needed(&self, template: &Template, record: &[u8]) -> usize {
        let header = if self.message.is_empty() { HEADER } else { 0 };
        let within = |set: u16| self.set.is_some_and(|(open, _)| open == set);
        let template_bytes = match self.sent.contains(&template.id) {
            true => 0,
            false => template.length() + if within(template.set()) { 0 } else { SET_HEADER },
        };
        let is_within = template_bytes == 0 && within(template.id);
        header + template_bytes + if is_within { 0 } else { SET_HEADER } + record.len()
    }

    /// Goes on with this set.
    fn enter(&mut self, set: u16) {
        if self.set.is_some_and(|(open, _)| open == set) {
            return;
        }
        self.close();
        self.set = Some((set, self.message.len()));
        self.message.extend(set.to_be_bytes());
        self.message.extend([0; 2]);
    }

    /// Ends the set that is filled.
    fn close(&mut self) {
        if let Some((_, start)) = self.set.take() {
            let length = (self.message.len() - start) as u16;
            self.message[start + 2..start + SET_HEADER].copy_from_slice(&length.to_be_bytes());
        }
    }
}
