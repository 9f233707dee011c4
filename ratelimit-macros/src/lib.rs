//! The attributes `#[rate_limit]` and `#[concurrency_limit]` of `ratelimit-actix`.
//!
//! Depend on `ratelimit-actix`, which re-exports the attributes together with the items that their expansion
//! uses.

#[cfg(test)]
mod tests;

mod attribute;
mod diagnostics;
mod expand;
mod parse;
mod validate;

use proc_macro::TokenStream;

use crate::parse::args::rows::with_arguments;
use crate::parse::kind::Kind;

/// The table of arguments.
macro_rules! table {
    ($($(#[doc = $cell:literal])* $field:ident $name:literal: $type:ty, $of:ident, $example:literal, $code:tt $(, $why:literal)?;)*) => {
        concat!(
            "| argument | what it is | default | values | of |\n|---|---|---|---|---|\n",
            $("| `", $example, "`", $($cell,)* " | ", whose!($of), " |\n",)*
        )
    };
}

/// What an argument belongs to.
macro_rules! whose {
    (Policy) => {
        "policy"
    };
    (Part) => {
        "policy"
    };
    (Limit) => {
        "limit"
    };
    (Handler) => {
        "handler"
    };
}

/// The names of the arguments that only `#[rate_limit]` has.
macro_rules! of_rates {
    ($($(#[doc = $docs:literal])* $field:ident $name:literal: $type:ty, $of:ident, $example:literal, $code:tt $(, $why:literal)?;)*) => {
        concat!($($("  `", $name, "`\n", of_rates!(@ $why),)?)*)
    };
    (@ $why:literal) => { "" };
}

/// Limits how often a handler can be called.
///
/// The limit is checked before any extractor runs, so the body of a denied request is not read. An admitted
/// request gets its quota in the headers of the response. A denied request gets `429 Too Many Requests`.
///
/// # Syntax
///
/// ```text
/// #[rate_limit]
/// #[rate_limit(argument = value, ...)]
/// ```
///
/// on an `async fn` that Actix-web accepts as a handler, on an inline module, or on an impl block. Arguments
/// come in any order.
///
/// # Arguments
///
/// Values *per request* are closures or `with(function)`. With [`policy`](#shared-policies) the policy has
/// its arguments itself.
///
#[doc = with_arguments!(table)]
///
/// [per request]: #values-chosen-per-request
/// [calendar]: #windows-of-a-calendar
/// [counts]: #limits-with-one-count
/// [callers]: #callers
/// [blocks]: #blocks
/// [shadow]: #shadow-limits
/// [responses]: #responses-that-count
/// [leases]: https://docs.rs/ratelimit-actix/latest/ratelimit_actix/guide/leases/
/// [plans]: https://docs.rs/ratelimit-actix/latest/ratelimit_actix/guide/overrides/
///
/// # Shared policies
///
/// With `policy = SEARCH`, for a `static SEARCH: Policy`, the numbers stand in one place. All handlers with
/// this policy, and a `RateLimitMiddleware` with it, share the count of each caller. Arguments of a limit are
/// those of the attribute; arguments of a policy are compile errors beside `policy`. A request that passes
/// the middleware and a handler with the same policy and caller is charged by both.
///
/// # Callers
///
/// Each caller has its own count.
///
/// | `by` | the caller |
/// |---|---|
/// | `ip` | the client's address |
/// | `global` | one caller for all requests |
/// | `path("id")` | a path parameter, of the route or of a scope around it; not checked |
/// | `header("x-tenant")` | the first value of a header field. **It is not verified**: a client that invents values invents quotas. An empty value is no caller |
/// | `principal_or_ip` | the account that authentication has verified, or else the address; `by = principal` for accounts only |
/// | `caller` | the value of a `fn(&HttpRequest) -> K`; one whose name is a word of this table is `self::principal` |
/// | `\|req: &HttpRequest\| ..` | the value of a closure, which may borrow from the request |
/// | `\|user: &Auth\| ..`, `\|user: Auth\| ..` | the value of a closure over [extractors](#extractors-in-closures) that do not read the body |
/// | `(caller, path("id"), ip)` | the combination of several parts. If one part is missing, the caller is missing |
///
/// `K` is a `String`, `&str`, integer, `IpAddr`, `Uuid` (with the feature `uuid`), `Caller`, or a tuple or
/// `Option` of these. Closures may be `async`. Their parameters need types. Extractors of the body, such as
/// `Json` and `String`, are compile errors, because the limit is checked before the body is read.
///
/// **An unverified API key lets a client choose its count.** With `by = header("x-api-key")`, or
/// `{header:x-api-key}` in a key, a client that invents a key per request has a full quota each time and is
/// never limited. A client that sends the key of another uses up the other's quota. Count by a verified
/// identity instead: let authentication leave a `Principal` in the request, and write `by = principal_or_ip`,
/// which counts by address until a key is accepted, or `by = principal` if all requests must be
/// authenticated. A header alone is safe only if a trusted proxy sets it and removes the client's own.
///
/// A path parameter is counted by its text, as `Path<String>` extracts it. The number 7 has many texts (`7`,
/// `07`, `+7`), so count it with `by = |id: Path<u64>| *id`.
///
/// # Placeholders
///
/// | in `key` | the caller |
/// |---|---|
/// | `{user_id}` | the parameter of the route; a compile error if a route in view does not have it |
/// | `{path:org}` | any path parameter, such as one of an enclosing scope; not checked |
/// | `{header:x-api-key}` | a header field, which is not verified |
/// | `{ip}` | the client's address |
///
/// The key `"user:{user_id}"` names its policy `user:<user_id>`. There is one count for each `user_id`,
/// whichever client sends the request. Values stay distinct when they are combined: `a-b` and `c` are not `a`
/// and `b-c`. Routes are in view if their attributes are below this one, so put `#[rate_limit]` above them.
///
/// # Values chosen per request
///
/// `max`, `cost`, `anchor` and `skip` take a closure as in `by`, over `&HttpRequest` or over extractors that
/// do not read the body, or `with(path)` for a function of the same form. Both may be async. `max` and `cost`
/// return `u64`, `skip` returns `bool`, and `anchor` the day on which a window begins: a `u8` for a month, a
/// `ratelimit_actix::ratelimit_core::policy::Weekday` for a week, and for a year month and day, `(u8, u8)`.
///
/// - `skip` runs first. A skipped limit chooses no other value and is not checked.
/// - A `max` of 0 denies. A `max` above 10^12 denies as well and logs an error once: numbers are never
///   rounded. The count stays the same when `max` changes, except that a token bucket has a separate bucket
///   for each `max`.
/// - A caller whose `anchor` moves has at most one quota for each month, week or year in which a window
///   begins: the window by the new day has what is left of the quota of the one in which it began. A day that
///   does not exist logs an error once, and the nearest one is used: the 1st for a day 0, the 31st for a day
///   32, 29 February for the 30th. Such a limit has no `lease`.
/// - A cost of 0 is checked and charges nothing. A cost above the limit is always denied. A cost above 10^12
///   also logs an error.
///
/// # Extractors in closures
///
/// By reference, `|user: &Auth|`, an extractor runs once for all closures of the handler that take it so, in
/// all its attributes, and the closures may return borrows of the value. By value, `|user: Auth|` and in
/// `with(path)`, it runs for each. An argument of the handler runs it once more. All of this is before any
/// limit is checked.
///
/// # Extractors that fail
///
/// If an extractor of a closure or function fails, its limit is left out, and its error is the response. The
/// other limits of the handler whose caller holds the client's address or its `Principal` are checked and
/// charged first, as a group of their own: if they deny, the response is theirs. So guesses of a token are
/// limited:
///
/// ```text
/// #[rate_limit(max = 100, by = |claims: Claims| claims.0)]    401 for a wrong token
/// #[rate_limit(max = 3, by = ip)]                             the fourth wrong token of an address gets 429
/// ```
///
/// All other limits, such as `by = global` and `by = header(..)`, are left out then, too, so that strangers
/// cannot use them up; a warning says so once. The error counts as any other response for `count`.
///
/// # Limits with one count
///
/// Limits with the same key, mode, algorithm and window share their counts, also across handlers. Two of them
/// on one handler would charge each request twice: a compile error, unless `by` differs or one has `skip`.
/// `check_declared_limits()` compares policies by path.
///
/// # Windows of a calendar
///
/// `window = "month"` starts a new count at the first instant of a local day: on the 1st, or on the day of
/// `anchor`. A month without that day has its last one instead. `Retry-After` and the reset are that instant,
/// to the second, also where summer time begins or ends. Such a limit is counted by `"fixed_window"`, which
/// needs not be written. A name of a zone that does not exist ends the program when its limiter is built.
/// Each window has a count of its own, so such a limit has no `block`, which would end with the window: write
/// it for a second limit with a window of one length.
///
/// # Responses that count
///
/// A failure is a status of 400 or more, whether the handler returned it as a response or as an error, or an
/// extractor failed.
///
/// | | `charge = "before"` | `charge = "after"` |
/// |---|---|---|
/// | each request | is charged before the handler runs | is looked at: it passes if its cost fits, and is charged nothing |
/// | a response that counts | stays charged | is charged, if its cost still fits |
/// | a response that does not count | is refunded | costs nothing more |
/// | requests in flight | at most `max` | not limited; those in flight when the limit becomes full have passed |
/// | a request without a response: dropped, or its handler panics | stays charged | is not charged |
/// | the store dies before the response | the charge may stay until its window is over | one response may not be counted |
/// | round trips with Redis: counts, does not count | 1, 3 | 2, 1 |
/// | for | a log-in, whose guesses come in parallel | limits under which nearly all responses do not count, such as wrong keys |
///
/// With `"before"`, `max` is also the number of requests that may be in flight. A request beyond that is
/// denied, and its `Retry-After` is an upper bound: units of requests in flight may come back earlier. The
/// refund is tried once, within the store's deadline; if it fails, a warning is logged. Header fields show
/// the quota after the refund. What the handler has charged by `Quotas::charge_up_to` is refunded as well. A
/// limit that the handler has settled is not refunded.
///
/// With `"after"`, the charge is that of the instant of the response. Only a denial [shows](#arguments) the
/// limit. `Quotas::charge_up_to` leaves it out, and it cannot be settled. It has no `lease`.
///
/// # Blocks
///
/// With `block = "10m"`, the first denial under the limit blocks the caller for 10 minutes: until then every
/// request is denied, and then the full quota is back.
///
/// ```text
/// max = 3, window = "1m", block = "10m"
///
/// request  1   2   3   4         5        6                  7
///        --+---+---+---x=========x========x==================+-----> time
///                      |<------- blocked for 10 min ------->|
///                      first denial                          full quota
///
/// + admitted   x denied; Retry-After is the rest of the block
/// ```
///
/// - Requests during the block do not extend it. `Retry-After` is the rest of it.
/// - Only a denial by this limit starts its block; a cost above `max` does not.
/// - With `count = "failures"` a block locks out guessers: ten wrong passwords within the window block the
///   next attempt, right ones do not count. A limit with `count` and `block` charges after the response, so
///   that requests which succeed never begin the block, however many are in flight. To bound the guesses in
///   flight as well, write a second limit without a block, or a `#[concurrency_limit]`.
///
/// # Shadow limits
///
/// A limit with `mode = "shadow"` shows what it would deny before it is enforced: by the metric
/// `ratelimit_decisions_total` with `outcome="would_deny"`, by a log line at most once a minute, and by
/// `Quotas` in the handler.
///
/// - It counts as if it were enforced. It never rejects a request: not without a caller, not if its closure
///   fails, and not while the store is unavailable.
/// - No response shows it: no header field and no body.
/// - It has a count of its own, also beside an enforced limit with the same key. So a limit starts with empty
///   counts when it is enforced.
///
/// `RateLimiterBuilder::shadow` makes every limit of a limiter a shadow limit.
///
/// # Modules and impl blocks
///
/// On an inline module the limits apply to each function with a route attribute, in nested modules too. On an
/// impl block they apply to each `async fn` without `self`. Each handler has its own count unless `key` is
/// written. Inside the block:
///
/// - `#[rate_limit(..)]` on a handler replaces the limits of the block.
/// - `#[rate_limit]` without arguments means the limits of the block, also on a handler without a route
///   attribute.
/// - `#[no_rate_limit]` exempts a handler.
///
/// Handlers that a macro inside the module generates are not visible to the attribute and are not limited.
/// Modules in their own files cannot be read by an attribute: limit their handlers, or a module inside the
/// file.
///
/// # Notes
///
/// - The attribute works above, below and between `#[get]`, `#[post]`, `#[route]`, `#[routes]` and similar
///   attributes, and without any, for `.to(handler)`; above and below `#[actix_web::scope]`.
/// - Several `#[rate_limit]` on one handler are one group: a request is admitted by all of them and counted
///   by all, or by none, in one round trip to the store. A further limit without a `key` adds its position to
///   its name, such as `api::user#2`.
/// - The function becomes a wrapper of the same name, with the original function nested in it. Documentation,
///   `cfg`, lint levels, `deprecated`, `must_use` and routes stay on the wrapper; all other attributes move
///   to the nested function. An attribute that adds items beside the function (`#[utoipa::path]`) or changes
///   its arguments (`#[protect]` of actix-web-grants) therefore belongs above this one; these two are compile
///   errors below it. One that only wraps the body, such as `#[tracing::instrument]`, works on either side.
///   Route attributes are recognised by the last segment of their path.
/// - An associated function with its own attribute cannot name `Self`, because a nested function has none;
///   put the attribute on the impl block. Two such functions of one name in one module need a `key` each,
///   because the default key does not include the type.
/// - A default key longer than 128 bytes loses its beginning, and a letter that a key cannot have becomes
///   `_`. Both end in a hash of the full name. Functions of one name that are nested in different functions
///   of one module have the same default key; give each a `key`.
/// - Import this attribute, and route attributes below it, under their own names. An attribute that is
///   renamed by `use .. as ..` is not recognised by its neighbours and does not compile next to them.
/// - `declared_limits()` lists all limits of the program, for a log line at start or for a test.
///
/// # Errors
///
/// Mistakes are compile errors at the tokens that contain them. All mistakes are reported at once, each with
/// what to write instead:
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
/// Values of const expressions are checked when the compiler evaluates them.
#[proc_macro_attribute]
pub fn rate_limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute::expand(Kind::Rate, arguments.into(), item.into()).into()
}

/// Limits how many requests of a caller run at a time.
///
/// A request holds one *slot* from its admission until its response has been sent or dropped: also while a
/// stream is sent, and also if the handler panics or returns an error. A request that finds no free slot gets
/// `429 Too Many Requests`.
///
/// # Syntax
///
/// ```text
/// #[concurrency_limit(max = 3, argument = value, ...)]
/// ```
///
/// in every place where [`#[rate_limit]`](macro@rate_limit) may stand, beside it or without it: on an
/// `async fn` that Actix-web accepts as a handler, on an inline module, or on an impl block.
///
/// # Arguments
///
/// Those of [`#[rate_limit]`](macro@rate_limit#arguments), in the same forms, with these differences:
///
/// - `max` is required, without `policy`: the requests of a caller that run at a time, 1 to 10^12.
/// - `on_missing = "skip"` holds no slot, and `on_error = "local"` counts the slots of this process.
/// - A limit with `mode = "shadow"` holds slots of its own.
/// - `policy` is one made by `Policy::concurrency`.
/// - None of these has a meaning for what runs now, and is a compile error:
#[doc = with_arguments!(of_rates)]
///
/// # Beside rates
///
/// All attributes of a handler are one group, whatever their kind: a request takes a slot and is charged to
/// every rate, or neither. So a denied request uses up nothing.
///
/// # Notes
///
/// - A slot is free when Actix drops the body of the response. Actix notices a client that has gone only when
///   it writes, so a stream has to send something from time to time: a comment line at least every 15 s in an
///   event stream.
/// - A denial has no `Retry-After` if only slots are missing, because no process knows when one will be free.
///   If a rate denies as well, it has the wait of the rate.
/// - Both attributes of a handler have to be imported, or written with their path.
/// - On a module or impl block every handler inside has slots of its own, unless `key` is written. There,
///   `#[rate_limit]` without arguments means all limits of the block, of both kinds.
#[proc_macro_attribute]
pub fn concurrency_limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute::expand(Kind::Concurrency, arguments.into(), item.into()).into()
}

/// Exempts a handler from the limits of the module or impl block around it.
///
/// A module or impl block inside a limited module can be exempted as a whole. Elsewhere the attribute is a
/// compile error.
#[proc_macro_attribute]
pub fn no_rate_limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute::expand_exemption(&arguments.into(), &item.into()).into()
}
