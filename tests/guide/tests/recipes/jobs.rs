//! A pool of jobs without HTTP: workers of all machines share the slots.

// recipe
use std::error::Error;

use ratelimit_actix::{Policy, RateLimiter};

/// Two jobs of a tenant at a time, on all machines.
static JOBS: Policy = Policy::concurrency("jobs", 2);

/// Runs the job now, or returns false: the caller leaves it in the queue.
async fn run(limiter: &RateLimiter, tenant: &str, job: impl Future) -> Result<bool, Box<dyn Error>> {
    let Ok(slot) = limiter.acquire(&JOBS, tenant).await? else { return Ok(false) };
    job.await;
    drop(slot);
    Ok(true)
}
// end

use std::future::{pending, ready};

#[actix_web::test]
async fn two_jobs_of_a_tenant_run_at_a_time() {
    crate::on_both_stores(async |limiter| {
        let begin = || {
            let limiter = limiter.clone();
            // Its slot may be held by one of the short jobs below.
            actix_web::rt::spawn(async move {
                while !run(&limiter, "acme", pending::<()>()).await.unwrap() {
                    actix_web::rt::task::yield_now().await;
                }
            })
        };
        let runs = async |tenant: &str| run(&limiter, tenant, ready(())).await.unwrap();
        assert!(runs("acme").await && runs("acme").await && runs("acme").await);
        let (first, _second) = (begin(), begin());
        while runs("acme").await {
            actix_web::rt::task::yield_now().await;
        }
        assert!(runs("globex").await);
        // A job that is stopped frees its slot.
        first.abort();
        while !runs("acme").await {
            actix_web::rt::task::yield_now().await;
        }
    })
    .await;
}
