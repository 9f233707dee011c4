//! Callers: the forms of `by`, the placeholders of `key`, and mistakes in them.

use super::{check, check_item};

const EXPECTED: &str = "`by` takes `ip`, `global`, `path(\"id\")`, `header(\"x-api-key\")`, the path of a \
                        `fn(&HttpRequest) -> K`, a closure, or a tuple of these";

#[test]
fn words_and_calls_suggest_the_nearest_caller() {
    for (value, message) in [
        (
            "ipp",
            "unknown caller `ipp`; did you mean `by = ip`, or `by = self::ipp` for a function of that name?",
        ),
        (
            "golbal",
            "unknown caller `golbal`; did you mean `by = global`, or `by = self::golbal` for a function of that name?",
        ),
        (
            "path",
            "`path` needs the name of a parameter: write `by = path(\"id\")`, or `by = self::path` for a \
             function of that name",
        ),
        (
            "header",
            "`header` needs the name of a field: write `by = header(\"x-api-key\")`, or `by = self::header` for \
             a function of that name",
        ),
        ("headr(\"x-api-key\")", "unknown caller `headr`; did you mean `by = header(\"x-api-key\")`?"),
        ("pth(\"id\")", "unknown caller `pth`; did you mean `by = path(\"id\")`?"),
        ("ip()", "`ip` takes no arguments: write `by = ip`"),
        ("path(id)", "`path` takes one string literal: write for example `by = path(\"id\")`"),
        ("path(\"{id}\")", "`path` takes the name of a parameter; write for example `path(\"id\")`"),
        ("header()", "`header` takes one string literal: write for example `by = header(\"x-api-key\")`"),
        (
            "header(\"x api key\")",
            "\"x api key\" cannot be the name of a header, because of ' '; did you mean `x-api-key`?",
        ),
        ("with(caller)", "a function needs no `with` here: write its path, such as `by = caller`"),
    ] {
        check(&format!("by = {value}"), &[(value, message)]);
    }
    check(
        "by = caller(1)",
        &[(
            "caller(1)",
            &format!("{EXPECTED}, not a call; name the function without calling it, such as `by = caller`"),
        )],
    );
    check("by = [ip]", &[("[ip]", &format!("{EXPECTED}, not an array"))]);
    check("by = \"ip\"", &[("\"ip\"", &format!("{EXPECTED}, without quotes; did you mean `by = ip`?"))]);
    check(
        "by = \"header:x-key\"",
        &[("\"header:x-key\"", &format!("{EXPECTED}; did you mean `by = header(\"x-key\")`?"))],
    );
    check(
        "by = \"{id}\"",
        &[(
            "\"{id}\"",
            &format!(
                "{EXPECTED}, not a template; placeholders belong in the key: did you mean `key = \"{{id}}\"`?"
            ),
        )],
    );
    for sound in ["self::ipp", "client_ip", "a::path", "id", "uid", "<T as U>::f"] {
        check(&format!("by = {sound}"), &[]);
    }
}

#[test]
fn tuples_combine_callers() {
    check("by = (api_key, path(\"id\"), ip, header(\"x-tenant\"), |r: &HttpRequest| 1)", &[]);
    check(
        "by = (ip, global)",
        &[("global", "`global` does not distinguish callers, so it has no effect in a tuple; remove it")],
    );
    check(
        "by = ()",
        &[("()", "an empty tuple names no caller; write `by = global` for one count of all callers")],
    );
    check(
        "by = (ip, (f, g))",
        &[("(f, g)", "a tuple in a tuple is the same as one tuple; remove the inner parentheses")],
    );
    check(
        "by = (ipp, headr(\"a\"))",
        &[
            (
                "ipp",
                "unknown caller `ipp`; did you mean `by = ip`, or `by = self::ipp` for a function of that name?",
            ),
            ("headr(\"a\")", "unknown caller `headr`; did you mean `by = header(\"a\")`?"),
        ],
    );
}

#[test]
fn a_limit_names_its_caller_once() {
    check(
        "key = \"user:{path:id}\", by = ip",
        &[(
            "by",
            "`by` and the placeholders of `key` both name the caller; remove `by`, or write a key without placeholders",
        )],
    );
    check(
        "by = global, on_missing = \"skip\"",
        &[(
            "on_missing",
            "`on_missing` has no effect with `by = global`, where every request has a caller; remove it",
        )],
    );
}

#[test]
fn path_parameters_are_checked_against_the_routes_in_view() {
    let lacks = |name: &str, route: &str, rest: &str| {
        format!(
            "`{name}` is not a parameter of the route {route:?}{rest}\n\
             for a parameter of an enclosing scope, write `{{path:{name}}}`"
        )
    };
    let declared = "the route is declared here";
    check_item(
        "key = \"user:{usr_id}\"",
        "#[get(\"/user/{user_id}\")] async fn user() {}",
        &[
            (
                "\"user:{usr_id}\"",
                &lacks("usr_id", "/user/{user_id}", "; did you mean `user_id`?\nthe route has: `user_id`"),
            ),
            ("\"/user/{user_id}\"", declared),
        ],
    );
    check_item(
        "key = \"{id}\"",
        "#[routes] #[get(\"/a/{id}\")] #[get(\"/b\")] #[actix_web::post(\"/c/{x}/{y:.*}\", guard = \"G\")] async fn user() {}",
        &[
            ("\"{id}\"", &lacks("id", "/b", "\nthe route has no parameters")),
            ("\"/b\"", declared),
            ("\"{id}\"", &lacks("id", "/c/{x}/{y:.*}", "\nthe route has: `x`, `y`")),
            ("\"/c/{x}/{y:.*}\"", declared),
        ],
    );
    check_item("key = \"{id}-{tail}\"", "#[get(\"/{id:\\\\d{2}}/{tail}*\")] async fn user() {}", &[]);
    check_item("key = \"{path:org}\"", "#[get(\"/\")] async fn user() {}", &[]);
    // No route is in view, so nothing is checked.
    check_item("key = \"{id}\"", "async fn user() {}", &[]);
    check_item("key = \"{id}\"", "#[get(concat!(\"/\", \"x\"))] async fn user() {}", &[]);
    // A parameter of `by` may belong to a scope, unless it looks like a misspelling.
    check_item("by = path(\"org\")", "#[get(\"/{user_id}\")] async fn user() {}", &[]);
    check_item("by = (ip, path(\"user_id\"))", "#[get(\"/{user_id}\")] async fn user() {}", &[]);
    check_item(
        "by = path(\"usr_id\")",
        "#[get(\"/{user_id}\")] async fn user() {}",
        &[
            (
                "\"usr_id\"",
                "`usr_id` is not a parameter of the route \"/{user_id}\"; did you mean `user_id`?\n\
                 the route has: `user_id`\nfor a parameter of an enclosing scope, write `key = \"{path:usr_id}\"`",
            ),
            ("\"/{user_id}\"", declared),
        ],
    );
}
