//! The arguments of one attribute: each at most once, in any order.

pub(crate) mod rows;
pub(crate) mod table;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::token::Brace;
use syn::{Attribute, Expr, Meta, Token};

use self::table::ARGUMENTS;
pub(crate) use self::table::{Args, Argument, value_of};
use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::by::By;
use crate::parse::keywords::{resolve_alias, unknown_message, unnamed_message};
use crate::parse::kind::Kind;
use crate::parse::values::calendar::CalendarUnit;
use crate::parse::values::name::Key;

impl Args {
    /// Reads the arguments of an attribute.
    pub(crate) fn parse(kind: Kind, attribute: &Attribute, diagnostics: &mut Diagnostics) -> Self {
        let mut args = Self::none(kind);
        let Some(tokens) = between_parentheses(attribute) else {
            let written = format!("#[{}({})]", kind.name(), kind.example());
            diagnostics.error(&attribute.meta, format!("arguments go in parentheses: write `{written}`"));
            args.has_unknown = true;
            return args;
        };
        let read = |input: ParseStream<'_>| {
            args.read(input, diagnostics);
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            diagnostics.push(error);
        }
        args
    }

    /// The caller. `None` if the argument that names it has a mistake.
    pub(crate) fn caller(&self) -> Option<&By> {
        match (&self.by, value_of(self.key.as_ref())) {
            (Some(by), _) => by.value.as_ref().ok(),
            (None, Some(Key::Template(_, by))) => Some(by),
            (None, _) => Some(&By::Ip),
        }
    }

    /// The unit of the calendar window, if the limit has one.
    pub(crate) fn calendar_unit(&self) -> Option<CalendarUnit> {
        value_of(self.window.as_ref())?.unit()
    }

    fn read(&mut self, input: ParseStream<'_>, diagnostics: &mut Diagnostics) {
        let mut unnamed = Vec::new();
        while !input.is_empty() {
            if input.peek(Token![,]) {
                let comma = input.parse::<Token![,]>().ok();
                let message = "expected an argument before this comma, such as `max = 10`; remove the comma";
                diagnostics.error(comma, message);
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
            self.has_unknown = true;
            diagnostics.error(quote!(#(#unnamed)*), unnamed_message(self.kind, &unnamed));
        }
    }

    fn read_named(&mut self, input: ParseStream<'_>, diagnostics: &mut Diagnostics) {
        let Ok(keyword) = input.call(Ident::parse_any) else { return };
        let word = keyword.to_string();
        let usage = ARGUMENTS.iter().find(|usage| usage.name == word);
        let Some(usage) = usage.filter(|usage| usage.is_of(self.kind)) else {
            let value = assigned(input);
            skip_argument(input);
            let message = if let Some(why) = usage.and_then(|usage| usage.rate_only) {
                format!("`{word}` is not for a concurrency limit: {why}")
            } else {
                self.has_unknown = true;
                unknown_message(self.kind, &word, value.as_ref())
            };
            diagnostics.error(&keyword, message);
            return;
        };
        let value = read_value(input, &keyword, usage.example, diagnostics);
        self.set(usage, keyword, value, diagnostics);
    }
}

/// The arguments of an attribute, also of one without parentheses. `None` for `#[name = value]`.
pub(crate) fn between_parentheses(attribute: &Attribute) -> Option<TokenStream> {
    match &attribute.meta {
        Meta::Path(_) => Some(TokenStream::new()),
        Meta::List(list) => Some(list.tokens.clone()),
        Meta::NameValue(_) => None,
    }
}

/// Returns true if `name = value` or an attempt at it is next, not a value without a name.
fn is_named(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let Ok(word) = ahead.call(Ident::parse_any) else { return false };
    let known = ARGUMENTS.iter().any(|usage| word == usage.name)
        || resolve_alias(Kind::Rate, &word.to_string()).is_some();
    known || is_end(&ahead) || is_assignment(&ahead)
}

/// Returns true at the end of an argument.
fn is_end(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
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
    if !is_assignment(input) && !is_end(input) {
        let found = input.cursor().token_tree().map(|(token, _)| token);
        skip_argument(input);
        return Err(diagnostics.error(found, format!("expected `=` after `{keyword}`: write `{example}`")));
    }
    let equals: Option<Token![=]> = input.parse().unwrap_or_default();
    if is_end(input) {
        let at = quote!(#keyword #equals);
        return Err(diagnostics.error(at, format!("`{keyword}` needs a value: write `{example}`")));
    }
    // A fork reads the value first: after a failure the input is still at the start of the value.
    let ahead = input.fork();
    if let Err(error) = ahead.parse::<Expr>() {
        let fault = if keyword == "max" && input.peek(Brace) {
            "`max` takes one number; for other numbers by plan write `plan = plan_of` and overrides, or a closure".to_owned()
        } else {
            format!("the value of `{keyword}` cannot be read, {error}: write for example `{example}`")
        };
        let reported = diagnostics.push(syn::Error::new(error.span(), fault));
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
    if input.fork().parse::<Expr>().is_err() {
        return skip_argument(input);
    }
    input.parse::<Expr>().map(ToTokens::into_token_stream).unwrap_or_default()
}

fn skip_argument(input: ParseStream<'_>) -> TokenStream {
    let mut skipped = TokenStream::new();
    while !is_end(input) {
        let Ok(token) = input.parse::<TokenTree>() else { break };
        skipped.extend([token]);
    }
    skipped
}
