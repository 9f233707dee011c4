//! The recipes of `docs/recipes.md`: the text between `// recipe` and `// end` of each file is on the page, and its tests run it.
#![allow(
    clippy::unwrap_used,
    clippy::unused_async,
    clippy::needless_pass_by_value,
    reason = "tests, and handlers that only answer"
)]

mod api_keys;
mod bytes;
mod client;
mod fake_clock;
mod graphql;
mod login;
mod outgoing;
mod own_networks;
mod plans;
mod proxies;
mod report;
mod tenants;
mod tokens;
mod websocket;
