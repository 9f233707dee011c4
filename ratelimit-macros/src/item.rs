//! The item below the attribute: which attribute goes where, and whether it is a function.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Token};

/// Attributes of Actix-web that register a handler.
const ROUTES: [&str; 11] =
    ["get", "post", "put", "delete", "head", "connect", "options", "trace", "patch", "route", "routes"];

/// Other attributes that belong to what the rest of the program sees, the wrapper. Lint levels there reach the user's
/// function as well, since it is nested in the wrapper; a copy of an `expect` would never be fulfilled.
const OUTER: [&str; 10] =
    ["doc", "cfg", "cfg_attr", "allow", "expect", "warn", "deny", "forbid", "deprecated", "must_use"];

/// The user's item, with our own attributes taken off.
pub(crate) struct Item {
    attributes: Vec<Attribute>,
    stacked: Vec<Attribute>,
    /// Visibility, signature and body, if it is a function.
    pub(crate) rest: TokenStream,
}

impl Item {
    /// Takes every further `#[rate_limit]` off `item`, also in path form and below other attributes.
    pub(crate) fn split(item: TokenStream) -> Self {
        let parser =
            |input: ParseStream<'_>| Ok((Attribute::parse_outer(input)?, input.parse::<TokenStream>()?));
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

    /// Attributes of the wrapper, and those of the user's function inside it.
    pub(crate) fn attributes(&self) -> (Vec<TokenStream>, Vec<TokenStream>) {
        let (outer, inner): (Vec<_>, Vec<_>) =
            self.attributes.iter().partition(|attribute| goes_outside(attribute));
        let tokens =
            |attributes: Vec<&Attribute>| attributes.into_iter().map(ToTokens::to_token_stream).collect();
        (tokens(outer), tokens(inner))
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

fn goes_outside(attribute: &Attribute) -> bool {
    let name = last_segment(attribute);
    let of_the_language = attribute.path().get_ident().is_some() && OUTER.contains(&name.as_str());
    of_the_language || ROUTES.contains(&name.as_str())
}

/// Makes sure that a function is next; otherwise says what is.
pub(crate) fn expect_function(input: ParseStream<'_>) -> Result<(), String> {
    other_than_function(input).map_err(|found| {
        let help = match found {
            "a module" | "an impl block" => "put it on each handler inside",
            "a trait" => "put it on the function that implements a handler",
            _ => "put it above an `async fn`",
        };
        format!("#[rate_limit] goes on an async handler function, not on {found}; {help}")
    })
}

/// Looks at the leading words only, so that the mistake is named instead of the first token that does not fit.
fn other_than_function(input: ParseStream<'_>) -> Result<(), &'static str> {
    let ahead = input.fork();
    loop {
        let Ok(word) = ahead.call(Ident::parse_any) else {
            return Err(if ahead.is_empty() { "nothing" } else { "this" });
        };
        match word.to_string().as_str() {
            "fn" => return Ok(()),
            "const" if !ahead.peek(Token![fn]) && !is_qualifier(&ahead) => {
                return Err("a constant");
            }
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
