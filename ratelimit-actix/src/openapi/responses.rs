//! What one operation gets: responses, header fields, numbers.

use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, HeaderName, RETRY_AFTER};
use ratelimit_core::policy::{Field, Value as Setting};
use ratelimit_core::{Mode, OnError};
use serde_json::{Number, Value, json};
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType};
use utoipa::openapi::{RefOr, Response, ResponseBuilder, Type};

use crate::config::RateLimitConfig;
use crate::declared::DeclaredLimit;
use crate::response::{BodyStyle, HeaderStyle, StyleSettings, field_names};

/// The extension with the numbers of the limits. An operation that has it is complete.
const NUMBERS: &str = "x-ratelimit";

/// Adds what the enforced limits of an operation do.
pub(super) fn add(operation: &mut Operation, limits: &[DeclaredLimit], config: &RateLimitConfig) {
    let limits: Vec<_> = limits.iter().filter(|limit| limit.policy().mode() == Mode::Enforce).collect();
    let is_done = operation.extensions.as_ref().is_some_and(|extensions| extensions.contains_key(NUMBERS));
    if limits.is_empty() || is_done {
        return;
    }
    let style = config.style();
    let kinds = Kinds::of(&limits);
    let responses = &mut operation.responses.responses;
    for response in responses.values_mut() {
        if let RefOr::T(response) = response {
            add_quota_fields(response, style, kinds);
        }
    }
    let mut add = |status: &str, response: Response| {
        responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(response));
    };
    add("429", too_many_requests(style, kinds));
    if limits.iter().any(|limit| limit.may_lack_caller()) {
        add("400", rejection(style, "The request does not identify its caller."));
    }
    if limits.iter().any(|limit| limit.policy().on_error() == OnError::Deny) {
        let mut response = rejection(style, "The limit cannot be checked right now.");
        response.headers.insert(RETRY_AFTER.to_string(), RefOr::T(retry_after("Seconds to wait.")));
        add("503", response);
    }
    let numbers: Vec<Value> = limits.iter().map(|limit| numbers(limit)).collect();
    operation.extensions.get_or_insert_with(Extensions::default).insert(NUMBERS.to_owned(), numbers.into());
}

/// The kinds of limits that an operation has.
#[derive(Clone, Copy)]
struct Kinds {
    rates: bool,
    at_a_time: bool,
}

impl Kinds {
    fn of(limits: &[&DeclaredLimit]) -> Self {
        let rates = limits.iter().filter(|limit| !limit.policy().is_concurrency()).count();
        Self { rates: rates > 0, at_a_time: rates < limits.len() }
    }
}

fn too_many_requests(style: &StyleSettings, kinds: Kinds) -> Response {
    let mut response = rejection(style, "A limit denies the request.");
    if kinds.rates {
        let what = "Seconds after which the request passes, if no other request is charged meanwhile. Missing if the request \
                    costs more than the limit allows";
        let unknown = if kinds.at_a_time {
            ", or if it only waits until another request of the caller has ended"
        } else {
            ""
        };
        response.headers.insert(RETRY_AFTER.to_string(), RefOr::T(retry_after(&format!("{what}{unknown}."))));
    }
    add_quota_fields(&mut response, style, kinds);
    response
}

/// A response with the bodies of the configuration.
fn rejection(style: &StyleSettings, description: &str) -> Response {
    let text = ObjectBuilder::new().schema_type(SchemaType::from(Type::String)).build();
    let not_stored = HeaderBuilder::new().schema(Some(text)).description(Some("`no-store`.")).build();
    let response = ResponseBuilder::new().description(description).header(CACHE_CONTROL.as_str(), not_stored);
    if let Some(custom) = &style.custom_body {
        return response.content(&custom.content_type, ContentBuilder::new().build()).build();
    }
    let mut bodies = vec![style.body];
    if style.body_by_accept {
        bodies.extend(BodyStyle::ALL.into_iter().filter(|body| *body != style.body));
    }
    let add = |response: ResponseBuilder, body: BodyStyle| {
        response
            .content(body.content_type(), ContentBuilder::new().schema(Some(schema(body).build())).build())
    };
    bodies.into_iter().fold(response, add).build()
}

