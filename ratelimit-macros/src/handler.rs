//! The item below the attribute: what kind it is, which attribute goes where, and a signature that can be limited.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, FnArg, Generics, Signature, Token, Visibility};

use crate::diagnostics::{Diagnostics, Reported};

/// Attributes of Actix-web that register a handler.
const ROUTES: [&str; 11] =
    ["get", "post", "put", "delete", "head", "connect", "options", "trace", "patch", "route", "routes"];

/// Other attributes that belong to what the rest of the program sees, the wrapper. Lint levels there reach the user's
/// function as well, since it is nested in the wrapper; a copy of an `expect` would never be fulfilled.
const OUTER: [&str; 11] =
    ["doc", "cfg", "cfg_attr", "allow", "expect", "warn", "deny", "forbid", "deprecated", "must_use", "test"];

/// The most arguments that an Actix-web handler can have.
const MAX_ARGUMENTS: usize = 16;

/// The user's item, with our own attributes taken off.
pub(crate) struct Item {
    attributes: Vec<Attribute>,
    stacked: Vec<Attribute>,
    rest: TokenStream,
}

impl Item {
    /// Takes every further `#[rate_limit]` off `item`, also in path form and below other attributes.
    pub(crate) fn split(item: TokenStream) -> Self {
        let parser = |input: ParseStream<'_>| Ok((Attribute::parse_outer(input)?, input.parse::<TokenStream>()?));
        match parser.parse2(item.clone()) {
            Ok((attributes, rest)) => {
                let (stacked, attributes) =
                    attributes.into_iter().partition(|attribute| last_segment(attribute) == "rate_limit");
                Self { attributes, stacked, rest }
            }
            Err(_) => Self { attributes: Vec::new(), stacked: Vec::new(), rest: item },
        }
    }

    /// The further `#[rate_limit]`s, in the order of the source.
    pub(crate) fn stacked(&self) -> &[Attribute] {
        &self.stacked
    }
}

impl ToTokens for Item {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        for attribute in &self.attributes {
            attribute.to_tokens(tokens);
        }
        tokens.extend(self.rest.clone());
    }
}

fn last_segment(attribute: &Attribute) -> String {
    attribute.path().segments.last().map(|segment| segment.ident.unraw().to_string()).unwrap_or_default()
}

/// An `async fn` that can be limited.
pub(crate) struct Handler {
    /// Attributes of the wrapper.
    pub(crate) outer: Vec<TokenStream>,
    /// Attributes of the user's function inside it.
    pub(crate) inner: Vec<TokenStream>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    /// What the wrapper calls the user's function with.
    pub(crate) arguments: Vec<Argument>,
    /// The braces and all they hold, never looked into but for `Self`.
    pub(crate) body: TokenStream,
}

/// An argument of a handler: an extractor.
pub(crate) struct Argument {
    pub(crate) extractor: TokenStream,
    /// The condition under which it exists, from its `cfg` attributes.
    pub(crate) condition: Option<TokenStream>,
}

