//! The arguments of one attribute: each at most once, in any order.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Expr, ExprPath, Meta, Token};

use crate::bounds::{SUB_WINDOWS, UNITS};
use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::algorithm::{self, Algorithm};
use crate::parse::by::By;
use crate::parse::choice::{self, Count, Mode, OnError, OnMissing};
use crate::parse::keywords::{ARGUMENTS, resolve_alias, unknown_message, unnamed_message};
use crate::parse::lease::{self, Lease};
use crate::parse::name::{self, Key, Name};
use crate::parse::number::{self, Number, Units};
use crate::parse::plan::Plan;
use crate::parse::request_fn::RequestFn;
use crate::parse::window::{self, Window};
use crate::parse::{facade, inner, plan, policy, skip};

/// The given arguments. Mistakes in them have been recorded.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) max: Option<Argument<Units>>,
    pub(crate) window: Option<Argument<Window>>,
    pub(crate) key: Option<Argument<Key>>,
    pub(crate) name: Option<Argument<Name>>,
    pub(crate) by: Option<Argument<By>>,
    pub(crate) on_missing: Option<Argument<OnMissing>>,
    pub(crate) on_error: Option<Argument<OnError>>,
    pub(crate) algorithm: Option<Argument<&'static Algorithm>>,
    pub(crate) sub_windows: Option<Argument<Number>>,
    pub(crate) burst: Option<Argument<Number>>,
    pub(crate) cost: Option<Argument<Units>>,
    pub(crate) block: Option<Argument<Window>>,
    pub(crate) mode: Option<Argument<Mode>>,
    pub(crate) count: Option<Argument<Count>>,
    pub(crate) lease: Option<Argument<Lease>>,
    pub(crate) skip: Option<Argument<RequestFn>>,
    pub(crate) plan: Option<Argument<Plan>>,
    pub(crate) policy: Option<Argument<ExprPath>>,
    pub(crate) inner: Option<Argument<Ident>>,
    pub(crate) facade: Option<Argument<ExprPath>>,
}

/// A given argument, with its value unless that has a mistake.
pub(crate) struct Argument<T> {
    pub(crate) keyword: Ident,
    pub(crate) value: Result<T, Reported>,
}

impl Args {
    /// Reads the tokens between the parentheses.
    pub(crate) fn parse(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Self {
        let mut args = Self::default();
        let read = |input: ParseStream<'_>| {
            args.read(input, diagnostics);
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            diagnostics.push(error);
        }
        args
    }

    /// Reads an attribute below the one that is being expanded.
    pub(crate) fn from_attribute(attribute: &Attribute, diagnostics: &mut Diagnostics) -> Self {
        match tokens_of(attribute, diagnostics) {
            Ok(tokens) => Self::parse(tokens, diagnostics),
            Err(_) => Self::default(),
        }
    }

