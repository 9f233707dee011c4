//! A service with the handlers of the table on a real port, over one store, at a time that the test sets.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use actix_web::web::{Data, ServiceConfig};
use ratelimit_actix::RateLimiter;
use ratelimit_actix::ratelimit_core::Timestamp;
use ratelimit_actix::ratelimit_core::clock::FakeClock;
use tests::client::{self, Reply};
use tests::redis::{self, Server};
use tests::service::Service;
use tests::store::{clocked, watched};
use tests::timed::MIDNIGHT;

use super::{handlers, scopes};

/// Numbers of a plan, for the policy that has plans.
const PLANS: &str = "[limit.planned.plans]\npro = { max = 3 }";

/// A running service.
pub(super) struct Stage {
    service: Service,
    clock: FakeClock,
    days: Cell<u64>,
    /// What it counts in, if that is a process.
    server: Option<Server>,
}

pub(super) fn in_memory() -> Stage {
    let (limiter, clock) = clocked();
    Stage::over(&limiter, clock, None)
}

/// If there is a Redis server on this machine.
pub(super) fn in_redis() -> Option<Stage> {
    let server = redis::server()?;
    let clock = FakeClock::at(MIDNIGHT);
    Some(Stage::over(&server.limiter_at(&clock), clock, Some(server)))
}

impl Stage {
    fn over(limiter: &RateLimiter, clock: FakeClock, server: Option<Server>) -> Self {
        limiter.replace_overrides(PLANS.parse().unwrap()).unwrap();
        let limiter = Data::new(limiter.clone());
        let service = Service::start(move |app: &mut ServiceConfig| {
            app.app_data(limiter.clone()).configure(scopes::configure).configure(handlers::configure);
        });
        Self { service, clock, days: Cell::new(0), server }
    }

    /// The same service over a store of the same kind that does not answer.
    pub(super) fn broken(&self) -> Self {
        if self.server.is_none() {
            let (limiter, watch) = watched();
            watch.fail(true);
            return Self::over(&limiter, self.clock.clone(), None);
        }
        let mut server = redis::server().unwrap();
        let limiter = RateLimiter::redis(&server.url()).unwrap();
        server.kill();
        Self::over(&limiter, self.clock.clone(), Some(server))
    }

    /// Midnight of a day on which nothing has been counted.
    pub(super) fn next_day(&self) {
        // A count of a day is over after two.
        self.days.set(self.days.get() + 3);
        let micros = MIDNIGHT.as_micros() + self.days.get() * 86_400_000_000;
        self.clock.set(Timestamp::from_micros(micros));
    }

    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(super) fn send(&self, path: &str, headers: &[&str]) -> Reply {
        let address: SocketAddr = self.service.address;
        client::get(address, path, headers)
    }

    pub(super) fn get(&self, path: &str) -> Reply {
        self.send(path, &[])
    }

    /// The status codes of as many requests, one after the other.
    pub(super) fn statuses(&self, path: &str, count: usize) -> Vec<u16> {
        (0..count).map(|_| self.get(path).status).collect()
    }

    /// The status codes of requests by these callers, one after the other.
    pub(super) fn callers<const N: usize>(&self, path: &str, callers: [&str; N]) -> [u16; N] {
        callers.map(|caller| self.send(path, &[&format!("X-Caller: {caller}")]).status)
    }

    /// What is left after one request, if it passes.
    pub(super) fn left(&self, path: &str) -> Option<u64> {
        let reply = self.get(path);
        if reply.status == 200 { left(&reply) } else { None }
    }
}

/// What a reply says is left.
pub(super) fn left(reply: &Reply) -> Option<u64> {
    reply.header("x-ratelimit-remaining").map(|left| left.parse().unwrap())
}
