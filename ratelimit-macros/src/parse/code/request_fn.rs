//! User code that runs for each request: a closure, or `with(path)` for a function.

use proc_macro2::{Delimiter, Ident, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Expr, ExprCall, ExprClosure, ExprPath, Lit, Pat, ReturnType, Type};

use crate::diagnostics::located_at_start;
use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::expr::{describe, ungrouped};
use crate::parse::code::extractor_type;
use crate::parse::code::tokens::path_text;
use crate::parse::usage::Usage;

/// User code that chooses a value per request.
pub(crate) enum RequestFn {
    Closure(Closure),
    /// `with(path)`: a function, sync or async, over the request or over extractors.
    With(ExprPath),
    /// The path of a `fn(&HttpRequest) -> P`, for a plan.
    Path(ExprPath),
}

impl RequestFn {
    /// The user's tokens.
    pub(crate) fn code(&self) -> TokenStream {
        match self {
            Self::Closure(closure) => closure.tokens.clone(),
            Self::With(path) | Self::Path(path) => path.to_token_stream(),
        }
    }
}

/// The parts of a closure. It is written out as a function, which may return a borrow of the request.
pub(crate) struct Closure {
    pub(crate) asyncness: Option<syn::Token![async]>,
    pub(crate) inputs: Inputs,
    /// The declared return type.
    pub(crate) output: Option<TokenStream>,
    /// The body, in braces.
    pub(crate) body: TokenStream,
    /// The closure as written.
    pub(crate) tokens: TokenStream,
}

/// The parameters of a closure.
pub(crate) enum Inputs {
    /// `|req: &HttpRequest|`, which needs no extractor.
    Request(Box<Input>),
    /// Any number of extractors.
    Extractors(Vec<Input>),
}

/// A parameter of a closure.
pub(crate) struct Input {
    pub(crate) pattern: TokenStream,
    /// The variables in the pattern.
    pub(crate) names: Vec<Ident>,
    pub(crate) ty: TokenStream,
    /// The type of the extractor that is taken by reference.
    pub(crate) shared: Option<TokenStream>,
}

impl Closure {
    /// Returns true if the call needs no `await`.
    pub(crate) fn is_immediate(&self) -> bool {
        self.asyncness.is_none() && matches!(self.inputs, Inputs::Request(..))
    }
}

/// Reads a closure or `with(..)`. `None` for any other expression.
pub(crate) fn read(
    name: &str,
    value: &Expr,
    diagnostics: &mut Diagnostics,
) -> Option<Result<RequestFn, Reported>> {
    match value {
        Expr::Closure(closure) => Some(self::closure(name, closure, diagnostics).map(RequestFn::Closure)),
        Expr::Call(call) if is_with(call) => Some(with(name, call, diagnostics).map(RequestFn::With)),
        _ => None,
    }
}

/// Reads the value of `skip`: code that returns a boolean.
pub(crate) fn skip(usage: &Usage, value: Expr, diagnostics: &mut Diagnostics) -> Result<RequestFn, Reported> {
    if let Some(function) = read(usage.name, &value, diagnostics) {
        return function;
    }
    let help = match &value {
        Expr::Path(path) => format!("; did you mean `skip = with({})`?", path_text(path)),
        Expr::Lit(literal) if matches!(literal.lit, Lit::Bool(_)) => {
            "; remove `skip` to always apply the limit, or the attribute to never apply it".to_owned()
        }
        _ => format!(", not {}", describe(&value)),
    };
    let fault =
        format!("`skip` takes a closure, such as `|req: &HttpRequest| ..`, or `with(function)`{help}");
    Err(diagnostics.error(value, fault))
}

/// Reads the value of `plan`: code that returns the name of a plan per request.
pub(crate) fn plan(usage: &Usage, value: Expr, diagnostics: &mut Diagnostics) -> Result<RequestFn, Reported> {
    let help = match &value {
        Expr::Closure(closure) => {
            return self::closure(usage.name, closure, diagnostics).map(RequestFn::Closure);
        }
        Expr::Path(path) => return Ok(RequestFn::Path(path.clone())),
        Expr::Lit(_) => "; the plans have their numbers in overrides, in `[limit.NAME.plans]`".to_owned(),
        Expr::Call(call) => match (call.args.first(), call.func.to_token_stream().to_string().as_str()) {
            (Some(Expr::Path(path)), "with") => format!("; did you mean `plan = {}`?", path_text(path)),
            _ => "; write the path of the function, without calling it".to_owned(),
        },
        _ => format!(", not {}", describe(&value)),
    };
    let fault = format!(
        "`plan` takes a closure that returns the name of a plan, such as `|user: web::ReqData<User>| ..`, or the path of a \
         `fn(&HttpRequest) -> P`{help}"
    );
    Err(diagnostics.error(value, fault))
}

