//! The parts of an expansion, found by parsing it.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Expr, ExprArray, Item, ItemFn, ItemStatic, Stmt};

use super::{HANDLER, expand, tokens};
use crate::attribute;
use crate::expand::paths::{NAMES, PRIVATE};
use crate::parse::args::table::arguments_of;
use crate::parse::kind::Kind;
use crate::parse::values::algorithm;

/// The wrapper, the user's function in it, and the limits.
struct Expansion {
    wrapper: ItemFn,
    function: ItemFn,
    limits: ItemStatic,
}

#[track_caller]
fn expansion(arguments: &str, item: &str) -> Expansion {
    let tokens = expand(arguments, item);
    let wrapper: ItemFn = syn::parse2(tokens.clone()).unwrap_or_else(|error| panic!("{error}: {tokens}"));
    let mut items = wrapper.block.stmts.iter().filter_map(|statement| match statement {
        // The use of an attribute of the other kind.
        Stmt::Item(Item::Const(_)) => None,
        Stmt::Item(item) => Some(item.to_token_stream()),
        Stmt::Macro(item) => Some(item.mac.path.to_token_stream()),
        _ => None,
    });
    let function = syn::parse2(items.next().unwrap()).unwrap();
    let limits = syn::parse2(items.next().unwrap()).unwrap();
    assert_eq!(text(items.next().unwrap()), format!("{P}::inventory::submit"));
    assert!(items.next().is_none());
    Expansion { wrapper, function, limits }
}

impl Expansion {
    /// Each limit as text without blanks.
    fn limits(&self) -> Vec<String> {
        let Expr::Struct(declaration) = &*self.limits.expr else { panic!("not a struct") };
        let limits = declaration.fields.iter().find(|field| text(&field.member) == "limits").unwrap();
        let Expr::Array(ExprArray { elems, .. }) = &limits.expr else { panic!("not an array") };
        assert_eq!(text(&self.limits.ty), format!("{P}::Declaration<[{P}::WrittenLimit;{}]>", elems.len()));
        elems.iter().map(text).collect()
    }
}

/// Tokens as text without blanks.
fn text(tokens: impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "")
}

fn attributes(function: &ItemFn) -> Vec<String> {
    function.attrs.iter().map(text).collect()
}

const P: &str = "::ratelimit_actix::__private_0_1";

#[test]
fn the_wrapper_has_the_name_and_place_of_the_handler() {
    let Expansion { wrapper, function, .. } = expansion(
        "max = 10",
        "pub(crate) async fn user<'a, T: A, const N: usize>(id: Path<T>) -> impl Responder where T: B { body }",
    );
    assert_eq!(text(&wrapper.vis), "pub(crate)");
    assert_eq!(
        text(&wrapper.sig),
        format!(
            "asyncfnuser<'a,T:A,constN:usize>(__rate_limit_request:{P}::HttpRequest,\
             __rate_limit_payload:{P}::Payload,)->{P}::HttpResponsewhereT:B"
        )
    );
    assert_eq!(text(&function.vis), "");
    assert_eq!(text(&function.sig), "asyncfnuser<'a,T:A,constN:usize>(id:Path<T>)->implResponderwhereT:B");
    assert!(text(&wrapper.block).contains("__rate_limit_function=user::<T,N>;"));
}

#[test]
fn the_body_is_copied_unchanged() {
    let body = "{ #![allow(x)] let r#a = b'x'; /* not even */ loop { break 'a: \"\\u{7f}\" } a.await? ; @ }";
    // Not Rust: parsing it would fail.
    let tokens = expand("", &format!("async fn user() {body}")).to_string();
    assert!(tokens.contains(&super::tokens(body).to_string()), "{tokens}");
}

/// The key of a limit without `key`.
fn default_key(name: &str) -> String {
    format!("{P}::DefaultKey::new(::core::concat!(::core::module_path!(),\"::\",{name:?})).as_str()")
}

/// The name in responses of a limit without `key` and `name`.
fn shown(name: &str) -> String {
    format!(".with_public_name({name:?})")
}

