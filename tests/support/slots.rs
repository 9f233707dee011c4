//! How many tests of this process may have servers at once.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, Weak};
use std::thread::available_parallelism;

/// Three for each core, because most of these tests wait. A cluster alone is six processes, so that more
/// would hold each other up for longer than a fault lasts.
static SLOTS: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(6, |cores| (3 * cores.get()).clamp(3, 8)));

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
    /// The slot of the test on this thread. A test that has none waits for one; a further server of a test
    /// never waits, so that tests with several servers cannot wait for each other.
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
