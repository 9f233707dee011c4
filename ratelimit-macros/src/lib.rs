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
/// on an `async fn` that Actix-web accepts as a handler, on an inline module, or on an impl block. Arguments come in any
/// order.
///
/// # Arguments
///
/// | argument | value | default |
/// |---|---|---|
/// | `max` | units per window, 0 to 10^12: an integer or a const expression of at least 1; or [chosen](#what-is-chosen-for-each-request) for each request | `100` |
/// | `window` | whole numbers with units, large to small: `"500ms"`, `"60s"`, `"5m"`, `"1h"`, `"1d"`, `"1h30m"`; 1 ms to 366 days | `"60s"` |
/// | `key` | the name under which calls are counted: 1 to 128 characters of printable ASCII, without blanks, quotes and backslashes. Handlers with the same key share the count, still apart per caller. [Placeholders](#placeholders) in braces are the caller | module path and function name, with the type's in an impl block |
/// | `by` | [who is limited](#who-is-limited) | `ip` |
/// | `on_missing` | what becomes of a request for which `by` finds nobody: `"reject"` answers 400, `"skip"` does not count it under this limit, `"anonymous"` takes all such requests for one caller | `"reject"` |
/// | `on_error` | what happens while the store cannot answer: `"local"` counts in this process by the same algorithm, `"deny"` answers 503, `"allow"` lets everybody pass uncounted | `"local"` |
/// | `algorithm` | `"fixed_window"`, `"sliding_window_counter"`, `"sliding_window_log"` or `"token_bucket"` | `"sliding_window_counter"` |
/// | `sub_windows` | 1 to 60 equal parts of the window, in whole microseconds; for the sliding window counter only | `1` |
/// | `burst` | tokens in a full bucket, 1 to 10^12; for the token bucket only | `max` |
/// | `cost` | units that one call takes, 1 to 10^12 and at most `max`, or at most `burst`; or [chosen](#what-is-chosen-for-each-request) for each request | `1` |
/// | `count` | [which answers count](#which-answers-count): `"all"`, `"failures"`, `"successes"`, or `\|status: StatusCode\| -> bool` | `"all"` |
/// | `skip` | [chosen](#what-is-chosen-for-each-request) for each request: `true` if this limit is not for it | never |
/// | `name` | what header fields, bodies and metrics call the policy; letters as for `key` | the key; without one the function's name, and in metrics its path |
/// | `direct` | a name under which the handler's own function can be called, in a unit test for example; from above the route attribute, or in an impl block | none |
/// | `crate` | where the facade is, if not at `::ratelimit_actix`: `::path` or `crate::path` | `::ratelimit_actix` |
///
/// # Who is limited
///
/// | `by` | who has a count of its own |
/// |---|---|
/// | `ip` | each client's address |
/// | `global` | nobody: all callers share one |
/// | `path("id")` | each value of a path parameter, of the route or of a scope around it |
/// | `header("x-tenant")` | each value of a header field, of several the first. **Nobody has verified it**: who can make up values can make up quotas. An empty one is nobody |
/// | `caller::principal_or_ip` | each account that authentication has verified, and each address without one; `caller::principal` for accounts only |
/// | `caller` | whatever a `fn(&HttpRequest) -> K` returns |
/// | `\|req: &HttpRequest\| ..` | whatever a closure returns, which may borrow from the request |
/// | `\|user: ReqData<User>\| ..` | whatever a closure over extractors returns, as long as they do not read the body. If one of them fails, its answer is the answer, and nothing is counted |
/// | `(caller, path("id"), ip)` | each combination. If one part is nobody, all is |
///
/// `K` is a `String`, `&str`, integer, `IpAddr`, `Uuid` (with the feature `uuid`), `Caller`, or a tuple or `Option` of these.
/// Closures may be `async`. Their parameters need types. Extractors of the body, such as `Json` and `String`, are refused by
/// name, since the limit is decided before the body is read.
///
/// **An API key that has not been checked lets anybody choose their count.** With `by = header("x-api-key")`, or
/// `{header:x-api-key}` in a key, a client that sends another made-up key with every request has a full quota each time and is
/// never limited, and one that sends somebody else's key uses up the other's quota. Count by who has proved to be calling:
/// have authentication leave a `Principal` in the request, and write `by = caller::principal_or_ip`, which counts by the
/// address until a key was accepted, or `by = caller::principal` where nobody else may come in. By a header alone is right only
/// where a trusted proxy in front has set it and removed the client's own.
///
/// A parameter of the path is counted by its text, as `Path<String>` extracts it. The number 7 has many texts (`7`, `07`,
/// `+7`), so count it with `by = |id: Path<u64>| *id`.
///
/// # Placeholders
///
/// | in `key` | the caller |
/// |---|---|
/// | `{user_id}` | the parameter of the route; a compile error if a route in view does not have it |
/// | `{path:org}` | any path parameter, such as one of an enclosing scope; not checked |
/// | `{header:x-api-key}` | a header field, which nobody has verified |
/// | `{ip}` | the client's address |
///
/// The key `"user:{user_id}"` names its policy `user:<user_id>`, and there is one count for each `user_id`, whoever sends the
/// request. Values do not run into each other: `a-b` and `c` are not `a` and `b-c`. Routes are in view when their attributes are
/// below this one, so put it above them.
///
/// # What is chosen for each request
///
/// `max`, `cost` and `skip` take a closure as in `by`, over `&HttpRequest` or over extractors that leave the body alone, or
/// `with(path)` for a function of the same form. Both may be async. `max` and `cost` return `u64`, `skip` returns `bool`.
///
/// `skip` is asked first, and a limit that is skipped chooses nothing else and is not checked. A `max` of 0 denies. A `max` above
/// 10^12 denies as well, with an error in the log when it first happens: a number is never rounded. A count is one count under
/// every `max`, except that a token bucket is another bucket for every `max`. A cost of 0 is judged and takes nothing; one above
/// the limit never passes, and one above 10^12 is an error in the log as well.
///
/// # Which answers count
///
/// A failure is a status of 400 or more, whether the handler returned it as a response or as an error, or one of its extractors
/// failed. A request is charged before the handler runs, and what turns out not to count is given back after it. So requests
/// that run at the same time cannot get past the limit together, and one that is dropped or crashes in between stays charged.
/// Giving back is tried once, within the store's deadline. If it fails the charge stays, and the log says so. Header fields say
/// what is left afterwards.
///
/// # Modules and impl blocks
///
/// On an inline module the limits are for each function with a route attribute, in modules inside as well; on an impl block for
/// each `async fn` without `self`. Each handler has its own count, unless `key` is given. `#[rate_limit(..)]` on a handler
/// inside replaces them, `#[rate_limit]` without arguments stands for them, also on a handler without a route attribute, and
/// `#[no_rate_limit]` takes the handler out. Handlers that a macro inside of the module writes cannot be seen and are not
/// limited. Modules in files of their own cannot be read by an attribute; limit their handlers, or a module inside of them.
///
/// # Notes
///
/// - It works above, below and between `#[get]`, `#[post]`, `#[route]`, `#[routes]` and their like, and without any, for
///   `.to(handler)`; above and below `#[actix_web::scope]`.
/// - Several `#[rate_limit]` on one handler are one group: a call passes all of them and is counted by all, or by none,
///   in one question to the store. A limit without a `key` that is not the first takes its position into its name, such
///   as `api::user#2`.
/// - The function becomes a wrapper of the same name, and the function as it was written is nested in it. Documentation,
///   `cfg`, lint levels, `deprecated`, `must_use` and routes are on the wrapper, every other attribute is on the nested
///   function. An attribute that adds items beside the function (`#[utoipa::path]`), or changes its arguments (`#[protect]` of
///   actix-web-grants), therefore belongs above this one; these two are refused below it. One that only wraps the body, such as
///   `#[tracing::instrument]`, works on either side. Route attributes are known by the last word of their path.
/// - `Self` cannot be named in an associated function with an attribute of its own, because a nested function has none; put
///   the attribute on the impl block. Two such functions of one name in one module need a `key` each, since the default key
///   does not hold the type.
/// - A default key that would be longer than 128 bytes loses its beginning, one with other letters than a key has `_` for each
///   of them, and both end in a hash of the whole. Functions of one name that are nested in different functions of one module
///   have the same default key; give each a `key`.
/// - Import the attribute, and route attributes below it, under their own names. One that is renamed by `use .. as ..` cannot
///   be found by its neighbours, and does not compile next to them.
/// - Every limit of the program is listed by `declared_limits()`, for a line at start or for a test.
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