/// What operators see of the caller and of `count`.
fn text_of(by: &str, count: &str) -> String {
    format!(".with_text({by:?},{count:?})")
}

#[test]
fn an_attribute_without_arguments_is_one_default_limit() {
    assert_eq!(
        expansion("", HANDLER).limits(),
        [format!(
            "{P}::WrittenLimit::new({P}::Policy::builder({}).build()){}",
            default_key("user"),
            shown("user")
        )]
    );
}

#[test]
fn every_argument_is_written_out() {
    let limits = expansion(
        "cost = 5, by = a::b, sub_windows = 6, max = 0x10u64, window = \"1m\", key = \"k\", name = \"n\",",
        HANDLER,
    )
    .limits();
    assert_eq!(
        limits,
        [format!(
            "{P}::WrittenLimit::new({P}::Policy::builder(\"k\").max(16u64)\
             .window(::core::time::Duration::from_micros(60000000u64)).name(\"n\").sub_windows(6u64).build())\
             .by({P}::By::Now(|__rate_limit_request:&{P}::HttpRequest|\
             {{{P}::IntoCaller::into_caller(a::b(__rate_limit_request))}})).cost(5u64){}",
            text_of("a::b", "all")
        )]
    );
    let limits =
        expansion("algorithm = \"token_bucket\", burst = f(2) + 1, by = global, max = MAX", HANDLER).limits();
    assert_eq!(
        limits,
        [format!(
            "{P}::WrittenLimit::new({P}::Policy::builder({})\
             .max(MAX).algorithm({P}::Algorithm::TokenBucket).burst(f(2)+1).build()){}.by({P}::By::Global){}",
            default_key("user"),
            shown("user"),
            text_of("global", "all")
        )]
    );
}

#[test]
fn a_day_of_each_request_is_one_of_the_calendar_in_the_arguments() {
    let expanded =
        |arguments: &str| expand(arguments, HANDLER).to_string().split_whitespace().collect::<String>();
    let later = |name: &str, function: &str, ty: &str, conversion: &str| {
        format!(
            "{name}:{P}::PerRequest::Later(|__rate_limit_extracted|{{\
             {P}::later_call::<{ty},_,_,_>(__rate_limit_extracted,{function},{conversion})}})"
        )
    };
    for (window, first, returned) in [
        ("week", format!("week({P}::Weekday::Monday)"), format!("{P}::Weekday")),
        ("month", "month(1u8)".to_owned(), "::core::primitive::u8".to_owned()),
        ("year", "year(1u8,1u8)".to_owned(), "(::core::primitive::u8,::core::primitive::u8)".to_owned()),
    ] {
        let text = expanded(&format!("window = \"{window}\", zone = \"Asia/Tokyo\", anchor = with(f)"));
        let template = format!(".calendar({P}::Calendar::{first}.in_zone(\"Asia/Tokyo\").clamped())");
        let conversion = match window {
            "year" => "calendar_year".to_owned(),
            _ => format!("Calendar::{window}"),
        };
        let anchor = later("anchor", "f", &returned, &format!("{P}::{conversion}"));
        let computed = format!(",{P}::Computed{{{anchor},..{P}::Computed::NONE}})");
        assert!(text.contains(&template) && text.contains(&computed), "{text}");
        assert_eq!(text.matches(".in_zone(\"Asia/Tokyo\")").count(), 1, "{text}");
    }
    let both = expanded("window = \"month\", anchor = with(f), max = with(g)");
    let anchor = later("anchor", "f", "::core::primitive::u8", &format!("{P}::Calendar::month"));
    let max = later("max", "g", "::core::primitive::u64", "::core::convert::identity");
    assert!(both.contains(&format!("Computed{{{max},{anchor},..")), "{both}");
}

