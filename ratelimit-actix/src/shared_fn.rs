//! A closure of the application in a limit of middleware.

use std::fmt;
use std::sync::Arc;

/// A closure that all workers call.
pub struct SharedFn<A: ?Sized, T>(Arc<dyn Fn(&A) -> T + Send + Sync>);

impl<A: ?Sized, T> SharedFn<A, T> {
    pub(crate) fn new(function: impl Fn(&A) -> T + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    pub(crate) fn call(&self, argument: &A) -> T {
        (self.0)(argument)
    }
}

impl<A: ?Sized, T> Clone for SharedFn<A, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: ?Sized, T> fmt::Debug for SharedFn<A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a closure")
    }
}
