//! How many tests of this process may have servers at once.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, Weak};
use std::thread::available_parallelism;

/// One more than cores, because most of these tests wait. A cluster alone is six processes: with more tests at once, they
/// would wait for each other for longer than their bounds, and a sentinel that is held up for two seconds does nothing for
/// half a minute.
static SLOTS: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(2, |cores| (cores.get() + 1).clamp(2, 4)));

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

thread_local! {
    /// The slot of the test on this thread, while it has servers.
    static OWN: RefCell<Weak<Slot>> = const { RefCell::new(Weak::new()) };
}

/// One of the slots; free again when the last server of its test is gone.
#[derive(Debug)]
pub(crate) struct Slot;

impl Slot {
    /// The slot of the test on this thread. A test that has none waits for one; a further server of a test never waits, so
    /// that tests with several servers cannot wait for each other.
    pub(crate) fn of_this_test() -> Arc<Self> {
        OWN.with_borrow_mut(|own| {
            own.upgrade().unwrap_or_else(|| {
                let slot = Arc::new(Self::wait());
                *own = Arc::downgrade(&slot);
                slot
            })
        })
    }

    fn wait() -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = FREED.wait_while(taken, |taken| *taken >= *SLOTS);
        *taken.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FREED.notify_one();
    }
}
