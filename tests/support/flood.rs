//! A flood of callers against the store in memory.

use std::time::Duration;

use ratelimit_core::{Algorithm, MemoryStore, Policy, RateLimiter};

use crate::process::resident_kib;

/// Many times as many callers as the store has room for; alone in its process.
///
/// A caller that was denied before stays denied, memory stays where it was when the table was full, and
/// callers without room share counts that are limited like any other.
pub fn flood(callers: u64) {
    static FLOODED: Policy = Policy::builder("flooded")
        .max(2)
        .window(Duration::from_secs(86_400))
        .algorithm(Algorithm::SlidingWindowCounter)
        .build();
    const ROOM: u64 = 100_000;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let empty = resident_kib();
        let limiter = RateLimiter::new(MemoryStore::new());
        let allowed = async |caller: &[u8]| limiter.check(&FLOODED, caller).await.unwrap().is_allowed();
        assert!(allowed(b"victim").await && allowed(b"victim").await && !allowed(b"victim").await);
        let (mut passed, mut full) = (0u64, 0);
        for caller in 0..callers {
            passed += u64::from(allowed(&caller.to_le_bytes()).await);
            if caller == ROOM * 3 / 2 {
                full = resident_kib();
            }
            if caller.is_multiple_of(callers / 10) {
                assert!(!allowed(b"victim").await, "a denied caller was freed after {caller} others");
            }
        }
        assert!(!allowed(b"victim").await);
        let end = resident_kib();
        println!(
            "{callers} callers: {passed} passed; resident {empty} KiB at first, {full} KiB when full, {end} KiB at the end"
        );
        // The callers with room, and the shared counts.
        assert!(passed <= ROOM + 2 * 64, "{passed}");
        assert!(passed >= ROOM * 9 / 10, "{passed}");
        assert!(end <= full + 512, "grew from {full} to {end} KiB");
        assert!(end <= empty + 32 * 1024, "from {empty} to {end} KiB");
    });
}
