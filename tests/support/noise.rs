//! How late this machine wakes those who sleep, so that a busy machine fails no test about time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Watches from its start to its end.
#[derive(Debug)]
pub struct Noise {
    worst_us: Arc<AtomicU64>,
    naps: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Noise {
    /// Begins to watch.
    #[allow(clippy::disallowed_methods, reason = "measures the machine")]
    pub fn watch() -> Self {
        const NAP: Duration = Duration::from_millis(1);
        let (worst_us, naps) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let ends = Arc::new(AtomicBool::new(false));
        let (worst, taken, end) = (Arc::clone(&worst_us), Arc::clone(&naps), Arc::clone(&ends));
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                thread::sleep(NAP);
                let late = u64::try_from(asleep.elapsed().saturating_sub(NAP).as_micros()).unwrap();
                worst.fetch_max(late, Ordering::SeqCst);
                taken.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { worst_us, naps, ends, thread: Some(thread) }
    }

    /// The latest that anybody was woken so far.
    pub fn worst(&self) -> Duration {
        // When the whole process was held up, this thread may be the first to go on.
        let seen = self.naps.load(Ordering::SeqCst);
        while self.naps.load(Ordering::SeqCst) < seen + 2 {
            thread::sleep(Duration::from_millis(1));
        }
        Duration::from_micros(self.worst_us.load(Ordering::SeqCst))
    }

    /// A bound for something that takes turns with a server: four times somebody has to be woken.
    pub fn extended(&self, bound: Duration) -> Duration {
        bound + 4 * self.worst()
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
