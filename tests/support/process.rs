//! What this process holds, for tests that nothing is left behind; Linux only.

use std::fs;

/// Open files and sockets.
pub fn files() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Threads.
pub fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Memory that is resident, in KiB.
pub fn resident_kib() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
