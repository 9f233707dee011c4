//! The rows of all arguments. Tests and the pages of the guide take them from here, so this file names
//! nothing of this crate but in the rows.

/// Passes the rows of all arguments to another macro.
///
/// A row begins with cells of the tables of the documentation: what the argument is, its default, and its
/// values. Links in them are defined by each page with the table. Then it has the field, name
/// and type of the argument, its [`Of`](crate::parse::usage::Of) and its example, the function that reads the
/// value, and aliases; and, if only `#[rate_limit]` has it, the reason.
macro_rules! with_arguments {
    ($each:ident) => {
        $each! {
            /// | units per window
            /// | `100`
            /// | 1 to 10^12: an integer or a const expression; or [per request], then also 0; `\|\| CONFIG.max` for one from a configuration
            max "max": Number, Policy, "max = 10",
                { number::units, ["maxrequests", "maxcalls", "limit", "requests", "permits", "rate"] };
            /// | length of the window
            /// | `"60s"`
            /// | `"500ms"`, `"60s"`, `"5m"`, `"1h"`, `"1d"`, `"1h30m"`: whole numbers with units, large to small, 1 ms to 366 days; with the feature `calendar` also `"day"`, `"week"`, `"month"`, `"year"`: [windows of a calendar][calendar]
            window "window": Window, Policy, "window = \"60s\"",
                { calendar::window, ["windowseconds", "windowsecs", "windowsize", "per", "period", "duration", "interval", "seconds"] },
                "a request holds its slot until its response has been sent; remove `window`, or write \
                 `#[rate_limit(max = 60, window = \"1m\")]` beside it";
            /// | time zone of a calendar window
            /// | `"UTC"`
            /// | an IANA name
            zone "zone": Text, Part, "zone = \"Europe/Berlin\"",
                { calendar::zone, ["timezone", "tz", "location"] },
                "it has no window; remove `zone`";
            /// | day on which a calendar window begins
            /// | Monday, the 1st, 1 January
            /// | `"monday"` to `"sunday"` for a week, `1` to `31` for a month, `"04-01"` for a year; or [per request]
            anchor "anchor": Anchor, Part, "anchor = 15",
                { calendar::anchor, ["start", "startday", "firstday", "billingday", "resetday", "weekstart"] },
                "it has no window; remove `anchor`";
            /// | name of the count
            /// | module path and function name
            /// | 1 to 128 characters of printable ASCII without blanks, quotes and backslashes. Handlers with one key [share the count][counts] of each caller. Placeholders identify the caller: `"user:{user_id}"` by a parameter of the route, `"{path:org}"` by one of a scope, `"{header:x-tenant}"`, `"{ip}"`
            key "key": Key, Part, "key = \"user-api\"",
                { name::read_key, ["id", "keyprefix", "prefix"] };
            /// | name of the limit in header fields, bodies and metrics
            /// | the `key`; else the function's name, in metrics its path
            /// | characters as in `key`
            name "name": Text, Policy, "name = \"hourly\"",
                { name::read, [] };
            /// | the caller
            /// | `ip`
            /// | `ip`, `principal` (the account that your authentication has verified), `principal_or_ip`, `global` (one count for all), `path("id")`, `header("x-tenant")`, a `fn(&HttpRequest) -> K`, a closure over the request or over extractors, or a tuple of these: [callers]
            by "by": By, Limit, "by = ip",
                { |_, value, d| By::read(value, d), ["user", "client", "keyfn", "keyby", "identity"] };
            /// | a request without a caller
            /// | `"reject"`
            /// | `"reject"` (400), `"skip"` this limit, or `"anonymous"`: one caller for all such requests
            on_missing "on_missing": OnMissing, Limit, "on_missing = \"anonymous\"",
                { |_, value, d| choice::read(value, d), ["missing", "ifmissing", "onnone", "default"] };
            /// | while the store cannot answer
            /// | `"local"`
            /// | `"local"` counts in the process, `"deny"` fails closed (503), `"allow"` fails open and counts nothing
            on_error "on_error": OnError, Policy, "on_error = \"deny\"",
                { |_, value, d| choice::read(value, d), ["onfailure", "fallback", "failopen", "failclosed", "failuremode"] };
            /// | how units are counted
            /// | `"sliding_window_counter"`
            /// | `"fixed_window"`, `"sliding_window_counter"`, `"sliding_window_log"` or `"token_bucket"`
            algorithm "algorithm": &'static Algorithm, Policy, "algorithm = \"token_bucket\"",
                { |_, value, d| choice::read(value, d), ["strategy", "type"] },
                "it counts the requests that run now, and nothing over time; remove `algorithm`";
            /// | parts of the window, of a sliding window counter only
            /// | `1`
            /// | 1 to 60, each of whole microseconds
            sub_windows "sub_windows": Number, Policy, "sub_windows = 6",
                { |usage, value, d| number::number(usage, value, SUB_WINDOWS, d), [] },
                "it has no window; remove `sub_windows`";
            /// | tokens in a full bucket, of a token bucket only
            /// | `max`
            /// | 1 to 10^12
            burst "burst": Number, Policy, "burst = 20",
                { |usage, value, d| number::number(usage, value, UNITS, d), ["capacity", "burstsize"] },
                "never more than `max` requests run at a time; remove `burst`, or raise `max`";
            /// | units that a request takes
            /// | `1`
            /// | 1 to 10^12, at most `max`, or `burst`; or [per request], then also 0
            cost "cost": Number, Limit, "cost = 5",
                { number::units, ["weight", "tokens"] },
                "every request holds one slot; remove `cost`";
            /// | after a denial every request of the caller is denied for this long
            /// | none
            /// | at least the window, and the time to refill a full bucket; at most 366 days; not for a window of a calendar: [blocks]
            block "block": Length, Policy, "block = \"10m\"",
                { window::time, ["blockduration", "blockfor", "ban", "banfor", "banduration", "lockout", "penalty", "cooldown"] },
                "a caller may go on as soon as one of its requests has ended; remove `block`, or write it in a `#[rate_limit(..)]` beside it";
            /// | whether the limit denies
            /// | `"enforce"`
            /// | `"enforce"`, or `"shadow"`: it counts and reports, [denies nothing][shadow], and no client sees it
            mode "mode": Mode, Policy, "mode = \"shadow\"",
                { |_, value, d| choice::read(value, d), ["shadow", "shadowmode", "dryrun", "reportonly", "logonly"] };
            /// | responses that count
            /// | `"all"`
            /// | `"all"`, `"failures"` (400 and up), `"successes"` (below 400), or `\|status: StatusCode\| -> bool`: [responses]
            count "count": Responses, Limit, "count = \"failures\"",
                { |_, value, d| choice::responses(value, d), ["only", "countif", "counts", "countonly"] },
                "a slot is free again after every response; remove `count`";
            /// | when a limit with `count` charges
            /// | `"before"`
            /// | `"before"`: each request, with a refund if its response does not count, so that `max` is also the number of requests that may be in flight; `"after"`: the responses that count, and [nothing before][responses]; a limit with `block` always does
            charge "charge": ChargeTime, Limit, "charge = \"after\"",
                { |_, value, d| choice::read(value, d), ["chargeat", "chargewhen", "chargeon", "chargetime"] },
                "a request holds its slot while it runs; remove `charge`";
            /// | responses that show the limit
            /// | `"always"`
            /// | `"always"`, or `"denied"`: only those to requests that it denies; the default of a limit that charges after
            show "show": Show, Limit, "show = \"denied\"",
                { |_, value, d| choice::read(value, d), ["shown", "visible", "hide", "hidden", "showin"] };
            /// | for how long a process may keep units of a hot caller
            /// | none
            /// | at most `"10s"`; fixed windows and sliding window counters only, and not with `max` per request: [leases]
            lease "lease": Length, Policy, "lease = \"100ms\"",
                { window::time, ["leases", "leasetime", "hold", "prefetch", "synctime", "syncrate"] },
                "a slot belongs to a request that runs, so none is taken ahead; remove `lease`";
            /// | requests to which the limit does not apply
            /// | never
            /// | [per request]. Decide by what the server knows, such as a role: a header field would let every client choose
            skip "skip": RequestFn, Limit, "skip = with(is_internal)",
                { request_fn::skip, ["unless", "skipif", "exempt", "when", "condition", "except"] };
            /// | the caller's plan, for which overrides may have other numbers
            /// | none
            /// | a closure as in `by` or a `fn(&HttpRequest) -> P`; `P` is a `&str`, a `String` or an `Option` of these: [plans]
            plan "plan": RequestFn, Limit, "plan = plan_of",
                { request_fn::plan, ["plans", "tier", "tiers", "subscription"] };
            /// | a policy that several handlers and middleware share
            /// | none
            /// | path of a `static` or `const`; instead of the arguments of a policy
            policy "policy": ExprPath, Limit, "policy = SEARCH",
                { |_, value, d| path::policy(value, d), ["rule", "quota", "sharedlimit", "limiter", "ratelimiter"] };
            /// | name of the unlimited handler function, for unit tests
            /// | none
            /// | above the route attribute, on a handler without one, such as one mounted by `.to(..)`, or in an impl block
            inner "inner": Ident, Handler, "inner = user_body",
                { |_, value, d| path::inner(value, d), ["direct", "original", "bodyname"] };
            /// | path of a renamed or re-exported `ratelimit_actix`
            /// | `::ratelimit_actix`
            /// | `::path` or `crate::path`
            facade "crate": ExprPath, Handler, "crate = ::ratelimit_actix",
                { |_, value, d| path::facade(value, d), [] };
        }
    };
}
pub(crate) use with_arguments;
