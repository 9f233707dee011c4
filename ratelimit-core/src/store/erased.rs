//! `Store` as a trait object, so that a limiter can hold any store.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use super::Store;
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::reservation::Reservation;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// [`Store`] as a trait object.
pub(crate) trait ErasedStore: fmt::Debug + Send + Sync {
    fn check<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, GroupOutcome>;
    fn peek<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, GroupOutcome>;
    fn reset<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, ()>;
    fn refund<'a>(&'a self, reservation: &'a Reservation<'_>) -> BoxFuture<'a, ()>;
}

impl<S: Store> ErasedStore for S {
    fn check<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, GroupOutcome> {
        Box::pin(Store::check(self, group))
    }

    fn peek<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, GroupOutcome> {
        Box::pin(Store::peek(self, group))
    }

    fn reset<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, ()> {
        Box::pin(Store::reset(self, group))
    }

    fn refund<'a>(&'a self, reservation: &'a Reservation<'_>) -> BoxFuture<'a, ()> {
        Box::pin(Store::refund(self, reservation))
    }
}
