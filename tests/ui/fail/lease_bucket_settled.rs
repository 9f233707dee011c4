//! A leased bucket that the handler settles.

use actix_web::{Result, get};
use ratelimit_actix::{Quotas, rate_limit};

#[rate_limit(max = 100, name = "tokens", algorithm = "token_bucket", cost = 10, lease = "100ms")]
#[get("/")]
async fn handler(quotas: Quotas) -> Result<&'static str> {
    quotas.limit("tokens")?.settle(5).await?;
    Ok("ok")
}

fn main() {}