#[test]
fn the_example_of_every_argument_changes_the_expansion() {
    let cases = Kind::ALL.into_iter().flat_map(|kind| arguments_of(kind).map(move |row| (kind, row)));
    for (kind, row) in cases {
        let before = match (kind, row.name) {
            (_, "zone" | "anchor") => "window = \"month\", ",
            // These examples are defaults.
            (_, "by" | "crate") => continue,
            (Kind::Rate, "burst") => "algorithm = \"token_bucket\", ",
            (Kind::Rate, "charge") => "count = \"failures\", ",
            (Kind::Rate, _) => "",
            (Kind::Concurrency, "max") => "max = 1",
            (Kind::Concurrency, "policy") => "policy = OTHER",
            (Kind::Concurrency, _) => "max = 3, ",
        };
        let item = format!("#[get(\"/\")] {HANDLER}");
        let expand = |arguments: &str| attribute::expand(kind, tokens(arguments), tokens(&item)).to_string();
        let with = if before.contains(row.name) { row.example } else { &format!("{before}{}", row.example) };
        let expanded = expand(with);
        assert!(!expanded.contains("compile_error"), "{kind} {}: {expanded}", row.example);
        let has_effect = expanded != expand(before);
        assert!(has_effect, "`{}` is read and not expanded: validate/spec.rs, expand/", row.name);
    }
}

#[test]
fn both_kinds_of_limits_are_one_group() {
    let item = "#[concurrency_limit(max = 3, key = \"s\", by = global)] #[concurrency_limit(policy = STREAMS)] \
                async fn user() {}";
    let limits = expansion("key = \"k\"", item).limits();
    let expected = [
        format!("{P}::WrittenLimit::new({P}::Policy::builder(\"k\").build())"),
        format!(
            "{P}::WrittenLimit::new({P}::Policy::builder(\"s\").max(3u64).algorithm({P}::Algorithm::Concurrency).build())\
             .by({P}::By::Global){}",
            text_of("global", "all")
        ),
        format!(
            "{P}::WrittenLimit::shared_concurrency(const{{let_=||{P}::assert_policy(&STREAMS);&STREAMS}})"
        ),
    ];
    assert_eq!(limits, expected);
}

/// A missing import is then reported as that of any attribute, and an import is not reported as unused.
#[test]
fn a_removed_attribute_of_the_other_kind_is_used_where_it_has_no_effect() {
    let used = "#[concurrency_limit(__rate_limit_used)]const_:()=();";
    for item in [HANDLER, "mod api { #[get(\"/\")] async fn user() {} }"] {
        let expansion = text(expand("", &format!("#[concurrency_limit(max = 3)] {item}")));
        assert_eq!(expansion.matches(used).count(), 1, "{expansion}");
    }
    let nothing =
        attribute::expand(Kind::Concurrency, tokens("__rate_limit_used"), tokens("const _: () = ();"));
    assert!(nothing.is_empty(), "{nothing}");
}

#[test]
fn every_algorithm_has_its_variant() {
    for row in algorithm::ALGORITHMS {
        let (name, variant) = (row.name, row.variant);
        let variant = format!(".algorithm(::ratelimit_actix::__private_0_1::Algorithm::{variant})");
        let limits = expansion(&format!("key = \"k\", algorithm = {name:?}"), HANDLER).limits();
        assert_eq!(limits, [format!("{P}::WrittenLimit::new({P}::Policy::builder(\"k\"){variant}.build())")]);
    }
}

#[test]
fn stacked_attributes_are_one_group_in_the_order_of_the_source() {
    let expansion = expansion(
        "max = 1",
        "#[rate_limit(max = 2)] #[get(\"/user\")] #[x::rate_limit(max = 3)] #[rate_limit] async fn user() {}",
    );
    let limits = expansion.limits();
    assert_eq!(limits.len(), 4);
    for (limit, (key, setters)) in limits.iter().zip([
        ("user", ".max(1u64)"),
        ("user#2", ".max(2u64)"),
        ("user#3", ".max(3u64)"),
        ("user#4", ".build()"),
    ]) {
        assert!(limit.contains(&format!("{}){setters}", default_key(key))), "{limit}");
    }
    assert_eq!(attributes(&expansion.wrapper), ["#[allow(clippy::future_not_send)]", "#[get(\"/user\")]"]);
    assert!(expansion.function.attrs.is_empty());
}

