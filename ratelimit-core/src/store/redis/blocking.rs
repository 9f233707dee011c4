//! Blocking calls of attempts to connect, each on a thread of its own.
//!
//! They do not use the pool of the runtime that connects. It may belong to a worker and be full of the
//! application's own calls, and a runtime that ends waits for a call that hangs.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;
use parking_lot::Mutex;
use redis::{ErrorKind, RedisError, RedisResult};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::timeouts::Timeouts;
use crate::store::deadline::{now, since};

/// When a call ended, and its result. The sender is dropped without them if the call panics, or if its thread
/// does not start.
pub(super) type Call<T> = Shared<oneshot::Receiver<(u64, RedisResult<T>)>>;

/// Longest time for which a result is kept, however long pauses are: passwords and addresses change.
const LONGEST_LIFE: Duration = Duration::from_secs(30);

/// Calls by their purpose. One call of each runs at a time, and all attempts that begin meanwhile take its
/// result.
///
/// A call goes on when an attempt stops waiting for it, and the next attempt takes its result. So a call that
/// takes longer than an attempt may wait is of use all the same, and a call that hangs takes one thread.
pub(super) struct BlockingCalls<K, T> {
    calls: Mutex<HashMap<K, Call<T>>>,
    /// Longest time for which an attempt waits.
    timeout: Duration,
    /// Time for which a result is kept for an attempt.
    life: Duration,
}

