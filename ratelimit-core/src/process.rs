//! What belongs to one process. A child of a fork has a copy of it without the threads behind it, and a lock
//! that another thread of the parent held at the fork stays locked there for ever.

use std::mem;

/// The process that made this.
#[derive(Clone, Debug)]
pub(crate) struct Process(Option<forkguard::Guard>);

impl Process {
    /// The process that runs.
    pub(crate) fn present() -> Self {
        // Without memory for the handler of forks, no fork is noticed.
        Self(forkguard::Guard::try_new().ok())
    }

    /// Whether a child of that process runs. One relaxed load.
    #[inline]
    pub(crate) fn is_past(&self) -> bool {
        self.0.clone().is_some_and(|mut guard| guard.detected_fork())
    }
}

/// A value of the process that made it. A child cannot use it, and does not drop it.
#[derive(Debug)]
pub struct OfProcess<T> {
    process: Process,
    value: Option<T>,
}

impl<T> OfProcess<T> {
    /// Stores a value of the process that runs.
    pub fn new(value: T) -> Self {
        Self { process: Process::present(), value: Some(value) }
    }

    /// The value. `None` in a child.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if self.process.is_past() { None } else { self.value.as_ref() }
    }

    /// Takes the value out. `None` in a child.
    pub fn take(&mut self) -> Option<T> {
        let value = self.value.take();
        if self.process.is_past() {
            mem::forget(value);
            return None;
        }
        value
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
