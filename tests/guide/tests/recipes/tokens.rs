//! Tokens of a language model: an estimate before, the true number after.

// recipe
use actix_web::{Result, post};
use ratelimit_actix::{Quotas, caller, rate_limit};

/// 60 requests and 100,000 tokens a minute for each account. 2000 tokens are charged ahead.
#[rate_limit(max = 60, window = "1m", name = "requests", by = caller::principal_or_ip)]
#[rate_limit(max = 100_000, window = "1m", name = "tokens", cost = 2000, algorithm = "token_bucket", by = caller::principal_or_ip)]
#[post("/chat")]
async fn chat(prompt: String, quotas: Quotas) -> Result<String> {
    let (answer, tokens) = complete(&prompt).await;
    quotas.limit("tokens")?.settle(tokens).await?;
    Ok(answer)
}
// end

async fn complete(prompt: &str) -> (String, u64) {
    (format!("you said {prompt}"), prompt.parse().unwrap_or(1))
}

#[actix_web::test]
async fn a_request_costs_the_tokens_that_it_took() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, chat);
        let say = |prompt: &'static str| {
            tests::answer::request(actix_web::http::Method::POST, "/chat").set_payload(prompt)
        };
        assert_eq!(tests::send(&app, say("90000")).await.status, 200);
        assert_eq!(tests::send(&app, say("9000")).await.status, 200);
        let denied = tests::send(&app, say("1")).await;
        assert_eq!(
            (denied.status, denied.header("retry-after")),
            (429, Some("1")),
            "the estimate does not fit"
        );
    })
    .await;
}
