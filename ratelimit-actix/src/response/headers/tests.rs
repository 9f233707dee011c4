//! The styles against values computed by hand, and parsed by an independent parser of structured fields.

use actix_web::http::header::HeaderValue;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use ratelimit_core::{Algorithm, Check, Decision, GroupOutcome, Outcome, Policy, RateLimiter, Timestamp};
use serde::Deserialize;
use sfv::{BareItem, Item, List, ListEntry, Parser};

use super::*;
use crate::applied_limit::AppliedLimit;
use crate::quotas::Quota;

#[derive(Deserialize)]
struct Vectors {
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    limits: Vec<Limit>,
    #[serde(default)]
    expected: Expected,
}

#[derive(Deserialize)]
struct Limit {
    name: String,
    max: u64,
    #[serde(default)]
    window_ms: u64,
    burst: Option<u64>,
    #[serde(default)]
    remaining: u64,
    #[serde(default)]
    reset_after_us: u64,
    next_unit_after_us: Option<u64>,
    retry_after_us: Option<u64>,
    #[serde(default)]
    never: bool,
    #[serde(default)]
    at_us: u64,
    /// How many requests a concurrency limit has decided about, this one included. Each holds a slot if one
    /// was free.
    requests: Option<u64>,
}

impl Limit {
    fn quota(&self) -> Quota {
        // The instant comes from the group.
        let at = Timestamp::from_micros(self.at_us);
        let (policy, outcome) = self.requests.map_or_else(|| self.rate(), |requests| self.slots(requests));
        let outcome = GroupOutcome::new(at, [outcome]).outcomes()[0].clone();
        Quota::new(AppliedLimit::of(&Check::new(&policy, "")), outcome)
    }

    fn slots(&self, requests: u64) -> (Policy, Outcome) {
        let policy = Policy::concurrency("key", self.max).with_name(&*self.name).unwrap();
        let (limiter, check) = (RateLimiter::in_memory(), [Check::new(&policy, "")]);
        let held: Vec<_> = (0..requests).map(|_| limiter.try_check_all(&check).unwrap().unwrap()).collect();
        let outcome = held.last().unwrap().outcomes()[0].clone();
        (policy, outcome)
    }

    fn rate(&self) -> (Policy, Outcome) {
        let mut policy = Policy::builder("key").max(self.max).window(Duration::from_millis(self.window_ms));
        if let Some(burst) = self.burst {
            policy = policy.algorithm(Algorithm::TokenBucket).burst(burst);
        }
        let policy = policy.build().with_name(&*self.name).unwrap();
        let decision = match self.retry_after_us {
            _ if self.never => Decision::Denied { retry_after: None },
            Some(micros) => Decision::Denied { retry_after: Some(Duration::from_micros(micros)) },
            None => Decision::Allowed,
        };
        let outcome = Outcome::new(policy.capacity(), decision)
            .with_remaining(self.remaining)
            .with_reset_after(Duration::from_micros(self.reset_after_us));
        let next_unit_after = self.next_unit_after_us.map(Duration::from_micros);
        let outcome = next_unit_after.map_or(outcome.clone(), |wait| outcome.with_next_unit_after(wait));
        (policy, outcome)
    }
}

/// Fields by style.
type Expected = BTreeMap<String, BTreeMap<String, String>>;

fn vectors() -> Vec<(String, Vec<Quota>, Expected)> {
    let text = include_str!("golden.toml");
    let Vectors { case } = toml::from_str(text).unwrap();
    let cases = case.into_iter();
    cases.map(|case| (case.name, case.limits.iter().map(Limit::quota).collect(), case.expected)).collect()
}

/// Defines all styles and their names in the golden file. A style that is missing fails to compile.
macro_rules! styles {
    ($($style:ident = $name:literal),*) => {
        const STYLES: &[HeaderStyle] = &[$(HeaderStyle::$style),*];

        fn name(style: HeaderStyle) -> &'static str {
            match style {
                $(HeaderStyle::$style => $name),*
            }
        }
    };
}

styles!(LegacyUnix = "legacy-unix", LegacyDelta = "legacy-delta", Draft06 = "draft-06", Draft11 = "draft-11");

fn style(name: &str) -> HeaderStyle {
    let found = STYLES.iter().find(|style| self::name(**style) == name);
    *found.unwrap_or_else(|| panic!("no style {name}"))
}

fn written(styles: &[HeaderStyle], quotas: &[Quota]) -> BTreeMap<String, String> {
    let mut headers = HeaderMap::new();
    write(styles, &quotas.iter().collect::<Vec<_>>(), &mut headers);
    let fields = headers.iter();
    fields.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
}

#[test]
fn each_style_matches_the_golden_file() {
    let mut compared = 0;
    for (case, quotas, expected) in vectors() {
        for (name, fields) in expected {
            assert_eq!(written(&[style(&name)], &quotas), fields, "{case}, {name}");
            compared += 1;
        }
    }
    assert!(compared > 20, "only {compared}");
}

