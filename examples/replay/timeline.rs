//! Requests over time in a bounded number of bars, which widen as the log goes on.

use ratelimit_core::Timestamp;

/// Widths of a bar in seconds. Each is a multiple of the one before.
const WIDTHS: [u64; 13] = [1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 21_600, 86_400, 604_800, 604_800 * 52];
/// Most bars: five minutes each for a day.
const BARS: u64 = 300;
/// Most bars of the largest width: later times count in the last one.
const LAST: usize = 600;

/// Requests of one bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Number of the first bar, in bars of this width since the epoch.
    first: u64,
    /// Index of the width.
    width: usize,
    bars: Vec<Bar>,
}

impl Timeline {
    /// Adds a request. Times must not go back.
    pub(crate) fn add(&mut self, at: Timestamp, is_admitted: bool) {
        let seconds = at.as_micros() / 1_000_000;
        if self.bars.is_empty() {
            self.first = seconds / self.width();
        }
        while seconds / self.width() - self.first >= BARS && self.width + 1 < WIDTHS.len() {
            self.widen();
        }
        let bar = usize::try_from(seconds / self.width() - self.first).unwrap_or(usize::MAX);
        let bar = bar.min(LAST);
        if bar >= self.bars.len() {
            self.bars.resize(bar + 1, Bar::default());
        }
        let bar = &mut self.bars[bar];
        *(if is_admitted { &mut bar.admitted } else { &mut bar.denied }) += 1;
    }

    fn widen(&mut self) {
        let before = (self.first, self.width());
        self.width += 1;
        self.first = before.0 * before.1 / self.width();
        let mut bars: Vec<Bar> = Vec::new();
        for (number, bar) in (before.0..).zip(&self.bars) {
            let index = usize::try_from(number * before.1 / self.width() - self.first).unwrap_or(usize::MAX);
            if bars.len() <= index {
                bars.push(Bar::default());
            }
            if let Some(wide) = bars.last_mut() {
                wide.admitted += bar.admitted;
                wide.denied += bar.denied;
            }
        }
        self.bars = bars;
    }

    /// Seconds of a bar.
    pub(crate) fn width(&self) -> u64 {
        WIDTHS[self.width]
    }

    /// Begin of the first bar, in seconds since the epoch.
    pub(crate) fn start(&self) -> u64 {
        self.first * self.width()
    }

    pub(crate) fn bars(&self) -> &[Bar] {
        &self.bars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_width_is_a_multiple_of_the_one_before() {
        assert!(WIDTHS.windows(2).all(|pair| pair[1].is_multiple_of(pair[0])));
    }

    #[test]
    fn bars_widen_and_keep_every_request() {
        let day = 1_763_596_800;
        let mut timeline = Timeline::default();
        for second in (0..86_400).step_by(7) {
            timeline.add(Timestamp::from_micros((day + second) * 1_000_000), second % 2 == 0);
        }
        assert_eq!((timeline.start(), timeline.width(), timeline.bars().len()), (day, 300, 288));
        let sum = |of: fn(&Bar) -> u64| timeline.bars().iter().map(of).sum::<u64>();
        assert_eq!((sum(|bar| bar.admitted), sum(|bar| bar.denied)), (6_172, 6_171));
        assert!(timeline.bars().iter().all(|bar| (42..=43).contains(&(bar.admitted + bar.denied))));
    }

    #[test]
    fn a_gap_of_centuries_needs_no_memory() {
        let mut timeline = Timeline::default();
        timeline.add(Timestamp::from_micros(0), true);
        timeline.add(Timestamp::from_micros(u64::MAX), true);
        assert!(timeline.bars().len() < 1_000);
    }
}
