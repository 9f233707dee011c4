//! The clock that goes on while the machine is suspended, and follows no setting.

/// Microseconds since some instant before the process began, also while the machine is suspended. The standard library's clock
/// stands still meanwhile on Linux and macOS.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(crate) fn since_boot_us() -> u64 {
    #[cfg(target_vendor = "apple")]
    let clock = rustix::time::ClockId::Monotonic;
    #[cfg(not(target_vendor = "apple"))]
    let clock = rustix::time::ClockId::Boottime;
    let time = rustix::time::clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or_default() * 1_000_000 + nanos.unwrap_or_default() / 1_000
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
#[allow(clippy::disallowed_methods, reason = "this is the place")]
pub(crate) fn since_boot_us() -> u64 {
    static STARTED: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    u64::try_from(STARTED.elapsed().as_micros()).unwrap_or(u64::MAX)
}
