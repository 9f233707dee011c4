//! Who is limited: the forms of `by` and the placeholders of `key`, and what is wrong with others.

use proc_macro2::{Delimiter, Group};
use quote::quote;

use super::{check, check_item, expand, tokens};

const EXPECTED: &str = "`by` takes `ip`, `global`, `path(\"id\")`, `header(\"x-api-key\")`, the path of a \
                        `fn(&HttpRequest) -> K`, a closure, or a tuple of these";

#[test]
fn words_and_calls() {
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
        (
            "with(caller)",
            "a function stands for itself: write its path without `with`, such as `by = caller`",
        ),
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
                "{EXPECTED}, not a template; placeholders belong into the key: did you mean `key = \"{{id}}\"`?"
            ),
        )],
    );
    for sound in ["self::ipp", "client_ip", "a::path", "id", "uid", "<T as U>::f"] {
        check(&format!("by = {sound}"), &[]);
    }
}

#[test]
fn tuples() {
    check("by = (api_key, path(\"id\"), ip, header(\"x-tenant\"), |r: &HttpRequest| 1)", &[]);
    check(
        "by = (ip, global)",
        &[(
            "global",
            "`global` tells no callers apart, so it means nothing next to others; remove it from the tuple",
        )],
    );
    check("by = ()", &[("()", "an empty tuple is nobody; for one count of all callers write `by = global`")]);
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
fn closures_have_types_and_leave_the_body_alone() {
    check(
        "by = |req| req.path()",
        &[(
            "req",
            "a closure's parameters need types here: write `|req: &HttpRequest| ..`, or an extractor, such as \
             `|req: web::Path<u64>| ..`",
        )],
    );
    check(
        "by = |path: web::Path<_>| 1",
        &[("_", "a closure's parameters need whole types here: write out what `_` stands for")],
    );
    check(
        "by = |req: &mut HttpRequest| 1",
        &[("&mut HttpRequest", "the request cannot be changed here: write `&HttpRequest`")],
    );
    check(
        "by = |p: web::Path<u64>, req: &HttpRequest| 1",
        &[("&HttpRequest", "next to other extractors each is taken by value: write `HttpRequest`")],
    );
    check(
        "by = |req: &dev::ServiceRequest| 1",
        &[(
            "&dev::ServiceRequest",
            "`ServiceRequest` is what middleware is given; a handler's is `&HttpRequest`",
        )],
    );
    check(
        "by = |#[cfg(x)] id: Path<u64>, #[allow(y)] _: HttpRequest| 1",
        &[
            ("#[cfg(x)]", "a closure's parameters have no attributes here; remove this one"),
            ("#[allow(y)]", "a closure's parameters have no attributes here; remove this one"),
        ],
    );
    for (ty, reader) in [
        ("web::Json<Login>", "Json"),
        ("actix_web::web::Form<Login>", "Form"),
        ("Bytes", "Bytes"),
        ("web::BytesMut", "BytesMut"),
        ("String", "String"),
        ("web::Payload", "Payload"),
        ("Multipart", "Multipart"),
        ("MultipartForm<Upload>", "MultipartForm"),
        ("Either<web::Json<A>, web::Form<B>>", "Json"),
        ("Option<web::Json<A>>", "Json"),
        ("Result<web::Form<A>, Error>", "Form"),
        ("(HttpRequest, String)", "String"),
    ] {
        for (argument, read) in [("by", "by"), ("max", "max"), ("skip", "skip"), ("cost", "cost")] {
            let message = format!(
                "`{reader}` reads the body, but `{read}` is decided before the body is read; choose by what is in the \
                 head of the request, such as `web::Path`, `web::Query`, `web::ReqData` or `HttpRequest`"
            );
            let found =
                super::mistakes(&format!("{argument} = |a: HttpRequest, body: {ty}| 1"), super::HANDLER);
            assert_eq!(found.len(), 1, "{ty}");
            assert_eq!(found[0].1, message, "{ty}");
            assert!(ty.contains(&found[0].0), "{ty}");
        }
    }
    for ty in
        ["web::Path<String>", "web::Query<Json>", "Option<web::Header<String>>", "HttpRequest", "AuthUser"]
    {
        check(&format!("by = |a: {ty}| 1"), &[]);
    }
    check("by = move |req: &HttpRequest| 1, max = async |a: A, b: B| 1, cost = async move |a: A| 2", &[]);
}

#[test]
fn a_type_may_come_through_a_macro() {
    // `|req: $ty| 1` with `&HttpRequest` for `$ty`, which the compiler puts between invisible delimiters.
    let ty = Group::new(Delimiter::None, tokens("&HttpRequest"));
    let closure = quote!(by = |req: #ty| 1);
    let expanded = crate::attribute::expand(closure, tokens(super::HANDLER)).to_string();
    assert!(expanded.contains(":: admit (") && !expanded.contains("assert_bodyless"), "{expanded}");
    let ty = Group::new(Delimiter::None, tokens("(web::Json<u8>)"));
    let closure = quote!(by = |body: #ty| 1);
    let errors = crate::attribute::errors(closure, tokens(super::HANDLER));
    assert!(errors[0].to_string().starts_with("`Json` reads the body"), "{errors:?}");
}

#[test]
fn parameters_are_nearer_than_handlers_of_the_same_name() {
    for (parameters, names) in [
        ("user: User", &["user"][..]),
        ("mut user: User, r#type: A", &["user", "r#type"]),
        ("Query(query): Query<A>, (a, _, Some(b)): (A, B, C)", &["query", "a", "b"]),
        ("P { x, y: z, .. }: Query<P>, ref whole @ Path(_): A", &["x", "z", "whole"]),
        ("module::Type(a): A, module::none: B, NAME: C, _user: D, 1: E", &["a"]),
        ("text!(a): A", &["a"]),
        ("&[first, .., last]: A", &["first", "last"]),
        ("(A(x) | B(x)): A", &["x"]),
    ] {
        let expanded =
            expand(&format!("max = |{parameters}| 1"), super::HANDLER).to_string().replace(' ', "");
        let found: Vec<&str> = expanded
            .split("constfn")
            .skip(1)
            .filter_map(|rest| rest.split_once("(){}const_:fn()=").map(|(name, _)| name))
            .collect();
        assert_eq!(found, names, "{parameters}: {expanded}");
    }
}

#[test]
fn functions_that_choose() {
    for (value, message) in [
        ("with()", "`with` takes the path of one function: write for example `max = with(function)`"),
        ("with(1)", "`with` takes the path of one function: write for example `max = with(function)`"),
        ("with(a, b)", "`with` takes the path of one function: write for example `max = with(function)`"),
        (
            "with(f(1))",
            "`with` takes the path of a function, without calling it: write `max = with(function)`",
        ),
        ("with(|a: A| 1)", "a closure stands for itself: write `max = |..| ..`, without `with`"),
    ] {
        check(&format!("max = {value}"), &[(value, message)]);
    }
    check(
        "skip = is_internal",
        &[(
            "is_internal",
            "`skip` takes a closure, such as `|req: &HttpRequest| ..`, or `with(function)`; did you mean \
             `skip = with(is_internal)`?",
        )],
    );
    check(
        "skip = true",
        &[(
            "true",
            "`skip` takes a closure, such as `|req: &HttpRequest| ..`, or `with(function)`; a limit that never holds is \
             no limit, remove the attribute; one that always holds needs no `skip`",
        )],
    );
    check("max = self::with(3), cost = with(cost)", &[]);
}

#[test]
fn words_in_quotes() {
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
            &[(closure, "`count` takes a closure over the answer's status: write `|status: StatusCode| ..`")],
        );
    }
    check("count = |status| true", &[]);
    check("count = with(is_interesting)", &[]);
}

#[test]
fn callers_are_named_once() {
    check(
        "key = \"user:{path:id}\", by = ip",
        &[(
            "by",
            "`by` and the placeholders of `key` both say who is limited; remove `by`, or write a key without \
             placeholders",
        )],
    );
    check(
        "by = global, on_missing = \"skip\"",
        &[(
            "on_missing",
            "`on_missing` means nothing with `by = global`, where every call has a caller; remove it",
        )],
    );
}

#[test]
fn parameters_are_those_of_every_route_in_view() {
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
    // No route is in view: nothing can be said.
    check_item("key = \"{id}\"", "async fn user() {}", &[]);
    check_item("key = \"{id}\"", "#[get(concat!(\"/\", \"x\"))] async fn user() {}", &[]);
    // A parameter of `by` may be a scope's, unless it looks like a slip.
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

#[test]
fn what_is_constant_needs_no_choice() {
    for constant in [
        "by = path(\"id\")",
        "by = header(\"x\")",
        "by = (ip, f, |r: &HttpRequest| 1)",
        "by = |r: &HttpRequest| r.path()",
        "key = \"{path:a}:{ip}\"",
        "count = \"failures\"",
        "on_missing = \"skip\"",
    ] {
        let expanded = expand(constant, super::HANDLER).to_string();
        assert!(
            expanded.contains(":: admit (") && !expanded.contains(":: DynamicLimits ::"),
            "{constant}: {expanded}"
        );
    }
    for chosen in [
        "by = |p: web::Path<u64>| *p",
        "by = async |r: &HttpRequest| 1",
        "by = (ip, || 1)",
        "max = with(f)",
        "cost = |r: &HttpRequest| 1",
        "skip = |r: &HttpRequest| true",
    ] {
        let expanded = expand(chosen, super::HANDLER).to_string();
        assert!(
            !expanded.contains(":: admit (") && expanded.contains(":: DynamicLimits :: new"),
            "{chosen}: {expanded}"
        );
    }
}

#[test]
fn choices_are_made_in_order_and_only_when_needed() {
    let arguments = "cost = with(c), max = with(m), by = |p: P| p, skip = with(s)";
    let expanded =
        expand(arguments, "#[rate_limit(skip = with(t))] async fn user() {}").to_string().replace(' ', "");
    let order = [
        "group.applies(0){let__rate_limit_value=match__rate_limit_group.call::<::core::primitive::bool,_,_>(s)",
        "__rate_limit_group.skip(0,",
        "group.applies(0)",
        "__rate_limit_group.by(0,",
        "(m)",
        "__rate_limit_group.max(0,",
        "(c)",
        "__rate_limit_group.cost(0,",
        "group.applies(1)",
        "__rate_limit_group.skip(1,",
        "__rate_limit_group.admit().await",
    ];
    let mut rest = expanded.as_str();
    for expected in order {
        let at = rest.find(expected).unwrap_or_else(|| panic!("{expected} in {rest}"));
        rest = &rest[at + expected.len()..];
    }
}
