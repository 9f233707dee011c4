//! GraphQL: the cost is known when the query is parsed.

// recipe
use actix_web::error::ErrorTooManyRequests;
use actix_web::{Result, post};
use ratelimit_actix::{Quotas, caller, rate_limit};

/// A query costs a unit for each of its fields: one before the body is read, the others once it is parsed.
#[rate_limit(max = 1000, window = "1h", name = "fields", by = caller::principal_or_ip)]
#[post("/graphql")]
async fn graphql(query: String, quotas: Quotas) -> Result<String> {
    let fields = fields_of(&query);
    if quotas.remaining().is_some_and(|left| fields > left + 1) {
        return Err(ErrorTooManyRequests("too many fields for what is left of this hour"));
    }
    quotas.limit("fields")?.settle(fields).await?;
    Ok(format!("{fields} fields"))
}
// end

fn fields_of(query: &str) -> u64 {
    query.split_whitespace().filter(|word| word.starts_with(char::is_alphabetic)).count() as u64
}

#[actix_web::test]
async fn a_query_costs_its_fields_and_an_expensive_one_does_not_run() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, graphql);
        let ask = |fields: usize| {
            tests::answer::request(actix_web::http::Method::POST, "/graphql")
                .set_payload(format!("{{ {} }}", "field ".repeat(fields)))
        };
        let cheap = tests::send(&app, ask(3)).await;
        assert_eq!((cheap.status, cheap.quota().unwrap().1), (200, 997));
        let expensive = tests::send(&app, ask(998)).await;
        assert_eq!(
            (expensive.status, expensive.quota().unwrap().1),
            (429, 996),
            "it was charged as one field"
        );
        assert_eq!(tests::send(&app, ask(996)).await.status, 200);
        assert_eq!(tests::send(&app, ask(1)).await.status, 429);
    })
    .await;
}
