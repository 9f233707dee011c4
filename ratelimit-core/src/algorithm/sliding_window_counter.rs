//! Sliding window counter: counts per sub-window, the oldest weighted by its overlap with the window.
//!
//! The window is divided into `S` sub-windows of `length = window / S`. Seen from `now`, which lies
//! `now - start` into the current sub-window, the window covers the current and the `S - 1` whole sub-windows
//! before it, and reaches `length - (now - start)` into the oldest one:
//!
//! ```text
//! overlap      length - (now - start)
//! whole        current + the S - 1 sub-windows before it
//! used         whole + floor(oldest * overlap / length)
//! available    max - used
//! fits         cost <= available
//! ```
//!
//! Waits assume that no further request comes. Let `whole(j)` and `oldest(j)` be the same sums seen `j`
//! sub-windows later. A cost fits as soon as `used <= allowance` with `allowance = max - cost`. That is in
//! the first `j` with `whole(j) <= allowance`, once `oldest(j) * overlap < (allowance - whole(j) + 1) *
//! length`:
//!
//! ```text
//! overlap(j)   ((allowance - whole(j) + 1) * length - 1) / oldest(j)      rounded down
//! retry_after  start + (j + 1) * length - overlap(j) - now                (never when cost > max)
//! reset_after  the same for the newest count > 0, with an allowance of 0 (0 when nothing is counted)
//! ```
//!
//! The estimate assumes that requests were spread evenly over the oldest sub-window. If they all came at its
//! end, the window can have up to `oldest * (1 - overlap / length)` more than `max`; more sub-windows make
//! that smaller. With `S = 1` this is the counter over two windows described by Cloudflare ("How we built
//! rate limiting capable of scaling to millions of domains", 2017), where 0.003 % of 400 million requests
//! were decided wrongly.
//!
//! `S + 1` counts of state. When the clock goes back, the current sub-window starts at `now` and all counts
//! are kept; sub-windows start at multiples of their length again once nothing is counted.
//!
//! Twin: `lua/sliding_window_counter.lua`.

use super::numbers::{U40, mul_div};
#[cfg(feature = "redis")]
use super::step::Encoded;
use super::step::{Reader, Step, Writer};
#[cfg(feature = "redis")]
use crate::policy::Algorithm;
use crate::policy::Policy;

/// `E` stores the earlier counts: in place for one sub-window, which most policies have, otherwise in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State<E> {
    /// Length of a sub-window, in microseconds.
    length: u64,
    /// First instant of the current sub-window.
    start: u64,
    /// Units admitted in the current sub-window.
    current: u64,
    /// Units admitted in the `S` sub-windows before, newest first; the last is the oldest.
    earlier: E,
}

/// The counter over two windows.
pub(super) type TwoWindows = State<[u64; 1]>;

/// The counter over any number of sub-windows, with counts of 40 bits.
pub(super) type SubWindows = State<Box<[U40]>>;

impl TwoWindows {
    /// The state with these counts whose [expiry](Self::forget_at) is `forget_at`.
    pub(super) fn from_forget_at(policy: &Policy, forget_at: u64, current: u64, earlier: u64) -> Self {
        let length = policy.window_us();
        Self {
            length,
            start: forget_at - counted_span(length, current, earlier),
            current,
            earlier: [earlier],
        }
    }

    /// Whether a state with these counts can have this expiry.
    #[cold]
    pub(super) fn may_be_forgotten_at(policy: &Policy, forget_at: u64, current: u32, earlier: u32) -> bool {
        forget_at >= counted_span(policy.window_us(), current.into(), earlier.into())
    }

    /// An instant from which nothing counts: less than a twelfth of the window after `resets_at`. The exact
    /// instant would take a division.
    pub(super) fn forget_at(&self) -> u64 {
        self.start + counted_span(self.length, self.current, self.earlier[0])
    }

    /// Counts of the current window and of the one before.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.current, self.earlier[0])
    }
}