#[test]
fn every_style_has_golden_values_a_row_and_a_test_of_its_waits() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cases = vectors();
    for style in STYLES {
        let values = cases.iter().filter(|(.., expected)| expected.contains_key(name(*style))).count();
        assert!(values >= 5, "golden.toml has {values} values of {style:?}");
        for (path, place) in [
            ("../docs/responses.md", format!("| `{style:?}` |")),
            ("../tests/http/headers/waiting.rs", format!("HeaderStyle::{style:?}")),
        ] {
            // The published crate does not contain these files.
            let Ok(text) = fs::read_to_string(here.join(path)) else { continue };
            assert!(text.contains(&place), "{path} lacks {place}");
        }
    }
}

/// A member of a list: its name and its parameters.
type Member = (String, BTreeMap<String, i64>);

fn members(field: &str) -> Vec<Member> {
    let list = Parser::new(field).parse::<List>().unwrap();
    let member = |entry: &ListEntry| {
        let ListEntry::Item(Item { bare_item: BareItem::String(name), params }) = entry else {
            panic!("not a string: {entry:?}");
        };
        let numbers = params.iter().filter(|(name, _)| name.as_str() != "qu");
        let number = |value: &BareItem| value.as_integer().unwrap().into();
        let params = numbers.map(|(name, value)| (name.as_str().to_owned(), number(value)));
        (name.as_str().to_owned(), params.collect())
    };
    list.iter().map(member).collect()
}

#[test]
fn draft_11_is_canonical_and_complete() {
    use sfv::FieldType as _;

    for (case, quotas, _) in vectors() {
        let fields = written(&[HeaderStyle::Draft11], &quotas);
        for field in fields.values() {
            let list = Parser::new(field).parse::<List>().unwrap();
            assert_eq!(list.serialize().as_ref(), Some(field), "{case}");
        }
        let (limits, policies) = match (fields.get("ratelimit"), fields.get("ratelimit-policy")) {
            (Some(limits), Some(policies)) => (members(limits), members(policies)),
            (None, None) if quotas.is_empty() => continue,
            other => panic!("{case}: {other:?}"),
        };
        let names = |members: &[Member]| members.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&limits), names(&policies), "{case}");
        let distinct: std::collections::BTreeSet<_> = names(&limits).into_iter().collect();
        assert_eq!(distinct.len(), quotas.len(), "{case}: names occur twice");
        let retry_after = retry_after(&quotas.iter().collect::<Vec<_>>()).map(retry_after_seconds);
        for (quota, ((_, limit), (_, policy))) in quotas.iter().zip(limits.iter().zip(&policies)) {
            assert_eq!(limit["r"].cast_unsigned(), quota.outcome().remaining(), "{case}");
            assert_eq!(policy["q"].cast_unsigned(), quota.policy().capacity(), "{case}");
            assert_ne!(policy.get("w"), Some(&0), "{case}");
            if !quota.is_rate() {
                assert_eq!((limit.get("t"), policy.get("w")), (None, None), "{case}");
            }
            if let (Some(t), Some(retry_after)) = (limit.get("t"), retry_after) {
                assert!(t.cast_unsigned() <= retry_after, "{case}: t={t}, Retry-After: {retry_after}");
            }
        }
    }
}

#[test]
fn several_styles_are_written_side_by_side() {
    for (case, quotas, expected) in vectors() {
        let both = written(&[HeaderStyle::LegacyUnix, HeaderStyle::Draft11], &quotas);
        for fields in ["legacy-unix", "draft-11"].iter().filter_map(|style| expected.get(*style)) {
            for (name, value) in fields {
                assert_eq!(both.get(name), Some(value), "{case}");
            }
        }
        assert_eq!(written(&[], &quotas), BTreeMap::new(), "{case}");
    }
}

#[test]
fn existing_fields_are_replaced() {
    let (_, quotas, _) = &vectors()[0];
    let mut headers = HeaderMap::new();
    headers.append(LEGACY_FIELDS[0].clone(), HeaderValue::from_static("old"));
    headers.append(LEGACY_FIELDS[0].clone(), HeaderValue::from_static("older"));
    write(&[HeaderStyle::LegacyUnix], &quotas.iter().collect::<Vec<_>>(), &mut headers);
    assert_eq!(headers.get_all(&LEGACY_FIELDS[0]).count(), 1);
}

#[test]
fn retry_after_is_never_too_early_and_never_zero() {
    let cases =
        [(0, 1), (1, 1), (999_999, 1), (1_000_000, 1), (1_000_001, 2), (41_000_001, 42), (42_000_000, 42)];
    for (micros, seconds) in cases {
        assert_eq!(retry_after_seconds(Duration::from_micros(micros)), seconds);
    }
    // 2^31 - 1 milliseconds and no second more.
    for (wait, seconds) in [(2_147_482_001, 2_147_483), (2_147_483_001, 2_147_483), (u64::MAX, 2_147_483)] {
        assert_eq!(retry_after_seconds(Duration::from_millis(wait)), seconds, "{wait} ms");
    }
}

#[test]
fn numbers_are_decimal() {
    for n in [0, 9, 10, u64::MAX] {
        assert_eq!(number(n), HeaderValue::from(n));
    }
}
