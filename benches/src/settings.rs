//! How long to measure: the quick form, the full one, and one that only shows that everything works.

use std::time::Duration;

/// Sizes of all measurements.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What the form is called.
    pub form: &'static str,
    /// Whether a cluster is measured with a single caller as well.
    pub is_thorough: bool,
    /// Rounds of what takes microseconds.
    pub micro_rounds: usize,
    /// Times that something is done in one of those rounds.
    pub micro_times: u64,
    /// Rounds of measurements with a server.
    pub rounds: usize,
    /// Rounds of what stands in a row of the goals.
    pub goal_rounds: usize,
    /// How long a load runs in a round.
    pub span: Duration,
    /// Callers of the largest populations.
    pub crowd: u64,
    /// Limiting windows that the overload lasts.
    pub windows: u32,
    /// Checks that are counted in instructions.
    pub instructions: u64,
}

impl Settings {
    /// At most seven minutes on two cores.
    pub const QUICK: Self = Self {
        form: "quick",
        is_thorough: false,
        micro_rounds: 31,
        micro_times: 10_000,
        rounds: 5,
        goal_rounds: 11,
        span: Duration::from_millis(120),
        crowd: 1_000_000,
        windows: 10,
        instructions: 20_000,
    };

    /// About 25 minutes.
    pub const FULL: Self = Self {
        form: "full",
        is_thorough: true,
        micro_rounds: 101,
        micro_times: 40_000,
        rounds: 15,
        goal_rounds: 41,
        span: Duration::from_millis(200),
        crowd: 1_000_000,
        windows: 60,
        instructions: 100_000,
    };

    /// Seconds; its numbers mean nothing.
    pub const SMOKE: Self = Self {
        form: "smoke",
        is_thorough: false,
        micro_rounds: 3,
        micro_times: 200,
        rounds: 1,
        goal_rounds: 1,
        span: Duration::from_millis(20),
        crowd: 20_000,
        windows: 2,
        instructions: 500,
    };
}
