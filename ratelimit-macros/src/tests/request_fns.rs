//! Code that runs per request: closures and `with(..)`, and when they run.

use proc_macro2::{Delimiter, Group};
use quote::quote;

use super::{HANDLER, expand, tokens};
use crate::parse::kind::Kind;

#[test]
fn a_type_from_a_macro_is_read() {
    // `|req: $ty| 1` with `&HttpRequest` for `$ty`, which the compiler puts between invisible delimiters.
    let ty = Group::new(Delimiter::None, tokens("&HttpRequest"));
    let closure = quote!(by = |req: #ty| 1);
    let expanded = crate::attribute::expand(Kind::Rate, closure, tokens(HANDLER)).to_string();
    assert!(expanded.contains(":: admit (") && !expanded.contains("assert_bodyless"), "{expanded}");
    let ty = Group::new(Delimiter::None, tokens("(web::Json<u8>)"));
    let closure = quote!(by = |body: #ty| 1);
    let errors = crate::attribute::errors(Kind::Rate, closure, tokens(HANDLER));
    assert!(errors[0].to_string().starts_with("`Json` reads the body"), "{errors:?}");
}

#[test]
fn parameters_shadow_handlers_of_the_same_name() {
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
        let expanded = expand(&format!("max = |{parameters}| 1"), HANDLER).to_string().replace(' ', "");
        let found: Vec<&str> = expanded
            .split("constfn")
            .skip(1)
            .filter_map(|rest| rest.split_once("(){}const_:fn()=").map(|(name, _)| name))
            .collect();
        assert_eq!(found, names, "{parameters}: {expanded}");
    }
}

#[test]
fn constant_limits_need_no_per_request_values() {
    for constant in [
        "by = path(\"id\")",
        "by = header(\"x\")",
        "by = (ip, f, |r: &HttpRequest| 1)",
        "by = |r: &HttpRequest| r.path()",
        "key = \"{path:a}:{ip}\"",
        "count = \"failures\"",
        "on_missing = \"skip\"",
    ] {
        let expanded = expand(constant, HANDLER).to_string();
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
        "window = \"month\", anchor = |r: &HttpRequest| 1",
    ] {
        let expanded = expand(chosen, HANDLER).to_string();
        assert!(
            !expanded.contains(":: admit (") && expanded.contains(":: DynamicLimits :: new"),
            "{chosen}: {expanded}"
        );
    }
}

#[test]
fn per_request_values_are_computed_in_order_and_only_for_limits_that_apply() {
    let arguments = "cost = with(c), max = with(m), by = |p: P| p, skip = with(s)";
    let expanded =
        expand(arguments, "#[rate_limit(skip = with(t))] async fn user() {}").to_string().replace(' ', "");
    let order = [
        "group.applies(0){'__rate_limit_value:{let__rate_limit_value=match__rate_limit_group.call::<::core::primitive::bool,_,_>(s)",
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

#[test]
fn a_value_that_cannot_be_computed_is_reported_with_the_position_of_its_limit() {
    let text = |arguments: &str| expand(arguments, HANDLER).to_string().replace(' ', "");
    let expanded = text("by = |p: P| p");
    let fails = "::core::result::Result::Err(__rate_limit_error)=>{__rate_limit_group.fail(0,&__rate_limit_error);\
                 break'__rate_limit_value}";
    assert!(expanded.contains(fails), "{expanded}");
    let second = expand("", "#[rate_limit(max = with(f))] async fn user() {}").to_string().replace(' ', "");
    assert!(second.contains("__rate_limit_group.fail(1,"), "{second}");
    // Nothing can fail, so there is no block to leave.
    for arguments in ["max = |r: &HttpRequest| 1", "by = async |r: &HttpRequest| 1", "max = || CONFIG.max"] {
        assert!(!text(arguments).contains("'__rate_limit_value"), "{arguments}");
    }
}

#[test]
fn what_a_closure_takes_by_reference_is_shared_and_the_rest_extracted() {
    let expanded = expand("max = |a: &A, b: B, req: &HttpRequest, c: &mod_c::C<D>, e: E| 1", HANDLER);
    let expanded = expanded.to_string().replace(' ', "");
    for (shared, ty) in [(0, "A"), (2, "HttpRequest"), (3, "mod_c::C<D>")] {
        let let_ = format!("let__rate_limit_choice_{shared}=match__rate_limit_group.share::<{ty}>().await{{");
        assert!(expanded.contains(&let_), "{expanded}");
    }
    for expected in [
        "match__rate_limit_group.extract::<(B,E,)>().await{::core::result::Result::Ok((__rate_limit_choice_1,__rate_limit_choice_4,))=>\
         __rate_limit_function(&__rate_limit_choice_0,__rate_limit_choice_1,&__rate_limit_choice_2,&__rate_limit_choice_3,\
         __rate_limit_choice_4)",
        "::assert_bodyless_extractor::<A>();",
    ] {
        assert!(expanded.contains(expected), "{expanded}");
    }
    let only_shared = expand("by = |a: &A| a.id", HANDLER).to_string();
    assert!(!only_shared.contains("group . extract"), "{only_shared}");
}