/// Upper bound of the time after the start of the current window during which something counts.
fn counted_span(length: u64, current: u64, earlier: u64) -> u64 {
    // As in `resets_at`, but divided by the next power of two instead of the count.
    let overlap = |count: u64| (length - 1) >> count.next_power_of_two().trailing_zeros();
    match (current, earlier) {
        (0, 0) => 0,
        (0, count) => length - overlap(count),
        (count, _) => 2 * length - overlap(count),
    }
}

impl SubWindows {
    pub(super) fn new(policy: &Policy) -> Self {
        let sub_windows = usize::try_from(policy.sub_windows()).unwrap_or(usize::MAX);
        let earlier = vec![U40::default(); sub_windows].into();
        Self { length: policy.sub_window_us(), start: 0, current: 0, earlier }
    }

    /// Writes the state for [`read`](Self::read).
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.micros(self.start);
        writer.units(self.current);
        self.earlier().for_each(|count| writer.units(count));
    }

    /// Reads the start and as many counts as the policy has; `None` if they are malformed.
    pub(super) fn read(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        let (start, current) = (reader.micros()?, reader.bounded_units()?);
        let earlier: Option<Box<[U40]>> =
            (0..policy.sub_windows()).map(|_| reader.bounded_units().map(U40::from)).collect();
        Some(Self { length: policy.sub_window_us(), start, current, earlier: earlier? })
    }

    /// Whether advancing would change nothing; false if that is not known without more work.
    pub(super) fn is_current(&self, now: u64) -> bool {
        self.current > 0 && self.start <= now && now - self.start < self.length
    }
}

impl From<TwoWindows> for SubWindows {
    fn from(State { length, start, current, earlier }: TwoWindows) -> Self {
        Self { length, start, current, earlier: earlier.map(U40::from).into() }
    }
}

/// Storage of the earlier counts; at least one.
pub(super) trait Earlier {
    type Stored: Copy + Default + From<u64> + Into<u64>;
    fn counts(&self) -> &[Self::Stored];
    fn counts_mut(&mut self) -> &mut [Self::Stored];
}

impl Earlier for [u64; 1] {
    type Stored = u64;

    fn counts(&self) -> &[u64] {
        self
    }

    fn counts_mut(&mut self) -> &mut [u64] {
        self
    }
}

impl Earlier for Box<[U40]> {
    type Stored = U40;

    fn counts(&self) -> &[U40] {
        self
    }

    fn counts_mut(&mut self) -> &mut [U40] {
        self
    }
}

impl<E: Earlier> State<E> {
    /// Moves every count `by` sub-windows into the past.
    fn roll(&mut self, by: usize) {
        let earlier = self.earlier.counts_mut();
        if by > earlier.len() {
            earlier.fill(E::Stored::default());
        } else if by > 0 {
            earlier.rotate_right(by);
            earlier[..by].fill(E::Stored::default());
            earlier[by - 1] = self.current.into();
        } else {
            return;
        }
        self.current = 0;
    }

    /// The earlier counts, newest first.
    fn earlier(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.earlier.counts().iter().map(|count| (*count).into())
    }

    /// `whole(j)` and `oldest(j)` for `j` from 0 to `S`.
    fn ahead(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut whole = self.current + self.earlier().sum::<u64>();
        self.earlier().rev().chain([self.current]).map(move |oldest| {
            whole -= oldest;
            (whole, oldest)
        })
    }

    #[inline]
    fn used(&self, now: u64) -> u64 {
        let overlap = self.length - (now - self.start);
        self.ahead().next().map_or(0, |(whole, oldest)| match oldest {
            // A division takes longer than the rest of most steps.
            0 => whole,
            _ => whole + mul_div(oldest, overlap, self.length).0,
        })
    }
}

