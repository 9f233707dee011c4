//! A clock that runs while the machine is suspended and cannot be set, and sleeps by this clock. A sleep
//! needs no runtime: all sleeps of a process are in one queue, and a thread wakes their tasks.
//!
//! Most sleeps are dropped long before their end, and nearly all have one length. Such a sleep is added at
//! the back of the queue and removed near its front: the thread is unparked only for a sleep that ends before
//! the thread looks by itself.
//!
//! Crates for timers keep their thread in a static. In a child of a fork, which has no such thread, a sleep
//! would never end.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use once_cell::race::OnceBox;
use parking_lot::Mutex;

use crate::process::Process;

/// Microseconds since an instant before the process began, with the time for which the machine was suspended.
/// The standard library's clock leaves that time out on Linux and macOS.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
#[inline]
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
#[inline]
pub(crate) fn since_boot_us() -> u64 {
    static STARTED: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    u64::try_from(STARTED.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// The end of a sleep, in microseconds since boot, and its number.
type Key = (u64, u64);

/// Longest time between two looks of the thread at the clock, if there are sleeps. While the machine is
/// suspended, the waits of the thread stand still, and the clock runs.
const LOOK_US: u64 = 1_000_000;

/// All sleeps, and the thread that ends them. Wakers are code of the application, so they are called and
/// dropped outside of the lock.
#[derive(Default)]
struct Sleepers {
    /// In the order of the keys.
    wakers: VecDeque<(Key, Waker)>,
    /// Number of the last sleep.
    number: u64,
    /// The thread, which starts with the first sleep.
    thread: Option<Thread>,
    /// When the thread looks by itself, at the latest at the first end. `u64::MAX` if it waits until it is
    /// unparked.
    until: u64,
}

/// The timer of one process. A child of a fork has its own, since the parent's may stay locked there for
/// ever.
struct Timer {
    process: Process,
    sleepers: Mutex<Sleepers>,
    of_child: OnceBox<Self>,
}

impl Timer {
    fn new() -> Self {
        Self { process: Process::present(), sleepers: Mutex::default(), of_child: OnceBox::new() }
    }

    /// The timer of the process that runs. Waits for no other thread, which a fork may have left behind.
    fn present() -> &'static Self {
        static FIRST: OnceBox<Timer> = OnceBox::new();
        let make = || Box::new(Self::new());
        let mut timer = FIRST.get_or_init(make);
        // A child may have children.
        while timer.process.is_past() {
            timer = timer.of_child.get_or_init(make);
        }
        timer
    }
}

/// Adds a sleep. Returns its key, or `None` if no thread can be started.
fn insert(timer: &'static Timer, end: u64, waker: Waker, now: u64) -> Option<Key> {
    let mut sleepers = timer.sleepers.lock();
    match &sleepers.thread {
        // If the thread should have looked before `now`, its wait may have stood still.
        Some(thread) if end < sleepers.until || sleepers.until < now => {
            // Parking, because condition variables of parking_lot use a table that a fork may leave locked.
            thread.unpark();
            sleepers.until = sleepers.until.min(end);
        }
        Some(_) => {}
        None => {
            let thread = thread::Builder::new().name("ratelimit-timer".to_owned());
            let started = thread.spawn(move || wake_sleepers(timer, since_boot_us)).ok()?;
            sleepers.thread = Some(started.thread().clone());
        }
    }
    sleepers.number += 1;
    let key = (end, sleepers.number);
    let wakers = &mut sleepers.wakers;
    let is_last = wakers.back().is_none_or(|(last, _)| *last < key);
    let place = if is_last { wakers.len() } else { wakers.partition_point(|(known, _)| *known < key) };
    wakers.insert(place, (key, waker));
    Some(key)
}

/// Ends sleeps, by a clock in microseconds.
fn wake_sleepers(timer: &Timer, now: impl Fn() -> u64) {
    loop {
        let mut sleepers = timer.sleepers.lock();
        let now = now();
        let end = match sleepers.wakers.front() {
            Some(((end, _), _)) if *end <= now => {
                let first = sleepers.wakers.pop_front();
                drop(sleepers);
                guarded(|| first.into_iter().for_each(|(_, waker)| waker.wake()));
                continue;
            }
            Some(((end, _), _)) => Some(*end),
            // The sleep for which the thread was unparked is dropped. The thread still looks at its end, so
            // later sleeps need not unpark it.
            None => Some(sleepers.until).filter(|until| *until > now),
        };
        sleepers.until = end.map_or(u64::MAX, |end| end.min(now + LOOK_US));
        let wait = Duration::from_micros(sleepers.until - now);
        drop(sleepers);
        thread::park_timeout(wait);
    }
}

/// Runs a closure that calls or drops a waker, which is code of the application and may panic.
fn guarded(run: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(run));
}

