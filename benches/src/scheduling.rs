//! What the kernel's scheduler did for processes: hand-overs from thread to thread, and time spent waiting
//! for a core.

use std::fs;
use std::ops::{Add, Div, Sub};
use std::path::Path;

/// Counts since a process was started, or for one check.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scheduling {
    /// Nanoseconds that threads ran.
    pub run_ns: f64,
    /// Nanoseconds that threads could run and waited for a core.
    pub queue_ns: f64,
    /// Times that a thread began to wait for another one, or for the network: voluntary context switches.
    pub hand_overs: f64,
    /// Times that a thread lost its core to another one: involuntary context switches.
    pub preemptions: f64,
    /// Times that a thread went on on another core.
    pub migrations: f64,
}

impl Scheduling {
    /// The sum over all threads of a process; zero where there is no `/proc`.
    pub fn of_process(pid: u32) -> Self {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Self::default() };
        tasks.flatten().map(|task| Self::of_thread(&task.path())).fold(Self::default(), Add::add)
    }

    fn of_thread(folder: &Path) -> Self {
        let text = |file| fs::read_to_string(folder.join(file)).unwrap_or_default();
        let mut this = Self::default();
        if let [run, queue, ..] = numbers(&text("schedstat"))[..] {
            (this.run_ns, this.queue_ns) = (run, queue);
        }
        let status = text("status");
        this.hand_overs = field(&status, "voluntary_ctxt_switches");
        this.preemptions = field(&status, "nonvoluntary_ctxt_switches");
        // Only kernels that are built for it have this file.
        this.migrations = field(&text("sched"), "se.nr_migrations");
        this
    }
}

/// Times that a core of this machine had nothing to run and went idle; zero where that is not counted.
pub fn idles() -> f64 {
    let folders = |path: &Path, prefix: &str| {
        let all = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let named = all.filter(|path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
        });
        named.collect::<Vec<_>>()
    };
    let cores = folders(Path::new("/sys/devices/system/cpu"), "cpu");
    let states = cores.iter().flat_map(|core| folders(&core.join("cpuidle"), "state"));
    states.filter_map(|state| fs::read_to_string(state.join("usage")).ok()?.trim().parse::<f64>().ok()).sum()
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The number behind `name` and a colon.
fn field(text: &str, name: &str) -> f64 {
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value)
    });
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

impl Add for Scheduling {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            run_ns: self.run_ns + other.run_ns,
            queue_ns: self.queue_ns + other.queue_ns,
            hand_overs: self.hand_overs + other.hand_overs,
            preemptions: self.preemptions + other.preemptions,
            migrations: self.migrations + other.migrations,
        }
    }
}

impl Div<f64> for Scheduling {
    type Output = Self;

    fn div(self, by: f64) -> Self {
        Self {
            run_ns: self.run_ns / by,
            queue_ns: self.queue_ns / by,
            hand_overs: self.hand_overs / by,
            preemptions: self.preemptions / by,
            migrations: self.migrations / by,
        }
    }
}

impl Sub for Scheduling {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + other / -1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(field(status, "voluntary_ctxt_switches").to_string(), "7");
        assert_eq!(field(status, "nonvoluntary_ctxt_switches").to_string(), "2");
        assert_eq!(field(status, "absent").to_string(), "0");
    }

    #[test]
    fn a_difference_divided_is_what_one_check_took() {
        let before = Scheduling { run_ns: 10.0, hand_overs: 4.0, ..Scheduling::default() };
        let after = Scheduling { run_ns: 30.0, hand_overs: 8.0, ..Scheduling::default() };
        let expected = Scheduling { run_ns: 10.0, hand_overs: 2.0, ..Scheduling::default() };
        assert_eq!((after - before) / 2.0, expected);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_run() {
        let this = Scheduling::of_process(std::process::id());
        assert!(this.run_ns > 0.0 && this.hand_overs + this.preemptions > 0.0, "{this:?}");
    }
}
