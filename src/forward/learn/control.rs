//! The half that decides what is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::dataplane::touch;
use super::{Config, Digest, Learn, MacEntry, MacKey, MacTable, seconds};
use crate::pisa::PortId;
use crate::pisa::hash::Polynomial;
use crate::pisa::table::{Exact, Shape, Shared, TableUse};
use crate::wire::Mac;

/// The MAC table, and its writer.
#[derive(Debug)]
pub struct Control {
    macs: Shared<MacTable>,
    seen: Arc<[AtomicU32]>,
    /// Indices into `seen` that no MAC address has.
    free: Vec<u32>,
    ageing_seconds: u32,
    link_local: bool,
    sender: Sender<Digest>,
    digests: Receiver<Digest>,
    refused: u64,
    /// By index as `seen`.
    moves: Vec<u32>,
    moved: u64,
    last_move: Option<Move>,
}

/// A MAC address that was heard behind another port than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub key: MacKey,
    pub from: PortId,
    pub to: PortId,
}

/// One entry, for `weir show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub vid: u16,
    pub mac: Mac,
    pub port: PortId,
    /// Seconds since it was last heard.
    pub idle_seconds: u32,
    /// Set by the operator: it neither moves nor ages.
    pub fixed: bool,
    /// Times it was heard behind another port than before, since it was learned.
    pub moves: u32,
}

/// A change that the operator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A MAC address that stays at its port. `replace`: also when the operator has set it before.
    Fix { key: MacKey, port: PortId, replace: bool },
    /// Forgets a MAC address, set or learned.
    Forget(MacKey),
}

/// Why an edit was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("there is such an entry already")]
    Exists,
    #[error("there is no such entry")]
    Unknown,
    #[error("the table is full with {0} entries that were set")]
    Full(usize),
}

impl Control {
    /// `polynomial` places the MAC addresses in the table: a host that knew it could choose
    /// addresses that meet.
    pub fn new(config: Config, polynomial: Polynomial) -> Self {
        let shape = Shape { capacity: config.capacity, key_bits: 60, action_bits: PortId::BITS };
        let (sender, digests) = bounded(config.queue);
        let mut control = Self {
            macs: Shared::new(MacTable { version: 0, table: Exact::new(shape, polynomial) }),
            seen: (0..config.capacity).map(|_| AtomicU32::new(0)).collect(),
            free: (0..config.capacity as u32).rev().collect(),
            ageing_seconds: 0,
            link_local: config.link_local,
            sender,
            digests,
            refused: 0,
            moves: vec![0; config.capacity],
            moved: 0,
            last_move: None,
        };
        control.set_ageing(config.ageing);
        control
    }

    /// A table of another size with the MAC addresses of this one; when it has no room for all,
    /// those that were set and those heard last. It has dataplanes of its own.
    pub fn resized(&self, config: Config, polynomial: Polynomial) -> Self {
        let (refused, moved, last_move) = (self.refused, self.moved, self.last_move);
        let mut next = Self { refused, moved, last_move, ..Self::new(config, polynomial) };
        let heard = |entry: &MacEntry| self.seen[entry.index as usize].load(Ordering::Relaxed);
        let current = self.macs.current();
        let mut known: Vec<_> =
            current.table.iter().map(|(key, entry)| (entry.fixed, heard(entry), key, entry.port)).collect();
        known.sort_unstable_by(|a, b| b.cmp(a));
        let (free, seen) = (&mut next.free, &next.seen);
        next.macs.update(|macs| {
            for (fixed, heard, key, port) in known {
                let Some(index) = free.pop() else { break };
                seen[index as usize].store(heard, Ordering::Relaxed);
                macs.table.insert(key, MacEntry { port, index, fixed }).expect("an index was free, so there is room");
            }
        });
        next
    }

    /// The silence after which MAC addresses are forgotten from now on.
    pub fn set_ageing(&mut self, ageing: Duration) {
        self.ageing_seconds = ageing.as_secs().min(u64::from(u32::MAX)) as u32;
    }

    /// A dataplane that reads this table and reports to it, for one worker.
    pub fn dataplane(&self) -> Learn {
        Learn::new(self.macs.reader(), self.seen.clone(), self.sender.clone(), self.link_local)
    }

    /// Applies the digests that wait, at most one queue full, and publishes the result if anything
    /// has changed. Gives the number of MAC addresses learned or moved.
    pub fn serve(&mut self, now: u64) -> usize {
        let waiting: Vec<Digest> = self.digests.try_iter().take(self.digests.len()).collect();
        self.apply(&waiting, now)
    }

    /// Applies digests in order. Copying the table costs microseconds, so it is done once for all
    /// of them, and only if one changes something.
    pub fn apply(&mut self, digests: &[Digest], now: u64) -> usize {
        let current = self.macs.current();
        let mut next: Option<MacTable> = None;
        let mut changes = 0;
        for &Digest { key, port } in digests {
            let known = next.as_ref().unwrap_or(&current).table.get(key.0).copied();
            if known.is_some_and(|known| known.fixed) {
                continue;
            }
            let index = match known.map(|known| known.index).or_else(|| self.free.pop()) {
                Some(index) => index,
                None => {
                    self.refused += 1;
                    continue;
                }
            };
            self.count_move(index, known.map(|known| Move { key, from: known.port, to: port }));
            touch(&self.seen[index as usize], seconds(now));
            if known.is_none_or(|known| known.port != port) {
                let table = &mut next.get_or_insert_with(|| MacTable::clone(&current)).table;
                table
                    .insert(key.0, MacEntry { port, index, fixed: false })
                    .expect("an index was free, so there is room");
                changes += 1;
            }
        }
        self.publish(next);
        changes
    }