#[test]
fn attributes_are_split_between_wrapper_and_function() {
    let Expansion { wrapper, function, .. } = expansion(
        "",
        "#[doc = \"A user.\"] #[tracing::instrument] #[actix_web::get(\"/\")] #[cfg(a)] #[allow(b)] #[expect(c)] \
         #[warn(d)] #[deny(e)] #[forbid(f)] #[deprecated] #[must_use] #[routes] #[inline] #[x::doc] async fn user() {}",
    );
    assert_eq!(
        attributes(&wrapper),
        [
            "#[allow(clippy::future_not_send)]",
            "#[doc=\"A user.\"]".replace(' ', "").as_str(),
            "#[actix_web::get(\"/\")]",
            "#[cfg(a)]",
            "#[allow(b)]",
            "#[expect(c)]",
            "#[warn(d)]",
            "#[deny(e)]",
            "#[forbid(f)]",
            "#[deprecated]",
            "#[must_use]",
            "#[routes]",
        ]
    );
    assert_eq!(attributes(&function), ["#[tracing::instrument]", "#[inline]", "#[x::doc]"]);
}

#[test]
fn arguments_are_checked_each_and_extracted_in_order() {
    let expansion = expansion("", "async fn user(Path(id): Path<u64>, mut b: Json<&'static str>, _: R) {}");
    let steps = text(&expansion.wrapper.block);
    for expected in [
        format!("{P}::assert_extractor::<Path<u64>>();{P}::assert_extractor::<Json<&'staticstr>>();"),
        format!(
            "let(__rate_limit_pass,(__rate_limit_argument_0,__rate_limit_argument_1,__rate_limit_argument_2,))=\
             match{P}::extract::<(Path<u64>,Json<&'staticstr>,R,)>\
             ({P}::admit(__rate_limit_request,__rate_limit_payload,&__RATE_LIMIT.limits)).await"
        ),
        "__rate_limit_pass.respond(__rate_limit_function(__rate_limit_argument_0,__rate_limit_argument_1,\
         __rate_limit_argument_2).await)"
            .to_owned(),
    ] {
        assert!(steps.contains(&expected), "{expected}\n{steps}");
    }
    assert_eq!(text(&expansion.function.sig), "asyncfnuser(Path(id):Path<u64>,mutb:Json<&'staticstr>,_:R)");
}

#[test]
fn arguments_under_a_condition_have_a_block_with_and_one_without_them() {
    for (attributes, condition) in [("#[cfg(a)]", "a"), ("#[cfg(a)] #[cfg(b)]", "all(a,b)")] {
        let item = format!("async fn user({attributes} a: A, b: B, {attributes} c: C) {{}}");
        let steps = text(&expansion("", &item).wrapper.block);
        let (before, after) = steps.split_once(&format!("#[cfg({condition})]")).unwrap();
        let (with, without) = after.split_once(&format!("#[cfg(not({condition}))]")).unwrap();
        assert!(!before.contains("extract::<"), "{before}");
        assert!(with.contains("extract::<(A,B,C,)>"), "{with}");
        assert!(without.contains("extract::<(B,)>"), "{without}");
    }
}

#[test]
fn the_crate_argument_replaces_the_facade_in_all_paths() {
    for root in ["crate", "crate::a::b", "::a", "$crate"] {
        let root = if root == "$crate" { "crate" } else { root };
        let text = text(expand(&format!("crate = {root}, by = f, algorithm = \"fixed_window\""), HANDLER));
        assert!(!text.contains("ratelimit_actix"), "{text}");
        assert!(text.contains(&format!("{root}::__private_0_1::WrittenLimit")), "{text}");
    }
    let text = text(expand("", "#[rate_limit(crate = ::a)] async fn user() {}"));
    assert!(!text.contains("ratelimit_actix"), "{text}");
}

