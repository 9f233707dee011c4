//! The callers that were denied most: a bounded table with approximate counts ("space-saving").

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::counts::LimitCounts;
use crate::check::{keyed, random_key};

/// Number of locks over which the callers are spread.
const SHARDS: usize = 8;

/// Maximum number of callers under one lock.
const PER_SHARD: usize = 64;

/// Longest partition that is kept, in bytes.
const MAX_PARTITION: usize = 256;

/// Stands for a caller: a keyed 64-bit digest of the partition, 16 hexadecimal digits as text. The key is
/// random for each limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallerDigest(u64);

impl fmt::Display for CallerDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The error of a text that is no [`CallerDigest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a digest of 16 hexadecimal digits")]
pub struct CallerDigestError;

impl FromStr for CallerDigest {
    type Err = CallerDigestError;

    fn from_str(text: &str) -> Result<Self, CallerDigestError> {
        if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(CallerDigestError);
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| CallerDigestError)
    }
}

/// A caller that a limit denied often.
#[derive(Clone)]
pub struct DeniedCaller {
    limit: String,
    digest: CallerDigest,
    partition: Option<Box<[u8]>>,
    count: u64,
    error: u64,
}

impl DeniedCaller {
    /// The name of the limit.
    pub fn limit(&self) -> &str {
        &self.limit
    }

    /// What stands for the caller.
    pub const fn digest(&self) -> CallerDigest {
        self.digest
    }

    /// Bytes that identify the caller. `None` if they are more than 256.
    pub fn partition(&self) -> Option<&[u8]> {
        self.partition.as_deref()
    }

    /// Number of denials, never less than those that were counted for the caller.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// How many of the denials may be those of other callers.
    pub const fn error(&self) -> u64 {
        self.error
    }
}

impl fmt::Debug for DeniedCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the partition: it may be an address or a name, and the text may be logged.
        f.debug_struct("DeniedCaller")
            .field("limit", &self.limit)
            .field("digest", &self.digest)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// The callers that were denied most, of all limits.
pub(super) struct DeniedCallers {
    key: [u8; 16],
    shards: [Mutex<DeniedShard>; SHARDS],
    missed: AtomicU64,
}

#[derive(Default)]
struct DeniedShard {
    /// Apart from the entries, so that a search reads few cache lines.
    digests: Vec<u64>,
    entries: Vec<DenialCount>,
}

struct DenialCount {
    limit: Arc<LimitCounts>,
    partition: Option<Box<[u8]>>,
    count: u64,
    error: u64,
}

impl DeniedCallers {
    pub(super) fn new() -> Self {
        Self { key: random_key(), shards: Default::default(), missed: AtomicU64::new(0) }
    }

    #[allow(clippy::cast_possible_truncation, reason = "half of a digest is a shorter digest")]
    pub(super) fn digest_of(&self, partition: &[u8]) -> CallerDigest {
        CallerDigest(keyed(&self.key).hash(partition).as_u128() as u64)
    }

    fn shard(&self, digest: CallerDigest) -> &Mutex<DeniedShard> {
        // The remainder is below 8.
        &self.shards[usize::try_from(digest.0 % SHARDS as u64).unwrap_or_default()]
    }

    /// Counts a denial. Never waits: if another thread has the lock, the caller is not counted.
    pub(super) fn record(&self, limit: &Arc<LimitCounts>, partition: &[u8]) {
        let digest = self.digest_of(partition);
        match self.shard(digest).try_lock() {
            Some(mut shard) => shard.record(digest, limit, partition),
            None => _ = self.missed.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    pub(super) fn top(&self, max: usize) -> Vec<DeniedCaller> {
        let mut callers: Vec<DeniedCaller> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            callers.extend(shard.digests.iter().zip(&shard.entries).map(|(digest, entry)| DeniedCaller {
                limit: entry.limit.name().to_owned(),
                digest: CallerDigest(*digest),
                partition: entry.partition.clone(),
                count: entry.count,
                error: entry.error,
            }));
        }
        // Of equal counts, the one with the smaller error comes first.
        callers.sort_by(|one, other| {
            let rank = |caller: &DeniedCaller| (caller.count, caller.count - caller.error);
            rank(other)
                .cmp(&rank(one))
                .then_with(|| (&one.limit, one.digest.0).cmp(&(&other.limit, other.digest.0)))
        });
        callers.truncate(max);
        callers
    }

    pub(super) fn partition_of(&self, digest: CallerDigest) -> Option<Vec<u8>> {
        let shard = self.shard(digest).lock();
        let mut found = shard.digests.iter().zip(&shard.entries).filter(|(other, _)| **other == digest.0);
        found.find_map(|(_, entry)| entry.partition.as_deref().map(<[u8]>::to_vec))
    }
}

impl DeniedShard {
    fn record(&mut self, digest: CallerDigest, limit: &Arc<LimitCounts>, partition: &[u8]) {
        let known = self.digests.iter().zip(&mut self.entries);
        let mut known =
            known.filter(|(other, entry)| **other == digest.0 && Arc::ptr_eq(&entry.limit, limit));
        if let Some((_, entry)) = known.next() {
            entry.count += 1;
            return;
        }
        let partition = (partition.len() <= MAX_PARTITION).then(|| partition.into());
        let entry = |count, error| DenialCount { limit: Arc::clone(limit), partition, count, error };
        if self.entries.len() < PER_SHARD {
            self.digests.push(digest.0);
            self.entries.push(entry(1, 0));
            return;
        }
        let counts = self.entries.iter().enumerate().map(|(index, entry)| (entry.count, index));
        if let Some((smallest, index)) = counts.min() {
            self.digests[index] = digest.0;
            self.entries[index] = entry(smallest + 1, smallest);
        }
    }
}

impl fmt::Debug for DeniedCallers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeniedCallers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::counts::LimitCounts;
    use super::*;

    #[test]
    fn callers_are_listed_by_their_denials() {
        let (denied, login) = (DeniedCallers::new(), Arc::new(LimitCounts::new("login")));
        let search = Arc::new(LimitCounts::new("search"));
        for (limit, caller, times) in [(&login, "a", 3), (&login, "b", 5), (&search, "a", 4)] {
            (0..times).for_each(|_| denied.record(limit, caller.as_bytes()));
        }
        let listed = denied.top(2);
        let listed: Vec<_> =
            listed.iter().map(|one| (one.limit(), one.partition(), one.count(), one.error())).collect();
        assert_eq!(listed, [("login", Some(&b"b"[..]), 5, 0), ("search", Some(&b"a"[..]), 4, 0)]);
        assert_eq!(denied.partition_of(denied.digest_of(b"a")), Some(b"a".to_vec()));
        assert_eq!(denied.partition_of(denied.digest_of(b"c")), None);
    }

    #[test]
    fn ten_thousand_callers_stay_within_the_table_and_do_not_hide_a_busy_one() {
        let (denied, limit) = (DeniedCallers::new(), Arc::new(LimitCounts::new("login")));
        for number in 0..10_000_u32 {
            denied.record(&limit, &number.to_be_bytes());
            if number % 10 == 0 {
                denied.record(&limit, b"busy");
            }
        }
        let listed = denied.top(usize::MAX);
        assert_eq!(listed.len(), SHARDS * PER_SHARD);
        assert_eq!(listed[0].partition(), Some(&b"busy"[..]));
        assert!(
            listed[0].count() >= 1_000 && listed[0].count() - listed[0].error() <= 1_000,
            "{}",
            listed[0].count()
        );
        assert_eq!(
            listed.iter().map(DeniedCaller::count).sum::<u64>(),
            11_000,
            "each denial is in one count"
        );
    }

    #[test]
    fn a_denial_never_waits_for_the_table() {
        let (denied, limit) = (DeniedCallers::new(), Arc::new(LimitCounts::new("login")));
        let locked: Vec<_> = denied.shards.iter().map(Mutex::lock).collect();
        denied.record(&limit, b"a");
        drop(locked);
        assert_eq!((denied.missed(), denied.top(1).len()), (1, 0));
    }

    #[test]
    fn a_long_partition_is_not_kept() {
        let (denied, limit) = (DeniedCallers::new(), Arc::new(LimitCounts::new("login")));
        let long = [b'x'; MAX_PARTITION + 1];
        denied.record(&limit, &long);
        assert_eq!(denied.top(1)[0].partition(), None);
        denied.record(&limit, &long[1..]);
        assert_eq!(denied.partition_of(denied.digest_of(&long[1..])), Some(long[1..].to_vec()));
    }

    #[test]
    fn a_digest_is_read_back_from_its_text() {
        let digest = DeniedCallers::new().digest_of(b"a");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for text in ["", "0", "+0000000000000ff", "00000000000000fg", "00000000000000fff"] {
            assert_eq!(text.parse::<CallerDigest>(), Err(CallerDigestError), "{text}");
        }
    }
}
