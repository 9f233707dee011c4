//! Modules and impl blocks: which functions are limited, and by which limits.

use proc_macro2::{Delimiter, Group, TokenTree};
use quote::ToTokens;

use super::{expand, messages, tokens};

/// The policies of each handler in an expansion, by handler, as text without blanks.
fn limited(arguments: &str, item: &str) -> Vec<(String, String)> {
    let expanded = expand(arguments, item).to_string().replace(' ', "");
    assert!(!expanded.contains("compile_error"), "{expanded}");
    let mut found = Vec::new();
    let mut rest = expanded.as_str();
    while let Some(at) = rest.find("[::ratelimit_actix::__private_0_1::WrittenLimit;") {
        rest = &rest[at..];
        let end = rest.find("::ratelimit_actix::__private_0_1::inventory").unwrap();
        let limits = rest[..end].to_owned();
        let handler = rest.split("handler:\"").nth(1).unwrap().split('"').next().unwrap();
        found.push((handler.to_owned(), limits));
        rest = &rest[end..];
    }
    found
}

#[track_caller]
fn check_limited(arguments: &str, item: &str, expected: &[(&str, &str)]) {
    let found = limited(arguments, item);
    let handlers: Vec<&str> = found.iter().map(|(handler, _)| handler.as_str()).collect();
    assert_eq!(handlers, expected.iter().map(|(handler, _)| *handler).collect::<Vec<_>>());
    for ((handler, limits), (_, part)) in found.iter().zip(expected) {
        assert!(limits.contains(part), "{handler}: {limits}");
    }
}

#[test]
fn a_module_limits_functions_with_a_route() {
    check_limited(
        "max = 5",
        "mod api {
            //! Inner documentation.
            use x::y;
            const N: [u8; { 1 }] = [1];
            #[get(\"/a\")] pub async fn a() {}
            async fn helper() {}
            #[cfg_attr(all(), post(\"/b\"))] async fn b() {}
            #[get(\"/c\")] #[no_rate_limit] async fn c() {}
            #[get(\"/d\")] #[rate_limit(max = 7)] async fn d() {}
            #[rate_limit] async fn e() {}
            #[rate_limit] #[x::rate_limit(max = 9)] async fn f() {}
            #[rate_limit()] async fn g() {}
            macro_rules! m { () => {} }
            fn not_async() {}
        }",
        &[
            ("a", ".max(5u64)"),
            ("b", ".max(5u64)"),
            ("d", ".max(7u64)"),
            ("e", ".max(5u64)"),
            ("f", "\"f#2\")).as_str()).max(9u64)"),
            ("g", ".max(5u64)"),
        ],
    );
}

#[test]
fn nested_blocks_inherit_limits() {
    check_limited(
        "max = 5, crate = ::ratelimit_actix",
        "mod api {
            mod inner { #[get(\"/a\")] async fn a() {} mod deep { #[get(\"/b\")] async fn b() {} } }
            #[no_rate_limit] mod open { #[get(\"/c\")] async fn c() {} }
            #[rate_limit(max = 6)] mod own { #[get(\"/d\")] async fn d() {} }
            mod elsewhere;
            impl A { async fn e() {} #[rate_limit] async fn f() {} }
            #[rate_limit] impl B { async fn g() {} #[no_rate_limit] async fn h() {} }
            #[rate_limit()] impl D<T, { 1 }> { async fn j() {} }
            impl C for D { async fn i() {} }
        }",
        &[
            ("a", ".max(5u64)"),
            ("b", ".max(5u64)"),
            ("d", ".max(6u64)"),
            ("A::f", "\"A::f\")).as_str()).max(5u64)"),
            ("B::g", "\"B::g\")).as_str()).max(5u64)"),
            ("D<T,{1}>::j", "\"D<T,{1}>::j\")).as_str()).max(5u64)"),
        ],
    );
}

#[test]
fn an_impl_block_limits_every_async_function_without_self() {
    let item = "impl<T: A> Api<T> where T: B {
        const N: u8 = 1;
        #[doc = \"l\"] pub async fn list(id: Path<Self>) -> Self { Self::new() }
        fn new() -> Self { Self }
        async fn method(&self) {}
        #[no_rate_limit] async fn open() {}
        #[rate_limit(max = 2, inner = own_body)] #[allow(a)] #[expect(b)] #[cfg(c)] #[doc = \"d\"] pub async fn own() {}
    }";
    check_limited(
        "max = 5",
        item,
        &[("Api<T>::list", "\"Api<T>::list\")).as_str()).max(5u64)"), ("Api<T>::own", ".max(2u64)")],
    );
    let expanded = expand("max = 5", item).to_string().replace(' ', "");
    for part in [
        "#[doc=\"l\"]asyncfn__rate_limited_list(id:Path<Self>)->Self{Self::new()}#[allow(clippy::future_not_send)]#[doc=\"l\"]pubasyncfnlist(",
        "let__rate_limit_function=Self::__rate_limited_list;",
        "#[allow(a)]#[expect(b)]#[cfg(c)]#[doc=\"d\"]pubasyncfnown_body(){}#[allow(clippy::future_not_send)]#[allow(a)]#[cfg(c)]#[doc=\"d\"]pubasyncfnown(",
        "#[no_rate_limit]",
    ] {
        assert_eq!(expanded.contains(part), part != "#[no_rate_limit]", "{part} in {expanded}");
    }
    let uses = "#[allow(unused_imports)]use::ratelimit_actix::__private_0_1::attributes::*;\
                #[no_rate_limit(__rate_limit_used)]const_:()=();#[rate_limit(__rate_limit_used)]const_:()=();";
    assert!(expanded.starts_with(&format!("{uses}impl<T:A>Api<T>whereT:B{{constN:u8=1;")), "{expanded}");
}