impl<K: Clone + Eq + Hash, T: Clone + Send + Sync + 'static> BlockingCalls<K, T> {
    pub(super) fn new(timeouts: &Timeouts) -> Self {
        // The longest time until the next attempt.
        let life = timeouts.longest_pause.saturating_mul(2).saturating_add(timeouts.connect);
        Self { calls: Mutex::default(), timeout: timeouts.connect, life: life.min(LONGEST_LIFE) }
    }

    /// The call that runs, or whose result no attempt has taken. Starts one if there is none.
    pub(super) fn start(&self, key: &K, call: impl FnOnce() -> RedisResult<T> + Send + 'static) -> Call<T> {
        let mut calls = self.calls.lock();
        let is_old = |ended| since(ended) > self.life;
        let known = calls.get(key).cloned().filter(|known| match known.clone().now_or_never() {
            Some(Ok((ended, _))) => !is_old(ended),
            // It has panicked, or did not start.
            Some(Err(_)) => false,
            None => true,
        });
        if let Some(known) = known {
            return known;
        }
        let (sender, receiver) = oneshot::channel();
        let run = move || {
            let result = call();
            let _ = sender.send((now(), result));
        };
        // Without a thread the sender is dropped.
        let _ = thread::Builder::new().name("ratelimit-call".to_owned()).spawn(run);
        let started = receiver.shared();
        calls.insert(key.clone(), started.clone());
        started
    }

    /// The result of the call for one attempt. Errors name the call `name`.
    pub(super) async fn result(
        &self,
        key: &K,
        name: &str,
        call: impl FnOnce() -> RedisResult<T> + Send + 'static,
    ) -> RedisResult<T> {
        let call = self.start(key, call);
        let result = timeout(self.timeout, call.clone()).await.map_err(|_| self.slow(name))?;
        let mut calls = self.calls.lock();
        if calls.get(key).is_some_and(|known| known.ptr_eq(&call)) {
            calls.remove(key);
        }
        drop(calls);
        let problem = "a call has panicked, or its thread did not start";
        let gone = |_| RedisError::from((ErrorKind::Client, problem, name.to_owned()));
        result.map_err(gone)?.1
    }

    /// Longest time for which an attempt waits.
    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The error of an attempt whose call takes long.
    pub(super) fn slow(&self, name: &str) -> RedisError {
        let timeout = self.timeout;
        let text = format!(
            "{name} takes longer than `connect_timeout`, {timeout:?}; the next attempt goes on waiting"
        );
        io::Error::new(io::ErrorKind::TimedOut, text).into()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use futures_util::future::join_all;
    use tokio::runtime::Builder;

    use super::*;
    use crate::store::redis::timeouts::tests::TIMEOUTS;

    fn calls(timeout: Duration) -> BlockingCalls<u8, usize> {
        BlockingCalls::new(&Timeouts { connect: timeout, ..TIMEOUTS })
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_call_waits_for_no_pool_of_the_runtime_and_holds_up_no_end_of_it() {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
        let (free, freed) = channel::<()>();
        // The pool is full.
        runtime.spawn_blocking(move || freed.recv());
        let calls = calls(LONG);
        assert_eq!(runtime.block_on(calls.result(&1, "a call", || Ok(7))).unwrap(), 7);
        drop(free);
        let (_hang, hangs) = channel::<()>();
        runtime.block_on(async { drop(calls.start(&2, move || Ok(hangs.recv().map_or(0, |()| 1)))) });
        drop(runtime);
    }

    #[tokio::test]
    async fn all_that_wait_take_the_result_of_one_call_and_the_next_calls_anew() {
        let (calls, count) = (calls(LONG), Arc::new(AtomicUsize::new(0)));
        let (answer, answered) = channel::<()>();
        let (counted, call) = (Arc::clone(&count), std::sync::Mutex::new(Some(answered)));
        let call = Arc::new(move || {
            // Only the first call waits.
            call.lock().unwrap().take().map(|answered| answered.recv());
            Ok(counted.fetch_add(1, Ordering::SeqCst))
        });
        let attempt = || {
            let call = Arc::clone(&call);
            calls.result(&1, "a call", move || call())
        };
        let mut waiting = pin!(join_all([attempt(), attempt(), attempt()]));
        assert!(waiting.as_mut().now_or_never().is_none());
        answer.send(()).unwrap();
        assert_eq!(waiting.await.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 0, 0]);
        assert_eq!(attempt().await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_call_that_takes_longer_than_an_attempt_waits_serves_the_next_attempt() {
        let mut calls = calls(Duration::from_millis(1));
        let (answer, answered) = channel::<()>();
        let slow = calls.result(&1, "the call", move || Ok(answered.recv().map_or(0, |()| 1))).await;
        let text = slow.unwrap_err().to_string();
        assert_eq!(
            text,
            "the call takes longer than `connect_timeout`, 1ms; the next attempt goes on waiting"
        );
        answer.send(()).unwrap();
        (calls.timeout, calls.life) = (LONG, LONG);
        assert_eq!(calls.result(&1, "the call", || Ok(2)).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_result_that_no_attempt_takes_in_time_is_thrown_away() {
        let mut calls = calls(LONG);
        calls.life = Duration::ZERO;
        calls.start(&1, || Ok(1)).await.unwrap().1.unwrap();
        let ended = now();
        while now() == ended {}
        assert_eq!(calls.result(&1, "a call", || Ok(2)).await.unwrap(), 2);
    }

    #[test]
    fn a_result_is_kept_for_some_seconds_however_long_pauses_are() {
        let life = |longest_pause| {
            let timeouts = Timeouts { longest_pause, connect: Duration::from_secs(1), ..TIMEOUTS };
            BlockingCalls::<u8, u8>::new(&timeouts).life
        };
        assert_eq!(life(Duration::from_secs(1)), Duration::from_secs(3));
        assert_eq!(life(Duration::from_secs(3600)), LONGEST_LIFE);
    }

    #[tokio::test]
    async fn a_call_that_panics_is_an_error_and_the_next_attempt_calls_anew() {
        let calls = calls(LONG);
        let error = calls.result(&1, "the function", || panic!("a faulty function")).await.unwrap_err();
        assert!(error.to_string().contains("panicked") && error.to_string().contains("the function"));
        assert_eq!(calls.result(&1, "the function", || Ok(2)).await.unwrap(), 2);
        // The same if no attempt has waited for the call.
        assert!(calls.start(&1, || panic!("a faulty function")).await.is_err());
        assert_eq!(calls.result(&1, "the function", || Ok(2)).await.unwrap(), 2);
    }
}