#[test]
fn only_the_listed_names_of_the_facade_are_used() {
    fn collect(tokens: TokenStream, names: &mut BTreeSet<String>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => collect(group.stream(), names),
                TokenTree::Ident(ident) if ident == PRIVATE => {
                    names.insert(tokens[index + 3].to_string());
                }
                _ => {}
            }
        }
    }
    let mut names = BTreeSet::new();
    for rest in [
        "by = global",
        "by = f",
        "by = (principal, principal_or_ip)",
        "by = (ip, async |a: A| a), on_missing = \"skip\", on_error = \"deny\", count = \"failures\", skip = with(f), plan = p",
    ] {
        let arguments = format!(
            "max = 1, algorithm = \"token_bucket\", burst = 2, cost = 1, name = \"n\", mode = \"shadow\", {rest}"
        );
        collect(expand(&arguments, HANDLER), &mut names);
    }
    collect(expand("window = \"week\", anchor = with(f)", HANDLER), &mut names);
    collect(expand("window = \"year\", anchor = |d: Day| d.0", HANDLER), &mut names);
    collect(expand("max = |d: &Day| d.0", HANDLER), &mut names);
    collect(expand("policy = SEARCH", HANDLER), &mut names);
    collect(expand("", "impl A { async fn a() {} #[no_rate_limit] async fn b() {} }"), &mut names);
    assert_eq!(names, NAMES.into_iter().map(str::to_owned).collect());
}

#[test]
fn the_hidden_module_has_the_version_in_its_name() {
    let version = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    assert_eq!(PRIVATE, format!("__private_{}_{}", version.0, version.1));
}

#[test]
fn generated_names_have_the_prefix() {
    let arguments = "by = |a: A, b: B| a, max = with(f), skip = |r: &HttpRequest| true, count = \"failures\"";
    let tokens = expand(arguments, HANDLER).to_string();
    for binding in tokens.split("let ").skip(1) {
        let name = binding.trim_start_matches("mut ").trim_start_matches("( ");
        assert!(name.starts_with("__rate_limit_") || name.starts_with("(__rate_limit_"), "{binding}");
    }
}

#[test]
fn a_name_that_is_no_key_is_fitted_by_the_facade() {
    let limits = expansion("", "async fn größe() {}").limits();
    assert!(
        limits[0].ends_with(&format!(".with_public_name({P}::DefaultKey::new(\"größe\").as_str())")),
        "{}",
        limits[0]
    );
}

#[test]
fn texts_of_defaults_are_left_out() {
    let arguments = "count = \"failures\", cost = with(c), skip = with(s), plan = p";
    assert!(expansion(arguments, HANDLER).limits()[0].ends_with(&text_of("ip", "failures")));
    assert!(
        !text(expand("on_missing = \"skip\", max = 1, on_error = \"deny\"", HANDLER)).contains("with_text")
    );
}

#[test]
fn raw_identifiers_keep_their_name() {
    let expansion = expansion("", "async fn r#type() {}");
    assert!(expansion.limits()[0].contains("\"::\",\"type\""));
    assert!(text(&expansion.wrapper.block).contains("__rate_limit_function=r#type;"));
}

#[test]
fn a_mistake_returns_the_item_unchanged() {
    let item = "#[get(\"/user\")] #[instrument] pub async fn user(id: u8) -> u8 { id }";
    let stacked = item.replace("#[instrument]", "#[rate_limit(max = 1)] #[instrument] #[x::rate_limit]");
    let expanded = expand("max = 0", &stacked).to_string();
    assert!(expanded.starts_with(":: core :: compile_error !"), "{expanded}");
    assert!(expanded.ends_with(&tokens(item).to_string()), "{expanded}");
    assert!(!expanded.contains("rate_limit"), "{expanded}");
}

#[test]
fn every_mistake_is_its_own_compile_error() {
    let expanded = expand("max = 0, cost = 0, burst = 0", "struct User;").to_string();
    assert_eq!(expanded.matches("compile_error").count(), 5, "{expanded}");
}

#[test]
fn a_shared_policy_is_referred_to() {
    let text = expand("policy = limits::SEARCH, by = global, cost = 2", HANDLER).to_string().replace(' ', "");
    let path = "&limits::SEARCH";
    let policy = format!("WrittenLimit::shared(const{{let_=||{P}::assert_policy({path});{path}}})");
    let limit = format!("{policy}.by({P}::By::Global).cost(2u64)");
    assert!(text.contains(&format!("{limit}{}]", text_of("global", "all"))), "{text}");
    assert!(!text.contains("Policy::builder") && !text.contains("with_public_name"), "{text}");
}