    /// `how`: where the address at `index` was and is; `None` for a new one.
    fn count_move(&mut self, index: u32, how: Option<Move>) {
        let moves = &mut self.moves[index as usize];
        match how {
            None => *moves = 0,
            Some(Move { from, to, .. }) if from == to => {}
            Some(how) => {
                *moves = moves.saturating_add(1);
                self.moved += 1;
                self.last_move = Some(how);
            }
        }
    }

    /// Forgets the MAC addresses that have been silent for the ageing time. Gives their number. To
    /// be called about once a second.
    pub fn age(&mut self, now: u64) -> usize {
        let limit = self.ageing_seconds;
        self.forget(|_, idle| idle >= limit, now)
    }

    /// Forgets what was learned behind a port, for example when its link goes down.
    pub fn flush_port(&mut self, port: PortId) -> usize {
        self.forget(|entry, _| entry.port == port, 0)
    }

    /// Makes all edits in order, or none: then the number of the one that was refused is given,
    /// from 0.
    pub fn edit(&mut self, edits: &[Edit]) -> Result<(), (usize, EditError)> {
        let mut next = MacTable::clone(&self.macs.current());
        let mut free = self.free.clone();
        for (i, edit) in edits.iter().enumerate() {
            self.edit_one(&mut next.table, &mut free, *edit).map_err(|error| (i, error))?;
        }
        self.free = free;
        self.publish(Some(next));
        Ok(())
    }

    fn edit_one(&self, table: &mut Exact<u64, MacEntry>, free: &mut Vec<u32>, edit: Edit) -> Result<(), EditError> {
        match edit {
            Edit::Forget(key) => {
                free.push(table.remove(key.0).ok_or(EditError::Unknown)?.index);
            }
            Edit::Fix { key, port, replace } => {
                let known = table.get(key.0).copied();
                if known.is_some_and(|known| known.fixed) && !replace {
                    return Err(EditError::Exists);
                }
                let index = known.map(|known| known.index).or_else(|| free.pop());
                let index = index.or_else(|| self.make_room(table)).ok_or(EditError::Full(table.len()))?;
                table
                    .insert(key.0, MacEntry { port, index, fixed: true })
                    .expect("an index was free, so there is room");
            }
        }
        Ok(())
    }

    /// Takes out the learned MAC address that has been silent for longest.
    fn make_room(&self, table: &mut Exact<u64, MacEntry>) -> Option<u32> {
        let heard = |entry: &MacEntry| self.seen[entry.index as usize].load(Ordering::Relaxed);
        let learned = table.iter().filter(|(_, entry)| !entry.fixed);
        let (key, _) = learned.min_by_key(|(_, entry)| heard(entry))?;
        table.remove(key).map(|entry| entry.index)
    }

    /// All MAC addresses, by VLAN and address.
    pub fn entries(&self, now: u64) -> Vec<Entry> {
        let current = self.macs.current();
        let entry = |(key, entry): (u64, &MacEntry)| {
            let key = MacKey(key);
            let idle_seconds = if entry.fixed { 0 } else { self.idle(entry, now) };
            let moves = if entry.fixed { 0 } else { self.moves[entry.index as usize] };
            Entry { vid: key.vid(), mac: key.mac(), port: entry.port, idle_seconds, fixed: entry.fixed, moves }
        };
        let mut entries: Vec<Entry> = current.table.iter().map(entry).collect();
        entries.sort_unstable();
        entries
    }

    /// Digests of new MAC addresses that were refused because the table was full.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Times a MAC address was heard behind another port than before, and the last of them.
    pub fn moved(&self) -> (u64, Option<Move>) {
        (self.moved, self.last_move)
    }

    /// Maximum entries.
    pub fn capacity(&self) -> usize {
        self.seen.len()
    }

    /// MAC addresses that are known.
    pub(crate) fn len(&self) -> usize {
        self.macs.current().table.len()
    }

    /// The dataplane looks up the source and the destination, and a switch looks into a table once
    /// a packet: two tables.
    pub fn usage(&self) -> TableUse {
        let one = self.macs.current().table.usage();
        TableUse { sram_bits: 2 * one.sram_bits, tcam_bits: 0, hashes: 2 * one.hashes }
    }

    fn idle(&self, entry: &MacEntry, now: u64) -> u32 {
        seconds(now).saturating_sub(self.seen[entry.index as usize].load(Ordering::Relaxed))
    }

    fn forget(&mut self, which: impl Fn(&MacEntry, u32) -> bool, now: u64) -> usize {
        let current = self.macs.current();
        let gone: Vec<(u64, MacEntry)> = current
            .table
            .iter()
            .map(|(k, s)| (k, *s))
            .filter(|(_, s)| !s.fixed && which(s, self.idle(s, now)))
            .collect();
        if gone.is_empty() {
            return 0;
        }
        let mut next = MacTable::clone(&current);
        for (key, entry) in &gone {
            next.table.remove(*key);
            self.free.push(entry.index);
        }
        self.publish(Some(next));
        gone.len()
    }

    fn publish(&mut self, next: Option<MacTable>) {
        if let Some(mut next) = next {
            next.version += 1;
            self.macs.publish(next);
        }
    }
}