/// The largest overlap at which the weighted `oldest` is still less than `allowance + 1`.
fn overlap(allowance: u64, length: u64, oldest: u64) -> u64 {
    let (quotient, remainder) = mul_div(allowance + 1, length, oldest);
    if remainder > 0 { quotient } else { quotient - 1 }
}

impl<E: Earlier> Step for State<E> {
    #[inline]
    fn advance(&mut self, _policy: &Policy, now: u64) -> bool {
        let went_back = now < self.start;
        if went_back {
            self.start = now;
        } else if now - self.start >= self.length {
            let rolled = (now - self.start) / self.length;
            self.start += rolled * self.length;
            self.roll(usize::try_from(rolled).unwrap_or(usize::MAX));
        }
        if self.current == 0 && self.used(now) == 0 {
            self.start = now - now % self.length;
            self.earlier.counts_mut().fill(E::Stored::default());
            return false;
        }
        went_back
    }

    fn available(&self, policy: &Policy, now: u64) -> Option<u64> {
        policy.max().checked_sub(self.used(now))
    }

    fn charge(&mut self, _policy: &Policy, _now: u64, cost: u64) {
        self.current += cost;
    }

    fn resets_at(&self) -> u64 {
        let windows = self.earlier.counts().len() as u64 + 1;
        let (age, newest) = match self.current {
            0 => match (1..windows).zip(self.earlier()).find(|(_, count)| *count > 0) {
                Some(found) => found,
                None => return 0,
            },
            current => (0, current),
        };
        // The last term is `overlap` with an allowance of 0, in one division.
        self.start + (windows - age) * self.length - (self.length - 1) / newest
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        let allowance = policy.max().checked_sub(cost)?;
        let (j, (whole, oldest)) = (0u64..).zip(self.ahead()).find(|(_, (whole, _))| *whole <= allowance)?;
        Some(self.start + (j + 1) * self.length - overlap(allowance - whole, self.length, oldest) - now)
    }

    fn refund(&mut self, _policy: &Policy, _now: u64, at: u64, _until: u64, cost: u64) {
        if at < self.start {
            let back = usize::try_from((self.start - at).div_ceil(self.length) - 1).unwrap_or(usize::MAX);
            if let Some(count) = self.earlier.counts_mut().get_mut(back) {
                *count = (*count).into().saturating_sub(cost).into();
            }
        } else if at - self.start < self.length {
            self.current = self.current.saturating_sub(cost);
        }
    }
}

#[cfg(feature = "redis")]
impl Encoded for TwoWindows {
    const ALGORITHM: Algorithm = Algorithm::SlidingWindowCounter;

    fn encoded_len(_sub_windows: u64, _bytes: &[u8]) -> Option<usize> {
        Some(18)
    }

    fn decode(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        let (start, current, oldest) = (reader.micros()?, reader.units()?, reader.units()?);
        Some(Self { length: policy.window_us(), start, current, earlier: [oldest] })
    }
}

#[cfg(feature = "redis")]
impl Encoded for SubWindows {
    const ALGORITHM: Algorithm = Algorithm::SlidingWindowCounter;

    fn encoded_len(sub_windows: u64, _bytes: &[u8]) -> Option<usize> {
        Some(18 + 5 * usize::try_from(sub_windows).ok()?)
    }

    fn decode(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        let (start, current, oldest) = (reader.micros()?, reader.units()?, reader.units()?);
        let whole_between = reader.units()?;
        let between: Option<Vec<u64>> = (1..policy.sub_windows()).map(|_| reader.units()).collect();
        let mut earlier = between?;
        // A wrong sum: the script decides by it until it needs the single counts. A request that it admitted
        // was charged, so it must not get an error here.
        if earlier.iter().sum::<u64>() != whole_between {
            earlier.fill(0);
            earlier[0] = whole_between;
        }
        earlier.push(oldest);
        let earlier = earlier.into_iter().map(U40::from).collect();
        Some(Self { length: policy.sub_window_us(), start, current, earlier })
    }
}
