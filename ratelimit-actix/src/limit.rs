//! One limit of a handler, as the attribute writes it into a `static`.

use actix_web::HttpRequest;
use ratelimit_core::{Check, Policy};

use crate::identity;
use crate::key::Key;

/// One limit of a handler: the rule, whose count, and what a request costs.
#[derive(Debug)]
pub struct Limit {
    policy: Policy,
    by: By,
    cost: u64,
}

impl Limit {
    /// A limit by address, at a cost of 1.
    pub const fn new(policy: Policy) -> Self {
        Self { policy, by: By::Ip, cost: 1 }
    }

    /// Counts for other callers than addresses.
    #[must_use]
    pub const fn by(mut self, by: By) -> Self {
        self.by = by;
        self
    }

    /// Another cost than 1.
    #[must_use]
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Whom a request counts for under this limit.
    pub(crate) fn key(&self, req: &HttpRequest) -> Key {
        match self.by {
            By::Ip => identity::caller(req),
            By::Global => Key::global(),
            By::Function(key) => key(req),
        }
    }

    /// The question to the store.
    pub(crate) fn check<'a>(&'a self, partition: &'a [u8]) -> Check<'a> {
        Check::new(&self.policy, partition).cost(self.cost)
    }
}

/// What tells the callers of a limit apart.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// The client's address.
    Ip,
    /// Nothing: all share one count.
    Global,
    /// What a function finds in the request.
    Function(fn(&HttpRequest) -> Key),
}