/// A sleep until an instant of the clock since boot. It ends up to a [look](LOOK_US) later if the machine was
/// suspended meanwhile.
pub(crate) struct Delay {
    end: u64,
    /// When it was made, until its first poll, which needs no look at the clock.
    made: Option<u64>,
    /// The timer that has the sleep, its key there, and the id of its waker.
    registered: Option<(&'static Timer, Key, WakerId)>,
}

/// The identity of a waker, without a clone of it.
type WakerId = (usize, usize);

fn id_of(waker: &Waker) -> WakerId {
    (waker.data().addr(), ptr::from_ref(waker.vtable()).addr())
}

impl Delay {
    pub(crate) fn new(wait: Duration) -> Self {
        let wait_us = u64::try_from(wait.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        let made = since_boot_us();
        // A microsecond more, since the present one has begun.
        Self::until(made.saturating_add(1).saturating_add(wait_us), made)
    }

    /// A sleep until `end`, which was made at `made` or later.
    pub(crate) const fn until(end: u64, made: u64) -> Self {
        Self { end, made: Some(made), registered: None }
    }

    /// Removes the sleep from the timer, unless that is the timer of the parent of a fork.
    fn forget(&mut self) {
        if let Some((of, key, _)) = self.registered.take()
            && !of.process.is_past()
        {
            let mut sleepers = of.sleepers.lock();
            let wakers = &mut sleepers.wakers;
            let is_first = wakers.front().is_some_and(|(first, _)| *first == key);
            let place = if is_first { Ok(0) } else { wakers.binary_search_by_key(&key, |(known, _)| *known) };
            let waker = place.ok().and_then(|place| wakers.remove(place));
            drop(sleepers);
            guarded(|| drop(waker));
        }
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let now = self.made.take().unwrap_or_else(since_boot_us);
        if now >= self.end {
            return Poll::Ready(());
        }
        let (timer, waker) = (Timer::present(), context.waker());
        let is_present = |(of, _, id): &(&Timer, Key, WakerId)| ptr::eq(*of, timer) && *id == id_of(waker);
        if !self.registered.as_ref().is_some_and(is_present) {
            self.forget();
            self.registered =
                insert(timer, self.end, waker.clone(), now).map(|key| (timer, key, id_of(waker)));
            if self.registered.is_none() {
                // No thread can be started: the task is polled again and again until the end.
                waker.wake_by_ref();
            }
        }
        Poll::Pending
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::{self, Receiver, RecvError, RecvTimeoutError, Sender};
    use std::task::Wake;

    use super::*;

    const HOUR_US: u64 = 3_600 * LOOK_US;
    const LOOK: Duration = Duration::from_micros(LOOK_US);

    /// A task that sends a message when it is woken.
    struct Task(Sender<()>);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    /// A timer with a thread that runs `run`, and that looks by itself at `until`.
    fn timer_with(until: u64, run: impl FnOnce(&'static Timer) + Send + 'static) -> &'static Timer {
        let timer = &*Box::leak(Box::new(Timer::new()));
        let mut sleepers = timer.sleepers.lock();
        sleepers.until = until;
        sleepers.thread = Some(thread::spawn(move || run(timer)).thread().clone());
        drop(sleepers);
        timer
    }

    #[test]
    fn a_sleep_ends_soon_after_a_suspension_during_which_its_time_has_come() {
        let clock = Arc::new(AtomicU64::new(0));
        let of_thread = Arc::clone(&clock);
        let timer = timer_with(0, move |timer| wake_sleepers(timer, || of_thread.load(Ordering::SeqCst)));
        let (sender, woken) = mpsc::channel();
        assert!(insert(timer, HOUR_US, Arc::new(Task(sender)).into(), 0).is_some());
        assert_eq!(woken.recv_timeout(LOOK / 20), Err(RecvTimeoutError::Timeout), "an hour is left");
        clock.store(HOUR_US, Ordering::SeqCst);
        woken.recv_timeout(30 * LOOK).unwrap();
    }

    #[test]
    fn only_a_sleep_that_ends_before_the_thread_looks_unparks_it() {
        let (sender, unparked) = mpsc::channel();
        let timer = timer_with(10, move |_| {
            loop {
                thread::park();
                sender.send(()).unwrap();
            }
        });
        let sleep_until = |end, now| {
            assert!(insert(timer, end, Waker::noop().clone(), now).is_some());
            timer.sleepers.lock().until
        };
        assert_eq!(sleep_until(11, 0), 10, "the thread finds it by itself");
        assert_eq!(unparked.recv_timeout(LOOK / 20), Err(RecvTimeoutError::Timeout));
        assert_eq!(sleep_until(9, 0), 9);
        unparked.recv_timeout(30 * LOOK).unwrap();
        assert_eq!(sleep_until(12, 10), 9, "the thread should have looked");
        unparked.recv_timeout(30 * LOOK).unwrap();
    }

    #[test]
    fn a_thread_keeps_its_next_look_after_a_sleep_is_dropped() {
        let (sender, looked) = mpsc::channel();
        let timer = timer_with(LOOK_US, move |timer| {
            wake_sleepers(timer, || {
                let _ = sender.send(());
                0
            });
        });
        looked.recv_timeout(30 * LOOK).unwrap();
        assert_eq!(timer.sleepers.lock().until, LOOK_US);
    }

    /// Polls a sleep for a new task. Returns the task, and the channel of its messages.
    fn poll(delay: &mut Delay) -> (Arc<Task>, Receiver<()>) {
        let (sender, woken) = mpsc::channel();
        let task = Arc::new(Task(sender));
        let waker = Waker::from(Arc::clone(&task));
        assert!(Pin::new(delay).poll(&mut Context::from_waker(&waker)).is_pending());
        (task, woken)
    }

    #[test]
    fn a_sleep_wakes_the_task_that_polled_it_last() {
        let mut delay = Delay::new(LOOK / 5);
        let (first, of_first) = poll(&mut delay);
        let (_last, of_last) = poll(&mut delay);
        of_last.recv_timeout(30 * LOOK).unwrap();
        drop(first);
        assert_eq!(of_first.recv(), Err(RecvError), "another task has the sleep");
    }

    #[test]
    fn a_waker_that_panics_ends_no_other_sleep() {
        struct Faulty;

        impl Wake for Faulty {
            fn wake(self: Arc<Self>) {
                panic!("a faulty waker");
            }
        }

        let (sender, woken) = mpsc::channel();
        let timer = timer_with(0, |timer| wake_sleepers(timer, || LOOK_US));
        assert!(insert(timer, 1, Arc::new(Faulty).into(), 0).is_some());
        assert!(insert(timer, 2, Arc::new(Task(sender)).into(), 0).is_some());
        woken.recv_timeout(30 * LOOK).unwrap();
    }

    #[test]
    fn a_dropped_sleep_keeps_nothing() {
        let mut delay = Delay::new(3_600 * LOOK);
        let (task, woken) = poll(&mut delay);
        drop((delay, task));
        // The timer had the last handle of the task.
        assert_eq!(woken.recv_timeout(30 * LOOK), Err(RecvTimeoutError::Disconnected));
    }
}
