//! States as bytes, for stores that keep them outside of this process.
//!
//! ```text
//! version      1 byte
//! kind         1 byte, see below: for most states the tag of the algorithm
//! instants     7 bytes each, counts 5, and the fraction of a token bucket 5; little-endian
//!
//! f            a fixed window: forget_at, count
//! c            a counter over two windows: forget_at, current, earlier
//! s            a counter over sub-windows: start, current, the earlier ones from the newest
//! l            a log: the instant and the units of each entry, oldest first
//! t            a token bucket: tat, fraction
//! d            a token bucket in debt, in which turns were taken: tat, fraction, indebted_at
//! e            a token bucket in debt without turns: the same
//! r            a token bucket with units given back out of order: tat, fraction, returned, too_old_at
//! o, p         as `r`, and in debt as `d` or `e`: tat, fraction, indebted_at, returned, too_old_at
//! n            slots: since, held
//! b            a block: until
//! ```

#[cfg(test)]
mod tests;

use super::sliding_window_counter::{SubWindows, TwoWindows};
use super::state::{Packed, State};
use super::step::{Reader, Writer};
use super::{concurrency, sliding_window_log, token_bucket};
use crate::error::StoreError;
use crate::policy::{Algorithm, Policy};

/// First byte: the version of the layout.
const VERSION: u8 = 1;

const SUB_WINDOWS: u8 = b's';
const BLOCKED: u8 = b'b';

impl State {
    /// The state as bytes, for a store that keeps it outside of this process: 9 to 35 bytes, and more for
    /// each entry of a log (12) and each sub-window (5).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::store::toolkit::{Operation, State};
    /// use ratelimit_core::{Policy, Timestamp};
    ///
    /// let policy = Policy::new("k", 10, Duration::from_secs(60));
    /// let now = Timestamp::from_micros(1_790_000_000_000_000);
    /// let mut state = State::new(&policy);
    /// let _ = state.decide(&policy, 3, now, Operation::Check);
    ///
    /// let mut read = State::from_bytes(&policy, &state.to_bytes())?;
    /// assert_eq!(read.decide(&policy, 0, now, Operation::Peek).remaining(), 7);
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(VERSION);
        match &self.0 {
            Packed::FixedWindow { forget_at, count } => {
                writer.byte(Algorithm::FixedWindow.spec().tag);
                writer.micros((*forget_at).into());
                writer.units(*count);
            }
            Packed::TwoWindows { forget_at, current, earlier } => {
                writer.byte(Algorithm::SlidingWindowCounter.spec().tag);
                writer.micros((*forget_at).into());
                writer.units((*current).into());
                writer.units((*earlier).into());
            }
            Packed::SubWindows(state) => {
                writer.byte(SUB_WINDOWS);
                if let Some(state) = state {
                    state.write(&mut writer);
                }
            }
            Packed::SlidingWindowLog(state) => {
                writer.byte(Algorithm::SlidingWindowLog.spec().tag);
                if let Some(state) = state {
                    state.write(&mut writer);
                }
            }
            Packed::TokenBucket { tat, fraction } => {
                writer.byte(Algorithm::TokenBucket.spec().tag);
                writer.micros((*tat).into());
                writer.units(*fraction);
            }
            Packed::LongBucket(long) => {
                writer.byte(long.tag().unwrap_or(Algorithm::TokenBucket.spec().tag));
                writer.micros(long.bucket.tat.micros);
                writer.units(long.bucket.tat.fraction);
                if long.is_in_debt() {
                    writer.micros(long.indebted_at);
                }
                if long.bucket.returned > 0 {
                    writer.micros(long.bucket.returned);
                    writer.micros(long.too_old_at);
                }
            }
            Packed::Concurrency { since, held } => {
                writer.byte(Algorithm::Concurrency.spec().tag);
                concurrency::State { since: (*since).into(), held: *held }.write(&mut writer);
            }
            Packed::Blocked { until } => {
                writer.byte(BLOCKED);
                writer.micros((*until).into());
            }
        }
        writer.into_bytes()
    }

    /// The state that [`to_bytes`](Self::to_bytes) wrote as `bytes`, under a policy with the same algorithm,
    /// window and sub-windows.
    ///
    /// # Errors
    ///
    /// [`StoreError::CorruptState`] if the bytes have another version, are of another algorithm, are
    /// malformed, or have numbers that no state of the policy has. A store returns this error. It removes the
    /// bytes when they expire, or by a reset.
    pub fn from_bytes(policy: &Policy, bytes: &[u8]) -> Result<Self, StoreError> {
        let state = read(policy, bytes).map(Self);
        state.ok_or_else(|| StoreError::CorruptState { policy: policy.key().to_owned() })
    }
}

fn read(policy: &Policy, bytes: &[u8]) -> Option<Packed> {
    let (&[VERSION, kind], bytes) = bytes.split_first_chunk()? else { return None };
    let mut reader = Reader::new(bytes);
    let of = |algorithm: Algorithm| policy.algorithm() == algorithm;
    let state = match kind {
        BLOCKED => Packed::Blocked { until: reader.micros()?.into() },
        SUB_WINDOWS if of(Algorithm::SlidingWindowCounter) => Packed::SubWindows(match bytes {
            [] => None,
            _ => Some(Box::new(SubWindows::read(policy, &mut reader)?)),
        }),
        tag if of(Algorithm::TokenBucket) && token_bucket::Long::is_tag(tag) => {
            let mut long = token_bucket::Long::read(policy, tag, &mut reader)?;
            if long.bucket.returned > 0 {
                long.too_old_at = reader.micros()?;
            }
            long.into()
        }
        tag if tag == policy.algorithm().spec().tag => match policy.algorithm() {
            Algorithm::FixedWindow => {
                let (forget_at, count) = (reader.micros()?, reader.bounded_units()?);
                let is_possible = count == 0 || forget_at >= policy.window_us();
                is_possible.then_some(Packed::FixedWindow { forget_at: forget_at.into(), count })?
            }
            Algorithm::SlidingWindowCounter => {
                let forget_at = reader.micros()?;
                let (current, earlier) = (reader.units()?.try_into().ok()?, reader.units()?.try_into().ok()?);
                let is_possible = policy.sub_windows() == 1
                    && TwoWindows::may_be_forgotten_at(policy, forget_at, current, earlier);
                is_possible.then_some(Packed::TwoWindows { forget_at: forget_at.into(), current, earlier })?
            }
            Algorithm::SlidingWindowLog => Packed::SlidingWindowLog(match bytes {
                [] => None,
                _ => Some(Box::new(sliding_window_log::State::read(policy, &mut reader)?)),
            }),
            Algorithm::TokenBucket => token_bucket::State::read(policy, &mut reader)?.into(),
            Algorithm::Concurrency => concurrency::State::read(&mut reader)?.into(),
        },
        _ => return None,
    };
    reader.is_at_end().then_some(state)
}
