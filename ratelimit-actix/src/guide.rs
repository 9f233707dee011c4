//! The guide: the pages in the folder `docs` of the repository, as they are. Their pictures, and links between them, are there only.
//!
//! | page | answers |
//! |---|---|
//! | [choosing] | which algorithm |
//! | [numbers] | which numbers: from an access log, in shadow, enforced |
//! | [recipes] | log-ins, API keys, tokens, uploads, WebSockets and more, in at most 15 lines each |
//! | [migrating] | what changes from five other rate limiters |
//! | [comparison] | what other rate limiters do |
//! | [reference](mod@self::reference) | arguments, settings of responses, middleware, stores, costs that are known late |
//! | [operating] | shadow first, the operator's page, alerts, one customer's limit, a list before production |
//! | [overrides] | other numbers for limits without a deploy |
//! | [messages] | every error, warning and line of the log, and what to do |
//! | [who_is_the_client] | which address counts, behind proxies and with IPv6 |
//! | [when_redis_fails] | what happens in every fault of Redis, and its set-up |
//! | [leases] | hot callers without round trips |
//! | [concurrency] | how many requests run at a time, and when a slot is free |
//! | [without_http] | workers and job queues, with the core alone |
//! | [accuracy] | how often the cheaper algorithms decide otherwise |
//! | [attribute] | what a handler becomes, and the likeliest mistakes |
//!
//! The tests of the repository compile and run the code of the pages. The modules have no items, and exist in the documentation on
//! docs.rs only. The reference of the attribute is [`rate_limit`](macro@crate::rate_limit).

macro_rules! pages {
    ($($name:ident $file:literal)*) => {$(
        #[doc = include_str!(concat!("../docs/", $file))]
        pub mod $name {}
    )*};
}

// The folder is a link to that of the repository; the package has its pages.
pages! {
    choosing "choosing.md"
    numbers "numbers.md"
    recipes "recipes.md"
    migrating "migrating.md"
    comparison "comparison.md"
    reference "reference.md"
    operating "operating.md"
    overrides "overrides.md"
    messages "messages.md"
    who_is_the_client "who-is-the-client.md"
    when_redis_fails "when-redis-fails.md"
    leases "leases.md"
    concurrency "concurrency.md"
    without_http "without-http.md"
    accuracy "accuracy.md"
    attribute "attribute.md"
}
