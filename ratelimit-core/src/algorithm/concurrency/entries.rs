//! The entries of a concurrency limit in Redis: what each process has reported.

use smallvec::SmallVec;

use super::State;
use crate::algorithm::step::{ABSENT, Reader};
use crate::policy::{Algorithm, HOLD_US};

/// Length in bytes of the tag and the number of entries, and of an entry.
const HEAD: usize = 3;
const ENTRY: usize = 25;

/// The bits of a reported number that the server keeps. They wrap: a number is later than another if it is
/// ahead by at most half of this range, which is 140 times the largest limit.
const KEPT: u64 = (1 << 48) - 1;

/// The report of a process. Both numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OwnEntry {
    /// Number of the process, random.
    pub(crate) process: u64,
    /// Slots granted to the process, as far as it knows.
    pub(crate) granted: u64,
    /// How many of them it has freed.
    pub(crate) freed: u64,
}

impl OwnEntry {
    /// The part of the report that the server keeps.
    pub(crate) const fn kept(self) -> Self {
        Self { granted: self.granted & KEPT, freed: self.freed & KEPT, ..self }
    }
}

/// The later of two reported numbers, in full: `number`, or the number whose lower bits are `kept`.
const fn later(number: u64, kept: u64) -> u64 {
    let ahead = kept.wrapping_sub(number) & KEPT;
    if ahead <= KEPT / 2 { number + ahead } else { number }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ProcessEntry {
    /// First instant at which the entry does not count.
    till: u64,
    /// The last report, as the server keeps it.
    reported: OwnEntry,
}

impl ProcessEntry {
    const fn held(&self) -> u64 {
        self.reported.granted.wrapping_sub(self.reported.freed) & KEPT
    }
}

/// The entries of all processes, in the order in which the script writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Entries(SmallVec<[ProcessEntry; 1]>);

impl Entries {
    /// Length in bytes of the state that `bytes` begin with; `None` if they are too few to know.
    pub(crate) fn encoded_len(bytes: &[u8]) -> Option<usize> {
        let count = Reader::new(bytes.get(1..)?).next(2)?;
        Some(HEAD + ENTRY * usize::try_from(count).ok()?)
    }

    /// The entries in a script's reply; `None` if the bytes are malformed.
    pub(crate) fn found(bytes: &[u8]) -> Option<Self> {
        if bytes == ABSENT { Some(Self::default()) } else { Self::decode(bytes) }
    }

    /// The state after the report of a process.
    pub(in crate::algorithm) fn state(mut self, reported: OwnEntry, now: u64) -> State {
        self.merge(reported, now);
        State { since: now, held: self.held() }
    }

    /// Reads a stored state; `None` if the bytes are malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.first() != Some(&Algorithm::Concurrency.spec().tag)
            || Self::encoded_len(bytes) != Some(bytes.len())
        {
            return None;
        }
        let entries = bytes[HEAD..].chunks_exact(ENTRY).map(|entry| {
            let mut reader = Reader::new(entry);
            let (till, process) = (reader.micros()?, reader.next(6)?);
            let (granted, freed) = (reader.next(6)?, reader.next(6)?);
            let entry = ProcessEntry { till, reported: OwnEntry { process, granted, freed } };
            (entry.held() <= KEPT / 2).then_some(entry)
        });
        entries.collect::<Option<_>>().map(Self)
    }

    /// Merges a report with the entry of its process, and drops entries that no longer count at `now`.
    /// Returns the merged numbers. The entry of the process stays, also without held slots.
    pub(crate) fn merge(&mut self, reported: OwnEntry, now: u64) -> OwnEntry {
        let (mut own, mut is_known) = (reported, false);
        self.0.retain(|entry| {
            if entry.reported.process == reported.process {
                is_known = true;
                own.granted = later(own.granted, entry.reported.granted);
                own.freed = later(own.freed, entry.reported.freed);
                return false;
            }
            entry.till = entry.till.min(now + HOLD_US);
            entry.till > now
        });
        if is_known || own.granted > own.freed {
            self.0.push(ProcessEntry { till: now + HOLD_US, reported: own.kept() });
        }
        own
    }

    /// Slots that are held.
    pub(crate) fn held(&self) -> u64 {
        self.0.iter().map(ProcessEntry::held).sum()
    }
}

#[cfg(test)]
impl Entries {
    /// The whole step: merges a report, and grants `cost` slots if they fit. Returns whether they do, and the
    /// numbers of the process.
    pub(crate) fn step(&mut self, reported: OwnEntry, cost: u64, max: u64, now: u64) -> (bool, OwnEntry) {
        let mut own = self.merge(reported, now);
        let fits = self.held() + cost <= max;
        if fits && cost > 0 {
            own.granted += cost;
            self.merge(own, now);
        }
        (fits, own)
    }

    /// Drops the entry of a process.
    pub(crate) fn forget(&mut self, process: u64) {
        self.0.retain(|entry| entry.reported.process != process);
    }

    /// Sorts the entries, whose order depends on that of the last messages.
    pub(crate) fn sort(&mut self) {
        self.0.sort_unstable_by_key(|entry| entry.reported.process);
    }

    /// Slots that a process holds, if it has an entry.
    pub(crate) fn held_by(&self, process: u64) -> Option<u64> {
        self.0.iter().find(|entry| entry.reported.process == process).map(ProcessEntry::held)
    }
}
