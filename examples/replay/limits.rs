//! Limits from a file: `[limit.NAME]` with the fields of a policy, and which requests and callers it is for.

use std::collections::BTreeMap;

use ratelimit_core::{Check, MAX_GROUP, Policy, PolicyError};
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::caller::By;
use crate::judge::DIGEST_KEY;
use crate::pattern::Pattern;

/// A limit of the file.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) policy: Policy,
    pub(crate) by: By,
    pub(crate) count: Count,
    path: Option<Pattern>,
    methods: Option<Vec<String>>,
}

/// Which answers count; the others give their unit back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    All,
    Failures,
    Successes,
}

impl Limit {
    /// All requests of an address.
    pub(crate) fn of_everything() -> Result<Self, PolicyError> {
        let policy = Policy::builder("everything").try_build()?;
        Ok(Self { policy, by: By::Ip, count: Count::All, path: None, methods: None })
    }

    /// Whether the limit is for requests of this method and path.
    pub(crate) fn is_for(&self, method: &str, path: &str) -> bool {
        let is_method = match &self.methods {
            Some(methods) => methods.iter().any(|known| known == method),
            // Preflights of browsers: a service does not count them either.
            None => method != "OPTIONS",
        };
        is_method && self.path.as_ref().is_none_or(|pattern| pattern.matches(path))
    }
}

impl Count {
    /// Whether an answer with this status counts; one without a status does.
    pub(crate) fn includes(self, status: Option<u16>) -> bool {
        match (self, status) {
            (Self::All, _) | (_, None) => true,
            (Self::Failures, Some(status)) => status >= 400,
            (Self::Successes, Some(status)) => status < 400,
        }
    }
}

type Value<'i> = Spanned<DeValue<'i>>;

/// A mistake and its place in the text.
type Mistake = (usize, String);

/// Reads a file with this name. An error names the line of the first mistake.
pub(crate) fn parse(text: &str, file: &str) -> Result<Vec<Limit>, String> {
    read(text).map_err(|(place, mistake)| {
        let line = 1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count();
        format!("line {line} of {file}: {mistake}")
    })
}

fn read(text: &str) -> Result<Vec<Limit>, Mistake> {
    const EXPECTED: &str = "expected a table for each limit, such as [limit.login]";
    let root = DeTable::parse(text).map_err(|error| {
        (
            error.span().map_or(0, |span| span.start),
            format!("expected TOML: {}", error.message().trim().replace('\n', ", ")),
        )
    })?;
    // In the order of the file.
    let mut tables = BTreeMap::new();
    for (key, value) in root.get_ref() {
        let named = value.get_ref().as_table().filter(|_| key.get_ref() == "limit");
        let Some(named) = named else { return Err((key.span().start, EXPECTED.to_owned())) };
        for (name, value) in named {
            let place = name.span().start;
            let Some(table) = value.get_ref().as_table() else { return Err((place, EXPECTED.to_owned())) };
            tables.insert(place, (name.get_ref(), table));
        }
    }
    if tables.is_empty() {
        return Err((0, format!("{EXPECTED}, found none")));
    }
    let mut limits: Vec<Limit> = Vec::new();
    for (place, (name, table)) in &tables {
        let limit = limit(*place, name, table)?;
        for ((other, _), before) in tables.values().zip(&limits) {
            if let Some((fields, mistake)) = same(&before.policy, &limit.policy) {
                let own = fields[0];
                let field = fields.iter().find_map(|field| table.get(*field));
                let place = field.map_or(*place, |value| value.span().start);
                return Err((
                    place,
                    format!("limit `{name}`: {mistake} limit `{other}`; give it a `{own}` of its own"),
                ));
            }
        }
        limits.push(limit);
    }
    if limits.len() > MAX_GROUP {
        return Err((0, format!("expected at most {MAX_GROUP} limits, found {}", limits.len())));
    }
    Ok(limits)
}

/// What two limits may not have in common, because a refund finds its charge by the name: the fields that tell it, and a text.
fn same(a: &Policy, b: &Policy) -> Option<(&'static [&'static str], &'static str)> {
    let digest = |policy| Check::new(policy, "").digest(&DIGEST_KEY);
    if digest(a) == digest(b) {
        return Some((&["key"], "its key, algorithm and window are equal, so it would share the counts of"));
    }
    (a.name() == b.name()).then_some((&["name", "key"], "it has the same name as"))
}

fn limit(place: usize, name: &str, table: &DeTable<'_>) -> Result<Limit, Mistake> {
    let (mut by, mut count, mut path, mut methods) = (By::Ip, Count::All, None, None);
    // The rest is a policy.
    let mut fields = DeTable::new();
    for (key, value) in table {
        let wrong = |expected: &str| {
            (value.span().start, format!("`{}` of limit `{name}`: {expected}", key.get_ref()))
        };
        match key.get_ref().as_ref() {
            "by" => by = By::parse(text(value).map_err(&wrong)?).map_err(wrong)?,
            "count" => count = Count::parse(text(value).map_err(&wrong)?).map_err(wrong)?,
            "path" => path = Some(Pattern::parse(text(value).map_err(&wrong)?).map_err(wrong)?),
            "methods" => methods = Some(methods_of(value).map_err(wrong)?),
            // A replay shows what the limit would deny, in any mode.
            "mode" if value.get_ref().as_str() == Some("shadow") => {}
            _ => _ = fields.insert(key.clone(), value.clone()),
        }
    }
    if !table.contains_key("key") {
        let value = Spanned::new(place..place, DeValue::String(name.into()));
        fields.insert(Spanned::new(place..place, "key".into()), value);
    }
    let fields = ValueDeserializer::from(Spanned::new(place..place, DeValue::Table(fields)));
    let policy = Policy::deserialize(fields).map_err(|error| {
        let mut message = error.message().trim().to_owned();
        if message.starts_with("unknown field") {
            message += ", `by`, `path`, `methods`, `count`";
        }
        (error.span().map_or(place, |span| span.start), format!("limit `{name}`: {message}"))
    })?;
    Ok(Limit { policy, by, count, path, methods })
}

fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, &'static str> {
    value.get_ref().as_str().ok_or("expected a string")
}

fn methods_of(value: &Value<'_>) -> Result<Vec<String>, &'static str> {
    const EXPECTED: &str = "expected a list such as [\"GET\", \"POST\"]";
    let methods = value.get_ref().as_array().ok_or(EXPECTED)?.iter().map(|method| {
        let method = method.get_ref().as_str().filter(|method| !method.is_empty());
        method.map(str::to_ascii_uppercase).ok_or(EXPECTED)
    });
    methods.collect()
}

impl Count {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "all" => Ok(Self::All),
            "failures" => Ok(Self::Failures),
            "successes" => Ok(Self::Successes),
            _ => Err("expected one of \"all\", \"failures\", \"successes\""),
        }
    }
}
