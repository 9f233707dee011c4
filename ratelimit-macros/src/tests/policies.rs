//! `policy = PATH`: its value, and the arguments that a policy replaces.

use super::{HANDLER, check, expand, mistakes};

const EXAMPLE: &str = "; write for example `static SEARCH: Policy = Policy::new(\"search\", 10, Duration::from_secs(60));` \
                       and `policy = SEARCH`";

#[test]
fn a_policy_is_a_path() {
    for path in
        ["SEARCH", "crate::limits::SEARCH", "Plans::FREE", "<Plans as Tier>::POLICY", "::limits::SEARCH"]
    {
        check(&format!("policy = {path}"), &[]);
    }
    let takes = "`policy` takes the path of a `static`, not";
    for (value, what, meant) in [
        ("&SEARCH", "a reference", Some("SEARCH")),
        ("&limits::SEARCH", "a reference", Some("limits::SEARCH")),
        ("\"SEARCH\"", "a string", Some("SEARCH")),
        ("\"limits::SEARCH\"", "a string", Some("limits::SEARCH")),
        ("\"search\"", "a string", None),
        ("\"SEARCH !\"", "a string", None),
        ("&search()", "a reference", None),
        ("search()", "a call", None),
        ("Policy::new(\"a\", 1, HOUR)", "a call", None),
        ("10", "an integer", None),
        ("|user: User| user.policy", "a closure", None),
    ] {
        let help = meant.map_or(EXAMPLE.to_owned(), |path| format!("; did you mean `policy = {path}`?"));
        check(&format!("policy = {value}"), &[(value, &format!("{takes} {what}{help}"))]);
    }
    let own_type = "`Self` cannot be named in #[rate_limit]; write the name of the type instead";
    check("policy = Self::SEARCH", &[("Self", own_type)]);
}

#[test]
fn a_policy_replaces_the_arguments_that_describe_one() {
    for argument in [
        "max = 10",
        "window = \"1m\"",
        "algorithm = \"token_bucket\"",
        "burst = 5",
        "sub_windows = 7",
        "key = \"k\"",
        "name = \"n\"",
        "on_error = \"deny\"",
        "block = \"1s\"",
        "mode = \"shadow\"",
    ] {
        let name = argument.split(' ').next().unwrap();
        let message = format!(
            "`limits::SEARCH` has its own `{name}`; remove this one and set it in the policy, or remove `policy`"
        );
        check(&format!("policy = limits::SEARCH, {argument}"), &[(name, &message)]);
        check(&format!("{argument}, policy = limits::SEARCH"), &[(name, &message)]);
    }
    check(
        "policy = A, by = global, cost = 5, skip = with(f), count = \"failures\", crate = ::ratelimit_actix",
        &[],
    );
    check("policy = A, by = f, on_missing = \"skip\", cost = |n: Path<u64>| *n", &[]);
    // No number of the policy is in view, so no default is compared.
    check("policy = A, cost = 500", &[]);
}

#[test]
fn all_arguments_that_a_policy_has_are_reported_at_once() {
    assert_eq!(mistakes("max = 1, policy = A, window = \"1s\", name = \"n\", burst = 0", HANDLER).len(), 5);
    // Also if the policy itself has a mistake.
    let found = mistakes("max = 1, policy = 3", HANDLER);
    assert_eq!(
        found[1].1,
        "the policy has its own `max`; remove this one and set it in the policy, or remove `policy`"
    );
}

#[test]
fn the_expansion_refers_to_the_policy() {
    let text = expand("policy = limits::SEARCH, by = global, cost = 2", HANDLER).to_string().replace(' ', "");
    let limit = "HandlerLimit::shared(const{&limits::SEARCH}).by(::ratelimit_actix::__private_0_1::By::Global).cost(2u64)]";
    assert!(text.contains(limit), "{text}");
    assert!(!text.contains("Policy::builder") && !text.contains("with_public_name"), "{text}");
}