/// The schema of a body.
fn schema(body: BodyStyle) -> ObjectBuilder {
    let text = || ObjectBuilder::new().schema_type(SchemaType::from(Type::String));
    let integer = || ObjectBuilder::new().schema_type(SchemaType::from(Type::Integer));
    match body {
        BodyStyle::Json => ObjectBuilder::new()
            .property("error", text().build())
            .property("message", text().build())
            .property("retryAfter", integer().minimum(Some(1_u32)).build())
            .required("error")
            .required("message"),
        BodyStyle::Problem => ObjectBuilder::new()
            .property("type", text().build())
            .property("title", text().build())
            .property("status", integer().build())
            .property("detail", text().build())
            .property("violated-policies", ArrayBuilder::new().items(text().build()).build())
            .required("type")
            .required("title")
            .required("status")
            .required("detail"),
        BodyStyle::Text => text(),
    }
}

/// The fields that report a quota. Fields of these names that are described already stay.
fn add_quota_fields(response: &mut Response, style: &StyleSettings, kinds: Kinds) {
    let styles = style.headers.iter().filter(|style| kinds.rates || style.shows_slots());
    for &header_style in styles {
        for name in field_names(header_style) {
            let known = response.headers.keys().any(|other| other.eq_ignore_ascii_case(name.as_str()));
            if !known {
                response.headers.insert(name.to_string(), RefOr::T(field(name, header_style)));
            }
        }
    }
}

fn field(name: &HeaderName, style: HeaderStyle) -> Header {
    let last = name.as_str().rsplit('-').next().unwrap_or_default();
    let (kind, what) = match (last, style) {
        ("limit", _) => (Type::Integer, "Units of the tightest limit."),
        ("remaining", _) => (Type::Integer, "Units left of the tightest limit."),
        ("reset", style) => (
            Type::Integer,
            match style {
                HeaderStyle::LegacyUnix => "When to come again, or when the quota is full: Unix seconds.",
                HeaderStyle::LegacyDelta | HeaderStyle::Draft06 | HeaderStyle::Draft11 => {
                    "When to come again, or when the quota is full: seconds from now."
                }
            },
        ),
        ("policy", _) => (Type::String, "Every limit, with its quota and its window in seconds."),
        (
            _,
            HeaderStyle::LegacyUnix | HeaderStyle::LegacyDelta | HeaderStyle::Draft06 | HeaderStyle::Draft11,
        ) => (Type::String, "What is left of every limit, and a wait in seconds."),
    };
    let schema = ObjectBuilder::new().schema_type(SchemaType::from(kind)).build();
    HeaderBuilder::new().schema(Some(schema)).description(Some(what)).build()
}

fn retry_after(what: &str) -> Header {
    let seconds =
        ObjectBuilder::new().schema_type(SchemaType::from(Type::Integer)).minimum(Some(1_u32)).build();
    HeaderBuilder::new().schema(Some(seconds)).description(Some(what)).build()
}

/// The numbers of a limit.
fn numbers(limit: &DeclaredLimit) -> Value {
    let policy = limit.policy();
    let mut numbers = json!({ "name": limit.public_name() });
    if let Some(cost) = limit.cost().filter(|cost| *cost > 1) {
        numbers["cost"] = cost.into();
    }
    for (field, value) in policy.settings().values().filter(|(field, _)| field.is_public()) {
        let Some(value) = value else { continue };
        let (name, value) = match (field, value) {
            (Field::Max | Field::Burst, _) if limit.max().is_none() => continue,
            (Field::SubWindows, Setting::Number(1)) => continue,
            (_, Setting::Number(number)) => (camel_case(field.as_str()), number.into()),
            (_, Setting::Time(time)) => (camel_case(field.as_str()), seconds(time)),
            (_, Setting::Calendar(_)) => ("calendar".to_owned(), limit.computed().calendar_of(policy).into()),
            (_, Setting::Name(name)) => (camel_case(field.as_str()), name.into()),
            _ => continue,
        };
        numbers[&*name] = value;
    }
    numbers
}

/// `sub_windows` as `subWindows`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let (initial, rest) = word.split_at(1.min(word.len()));
        text + &initial.to_ascii_uppercase() + rest
    })
}

/// A length in seconds: an integer if it is one.
fn seconds(length: Duration) -> Value {
    if length.subsec_nanos() == 0 {
        return length.as_secs().into();
    }
    Number::from_f64(length.as_secs_f64()).map_or(Value::Null, Value::Number)
}
