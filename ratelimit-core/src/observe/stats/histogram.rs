//! Counts numbers by their size, for percentiles: four buckets for each doubling, so that a percentile is at
//! most 25 % too large.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clock, SystemClock};
use crate::observe::status::Percentiles;

/// Number of buckets: up to 2^32.
const BUCKETS: usize = 4 * 32;

/// How often which size occurred in the last one to two minutes.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    clock: SystemClock,
    /// One for even minutes, and one for odd ones.
    minutes: [Minute; 2],
}

/// The numbers of one minute.
#[derive(Debug)]
struct Minute {
    /// Number of the minute, from 1; 0 before the first.
    number: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

impl Histogram {
    fn present_minute(&self) -> u64 {
        self.clock.now().as_micros() / 60_000_000
    }

    /// Counts a number. As a minute begins, numbers of other threads may be lost.
    pub(crate) fn record(&self, number: u64) {
        self.record_in(self.present_minute(), number);
    }

    /// The percentiles of this minute and the one before.
    pub(crate) fn percentiles(&self) -> Percentiles {
        self.percentiles_in(self.present_minute())
    }

    fn record_in(&self, minute: u64, number: u64) {
        let minute = minute + 1;
        let counts = &self.minutes[usize::from(minute % 2 == 1)];
        let counted = counts.number.load(Ordering::Relaxed);
        if counted != minute
            && counts.number.compare_exchange(counted, minute, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            counts.clear();
        }
        counts.buckets[bucket(number)].fetch_add(1, Ordering::Relaxed);
        counts.sum.fetch_add(number, Ordering::Relaxed);
        counts.max.fetch_max(number, Ordering::Relaxed);
    }

    fn percentiles_in(&self, minute: u64) -> Percentiles {
        let recent = self.minutes.iter().filter(|counts| {
            let number = counts.number.load(Ordering::Relaxed);
            number > 0 && (minute..=minute + 1).contains(&number)
        });
        let (mut counts, mut sum, mut max) = ([0; BUCKETS], 0, 0);
        for minute in recent {
            for (sum, count) in counts.iter_mut().zip(&minute.buckets) {
                *sum += count.load(Ordering::Relaxed);
            }
            sum += minute.sum.load(Ordering::Relaxed);
            max = minute.max.load(Ordering::Relaxed).max(max);
        }
        let count: u64 = counts.iter().sum();
        let percentile = |percent: u64| {
            let wanted = (count * percent).div_ceil(100);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            found.map_or(0, |bucket| largest(bucket).min(max))
        };
        Percentiles { count, sum, p50: percentile(50), p99: percentile(99), max }
    }
}

impl Default for Minute {
    fn default() -> Self {
        let [number, sum, max] = Default::default();
        Self { number, buckets: [const { AtomicU64::new(0) }; BUCKETS], sum, max }
    }
}

impl Minute {
    fn clear(&self) {
        for number in self.buckets.iter().chain([&self.sum, &self.max]) {
            number.store(0, Ordering::Relaxed);
        }
    }
}

/// The bucket of a number: its highest bit and the two bits below it.
fn bucket(number: u64) -> usize {
    let Some(doublings) = number.checked_ilog2() else { return 0 };
    let highest = if doublings >= 2 { number >> (doublings - 2) } else { number << (2 - doublings) };
    // Two bits.
    let quarter = usize::try_from(highest & 3).unwrap_or_default();
    (4 * doublings as usize + quarter).min(BUCKETS - 1)
}

/// The largest number in a bucket.
fn largest(bucket: usize) -> u64 {
    let (doublings, quarter) = (bucket / 4, bucket as u64 % 4);
    ((4 + quarter + 1) << doublings).div_ceil(4) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_numbers_of_about_one_size() {
        for number in (0..5_000).chain([1 << 20, (1 << 20) + 1, u64::from(u32::MAX)]) {
            let largest = largest(bucket(number));
            let most = if number == 0 { 1 } else { number + number / 4 };
            assert!((number..=most).contains(&largest), "{number}: {largest}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_numbers() {
        let histogram = Histogram::default();
        assert_eq!(histogram.percentiles_in(0), Percentiles::default());
        for number in 1..=100 {
            histogram.record_in(0, number);
        }
        let found = histogram.percentiles_in(0);
        assert_eq!((found.count, found.sum, found.max), (100, 5_050, 100));
        assert!((50..=59).contains(&found.p50) && (99..=100).contains(&found.p99), "{found:?}");
    }

    #[test]
    fn one_of_a_hundred_is_not_in_the_99th_percentile() {
        let histogram = Histogram::default();
        (0..99).for_each(|_| histogram.record_in(0, 3));
        histogram.record_in(0, 1_000);
        let found = histogram.percentiles_in(0);
        assert_eq!((found.p50, found.p99, found.max), (3, 3, 1_000));
    }

    #[test]
    fn numbers_are_forgotten_after_two_minutes() {
        let histogram = Histogram::default();
        histogram.record_in(5, 10);
        histogram.record_in(6, 20);
        let found = |minute| histogram.percentiles_in(minute);
        assert_eq!((found(6).count, found(6).max), (2, 20));
        assert_eq!((found(7).count, found(8).count), (1, 0));
        histogram.record_in(7, 30);
        assert_eq!((found(7).sum, found(7).max), (50, 30));
    }
}
