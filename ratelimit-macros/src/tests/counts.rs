//! Limits of one handler that share a count.

#[test]
fn limits_that_charge_a_request_twice_are_an_error() {
    let found = |first: &str, second: &str| {
        let item = format!("#[rate_limit({second})] {}", super::HANDLER);
        super::mistakes(first, &item)
    };
    let expected = [
        (
            "key".to_owned(),
            "two limits of this handler both count in `api`, so a request is charged twice; remove one, or give it another \
             key or window"
                .to_owned(),
        ),
        ("key".to_owned(), "the other limit has this key".to_owned()),
    ];
    for (first, second) in [
        ("max = 10, key = \"api\"", "max = 100, key = \"api\""),
        (
            "key = \"api\", by = ip",
            "key = \"api\", window = \"60s\", sub_windows = 1, cost = 2, name = \"other\"",
        ),
        ("key = \"api\", by = global", "key = \"api\", by = global, count = \"failures\""),
        (
            "key = \"api\", by = header(\"x-key\")",
            "key = \"api\", by = header(\"X-Key\"), on_missing = \"skip\"",
        ),
        ("key = \"api\", by = |r: &HttpRequest| f(r)", "key = \"api\", by = |r: &HttpRequest|f(r)"),
        ("key = \"api\", max = |r: &HttpRequest| f(r)", "key = \"api\", max = with(g)"),
        ("key = \"api\", mode = \"shadow\"", "key = \"api\", mode = \"shadow\", max = 3"),
        (
            "key = \"api\", algorithm = \"token_bucket\", max = MAX, burst = 7",
            "key = \"api\", algorithm = \"token_bucket\", max = MAX, burst = 7",
        ),
    ] {
        assert_eq!(found(first, second), expected, "{first} {second}");
        assert_eq!(found(second, first), expected, "{second} {first}");
    }
    let templates = found("key = \"user:{ip}\"", "max = 3, key = \"user:{ip}\"");
    assert!(templates[0].1.contains("both count in `user:<ip>`"), "{templates:?}");
    let policies = found("policy = api::LIMIT", "policy = api :: LIMIT, cost = 2");
    assert_eq!(
        policies,
        [
            (
                "policy".to_owned(),
                "two limits of this handler both have the policy `api::LIMIT`, so a request is charged twice; remove one"
                    .to_owned()
            ),
            ("policy".to_owned(), "the other limit has this policy".to_owned()),
        ]
    );
}

#[test]
fn limits_that_count_apart_may_have_one_key() {
    for (first, second) in [
        ("max = 10", "max = 100"),
        ("key = \"api\"", "key = \"api\", window = \"1h\""),
        ("key = \"api\"", "key = \"api\", sub_windows = 6"),
        ("key = \"api\"", "key = \"api\", algorithm = \"fixed_window\""),
        // Buckets of different size are different counts.
        (
            "key = \"api\", algorithm = \"token_bucket\"",
            "key = \"api\", algorithm = \"token_bucket\", burst = 50",
        ),
        (
            "key = \"api\", algorithm = \"token_bucket\", max = 5",
            "key = \"api\", algorithm = \"token_bucket\", max = 6",
        ),
        // Different callers.
        ("key = \"api\"", "key = \"api\", by = global"),
        ("key = \"api\", by = path(\"a\")", "key = \"api\", by = path(\"b\")"),
        ("key = \"user:{ip}\"", "key = \"user:{header:x-key}\""),
        ("policy = API", "policy = API, by = global"),
        // Perhaps different requests.
        ("key = \"api\", skip = with(is_paid)", "key = \"api\", max = 100, skip = with(is_free)"),
        ("policy = API, skip = with(is_paid)", "policy = API, cost = 2"),
        // Compared when the program runs.
        ("policy = API", "policy = OTHER"),
        ("key = \"api\"", "policy = API"),
    ] {
        let item = format!("#[rate_limit({second})] {}", super::HANDLER);
        assert_eq!(super::mistakes(first, &item), [], "{first} {second}");
    }
}

#[test]
fn the_limits_of_a_block_that_charge_twice_are_reported_once() {
    let module = "#[rate_limit(key = \"k\")] mod api { #[get(\"/a\")] async fn a() {} #[get(\"/b\")] async fn b() {} }";
    assert_eq!(super::mistakes("key = \"k\"", module).len(), 2);
}
