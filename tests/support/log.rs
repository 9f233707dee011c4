//! Log events, kept to be looked at.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// A second subscriber beside the one of a thread. While a process has only one, `tracing` asks the thread
/// that first reaches an event whether the event is of interest, and remembers the answer for all threads: a
/// thread without a subscriber would switch the event off for the thread that listens.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Log::default()));

/// The events of our own crates since [`Log::of_process`].
#[derive(Clone, Debug, Default)]
pub struct Log {
    events: Arc<Mutex<Vec<(Level, String)>>>,
    /// Words at which to panic, and how often that was done.
    trap: Option<(&'static str, Arc<AtomicUsize>)>,
}

impl Log {
    /// Keeps the events of the whole process; can be called once in one.
    pub fn of_process() -> Self {
        let log = Self::default();
        tracing::subscriber::set_global_default(log.clone()).unwrap();
        log
    }

    /// Panics at the first event of the process that contains `words`, as a faulty subscriber of an
    /// application might; gives how often it did.
    pub fn that_panics_once_at(words: &'static str) -> Arc<AtomicUsize> {
        let panics = Arc::new(AtomicUsize::new(0));
        let log = Self { trap: Some((words, Arc::clone(&panics))), ..Self::default() };
        tracing::subscriber::set_global_default(log).unwrap();
        panics
    }

    /// Keeps the events of this thread until the guard is dropped.
    pub fn of_thread() -> (Self, tracing::subscriber::DefaultGuard) {
        LazyLock::force(&SECOND);
        let log = Self::default();
        (log.clone(), tracing::subscriber::set_default(log))
    }

    /// The texts of the events at `level`, with their fields.
    pub fn at(&self, level: Level) -> Vec<String> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let of_level = events.iter().filter(|(other, _)| *other == level);
        of_level.map(|(_, text)| text.clone()).collect()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ratelimit_")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        if let Some((words, panics)) = &self.trap
            && text.0.contains(words)
        {
            assert!(panics.fetch_add(1, Ordering::SeqCst) > 0, "a faulty subscriber");
        }
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push((*event.metadata().level(), text.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}