impl Handler {
    /// Reads the function, and records everything that keeps it from being a handler.
    pub(crate) fn parse(item: &Item, diagnostics: &mut Diagnostics) -> Result<Self, Reported> {
        let parts = |input: ParseStream<'_>| {
            let visibility: Visibility = input.parse()?;
            if let Err(found) = kind(input) {
                let at: TokenStream = input.parse()?;
                let at = at.into_iter().next();
                return Ok(Err(match at {
                    Some(at) => diagnostics.error(at, not_a_function(found)),
                    None => diagnostics.error_at(input.span(), not_a_function(found)),
                }));
            }
            let signature: Signature = input.parse()?;
            let body: TokenStream = input.parse()?;
            Ok(Ok((visibility, signature, body)))
        };
        let (visibility, signature, body) = match parts.parse2(item.rest.clone()) {
            Ok(parts) => parts?,
            Err(error) => return Err(diagnostics.push(error)),
        };
        let mut sound = check_qualifiers(&signature, diagnostics);
        sound = sound.and(check_body(&signature, &body, diagnostics));
        let arguments = arguments(&signature, diagnostics);
        if signature.receiver().is_none()
            && let Some(own_type) = find_self(signature.to_token_stream()).or_else(|| find_self(body.clone()))
        {
            sound = Err(diagnostics.error(
                own_type,
                "`Self` cannot be named in a rate-limited function, which is nested in a wrapper; \
                 write the name of the type instead",
            ));
        }
        sound?;
        let (outer, inner): (Vec<_>, Vec<_>) = item.attributes.iter().partition(|attribute| goes_outside(attribute));
        Ok(Self {
            outer: outer.into_iter().map(ToTokens::to_token_stream).collect(),
            inner: inner.into_iter().map(ToTokens::to_token_stream).collect(),
            visibility,
            signature,
            arguments: arguments?,
            body,
        })
    }

    /// Type and const parameters, to call the user's function with: `::<T, N>`.
    pub(crate) fn turbofish(&self) -> TokenStream {
        let Generics { params, .. } = &self.signature.generics;
        let names: Vec<&Ident> = params
            .iter()
            .filter_map(|parameter| match parameter {
                syn::GenericParam::Type(parameter) => Some(&parameter.ident),
                syn::GenericParam::Const(parameter) => Some(&parameter.ident),
                syn::GenericParam::Lifetime(_) => None,
            })
            .collect();
        if names.is_empty() { TokenStream::new() } else { quote!(::<#(#names),*>) }
    }
}

fn goes_outside(attribute: &Attribute) -> bool {
    let name = last_segment(attribute);
    let of_the_language = attribute.path().get_ident().is_some() && OUTER.contains(&name.as_str());
    of_the_language || ROUTES.contains(&name.as_str())
}

fn not_a_function(found: &str) -> String {
    let help = match found {
        "a module" | "an impl block" => "; put it on each handler inside",
        "a trait" => "; put it on the function that implements a handler",
        _ => ": write `async fn`",
    };
    format!("#[rate_limit] goes on an async handler function, not on {found}{help}")
}

/// Whether a function is next; otherwise what is.
///
/// Looks at the leading words only, so that the mistake is named instead of the first token that does not fit.
fn kind(input: ParseStream<'_>) -> Result<(), &'static str> {
    let ahead = input.fork();
    loop {
        let Ok(word) = ahead.call(Ident::parse_any) else {
            return Err(if ahead.is_empty() { "nothing" } else { "this" });
        };
        match word.to_string().as_str() {
            "fn" => return Ok(()),
            "const" if !ahead.peek(Token![fn]) && !is_qualifier(&ahead) => return Err("a constant"),
            "extern" => {
                let _abi: Option<syn::LitStr> = ahead.parse().unwrap_or_default();
                if ahead.peek(Token![crate]) {
                    return Err("an extern crate");
                }
                if ahead.peek(syn::token::Brace) {
                    return Err("an extern block");
                }
            }
            "async" | "unsafe" | "const" | "safe" | "default" | "auto" => {}
            "struct" => return Err("a struct"),
            "enum" => return Err("an enum"),
            "union" => return Err("a union"),
            "trait" => return Err("a trait"),
            "impl" => return Err("an impl block"),
            "mod" => return Err("a module"),
            "static" => return Err("a static"),
            "type" => return Err("a type alias"),
            "use" => return Err("an import"),
            "macro_rules" | "macro" => return Err("a macro"),
            "let" => return Err("a statement"),
            _ => return Err("this"),
        }
    }
}

fn is_qualifier(input: ParseStream<'_>) -> bool {
    input.peek(Token![async]) || input.peek(Token![unsafe]) || input.peek(Token![extern])
}

fn check_qualifiers(signature: &Signature, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    let mut sound = Ok(());
    let name = &signature.ident;
    if let Some(token) = &signature.constness {
        sound = Err(diagnostics.error(token, format!("a handler cannot be `const`: write `async fn {name}`")));
    }
    if let syn::Safety::Unsafe(token) = &signature.safety {
        sound = Err(diagnostics.error(token, format!("a handler cannot be `unsafe`: write `async fn {name}`")));
    }
    if let Some(abi) = &signature.abi {
        sound = Err(diagnostics.error(abi, format!("a handler cannot be `extern`: write `async fn {name}`")));
    }
    if signature.asyncness.is_none() {
        sound = Err(diagnostics
            .error(signature.fn_token, format!("a rate-limited handler must be async: write `async fn {name}`")));
    }
    if let Some(variadic) = &signature.variadic {
        sound = Err(diagnostics.error(variadic, "a handler cannot have a variable number of arguments; remove `...`"));
    }
    sound
}

fn check_body(signature: &Signature, body: &TokenStream, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    let mut tokens = body.clone().into_iter();
    match (tokens.next(), tokens.next()) {
        // A body that came through a macro has invisible delimiters around its braces.
        (Some(TokenTree::Group(group)), None)
            if matches!(group.delimiter(), Delimiter::Brace | Delimiter::None) =>
        {
            Ok(())
        }
        (None, _) => Err(diagnostics.error(&signature.ident, NO_BODY)),
        (Some(TokenTree::Punct(end)), None) if end.as_char() == ';' => Err(diagnostics.error(end, NO_BODY)),
        (Some(token), _) => Err(diagnostics.error(token, "expected the body of the handler, in braces")),
    }
}

const NO_BODY: &str =
    "#[rate_limit] needs a function with a body; put it on the implementation, not on the trait's declaration";

fn arguments(signature: &Signature, diagnostics: &mut Diagnostics) -> Result<Vec<Argument>, Reported> {
    let mut sound = Ok(());
    let mut arguments = Vec::new();
    for (index, input) in signature.inputs.iter().enumerate() {
        match input {
            FnArg::Receiver(receiver) => {
                sound = Err(diagnostics.error(
                    &receiver.self_token,
                    "a handler cannot take `self`: Actix-web has no value to call it on; \
                     pass state in with `web::Data<T>`",
                ));
            }
            FnArg::Typed(argument) => {
                let extractor = argument.ty.to_token_stream();
                if let Some(token) = find_word(extractor.clone(), "impl") {
                    sound = Err(diagnostics.error(
                        token,
                        "a handler argument cannot be `impl Trait`; write a named generic parameter, such as \
                         `async fn handler<T: Trait>(argument: T)`",
                    ));
                }
                if index == MAX_ARGUMENTS {
                    sound = Err(diagnostics.error(
                        &argument.ty,
                        "an Actix-web handler takes at most 16 arguments; put several extractors in a tuple",
                    ));
                }
                arguments.push(Argument { extractor, condition: condition(&argument.attrs) });
            }
        }
    }
    sound.map(|()| arguments)
}

/// The joined condition of `#[cfg(..)]` attributes.
fn condition(attributes: &[Attribute]) -> Option<TokenStream> {
    let conditions: Vec<&TokenStream> = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .filter_map(|attribute| attribute.meta.require_list().ok())
        .map(|list| &list.tokens)
        .collect();
    match conditions[..] {
        [] => None,
        [condition] => Some(condition.clone()),
        _ => Some(quote!(all(#(#conditions),*))),
    }
}

/// The first `word` among the tokens.
fn find_word(tokens: TokenStream, word: &str) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) => (ident == word).then_some(ident),
        TokenTree::Group(group) => find_word(group.stream(), word),
        _ => None,
    })
}

/// The first `Self` that means the type around the function. Items nested in the body have a `Self` of their own.
pub(crate) fn find_self(tokens: TokenStream) -> Option<Ident> {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "Self" => return Some(ident),
            TokenTree::Ident(ident) if ["impl", "trait", "struct", "enum"].iter().any(|word| ident == word) => {
                tokens.find(|token| match token {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    TokenTree::Punct(end) => end.as_char() == ';',
                    _ => false,
                });
            }
            TokenTree::Group(group) => {
                if let Some(found) = find_self(group.stream()) {
                    return Some(found);
                }
            }
            _ => {}
        }
    }
    None
}
