//! How late this machine wakes those who sleep, so that a busy machine fails no test about time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What is left out of sight by one thread that sleeps, another one sees: they wait for different cores.
const WATCHERS: usize = 4;

const NAP: Duration = Duration::from_millis(1);

/// For so long one number is kept.
const SPAN: Duration = Duration::from_millis(250);

/// What the watchers have seen, for all tests of the process.
struct Seen {
    since: Instant,
    /// The latest that anybody was woken, for each span since.
    worst: Mutex<Vec<Duration>>,
    naps: [AtomicUsize; WATCHERS],
}

#[allow(clippy::disallowed_methods, reason = "measures the machine")]
static SEEN: LazyLock<Seen> = LazyLock::new(|| {
    for watcher in 0..WATCHERS {
        thread::spawn(move || SEEN.watch(watcher));
    }
    Seen { since: Instant::now(), worst: Mutex::default(), naps: [const { AtomicUsize::new(0) }; WATCHERS] }
});

impl Seen {
    #[allow(clippy::disallowed_methods, reason = "measures the machine")]
    fn watch(&self, watcher: usize) {
        loop {
            let asleep = Instant::now();
            thread::sleep(NAP);
            let late = asleep.elapsed().saturating_sub(NAP);
            let span = self.span(Instant::now());
            let mut worst = self.worst.lock().unwrap_or_else(PoisonError::into_inner);
            if worst.len() <= span {
                worst.resize(span + 1, Duration::ZERO);
            }
            worst[span] = worst[span].max(late);
            drop(worst);
            self.naps[watcher].fetch_add(1, Ordering::SeqCst);
        }
    }

    fn span(&self, at: Instant) -> usize {
        usize::try_from(at.duration_since(self.since).as_millis() / SPAN.as_millis()).unwrap()
    }
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

    /// The latest that anybody was woken so far.
    pub fn worst(&self) -> Duration {
        // When the whole process was held up, the watchers may be the last to go on.
        let naps = || SEEN.naps.each_ref().map(|naps| naps.load(Ordering::SeqCst));
        let before = naps();
        while naps().iter().zip(before).any(|(now, before)| *now < before + 2) {
            thread::sleep(NAP);
        }
        let worst = SEEN.worst.lock().unwrap_or_else(PoisonError::into_inner);
        worst.iter().skip(self.0).max().copied().unwrap_or_default()
    }

    /// A bound for something that takes turns with a server: four times somebody has to be woken.
    pub fn extended(&self, bound: Duration) -> Duration {
        bound + 4 * self.worst()
    }
}
