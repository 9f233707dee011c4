//! The table of all arguments: a new one is a row here, and the compiler or a test names every other place.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{Expr, ExprPath};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::algorithm::Algorithm;
use crate::parse::bounds::{SUB_WINDOWS, UNITS};
use crate::parse::by::By;
use crate::parse::calendar::{self, Anchor, Window};
use crate::parse::choice::{self, ChargeTime, Mode, OnError, OnMissing, Responses, Show};
use crate::parse::expr::ungrouped;
use crate::parse::kind::Kind;
use crate::parse::name::{self, Key, Text};
use crate::parse::number::{self, Number};
use crate::parse::path;
use crate::parse::request_fn::{self, RequestFn};
use crate::parse::tokens::find_self;
use crate::parse::usage::{Of, Usage};
use crate::parse::window::{self, Length};

/// An argument that is present, with its value unless that has a mistake.
pub(crate) struct Argument<T> {
    pub(crate) keyword: Ident,
    pub(crate) value: Result<T, Reported>,
}

/// The value of an argument that is present, unless it has a mistake.
pub(crate) fn value_of<T>(argument: Option<&Argument<T>>) -> Option<&T> {
    argument?.value.as_ref().ok()
}

/// The arguments of an attribute.
pub(crate) fn arguments_of(kind: Kind) -> impl Iterator<Item = &'static Usage> + Clone {
    ARGUMENTS.iter().filter(move |usage| usage.is_of(kind))
}

/// Defines [`Args`] and what goes through all arguments. A row has the field, name and type of an argument,
/// its [`Of`], its example, the function that reads its value, its aliases, and, if only `#[rate_limit]` has
/// it, the reason.
macro_rules! arguments {
    ($($field:ident $name:literal: $type:ty, $of:ident, $example:literal, $read:expr, [$($alias:literal),*] $(, $why:literal)?;)*) => {
        /// The arguments that are present. Mistakes in them have been recorded.
        pub(crate) struct Args {
            pub(crate) kind: Kind,
            /// Whether some argument has no name or an unknown one, and may stand for one that is missing.
            pub(crate) has_unknown: bool,
            /// The values as they are written.
            pub(crate) code: TokenStream,
            $(pub(crate) $field: Option<Argument<$type>>,)*
        }

        pub(crate) const ARGUMENTS: &[Usage] =
            &[$(Usage { name: $name, of: Of::$of, example: $example, aliases: &[$($alias),*], rate_only: [$(Some($why),)? None][0] }),*];

        impl Args {
            /// An attribute without arguments.
            pub(crate) fn none(kind: Kind) -> Self {
                Self { kind, has_unknown: false, code: TokenStream::new(), $($field: None),* }
            }

            /// Reads the value of an argument, and stores it.
            pub(super) fn set(
                &mut self,
                usage: &Usage,
                keyword: Ident,
                value: Result<Expr, Reported>,
                diagnostics: &mut Diagnostics,
            ) {
                $(if usage.name == $name {
                    let read: fn(&Usage, Expr, &mut Diagnostics) -> Result<$type, Reported> = $read;
                    let value = value.map(ungrouped).and_then(|value| {
                        let tokens = value.to_token_stream();
                        let read = read(usage, value, diagnostics)?;
                        self.code.extend(tokens.clone());
                        check_self(self.kind, tokens, diagnostics);
                        Ok(read)
                    });
                    return store(&mut self.$field, Argument { keyword, value }, diagnostics);
                })*
            }

            /// The arguments that are present and match, in the order of the table.
            pub(crate) fn present(&self, matches: impl Fn(&Usage) -> bool) -> impl Iterator<Item = &Ident> {
                let keywords = [$(self.$field.as_ref().map(|argument| &argument.keyword)),*];
                let matching = ARGUMENTS.iter().zip(keywords).filter(move |(usage, _)| matches(usage));
                matching.filter_map(|(_, keyword)| keyword)
            }
        }
    };
}

