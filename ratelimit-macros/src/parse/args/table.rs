//! The table of all arguments, and the values of an attribute: a new argument is a row in `rows.rs`, and the
//! compiler or a test names every other place.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{Expr, ExprPath};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::args::rows::with_arguments;
use crate::parse::code::by::By;
use crate::parse::code::expr::ungrouped;
use crate::parse::code::request_fn::{self, RequestFn};
use crate::parse::code::tokens::find_self;
use crate::parse::kind::Kind;
use crate::parse::usage::{Of, Usage};
use crate::parse::values::algorithm::Algorithm;
use crate::parse::values::bounds::{SUB_WINDOWS, UNITS};
use crate::parse::values::calendar::{self, Anchor, Window};
use crate::parse::values::choice::{self, ChargeTime, Mode, OnError, OnMissing, Responses, Show};
use crate::parse::values::name::{self, Key, Text};
use crate::parse::values::number::{self, Number};
use crate::parse::values::path;
use crate::parse::values::window::{self, Length};

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

/// Defines [`Args`] and what goes through all arguments.
macro_rules! arguments {
    ($($(#[doc = $docs:literal])* $field:ident $name:literal: $type:ty, $of:ident, $example:literal, { $read:expr, [$($alias:literal),*] } $(, $why:literal)?;)*) => {
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
