//! The clock that goes on while the machine is suspended and follows no setting, and sleeps by it that need
//! no runtime: one thread of the process wakes each sleeper when its time has come.
//!
//! Crates for this keep their thread in a static. In a child of a fork, which has no such thread, a sleep
//! would never end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use once_cell::sync::OnceCell;

use crate::process::{PerProcess, Process};

/// Microseconds since some instant before the process began, also while the machine is suspended. The
/// standard library's clock stands still meanwhile on Linux and macOS.
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

/// When a sleep ends, in microseconds since boot, and its number.
type Key = (u64, u64);

/// How often the thread looks at the clock at least: its waits stand still while the machine is suspended,
/// and the clock goes on.
const LOOK: Duration = Duration::from_secs(1);

enum Message {
    /// Wake this task then.
    Wake(Key, Waker),
    /// Nothing waits for it any more.
    Forget(Key),
}

/// To the thread of each process, which starts with the first sleep.
static TIMER: LazyLock<PerProcess<OnceCell<Sender<Message>>>> = LazyLock::new(PerProcess::default);

/// Sends a message to the thread. Returns false if there is none.
fn send(message: Message) -> bool {
    let Ok(timer) = TIMER.get_or_make(|| Ok::<_, Infallible>(OnceCell::new()));
    let sender = match timer.get() {
        Some(sender) => sender,
        // Not in the cell, which would wait for a thread that a fork has left behind.
        None => match start() {
            Ok(started) => timer.try_insert(started).unwrap_or_else(|(first, _)| first),
            Err(_) => return false,
        },
    };
    sender.send(message).is_ok()
}

fn start() -> io::Result<Sender<Message>> {
    let (sender, messages) = mpsc::channel();
    thread::Builder::new()
        .name("ratelimit-timer".to_owned())
        .spawn(move || wake_sleepers(&messages, since_boot_us))?;
    Ok(sender)
}

/// Wakes those who sleep, by a clock in microseconds.
fn wake_sleepers(messages: &Receiver<Message>, now: impl Fn() -> u64) {
    let mut sleepers = BTreeMap::<Key, Waker>::new();
    loop {
        let message = match sleepers.keys().next() {
            None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some((end, _)) => {
                messages.recv_timeout(Duration::from_micros(end.saturating_sub(now())).min(LOOK))
            }
        };
        match message {
            Ok(Message::Wake(key, waker)) => guarded(|| drop(sleepers.insert(key, waker))),
            Ok(Message::Forget(key)) => guarded(|| drop(sleepers.remove(&key))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Some(first) = sleepers.first_entry().filter(|first| first.key().0 <= now()) {
            let waker = first.remove();
            guarded(|| waker.wake());
        }
    }
}

/// Runs what calls or drops a waker, which is code of the application and may panic.
fn guarded(run: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(run));
}

/// Ends at an instant of the clock since boot; up to [`LOOK`] later if the machine was suspended meanwhile.
pub(crate) struct Delay {
    key: Key,
    /// What the thread of this process wakes.
    told: Option<(Process, Waker)>,
}

impl Delay {
    pub(crate) fn new(wait: Duration) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let wait_us = u64::try_from(wait.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        // A microsecond more, since the present one has begun.
        let end = since_boot_us().saturating_add(1).saturating_add(wait_us);
        Self { key: (end, NUMBER.fetch_add(1, Ordering::Relaxed)), told: None }
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if since_boot_us() >= self.key.0 {
            return Poll::Ready(());
        }
        let waker = context.waker();
        let is_told = |(process, told): &(Process, Waker)| told.will_wake(waker) && !process.is_past();
        if !self.told.as_ref().is_some_and(is_told) {
            if send(Message::Wake(self.key, waker.clone())) {
                self.told = Some((Process::present(), waker.clone()));
            } else {
                // No thread can be started: the task is polled again and again, until the time has come.
                waker.wake_by_ref();
            }
        }
        Poll::Pending
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        if self.told.is_some() && since_boot_us() < self.key.0 {
            send(Message::Forget(self.key));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::RecvError;
    use std::task::Wake;

    use super::*;

    struct Tell(Sender<()>);

    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    #[test]
    fn a_sleep_ends_soon_after_a_suspension_during_which_its_time_has_come() {
        const HOUR_US: u64 = 3_600_000_000;
        let (clock, (sender, messages)) = (Arc::new(AtomicU64::new(0)), mpsc::channel());
        let of_thread = Arc::clone(&clock);
        thread::spawn(move || wake_sleepers(&messages, || of_thread.load(Ordering::SeqCst)));
        let (tell, woken) = mpsc::channel();
        sender.send(Message::Wake((HOUR_US, 0), Arc::new(Tell(tell)).into())).unwrap();
        assert_eq!(woken.recv_timeout(LOOK / 20), Err(RecvTimeoutError::Timeout), "an hour is left");
        clock.store(HOUR_US, Ordering::SeqCst);
        woken.recv_timeout(30 * LOOK).unwrap();
    }

    /// Polls a sleep for a task that says when it is woken.
    fn poll(delay: &mut Delay) -> (Arc<Tell>, Receiver<()>) {
        let (tell, woken) = mpsc::channel();
        let tell = Arc::new(Tell(tell));
        let waker = Waker::from(Arc::clone(&tell));
        assert!(Pin::new(delay).poll(&mut Context::from_waker(&waker)).is_pending());
        (tell, woken)
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
    fn a_dropped_sleep_keeps_nothing() {
        let mut delay = Delay::new(3_600 * LOOK);
        let (task, woken) = poll(&mut delay);
        drop((delay, task));
        // The timer had the last handle of the task.
        assert_eq!(woken.recv_timeout(30 * LOOK), Err(RecvTimeoutError::Disconnected));
    }
}
