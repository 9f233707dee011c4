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
