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
fn only_values_of_a_request_are_computed() {
    for (arguments, admit) in [
        ("by = path(\"id\")", "admit"),
        ("by = header(\"x\")", "admit"),
        ("by = (ip, f, |r: &HttpRequest| 1)", "admit"),
        ("by = |r: &HttpRequest| r.path()", "admit"),
        ("key = \"{path:a}:{ip}\"", "admit"),
        ("count = \"failures\"", "admit"),
        ("on_missing = \"skip\"", "admit"),
        ("by = |p: web::Path<u64>| *p", "admit_computed"),
        ("by = async |r: &HttpRequest| 1", "admit_computed"),
        ("by = (ip, || 1)", "admit_computed"),
        ("max = with(f)", "admit_computed"),
        ("cost = |r: &HttpRequest| 1", "admit_computed"),
        ("skip = |r: &HttpRequest| true", "admit_computed"),
        ("plan = plan_of", "admit_computed"),
        ("window = \"month\", anchor = |r: &HttpRequest| 1", "admit_computed"),
    ] {
        let expanded = expand(arguments, HANDLER).to_string();
        assert!(expanded.contains(&format!(":: {admit} (")), "{arguments}: {expanded}");
    }
}

#[test]
fn code_that_needs_no_await_is_a_function_over_the_request() {
    for (arguments, kinds) in [
        ("max = |r: &HttpRequest| 1", &["PerRequest::Now"][..]),
        ("max = async |r: &HttpRequest| 1", &["PerRequest::Later"]),
        ("max = |p: P| 1", &["PerRequest::Later"]),
        ("skip = with(f)", &["PerRequest::Later"]),
        ("plan = plan_of", &["PerRequest::Now"]),
        ("plan = |r: &HttpRequest| r.path()", &["PerRequest::Now"]),
        ("by = caller", &["By::Now"]),
        ("by = (caller, |p: P| 1, |r: &HttpRequest| 2)", &["By::Now", "By::Later", "By::Now"]),
    ] {
        let expanded = expand(arguments, HANDLER).to_string().replace(' ', "");
        let places = ["PerRequest::Now", "PerRequest::Later", "By::Now", "By::Later"].map(|kind| {
            expanded.match_indices(&format!("::{kind}(")).map(move |(at, _)| (at, kind)).collect::<Vec<_>>()
        });
        let mut places = places.concat();
        places.sort_unstable();
        let found: Vec<&str> = places.into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(found, kinds, "{arguments}: {expanded}");
    }
}

#[test]
fn what_a_closure_takes_by_reference_is_shared_and_the_rest_extracted() {
    let expanded = expand("max = |a: &A, b: B, req: &HttpRequest, c: &mod_c::C<D>, e: E| 1", HANDLER);
    let expanded = expanded.to_string().replace(' ', "");
    for (shared, ty) in [(0, "A"), (2, "HttpRequest"), (3, "mod_c::C<D>")] {
        let let_ = format!("let__rate_limit_choice_{shared}=__rate_limit_extracted.share::<{ty}>().await?;");
        assert!(expanded.contains(&let_), "{expanded}");
    }
    for expected in [
        "let(__rate_limit_choice_1,__rate_limit_choice_4,)=__rate_limit_extracted.extract::<(B,E,)>().await?;\
         __rate_limit_function(&__rate_limit_choice_0,__rate_limit_choice_1,&__rate_limit_choice_2,&__rate_limit_choice_3,\
         __rate_limit_choice_4)",
        "::assert_bodyless_extractor::<A>();",
    ] {
        assert!(expanded.contains(expected), "{expanded}");
    }
    let only_shared = expand("by = |a: &A| a.id", HANDLER).to_string();
    assert!(!only_shared.contains("extracted . extract"), "{only_shared}");
}