/// Passes the rows of all arguments to another macro.
macro_rules! with_arguments {
    ($each:ident) => {
        $each! {
            max "max": Number, Policy, "max = 10", number::units,
                ["maxrequests", "maxcalls", "limit", "requests", "permits", "rate"];
            window "window": Window, Policy, "window = \"60s\"", calendar::window,
                ["windowseconds", "windowsecs", "windowsize", "per", "period", "duration", "interval", "seconds"],
                "a request holds its slot until its response has been sent; remove `window`, or write \
                 `#[rate_limit(max = 60, window = \"1m\")]` beside it";
            zone "zone": Text, Part, "zone = \"Europe/Berlin\"", calendar::zone,
                ["timezone", "tz", "location"],
                "it has no window; remove `zone`";
            anchor "anchor": Anchor, Part, "anchor = 15", calendar::anchor,
                ["start", "startday", "firstday", "billingday", "resetday", "weekstart"],
                "it has no window; remove `anchor`";
            key "key": Key, Part, "key = \"user-api\"", name::read_key,
                ["id", "keyprefix", "prefix"];
            name "name": Text, Policy, "name = \"hourly\"", name::read, [];
            by "by": By, Limit, "by = ip", |_, value, d| By::read(value, d),
                ["user", "client", "keyfn", "keyby", "identity"];
            on_missing "on_missing": OnMissing, Limit, "on_missing = \"anonymous\"", |_, value, d| choice::read(value, d),
                ["missing", "ifmissing", "onnone", "default"];
            on_error "on_error": OnError, Policy, "on_error = \"deny\"", |_, value, d| choice::read(value, d),
                ["onfailure", "fallback", "failopen", "failclosed", "failuremode"];
            algorithm "algorithm": &'static Algorithm, Policy, "algorithm = \"token_bucket\"", |_, value, d| choice::read(value, d),
                ["strategy", "type"],
                "it counts the requests that run now, and nothing over time; remove `algorithm`";
            sub_windows "sub_windows": Number, Policy, "sub_windows = 6", |usage, value, d| number::number(usage, value, SUB_WINDOWS, d),
                [],
                "it has no window; remove `sub_windows`";
            burst "burst": Number, Policy, "burst = 20", |usage, value, d| number::number(usage, value, UNITS, d),
                ["capacity", "burstsize"],
                "never more than `max` requests run at a time; remove `burst`, or raise `max`";
            cost "cost": Number, Limit, "cost = 5", number::units,
                ["weight", "tokens"],
                "every request holds one slot; remove `cost`";
            block "block": Length, Policy, "block = \"10m\"", window::time,
                ["blockduration", "blockfor", "ban", "banfor", "banduration", "lockout", "penalty", "cooldown"],
                "a caller may go on as soon as one of its requests has ended; remove `block`, or write it in a `#[rate_limit(..)]` beside it";
            mode "mode": Mode, Policy, "mode = \"shadow\"", |_, value, d| choice::read(value, d),
                ["shadow", "shadowmode", "dryrun", "reportonly", "logonly"];
            count "count": Responses, Limit, "count = \"failures\"", |_, value, d| choice::responses(value, d),
                ["only", "countif", "counts", "countonly"],
                "a slot is free again after every response; remove `count`";
            charge "charge": ChargeTime, Limit, "charge = \"after\"", |_, value, d| choice::read(value, d),
                ["chargeat", "chargewhen", "chargeon", "chargetime"],
                "a request holds its slot while it runs; remove `charge`";
            show "show": Show, Limit, "show = \"denied\"", |_, value, d| choice::read(value, d),
                ["shown", "visible", "hide", "hidden", "showin"];
            lease "lease": Length, Policy, "lease = \"100ms\"", window::time,
                ["leases", "leasetime", "hold", "prefetch", "synctime", "syncrate"],
                "a slot belongs to a request that runs, so none is taken ahead; remove `lease`";
            skip "skip": RequestFn, Limit, "skip = with(is_internal)", request_fn::skip,
                ["unless", "skipif", "exempt", "when", "condition", "except"];
            plan "plan": RequestFn, Limit, "plan = plan_of", request_fn::plan,
                ["plans", "tier", "tiers", "subscription"];
            policy "policy": ExprPath, Limit, "policy = SEARCH", |_, value, d| path::policy(value, d),
                ["rule", "quota", "sharedlimit", "limiter", "ratelimiter"];
            inner "inner": Ident, Handler, "inner = user_body", |_, value, d| path::inner(value, d),
                ["direct", "original", "bodyname"];
            facade "crate": ExprPath, Handler, "crate = ::ratelimit_actix", |_, value, d| path::facade(value, d), [];
        }
    };
}
pub(crate) use with_arguments;

with_arguments!(arguments);

/// Arguments of other rate limiters, in lower case and without underscores, and what does the same here.
pub(crate) const ELSEWHERE: [(&[&str], &str); 5] = [
    (
        &["store", "storage", "backend", "redis"],
        "all limits count in the store of the limiter in app data, such as `RateLimiter::redis(\"redis://127.0.0.1/\")`",
    ),
    (
        &["wait", "delay", "nodelay", "throttle"],
        "a request over the limit is answered at once; `RateLimiter::wait` lets a job wait for its turn",
    ),
    (
        &["queue", "queuesize", "maxqueue", "backlog", "timeout"],
        "a request over the limit is denied at once; `RateLimiter::acquire` lets a job hold a slot",
    ),
    (
        &["message", "errormessage", "body", "response", "statuscode", "headers"],
        "`RateLimitConfig` in app data sets the headers and the body of responses",
    ),
    (
        &["methods", "method"],
        "give each method a handler of its own, or leave requests out by `skip = |req: &HttpRequest| ..`",
    ),
];

/// Stores an argument, or reports it if the same argument is stored.
fn store<T>(stored: &mut Option<Argument<T>>, argument: Argument<T>, diagnostics: &mut Diagnostics) {
    let Some(first) = stored else {
        *stored = Some(argument);
        return;
    };
    let keyword = argument.keyword;
    diagnostics.error(&keyword, format!("argument `{keyword}` is given twice; remove one of them"));
    diagnostics.error(&first.keyword, format!("`{keyword}` is first given here"));
}

/// Reports a `Self`. Numbers and code are written inside the wrapper, where it has no meaning.
fn check_self(kind: Kind, value: TokenStream, diagnostics: &mut Diagnostics) {
    if let Some(own_type) = find_self(value) {
        diagnostics
            .error(own_type, format!("`Self` cannot be named in {kind}; write the name of the type instead"));
    }
}
