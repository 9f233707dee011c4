//! Arguments with one of a few strings as value.

use super::check;

#[test]
fn choices_suggest_the_nearest_string() {
    let expected = "\nexpected one of: \"reject\", \"skip\", \"anonymous\"";
    for (text, meant) in [
        ("anonymus", "anonymous"),
        ("deny", "reject"),
        ("ignore", "skip"),
        ("shared", "anonymous"),
        ("SKIP", "skip"),
    ] {
        let message = format!(
            "unknown value {text:?} for `on_missing`; did you mean `on_missing = \"{meant}\"`?{expected}"
        );
        check(&format!("on_missing = {text:?}"), &[(&format!("{text:?}"), &message)]);
    }
    check(
        "on_missing = skip",
        &[("skip", &format!("`on_missing` takes a string; did you mean `on_missing = \"skip\"`?{expected}"))],
    );
    let expected = "\nexpected one of: \"local\", \"deny\", \"allow\"";
    for (text, meant) in [("locl", "local"), ("closed", "deny"), ("fail_open", "allow"), ("DENY", "deny")] {
        let message = format!(
            "unknown value {text:?} for `on_error`; did you mean `on_error = \"{meant}\"`?{expected}"
        );
        check(&format!("on_error = {text:?}"), &[(&format!("{text:?}"), &message)]);
    }
    let expected = "\nexpected one of: \"enforce\", \"shadow\"";
    for (text, meant) in
        [("shadwo", "shadow"), ("dry_run", "shadow"), ("Shadow", "shadow"), ("on", "enforce")]
    {
        let message =
            format!("unknown value {text:?} for `mode`; did you mean `mode = \"{meant}\"`?{expected}");
        check(&format!("mode = {text:?}"), &[(&format!("{text:?}"), &message)]);
    }
    check(
        "mode = shadow",
        &[("shadow", &format!("`mode` takes a string; did you mean `mode = \"shadow\"`?{expected}"))],
    );
    check("mode = true", &[("true", &format!("`mode` takes a string, not a boolean{expected}"))]);
    let expected = "\nexpected one of: \"all\", \"failures\", \"successes\"";
    for (text, meant) in [("errors", "failures"), ("ok", "successes"), ("succeses", "successes")] {
        let message =
            format!("unknown value {text:?} for `count`; did you mean `count = \"{meant}\"`?{expected}");
        check(&format!("count = {text:?}"), &[(&format!("{text:?}"), &message)]);
    }
    check("count = 1", &[("1", &format!("`count` takes a string, not an integer{expected}"))]);
    for closure in ["|| true", "|a: A, b: B| true", "async |status: StatusCode| true"] {
        check(
            &format!("count = {closure}"),
            &[(
                closure,
                "`count` takes a closure over the status of the response: write `|status: StatusCode| ..`",
            )],
        );
    }
    check("count = |status| true", &[]);
    check("count = with(is_interesting)", &[]);
}

#[test]
fn a_shadow_limit_needs_a_count_of_its_own() {
    let found = |first: &str, second: &str| {
        let item = format!("#[rate_limit({second})] {}", super::HANDLER);
        super::mistakes(first, &item)
    };
    let message = "a shadow limit needs a count of its own, but an enforced limit of this handler has the same key, \
                   algorithm and window; write another key, such as `key = \"api-shadow\"`";
    let expected = [
        ("mode".to_owned(), message.to_owned()),
        ("key".to_owned(), "the enforced limit has this key".to_owned()),
    ];
    for (shadow, enforced) in [
        ("key = \"api\"", "key = \"api\""),
        ("key = \"api\", max = 5", "max = 10, key = \"api\", window = \"60s\", sub_windows = 1"),
        ("key = \"api\", by = global", "key = \"api\", algorithm = \"sliding_window_counter\""),
        (
            "key = \"api\", algorithm = \"token_bucket\", max = MAX, burst = 7",
            "key = \"api\", algorithm = \"token_bucket\", max = MAX, burst = 7",
        ),
    ] {
        let shadow = format!("{shadow}, mode = \"shadow\"");
        for enforced in [enforced.to_owned(), format!("{enforced}, mode = \"enforce\"")] {
            assert_eq!(found(&shadow, &enforced), expected, "{shadow} {enforced}");
            assert_eq!(found(&enforced, &shadow), expected, "{shadow} {enforced}");
        }
    }
    for (shadow, enforced) in [
        ("", ""),
        ("key = \"api\"", ""),
        ("key = \"api\"", "key = \"api-2\""),
        ("key = \"api\"", "key = \"api\", window = \"61s\""),
        ("key = \"api\"", "key = \"api\", sub_windows = 6"),
        ("key = \"api\"", "key = \"api\", algorithm = \"fixed_window\""),
        (
            "key = \"api\", algorithm = \"token_bucket\", max = 5",
            "key = \"api\", algorithm = \"token_bucket\", max = 6, burst = 5",
        ),
        // Compared when the program runs.
        ("key = \"api\"", "policy = API"),
    ] {
        assert_eq!(found(&format!("mode = \"shadow\", {shadow}"), enforced), [], "{shadow} {enforced}");
    }
}

#[test]
fn the_limits_of_a_block_are_compared_once() {
    let module = "#[rate_limit(key = \"k\", mode = \"shadow\")] mod api { #[get(\"/a\")] async fn a() {} #[get(\"/b\")] async fn b() {} }";
    assert_eq!(super::mistakes("key = \"k\"", module).len(), 2);
}
