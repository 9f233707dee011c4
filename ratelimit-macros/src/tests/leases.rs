//! Mistakes in `lease`: message and span of each.

use super::{check, check_item};

const HELP: &str = "write for example `lease = \"100ms\"`";

#[test]
fn a_lease_is_a_time_of_at_most_ten_seconds() {
    for good in ["1ms", "100ms", "1s", "10s", "1s500ms"] {
        check(&format!("lease = {good:?}"), &[]);
    }
    for bad in ["10s1ms", "1m", "1d"] {
        let message = format!("`lease` must be at most 10 s, found {bad:?}; {HELP}");
        check(&format!("lease = {bad:?}"), &[(&format!("{bad:?}"), &message)]);
    }
    check(
        "lease = 100",
        &[("100", "`lease` takes a string, not an integer; did you mean `lease = \"100ms\"`?")],
    );
    check("lease = 5s", &[("5s", "`lease` takes a string, not an integer; did you mean `lease = \"5s\"`?")]);
    check(
        "lease = 60s",
        &[("60s", "`lease` takes a string, not an integer; did you mean `lease = \"100ms\"`?")],
    );
    check("lease = true", &[("true", &format!("`lease` takes a string literal, not a boolean; {HELP}"))]);
    check(
        "lease = \"1sec\"",
        &[("\"1sec\"", "unknown unit `sec` in \"1sec\"; did you mean `lease = \"1s\"`?")],
    );
    check(
        "lease = \"\"",
        &[(
            "\"\"",
            "`lease` must not be empty: expected whole numbers with units `d`, `h`, `m`, `s` or `ms`, such as `lease = \"100ms\"`",
        )],
    );
}

#[test]
fn a_lease_needs_units_that_can_be_used_later() {
    let log = "`lease` is not for \"sliding_window_log\", of which every unit counts from its own instant; remove `lease`, or \
               write `algorithm = \"sliding_window_counter\", sub_windows = 60`";
    check("algorithm = \"sliding_window_log\", lease = \"1s\"", &[("lease", log)]);
    let bucket = "`lease` with \"token_bucket\" needs `count = \"all\"`, because units of a leased bucket cannot be given back; \
                  remove `lease` or `count`, or change the algorithm";
    for count in ["\"failures\"", "\"successes\"", "|status: StatusCode| status.is_success()", "with(counts)"]
    {
        check(
            &format!("algorithm = \"token_bucket\", count = {count}, lease = \"1s\""),
            &[("lease", bucket)],
        );
        check(&format!("algorithm = \"fixed_window\", count = {count}, lease = \"1s\""), &[]);
    }
    check("algorithm = \"token_bucket\", count = \"all\", lease = \"1s\"", &[]);
    check("algorithm = \"token_bucket\", lease = \"1s\"", &[]);
}

#[test]
fn a_lease_needs_a_constant_max() {
    let message = "`lease` needs a `max` that is the same for every request of a caller, because held units were charged under \
                   it; remove `lease`, or write a constant `max`";
    for max in ["with(limit)", "|req: &HttpRequest| 5"] {
        check(&format!("max = {max}, lease = \"1s\""), &[("lease", message)]);
    }
    check("max = LIMIT, cost = with(cost), lease = \"1s\"", &[]);
}

#[test]
fn a_leased_bucket_is_not_settled() {
    let handler = |body: &str| format!("async fn chat(quotas: Quotas) -> Result<()> {{ {body} }}");
    let message = |method: &str, name: &str| {
        format!(
            "`{method}` is not for \"{name}\", a \"token_bucket\" with `lease`, because units of a leased bucket cannot be given \
             back; remove `lease`, or change the algorithm"
        )
    };
    let leased = "algorithm = \"token_bucket\", lease = \"1s\", ";
    for (name, by) in
        [("name = \"tokens\"", "tokens"), ("key = \"tokens\"", "tokens"), ("key = \"{ip}\"", "<ip>")]
    {
        let bodies = [
            (format!("quotas.limit({by:?})?.settle(5).await?;"), "settle"),
            (format!("quotas.limit({by:?}).unwrap().settle(5).await.unwrap();"), "settle"),
            (format!("let used = move || quotas.limit({by:?})?.settle_on_drop(&used);"), "settle_on_drop"),
        ];
        for (body, method) in bodies {
            check_item(&format!("{leased}{name}"), &handler(&body), &[(method, &message(method, by))]);
        }
    }
    let body = "quotas.limit(\"tokens\")?.settle(5).await?;";
    for arguments in [
        "algorithm = \"token_bucket\", name = \"tokens\"",
        "algorithm = \"fixed_window\", lease = \"1s\", name = \"tokens\"",
        "algorithm = \"token_bucket\", lease = \"1s\", name = \"requests\"",
    ] {
        check_item(arguments, &handler(body), &[]);
    }
    for body in [
        "quotas.limit(\"tokens\")?.quota();",
        "quotas.limit(\"tokens\")?; other.settle(5);",
        "limit(\"tokens\").settle(5);",
        "quotas.limit(TOKENS)?.settle(5);",
        "quotas.limit",
    ] {
        check_item(&format!("{leased}name = \"tokens\""), &handler(body), &[]);
    }
}