const OF_A_FILE: &str = "#[rate_limit] cannot apply to a whole file; put it on each handler, on an impl block, or on an \
                         inline module around the handlers, or limit a scope with the `RateLimitMiddleware`";

#[test]
fn an_attribute_at_the_top_of_a_crate_names_the_alternatives() {
    // The input from the compiler for `#![rate_limit]` above these two handlers.
    let item = "extern crate std; #[prelude_import] use std::prelude::rust_2024::*; \
                #[rate_limit(max = 1)] async fn a() {} #[no_rate_limit] async fn b() {}";
    assert_eq!(messages(tokens("max = 1"), tokens(item)), [OF_A_FILE]);
    let expanded = expand("max = 1", item).to_string();
    let rest = "extern crate std; use std::prelude::rust_2024::*; async fn a() {} async fn b() {}";
    assert!(expanded.ends_with(&tokens(rest).to_string()), "{expanded}");
}

#[test]
fn an_attribute_at_the_top_of_a_module_in_a_file_names_the_alternatives() {
    // The compiler passes the content of the file in braces that are spanned at `mod api;`.
    let mut module: Vec<TokenTree> = tokens("mod api;").into_iter().collect();
    let semicolon = module.pop().unwrap();
    let mut braces = Group::new(Delimiter::Brace, tokens("#[get(\"/a\")] async fn a() {}"));
    braces.set_span(semicolon.span());
    module.push(braces.into());
    assert_eq!(messages(tokens("max = 1"), module.into_iter().collect()), [OF_A_FILE]);
}

#[test]
fn a_block_with_a_mistake_is_returned_without_our_attributes() {
    let item = "mod api { #[get(\"/a\")] async fn a() {} #[no_rate_limit] #[x] #[a::rate_limit = 1] async fn b() { f(#[rate_limit(a)] c) } }";
    let expanded = expand("max = 0", item).to_string();
    let ours = ["#[no_rate_limit] ", "#[rate_limit(a)] ", "#[a::rate_limit = 1] "];
    let plain = ours.into_iter().fold(item.to_owned(), |text, ours| text.replace(ours, ""));
    assert!(expanded.ends_with(&tokens(&plain).to_string()), "{expanded}");
}

#[test]
fn an_exemption_outside_a_limited_block_is_a_mistake() {
    let expanded = crate::attribute::expand_exemption(&tokens(""), &tokens("async fn a() {}"))
        .to_token_stream()
        .to_string();
    assert!(expanded.contains("remove #[no_rate_limit]"), "{expanded}");
    assert!(expanded.ends_with("async fn a () { }"), "{expanded}");
}

#[test]
fn inner_puts_the_function_beside_its_handler() {
    let expanded = expand(
        "inner = user_body",
        "#[get(\"/\")] #[doc = \"d\"] #[inline] pub(crate) async fn user<T>(a: A<T>) -> B { c }",
    )
    .to_string()
    .replace(' ', "");
    assert!(
        expanded.starts_with(
            "#[doc=\"d\"]#[inline]pub(crate)asyncfnuser_body<T>(a:A<T>)->B{c}#[allow(clippy::future_not_send)]#[get(\"/\")]#[doc=\"d\"]pub(crate)asyncfnuser<T>("
        ),
        "{expanded}"
    );
    assert!(expanded.contains("let__rate_limit_function=user_body::<T>;"), "{expanded}");
}
