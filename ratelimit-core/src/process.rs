//! What belongs to one process: threads and connections stay with the parent of a fork, so the child makes
//! its own.

use once_cell::sync::OnceCell;

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

/// A value for each process that uses it: one of the process that made it, and one of each child.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    process: Process,
    value: T,
    of_child: OnceCell<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// Stores the value of the present process.
    pub(crate) fn new(value: T) -> Self {
        Self { process: Process::present(), value, of_child: OnceCell::new() }
    }

    /// The value of the present process, which `make` makes once in each child. It must not read the value
    /// itself.
    #[inline]
    pub(crate) fn get_or_make<E>(&self, make: impl Fn() -> Result<T, E>) -> Result<&T, E> {
        if self.process.is_past() { self.in_child(make) } else { Ok(&self.value) }
    }

    #[cold]
    fn in_child<E>(&self, make: impl Fn() -> Result<T, E>) -> Result<&T, E> {
        // A child may have children.
        let mut place = self;
        while place.process.is_past() {
            if place.of_child.get().is_none() {
                // Made outside of the cell: after the next fork the thread that makes the value may be gone,
                // and the cell would wait for it.
                let _ = place.of_child.set(Box::new(Self::new(make()?)));
            }
            let Some(child) = place.of_child.get() else { break };
            place = child;
        }
        Ok(&place.value)
    }
}

impl<T: Default> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}
