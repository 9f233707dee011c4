//! The guide: the pages in the folder `docs` of the repository, as they are. Their pictures, and links
//! between them, are there only.
//!
//! The tests of the repository compile and run the code of the pages. The modules have no items, and exist in
//! the documentation on docs.rs only. The reference of the attribute is
//! [`rate_limit`](macro@crate::rate_limit).

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
    arguments "arguments.md"
    counts "counts.md"
    costs "costs.md"
    middleware "middleware.md"
    responses "responses.md"
    stores "stores.md"
    testing "testing.md"
    operating "operating.md"
    overrides "overrides.md"
    messages "messages.md"
    who_is_the_client "who-is-the-client.md"
    redis "redis.md"
    when_redis_fails "when-redis-fails.md"
    leases "leases.md"
    concurrency "concurrency.md"
    without_http "without-http.md"
    accuracy "accuracy.md"
    attribute "attribute.md"
}
