//! The guide: the pages of the repository, with their pictures.
//!
//! | page | answers |
//! |---|---|
//! | [choosing] | which algorithm, with pictures of each |
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

pub mod choosing {
    #![doc = include_str!("guide/choosing.md")]
}

pub mod numbers {
    #![doc = include_str!("guide/numbers.md")]
}

pub mod recipes {
    #![doc = include_str!("guide/recipes.md")]
}

pub mod migrating {
    #![doc = include_str!("guide/migrating.md")]
}

pub mod comparison {
    #![doc = include_str!("guide/comparison.md")]
}

pub mod reference {
    #![doc = include_str!("guide/reference.md")]
}

pub mod operating {
    #![doc = include_str!("guide/operating.md")]
}

pub mod overrides {
    #![doc = include_str!("guide/overrides.md")]
}

pub mod messages {
    #![doc = include_str!("guide/messages.md")]
}

pub mod who_is_the_client {
    #![doc = include_str!("guide/who_is_the_client.md")]
}

pub mod when_redis_fails {
    #![doc = include_str!("guide/when_redis_fails.md")]
}

pub mod leases {
    #![doc = include_str!("guide/leases.md")]
}

pub mod concurrency {
    #![doc = include_str!("guide/concurrency.md")]
}

pub mod without_http {
    #![doc = include_str!("guide/without_http.md")]
}

pub mod accuracy {
    #![doc = include_str!("guide/accuracy.md")]
}

pub mod attribute {
    #![doc = include_str!("guide/attribute.md")]
}
