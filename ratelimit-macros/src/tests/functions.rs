//! Mistakes in the item below the attribute: message and span of each.

use super::{check_item, mistakes};

#[test]
fn items_other_than_functions_are_named() {
    let other = |found: &str, help: &str| {
        format!(
            "#[rate_limit] goes on an async handler function, an inline module or an impl block, not on {found}; \
             {help}"
        )
    };
    let above = "put it above an `async fn`";
    for (item, at, found, help) in [
        ("struct User;", "struct", "a struct", above),
        ("pub(crate) enum User {}", "enum", "an enum", above),
        ("union User { a: u8 }", "union", "a union", above),
        ("const USER: u8 = 1;", "const", "a constant", above),
        ("static USER: u8 = 1;", "static", "a static", above),
        ("type User = u8;", "type", "a type alias", above),
        ("use a::b;", "use", "an import", above),
        ("extern crate a;", "extern", "an extern crate", above),
        ("extern \"C\" {}", "extern", "an extern block", above),
        ("unsafe extern \"C\" {}", "unsafe", "an extern block", above),
        ("macro_rules! a {}", "macro_rules", "a macro", above),
        ("let a = 1;", "let", "a statement", above),
        ("1 + 1", "1", "this", above),
        ("pub trait A {}", "trait", "a trait", "put it on the function that implements a handler"),
    ] {
        check_item("", item, &[(at, &other(found, help))]);
    }
}

#[test]
fn signatures_must_be_those_of_handlers() {
    for (item, at, message) in [
        ("fn user() {}", "fn", "a rate-limited handler must be async: write `async fn user`"),
        ("async unsafe fn user() {}", "unsafe", "a handler cannot be `unsafe`: write `async fn user`"),
        (
            "async extern \"C\" fn user() {}",
            "extern \"C\"",
            "a handler cannot be `extern`: write `async fn user`",
        ),
        ("const async fn user() {}", "const", "a handler cannot be `const`: write `async fn user`"),
        (
            "async fn user(&self, id: Path<Self>) -> Self {}",
            "self",
            "a handler cannot take `self`: Actix-web has no value to call it on; pass state in with `web::Data<T>`",
        ),
        (
            "async fn user(id: Option<impl Into<u8>>) {}",
            "Option<impl Into<u8>>",
            "a handler argument cannot be `impl Trait`; write a named generic parameter, such as \
             `async fn handler<T: Trait>(argument: T)`",
        ),
        ("async fn user();", ";", NO_BODY),
        ("async fn user()", "user", NO_BODY),
        ("async fn user() 1", "1", "expected the body of the handler, in braces"),
        ("async fn user() { Self::list() }", "Self", SELF_IN_FUNCTION),
        ("async fn user(id: Path<Self>) {}", "Self", SELF_IN_FUNCTION),
        (
            "async fn user(a: u8, ...) {}",
            "...",
            "a handler cannot have a variable number of arguments; remove `...`",
        ),
    ] {
        check_item("", item, &[(at, message)]);
    }
    let arguments: Vec<String> = (0..17).map(|index| format!("a{index}: T{index}")).collect();
    check_item(
        "",
        &format!("async fn user({}) {{}}", arguments.join(", ")),
        &[("T16", "an Actix-web handler takes at most 16 arguments; put several extractors in a tuple")],
    );
    let arguments: Vec<String> = (0..5).map(|index| format!("#[cfg(a{index})] a{index}: T")).collect();
    check_item(
        "",
        &format!("async fn user({}) {{}}", arguments.join(", ")),
        &[(
            "a4",
            "the arguments of a rate-limited handler can have at most 4 different `cfg` conditions; \
             put `cfg` on the handler instead",
        )],
    );
    check_item("key = \"size\"", "async fn größe() {}", &[]);
}

const NO_BODY: &str = "#[rate_limit] needs a function with a body; put it on the implementation, not on the trait's declaration";

