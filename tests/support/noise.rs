//! The delays of this machine's threads: reported beside measured times, and added to what a busy machine may
//! take.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::outage::SLACK;

/// The number of watching threads. They wait for different cores, so that one sees what another does not.
const WATCHERS: usize = 4;

const NAP: Duration = Duration::from_millis(1);

/// The span of time that one number stands for.
const SPAN: Duration = Duration::from_millis(250);

/// The pause between two looks at how long threads waited for a core, which Linux reports. A thread that has
/// just worked waits longer for its turn than one that has slept.
const LOOK: Duration = Duration::from_millis(20);

/// The observations of the watchers, for all tests of the process.
struct Seen {
    since: Instant,
    /// The longest delay of a thread that was to be woken or to get a core, for each span since.
    worst: Mutex<Vec<Duration>>,
    naps: [AtomicUsize; WATCHERS],
}

#[allow(clippy::disallowed_methods, reason = "measures the machine")]
static SEEN: LazyLock<Seen> = LazyLock::new(|| {
    for watcher in 0..WATCHERS {
        thread::spawn(move || SEEN.watch(watcher));
    }
    thread::spawn(|| SEEN.look());
    Seen { since: Instant::now(), worst: Mutex::default(), naps: [const { AtomicUsize::new(0) }; WATCHERS] }
});

impl Seen {
    #[allow(clippy::disallowed_methods, reason = "measures the machine")]
    fn watch(&self, watcher: usize) {
        loop {
            let asleep = Instant::now();
            thread::sleep(NAP);
            self.note(asleep.elapsed().saturating_sub(NAP));
            self.naps[watcher].fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Notes how long threads of this process have waited for their turn since the last look.
    fn look(&self) {
        let mut before = HashMap::new();
        loop {
            let now = waits();
            let waited = now.iter().filter_map(|(thread, wait)| wait.checked_sub(*before.get(thread)?));
            self.note(waited.max().unwrap_or_default());
            before = now;
            thread::sleep(LOOK);
        }
    }

    #[allow(clippy::disallowed_methods, reason = "measures the machine")]
    fn note(&self, late: Duration) {
        let span = self.span(Instant::now());
        let mut worst = self.worst.lock().unwrap_or_else(PoisonError::into_inner);
        if worst.len() <= span {
            worst.resize(span + 1, Duration::ZERO);
        }
        worst[span] = worst[span].max(late);
    }

    fn span(&self, at: Instant) -> usize {
        usize::try_from(at.duration_since(self.since).as_millis() / SPAN.as_millis()).unwrap()
    }
}

/// How long each thread of this process has waited for a core, in all.
fn waits() -> HashMap<OsString, Duration> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return HashMap::new() };
    let wait = |thread: fs::DirEntry| {
        let schedstat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let nanos = schedstat.split(' ').nth(1)?.parse().ok()?;
        Some((thread.file_name(), Duration::from_nanos(nanos)))
    };
    threads.flatten().filter_map(wait).collect()
}

/// Watches from its start on.
#[derive(Debug)]
pub struct Noise(usize);

impl Noise {
    /// Begins to watch.
    #[allow(clippy::disallowed_methods, reason = "measures the machine")]
    pub fn watch() -> Self {
        Self(SEEN.span(Instant::now()))
    }

    /// The longest delay of a thread so far.
    pub fn worst(&self) -> Duration {
        // When the whole process was held up, the watchers may be the last to continue.
        let naps = || SEEN.naps.each_ref().map(|naps| naps.load(Ordering::SeqCst));
        let before = naps();
        while naps().iter().zip(before).any(|(now, before)| *now < before + 2) {
            thread::sleep(NAP);
        }
        // And what has just been waited for is to be looked at.
        thread::sleep(2 * LOOK);
        let worst = SEEN.worst.lock().unwrap_or_else(PoisonError::into_inner);
        worst.iter().skip(self.0).max().copied().unwrap_or_default()
    }

    /// What a busy machine may add to a promised time: [`SLACK`], and as long as it held up a thread that
    /// only slept.
    pub fn slack(&self) -> Duration {
        SLACK + self.worst()
    }
}
