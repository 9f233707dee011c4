//! The rows of all arguments. Tests and the pages of the guide take them from here, so this file names nothing
//! of this crate but in the rows.

/// Passes the rows of all arguments to another macro.
///
/// A row has the field, name and type of an argument, its [`Of`](crate::parse::usage::Of) and its example. Then
/// come what the tables of the documentation say: what it is, its default, and its values. Links in them are
/// defined by each page with the table. Then the function that reads the value and aliases; and, if only
/// `#[rate_limit]` has it, the reason.
macro_rules! with_arguments {
    ($each:ident) => {
        $each! {
            max "max": Number, Policy, "max = 10",
                ["units per window", "`100`",
                r"1 to 10^12: an integer or a const expression; or [per request], then also 0; `\|\| CONFIG.max` for one from a configuration"],
                { number::units, ["maxrequests", "maxcalls", "limit", "requests", "permits", "rate"] };
            window "window": Window, Policy, "window = \"60s\"",
                ["length of the window", r#"`"60s"`"#,
                r#"`"500ms"`, `"60s"`, `"5m"`, `"1h"`, `"1d"`, `"1h30m"`: whole numbers with units, large to small, 1 ms to 366 days; with the feature `calendar` also `"day"`, `"week"`, `"month"`, `"year"`: [windows of a calendar][calendar]"#],
                { calendar::window, ["windowseconds", "windowsecs", "windowsize", "per", "period", "duration", "interval", "seconds"] },
                "a request holds its slot until its response has been sent; remove `window`, or write \
                 `#[rate_limit(max = 60, window = \"1m\")]` beside it";
            zone "zone": Text, Part, "zone = \"Europe/Berlin\"",
                ["time zone of a calendar window", r#"`"UTC"`"#,
                "an IANA name"],
                { calendar::zone, ["timezone", "tz", "location"] },
                "it has no window; remove `zone`";
            anchor "anchor": Anchor, Part, "anchor = 15",
                ["day on which a calendar window begins", "Monday, the 1st, 1 January",
                r#"`"monday"` to `"sunday"` for a week, `1` to `31` for a month, `"04-01"` for a year; or [per request]"#],
                { calendar::anchor, ["start", "startday", "firstday", "billingday", "resetday", "weekstart"] },
                "it has no window; remove `anchor`";
            key "key": Key, Part, "key = \"user-api\"",
                ["name of the count", "module path and function name",
                r#"1 to 128 characters of printable ASCII without blanks, quotes and backslashes. Handlers with one key [share the count][counts] of each caller. Placeholders identify the caller: `"user:{user_id}"` by a parameter of the route, `"{path:org}"` by one of a scope, `"{header:x-tenant}"`, `"{ip}"`"#],
                { name::read_key, ["id", "keyprefix", "prefix"] };
            name "name": Text, Policy, "name = \"hourly\"",
                ["name of the limit in header fields, bodies and metrics", "the `key`; else the function's name, in metrics its path",
                "characters as in `key`"],
                { name::read, [] };
            by "by": By, Limit, "by = ip",
                ["the caller", "`ip`",
                r#"`ip`, `principal` (the account that your authentication has verified), `principal_or_ip`, `global` (one count for all), `path("id")`, `header("x-tenant")`, a `fn(&HttpRequest) -> K`, a closure over the request or over extractors, or a tuple of these: [callers]"#],
                { |_, value, d| By::read(value, d), ["user", "client", "keyfn", "keyby", "identity"] };
            on_missing "on_missing": OnMissing, Limit, "on_missing = \"anonymous\"",
                ["a request without a caller", r#"`"reject"`"#,
                r#"`"reject"` (400), `"skip"` this limit, or `"anonymous"`: one caller for all such requests"#],
                { |_, value, d| choice::read(value, d), ["missing", "ifmissing", "onnone", "default"] };
            on_error "on_error": OnError, Policy, "on_error = \"deny\"",
                ["while the store cannot answer", r#"`"local"`"#,
                r#"`"local"` counts in the process, `"deny"` fails closed (503), `"allow"` fails open and counts nothing"#],
                { |_, value, d| choice::read(value, d), ["onfailure", "fallback", "failopen", "failclosed", "failuremode"] };
            algorithm "algorithm": &'static Algorithm, Policy, "algorithm = \"token_bucket\"",
                ["how units are counted", r#"`"sliding_window_counter"`"#,
                r#"`"fixed_window"`, `"sliding_window_counter"`, `"sliding_window_log"` or `"token_bucket"`"#],
                { |_, value, d| choice::read(value, d), ["strategy", "type"] },
                "it counts the requests that run now, and nothing over time; remove `algorithm`";
            sub_windows "sub_windows": Number, Policy, "sub_windows = 6",
                ["parts of the window, of a sliding window counter only", "`1`",
                "1 to 60, each of whole microseconds"],
                { |usage, value, d| number::number(usage, value, SUB_WINDOWS, d), [] },
                "it has no window; remove `sub_windows`";
            burst "burst": Number, Policy, "burst = 20",
                ["tokens in a full bucket, of a token bucket only", "`max`",
                "1 to 10^12"],
                { |usage, value, d| number::number(usage, value, UNITS, d), ["capacity", "burstsize"] },
                "never more than `max` requests run at a time; remove `burst`, or raise `max`";
            cost "cost": Number, Limit, "cost = 5",
                ["units that a request takes", "`1`",
                "1 to 10^12, at most `max`, or `burst`; or [per request], then also 0"],
                { number::units, ["weight", "tokens"] },
                "every request holds one slot; remove `cost`";
            block "block": Length, Policy, "block = \"10m\"",
                ["after a denial every request of the caller is denied for this long", "none",
                "at least the window, and the time to refill a full bucket; at most 366 days; not for a window of a calendar: [blocks]"],
                { window::time, ["blockduration", "blockfor", "ban", "banfor", "banduration", "lockout", "penalty", "cooldown"] },
                "a caller may go on as soon as one of its requests has ended; remove `block`, or write it in a `#[rate_limit(..)]` beside it";
            mode "mode": Mode, Policy, "mode = \"shadow\"",
                ["whether the limit denies", r#"`"enforce"`"#,
                r#"`"enforce"`, or `"shadow"`: it counts and reports, [denies nothing][shadow], and no client sees it"#],
                { |_, value, d| choice::read(value, d), ["shadow", "shadowmode", "dryrun", "reportonly", "logonly"] };
            count "count": Responses, Limit, "count = \"failures\"",
                ["responses that count", r#"`"all"`"#,
                r#"`"all"`, `"failures"` (400 and up), `"successes"` (below 400), or `\|status: StatusCode\| -> bool`: [responses]"#],
                { |_, value, d| choice::responses(value, d), ["only", "countif", "counts", "countonly"] },
                "a slot is free again after every response; remove `count`";
            charge "charge": ChargeTime, Limit, "charge = \"after\"",
                ["when a limit with `count` charges", r#"`"before"`"#,
                r#"`"before"`: each request, with a refund if its response does not count, so that `max` is also the number of requests that may be in flight; `"after"`: the responses that count, and [nothing before][responses]; a limit with `block` always does"#],
                { |_, value, d| choice::read(value, d), ["chargeat", "chargewhen", "chargeon", "chargetime"] },
                "a request holds its slot while it runs; remove `charge`";
            show "show": Show, Limit, "show = \"denied\"",
                ["responses that show the limit", r#"`"always"`"#,
                r#"`"always"`, or `"denied"`: only those to requests that it denies; the default of a limit that charges after"#],
                { |_, value, d| choice::read(value, d), ["shown", "visible", "hide", "hidden", "showin"] };
            lease "lease": Length, Policy, "lease = \"100ms\"",
                ["for how long a process may keep units of a hot caller", "none",
                r#"at most `"10s"`; fixed windows and sliding window counters only, and not with `max` per request: [leases]"#],
                { window::time, ["leases", "leasetime", "hold", "prefetch", "synctime", "syncrate"] },
                "a slot belongs to a request that runs, so none is taken ahead; remove `lease`";
            skip "skip": RequestFn, Limit, "skip = with(is_internal)",
                ["requests to which the limit does not apply", "never",
                "[per request]. Decide by what the server knows, such as a role: a header field would let every client choose"],
                { request_fn::skip, ["unless", "skipif", "exempt", "when", "condition", "except"] };
            plan "plan": RequestFn, Limit, "plan = plan_of",
                ["the caller's plan, for which overrides may have other numbers", "none",
                "a closure as in `by` or a `fn(&HttpRequest) -> P`; `P` is a `&str`, a `String` or an `Option` of these: [plans]"],
                { request_fn::plan, ["plans", "tier", "tiers", "subscription"] };
            policy "policy": ExprPath, Limit, "policy = SEARCH",
                ["a policy that several handlers and middleware share", "none",
                "path of a `static` or `const`; instead of the arguments of a policy"],
                { |_, value, d| path::policy(value, d), ["rule", "quota", "sharedlimit", "limiter", "ratelimiter"] };
            inner "inner": Ident, Handler, "inner = user_body",
                ["name of the unlimited handler function, for unit tests", "none",
                "above the route attribute, on a handler without one, such as one mounted by `.to(..)`, or in an impl block"],
                { |_, value, d| path::inner(value, d), ["direct", "original", "bodyname"] };
            facade "crate": ExprPath, Handler, "crate = ::ratelimit_actix",
                ["path of a renamed or re-exported `ratelimit_actix`", "`::ratelimit_actix`",
                "`::path` or `crate::path`"],
                { |_, value, d| path::facade(value, d), [] };
        }
    };
}
pub(crate) use with_arguments;
