//! Waiting without HTTP: four workers call a partner in the order in which they ask, five times a second at
//! most, and a job that would wait for too long goes back to its queue. With `RateLimiter::redis(url)?` the
//! workers may be in any number of processes.
//!
//! `cargo run --example worker`

use std::error::Error;
use std::time::Duration;

use actix_web::rt::spawn;
use futures_util::future::join_all;
use ratelimit_core::{Algorithm, Policy, RateLimiter, WaitError};

static PARTNER: Policy = Policy::builder("partner")
    .max(5)
    .window(Duration::from_secs(1))
    .algorithm(Algorithm::TokenBucket)
    .burst(1)
    .build();

/// Does two jobs.
async fn work(worker: u64, limiter: RateLimiter) -> Result<(), WaitError> {
    for job in 1..=2 {
        let turn = limiter.wait(&PARTNER, "partner.example", 1, Duration::from_millis(700)).await?;
        let job = format!("worker {worker}, job {job}");
        match turn.retry_after() {
            None => println!("{job}: wait {} ms, then call the partner", turn.due_after().as_millis()),
            Some(wait) => println!("{job}: back to the queue, try again in {} ms", wait.as_millis()),
        }
    }
    Ok(())
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = RateLimiter::in_memory();
    let workers = (1..=4).map(|worker| spawn(work(worker, limiter.clone())));
    for result in join_all(workers).await {
        result??;
    }
    Ok(())
}