const SELF_IN_FUNCTION: &str = "`Self` cannot be named in a rate-limited function, which is nested in a wrapper; \
                                write the name of the type instead, or put #[rate_limit] on the impl block";

#[test]
fn nested_items_may_name_self() {
    for body in [
        "struct A; impl A { fn new() -> Self { Self } }",
        "trait T { fn t(&self) -> Self; }",
        "struct A { b: Box<Self> }",
        "enum A { B(Box<Self>) }",
    ] {
        check_item("", &format!("async fn user() {{ {body} }}"), &[]);
    }
}

#[test]
fn mistakes_of_attribute_and_function_are_reported_together() {
    let found = mistakes(
        "max = 0, window = \"60x\", algorithm = \"nonsense\", key = \"\", windw = 3",
        "#[get(\"/user\")] #[rate_limit(max = -1)] #[x::rate_limit = 3] fn user(&self, a: impl A) {}",
    );
    let at: Vec<&str> = found.iter().map(|(at, _)| at.as_str()).collect();
    assert_eq!(
        at,
        ["0", "\"60x\"", "\"nonsense\"", "\"\"", "windw", "-1", "x::rate_limit = 3", "fn", "self", "impl A"]
    );
    assert_eq!(found[6].1, "arguments go in parentheses: write `#[rate_limit(max = 10, window = \"60s\")]`");
}

#[test]
fn a_group_has_one_facade() {
    check_item("crate = ::a", "#[rate_limit(crate = ::a)] async fn user() {}", &[]);
    check_item(
        "crate = ::a",
        "#[rate_limit(crate = ::b)] async fn user() {}",
        &[("::b", "the attributes on one handler need the same `crate`; give it once")],
    );
}

#[test]
fn a_group_has_a_maximum_size() {
    let more = "#[rate_limit] ".repeat(63);
    check_item("", &format!("{more} async fn user() {{}}"), &[]);
    let message = "a handler can have at most 64 limits, found 65; remove some";
    check_item("", &format!("#[rate_limit] {more} async fn user() {{}}"), &[("user", message)]);
}

#[test]
fn messages_begin_in_lower_case_and_end_without_a_period() {
    for arguments in
        ["max = 0", "window = 1", "key = 1", "x", "1", "max", "burst = 1", "cost = 1000", "crate = x"]
    {
        for (_, message) in mistakes(arguments, "fn user(self) {}") {
            assert!(!message.ends_with('.'), "{message}");
            assert!(!message.starts_with(|c: char| c.is_uppercase()), "{message}");
        }
    }
}

#[test]
fn attributes_that_fail_on_a_nested_function_are_reported() {
    let changes = "changes the arguments of the function";
    let adds = "adds items beside the function";
    for (attribute, name, effect) in [
        ("#[protect(\"ADMIN\")]", "protect", changes),
        ("#[actix_web_grants::protect(\"ADMIN\")]", "actix_web_grants::protect", changes),
        ("#[has_permissions(\"READ\")]", "has_permissions", changes),
        ("#[has_roles(\"ADMIN\")]", "has_roles", changes),
        ("#[utoipa::path(get)]", "utoipa::path", adds),
        ("#[path()]", "path", adds),
    ] {
        let message = format!(
            "#[{name}] {effect}, which #[rate_limit] nests in a wrapper; put #[{name}] above #[rate_limit], and outside \
             of a module or impl block that is limited as a whole"
        );
        check_item("", &format!("#[get(\"/\")] {attribute} async fn user() {{}}"), &[(attribute, &message)]);
        let block = format!("mod api {{ #[get(\"/\")] {attribute} async fn user() {{}} }}");
        check_item("", &block, &[(attribute, &message)]);
    }
    // Attributes that wrap the body, and other attributes of these names, stay on the nested function.
    for other in ["#[tracing::instrument]", "#[own::protect]", "#[own::path]", "#[protected]"] {
        assert_eq!(mistakes("", &format!("#[get(\"/\")] {other} async fn user() {{}}")), [], "{other}");
    }
}
