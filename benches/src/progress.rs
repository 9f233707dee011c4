//! Which section runs, how many are left, and about how long. Silent when the output is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A line on the terminal before each section.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Of a number of sections.
    ///
    /// # Panics
    ///
    /// When the template of the line is wrong.
    pub fn new(sections: usize) -> Self {
        let bar = ProgressBar::new(sections as u64);
        let style = ProgressStyle::with_template("[{human_pos} of {human_len} done, {msg}]").unwrap();
        Self(bar.with_style(style))
    }

    /// Says that a section begins.
    pub fn begin(&self, section: &str) {
        let left = left(self.0.position(), self.0.length().unwrap_or_default(), self.0.elapsed());
        self.0.set_message(format!("{section} runs{left}"));
        self.0.tick();
    }

    /// Says that a section has ended.
    pub fn end(&self) {
        self.0.inc(1);
    }
}

/// About how long the rest takes, if its sections take as long as those that are done; nothing before the
/// first.
fn left(done: u64, all: u64, elapsed: Duration) -> String {
    if done == 0 {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() / done as f64 * all.saturating_sub(done) as f64;
    format!(", about {} min left", (seconds / 60.0).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_is_done() {
        assert_eq!(left(0, 16, Duration::ZERO), "");
        assert_eq!(left(4, 16, Duration::from_secs(40)), ", about 2 min left");
        assert_eq!(left(16, 16, Duration::from_secs(160)), ", about 0 min left");
    }
}
