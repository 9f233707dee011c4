//! The `#[rate_limit]` attribute of `ratelimit-actix`.
//!
//! Depend on `ratelimit-actix`, which exports it together with everything that its expansion names.

#[cfg(test)]
mod tests;

mod algorithm;
mod args;
mod attribute;
mod block;
mod by;
mod choices;
mod code;
mod diagnostics;
mod expand;
mod fallback;
mod handler;
mod item;
mod limits;
mod name;
mod number;
mod paths;
mod route;
mod rules;
mod source;
mod template;
mod text;
mod validate;
mod value;
mod window;
mod words;

use proc_macro::TokenStream;

/// Limits how often a handler can be called.
///
/// The limit is decided before any extractor runs, so the body of a refused request is not read. A request that passes
/// gets its quota in the headers of whatever the handler answers; one that does not gets `429 Too Many Requests`.
///
/// # Syntax
///
/// ```text
/// #[rate_limit]
/// #[rate_limit(argument = value, ...)]
/// ```
///
/// on an `async fn` that Actix-web accepts as a handler. Arguments come in any order.
///
/// # Arguments
///
/// | argument | value | default |
/// |---|---|---|
/// | `max` | calls per window: an integer or a const expression, 1 to 10^12 | `100` |
/// | `window` | whole numbers with units, large to small: `"500ms"`, `"60s"`, `"5m"`, `"1h"`, `"1d"`, `"1h30m"`; 1 ms to 366 days | `"60s"` |
/// | `key` | the name under which calls are counted: 1 to 64 characters of printable ASCII, without blanks, braces, quotes and backslashes. Handlers with the same key share the count, still apart per caller | module path and function name |
/// | `by` | who is limited: `ip` is the client's address, `global` is everybody together, and the path of a `fn(&HttpRequest) -> K` lets it say who the caller is | `ip` |
/// | `algorithm` | `"fixed_window"`, `"sliding_window_counter"`, `"sliding_window_log"` or `"token_bucket"` | `"sliding_window_counter"` |
/// | `sub_windows` | 1 to 60 equal parts of the window, in whole microseconds; for the sliding window counter only | `1` |
/// | `burst` | tokens in a full bucket, 1 to 10^12; for the token bucket only | `max` |
/// | `cost` | units that one call takes, 1 to 10^12 and at most `max`, or at most `burst` | `1` |
/// | `name` | what headers call the policy; letters as for `key` | the key |
/// | `crate` | where the facade is, if not at `::ratelimit_actix`: `::path` or `crate::path` | `::ratelimit_actix` |
///
/// # Notes
///
/// - It works above, below and between `#[get]`, `#[post]`, `#[route]`, `#[routes]` and their like, and without any, for
///   `.to(handler)`.
/// - Several `#[rate_limit]` on one handler are one group: a call passes all of them and is counted by all, or by none,
///   in one question to the store. A limit without a `key` that is not the first takes its position into its name, such
///   as `api::user#2`.
/// - The function becomes a wrapper of the same name, and the function as it was written is nested in it. Documentation,
///   `cfg`, lint levels, `deprecated`, `must_use` and routes are on the wrapper, every other attribute is on the nested
///   function. An attribute that adds items beside the function therefore belongs above this one.
/// - `Self` cannot be named in an associated function, because a nested function has none; write the type's name. Two
///   associated functions of one name in one module need a `key` each, since the default key does not hold the type.
/// - Import the attribute under its own name. One that is renamed by `use .. as ..` cannot be found by its neighbours in
///   a group, and does not compile next to them.
///
/// # Examples
///
/// Ten calls a minute for each client:
///
/// ```ignore
/// use actix_web::{Responder, get, web};
/// use ratelimit_actix::rate_limit;
///
/// #[rate_limit(max = 10, window = "60s", key = "user-api")]
/// #[get("/user/{user_id}")]
/// async fn user(user_id: web::Path<u64>) -> impl Responder {
///     format!("user {user_id}")
/// }
/// ```
///
/// Five a second with bursts of twenty, and a thousand a day, for each API key:
///
/// ```ignore
/// fn api_key(request: &HttpRequest) -> Option<String> {
///     Some(request.headers().get("x-api-key")?.to_str().ok()?.to_owned())
/// }
///
/// #[rate_limit(max = 5, window = "1s", algorithm = "token_bucket", burst = 20, by = api_key)]
/// #[rate_limit(max = 1_000, window = "1d", by = api_key, name = "daily")]
/// #[post("/orders")]
/// async fn order(order: web::Json<Order>) -> Result<HttpResponse, Error> {
///     // ..
/// }
/// ```
///
/// # Errors
///
/// Mistakes are compile errors at the token that holds them, all of them at once, each with what to write instead:
///
/// ```text
/// error: unknown argument `maxRequests`; did you mean `max = 10`?
///   |
/// 4 | #[rate_limit(maxRequests = 10, window = "60sec")]
///   |              ^^^^^^^^^^^
/// error: unknown unit `sec` in "60sec"; did you mean `window = "60s"`?
///   |
/// 4 | #[rate_limit(maxRequests = 10, window = "60sec")]
///   |                                         ^^^^^^^
/// ```
///
/// Numbers from const expressions are checked when the compiler has computed them.
#[proc_macro_attribute]
pub fn rate_limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute::expand(arguments.into(), item.into()).into()
}

/// Takes a handler out of the `#[rate_limit]` of the module or impl block around it.
///
/// A module or impl block inside of a limited module can be taken out as a whole. Anywhere else it is a mistake, and a
/// compile error says so.
#[proc_macro_attribute]
pub fn no_rate_limit(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute::expand_exemption(&item.into()).into()
}