    fn read(&mut self, input: ParseStream<'_>, diagnostics: &mut Diagnostics) {
        let mut unnamed = Vec::new();
        while !input.is_empty() {
            if input.peek(Token![,]) {
                let comma = input.parse::<Token![,]>().ok();
                diagnostics.error(
                    comma,
                    "expected an argument before this comma, such as `max = 10`; remove the comma",
                );
                continue;
            }
            if is_named(input) {
                self.read_named(input, diagnostics);
            } else {
                unnamed.push(take_value(input));
            }
            if !input.is_empty() && input.parse::<Option<Token![,]>>().is_ok_and(|comma| comma.is_none()) {
                let after = input.cursor().token_tree().map(|(token, _)| token);
                let text = after.as_ref().map(ToString::to_string).unwrap_or_default();
                if is_named(input) && input.peek2(Token![=]) {
                    diagnostics.error(after, format!("missing comma: write `, {text} =`"));
                } else {
                    diagnostics.error(after, format!("expected a comma between arguments, found `{text}`"));
                    skip_argument(input);
                    let _: Option<Token![,]> = input.parse().unwrap_or_default();
                }
            }
        }
        if !unnamed.is_empty() {
            diagnostics.error(quote!(#(#unnamed)*), unnamed_message(&unnamed));
        }
    }

    fn read_named(&mut self, input: ParseStream<'_>, diagnostics: &mut Diagnostics) {
        let Ok(keyword) = input.call(Ident::parse_any) else {
            return;
        };
        let word = keyword.to_string();
        let Some((name, example)) = ARGUMENTS.into_iter().find(|(name, _)| *name == word) else {
            let value = if is_assignment(input) { assigned(input) } else { None };
            skip_argument(input);
            diagnostics.error(&keyword, unknown_message(&word, value.as_ref()));
            return;
        };
        let value = read_value(input, &keyword, example, diagnostics);
        match name {
            "max" => set(&mut self.max, keyword, diagnostics, |d| number::units(name, example, value?, d)),
            "window" => {
                set(&mut self.window, keyword, diagnostics, |d| window::read(name, example, value?, d));
            }
            "key" => set(&mut self.key, keyword, diagnostics, |d| name::read_key(name, example, value?, d)),
            "name" => set(&mut self.name, keyword, diagnostics, |d| name::read(name, example, value?, d)),
            "by" => set(&mut self.by, keyword, diagnostics, |d| By::read(value?, d)),
            "on_error" => set(&mut self.on_error, keyword, diagnostics, |d| choice::on_error(value?, d)),
            "on_missing" => {
                set(&mut self.on_missing, keyword, diagnostics, |d| choice::on_missing(value?, d));
            }
            "algorithm" => set(&mut self.algorithm, keyword, diagnostics, |d| algorithm::read(value?, d)),
            "sub_windows" => {
                set(&mut self.sub_windows, keyword, diagnostics, |d| {
                    number::number(name, example, value?, SUB_WINDOWS, d)
                });
            }
            "burst" => set(&mut self.burst, keyword, diagnostics, |d| {
                number::number(name, example, value?, UNITS, d)
            }),
            "cost" => set(&mut self.cost, keyword, diagnostics, |d| number::units(name, example, value?, d)),
            "block" => set(&mut self.block, keyword, diagnostics, |d| window::read(name, example, value?, d)),
            "mode" => set(&mut self.mode, keyword, diagnostics, |d| choice::mode(value?, d)),
            "count" => set(&mut self.count, keyword, diagnostics, |d| choice::count(value?, d)),
            "lease" => set(&mut self.lease, keyword, diagnostics, |d| lease::read(example, value?, d)),
            "skip" => set(&mut self.skip, keyword, diagnostics, |d| skip::read(value?, d)),
            "plan" => set(&mut self.plan, keyword, diagnostics, |d| plan::read(value?, d)),
            "policy" => set(&mut self.policy, keyword, diagnostics, |d| policy::read(value?, d)),
            "inner" => set(&mut self.inner, keyword, diagnostics, |d| inner::read(value?, d)),
            _ => set(&mut self.facade, keyword, diagnostics, |d| facade::read(value?, d)),
        }
    }
}

/// The tokens between the parentheses of an attribute.
pub(crate) fn tokens_of(
    attribute: &Attribute,
    diagnostics: &mut Diagnostics,
) -> Result<TokenStream, Reported> {
    match &attribute.meta {
        Meta::Path(_) => Ok(TokenStream::new()),
        Meta::List(list) => Ok(list.tokens.clone()),
        Meta::NameValue(meta) => Err(diagnostics
            .error(meta, "arguments go in parentheses: write `#[rate_limit(max = 10, window = \"60s\")]`")),
    }
}

/// Stores an argument, or reports it if one of the same name is stored.
fn set<T>(
    slot: &mut Option<Argument<T>>,
    keyword: Ident,
    diagnostics: &mut Diagnostics,
    read: impl FnOnce(&mut Diagnostics) -> Result<T, Reported>,
) {
    let value = read(diagnostics);
    if let Some(first) = slot {
        diagnostics.error(&keyword, format!("argument `{keyword}` is given twice; remove one of them"));
        diagnostics.error(&first.keyword, format!("`{keyword}` is first given here"));
    } else {
        *slot = Some(Argument { keyword, value });
    }
}

/// Returns true if `name = value` or an attempt at it is next, not a value without a name.
fn is_named(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let Ok(word) = ahead.call(Ident::parse_any) else {
        return false;
    };
    let known = ARGUMENTS.iter().any(|(name, _)| word == name) || resolve_alias(&word.to_string()).is_some();
    known || ahead.is_empty() || ahead.peek(Token![,]) || is_assignment(&ahead)
}

fn is_assignment(input: ParseStream<'_>) -> bool {
    input.peek(Token![=]) && !input.peek(Token![==]) && !input.peek(Token![=>])
}

fn read_value(
    input: ParseStream<'_>,
    keyword: &Ident,
    example: &str,
    diagnostics: &mut Diagnostics,
) -> Result<Expr, Reported> {
    if !is_assignment(input) {
        if input.is_empty() || input.peek(Token![,]) {
            return Err(diagnostics.error(keyword, format!("`{keyword}` needs a value: write `{example}`")));
        }
        let found = input.cursor().token_tree().map(|(token, _)| token);
        skip_argument(input);
        return Err(diagnostics.error(found, format!("expected `=` after `{keyword}`: write `{example}`")));
    }
    let equals: Option<Token![=]> = input.parse().unwrap_or_default();
    if input.is_empty() || input.peek(Token![,]) {
        let at = quote!(#keyword #equals);
        return Err(diagnostics.error(at, format!("`{keyword}` needs a value: write `{example}`")));
    }
    // A fork is tried first: after a failure the input is still at the start of the value.
    let ahead = input.fork();
    if let Err(error) = ahead.parse::<Expr>() {
        let reported = diagnostics.push(syn::Error::new(
            error.span(),
            format!("the value of `{keyword}` cannot be read, {error}: write for example `{example}`"),
        ));
        skip_argument(input);
        return Err(reported);
    }
    input.parse::<Expr>().map_err(|error| diagnostics.push(error))
}

/// The value of an unknown argument, for its suggestion.
fn assigned(input: ParseStream<'_>) -> Option<Expr> {
    input.parse::<Token![=]>().ok()?;
    input.fork().parse::<Expr>().ok()
}

fn take_value(input: ParseStream<'_>) -> TokenStream {
    if input.fork().parse::<Expr>().is_ok()
        && let Ok(value) = input.parse::<Expr>()
    {
        return value.into_token_stream();
    }
    skip_argument(input)
}

fn skip_argument(input: ParseStream<'_>) -> TokenStream {
    let mut skipped = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        let Ok(token) = input.parse::<TokenTree>() else {
            break;
        };
        skipped.extend([token]);
    }
    skipped
}