/// Returns true for `with(..)`.
pub(crate) fn is_with(call: &ExprCall) -> bool {
    matches!(&*call.func, Expr::Path(path) if path.path.is_ident("with"))
}

/// Reads `with(path)`.
pub(crate) fn with(name: &str, call: &ExprCall, diagnostics: &mut Diagnostics) -> Result<ExprPath, Reported> {
    let mut arguments = call.args.iter().cloned().map(ungrouped);
    match (arguments.next(), arguments.next()) {
        (Some(Expr::Path(path)), None) => Ok(path),
        (Some(Expr::Closure(_)), None) => {
            Err(diagnostics.error(call, format!("a closure needs no `with`: write `{name} = |..| ..`")))
        }
        (Some(Expr::Call(_)), None) => Err(diagnostics.error(
            call,
            format!(
                "`with` takes the path of a function, without calling it: write `{name} = with(function)`"
            ),
        )),
        _ => Err(diagnostics.error(
            call,
            format!("`with` takes the path of one function: write for example `{name} = with(function)`"),
        )),
    }
}

/// Reads a closure over the request, or over extractors that do not read the body.
pub(crate) fn closure(
    name: &str,
    closure: &ExprClosure,
    diagnostics: &mut Diagnostics,
) -> Result<Closure, Reported> {
    if closure.constness.is_some()
        || closure.lifetimes.is_some()
        || closure.modifiers.require_empty().is_err()
    {
        return Err(diagnostics
            .error(closure, format!("`{name}` takes a plain closure: write `|..| ..`, or `async |..| ..`")));
    }
    let mut sound = Ok(());
    let mut typed = Vec::new();
    let mut is_request = false;
    for input in &closure.inputs {
        match input {
            Pat::Type(input) => {
                sound = sound.and(extractor_type::check(name, &input.ty, diagnostics));
                if let Some(attribute) = input.attrs.first() {
                    let help = "a closure's parameters have no attributes here; remove this one";
                    sound = Err(diagnostics.error(attribute, help));
                }
                is_request = extractor_type::is_request(&input.ty);
                let shared = match extractor_type::bare(&input.ty) {
                    Type::Reference(reference) => Some(reference.elem.to_token_stream()),
                    _ => None,
                };
                let pattern = input.pat.to_token_stream();
                let mut names = Vec::new();
                find_names(pattern.clone(), &mut names);
                typed.push(Input { pattern, names, ty: input.ty.to_token_stream(), shared });
            }
            other => {
                let text = other.to_token_stream().to_string();
                sound = Err(diagnostics.error(
                    other,
                    format!(
                        "a closure's parameters need types here: write `|{text}: &HttpRequest| ..`, or an extractor, \
                         such as `|{text}: web::Path<u64>| ..`"
                    ),
                ));
            }
        }
    }
    sound?;
    let inputs = match typed.pop() {
        Some(request) if is_request && typed.is_empty() => Inputs::Request(Box::new(request)),
        last => {
            typed.extend(last);
            Inputs::Extractors(typed)
        }
    };
    let body = &*closure.body;
    Ok(Closure {
        asyncness: closure.asyncness,
        inputs,
        output: match &closure.output {
            ReturnType::Default => None,
            ReturnType::Type(_, output) => Some(output.to_token_stream()),
        },
        body: match body {
            Expr::Block(block) if block.attrs.is_empty() && block.label.is_none() => block.to_token_stream(),
            other => quote_spanned!(located_at_start(other)=> { #other }),
        },
        tokens: closure.to_token_stream(),
    })
}

/// Collects the variables of a pattern: lower-case words that are not paths, field names or macros.
fn find_names(pattern: TokenStream, names: &mut Vec<Ident>) {
    let mut tokens = pattern.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => find_names(group.stream(), names),
            TokenTree::Ident(word) => {
                let is_variable = match tokens.peek() {
                    Some(TokenTree::Punct(next)) => !matches!(next.as_char(), ':' | '!' | '<'),
                    Some(TokenTree::Group(next)) => next.delimiter() == Delimiter::None,
                    _ => true,
                };
                let is_lower = word.to_string().trim_start_matches("r#").starts_with(char::is_lowercase);
                let is_keyword = syn::parse2::<Ident>(word.to_token_stream()).is_err();
                if is_variable && is_lower && !is_keyword && !names.contains(&word) {
                    names.push(word);
                }
            }
            // The second half of `::` and the segment after it.
            TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == Spacing::Joint => {
                tokens.next();
                tokens.next_if(|next| matches!(next, TokenTree::Ident(_)));
            }
            _ => {}
        }
    }
}
