//! The kind of an item, from its leading words.

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Signature, Token, Visibility};

use crate::parse::kind::Kind;

/// The kinds of items that the attribute distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    Module,
    Impl,
    /// Several items: an attribute at the top of a crate receives the whole crate.
    Crate,
    /// A function, or an item that no attribute goes on.
    Other,
}

/// The kind of `item`, which has no attributes.
pub(crate) fn of(item: &TokenStream) -> ItemKind {
    match read(item, |input| Ok(other_than_function(input))) {
        Ok(Err("a module")) => ItemKind::Module,
        Ok(Err("an impl block")) => ItemKind::Impl,
        Ok(Err(_)) if is_several(item) => ItemKind::Crate,
        _ => ItemKind::Other,
    }
}

fn is_several(item: &TokenStream) -> bool {
    syn::parse2::<syn::File>(item.clone()).is_ok_and(|file| file.items.len() > 1)
}

/// Returns true if `item` is an `async fn` without `self`.
pub(crate) fn is_associated_handler(item: &TokenStream) -> bool {
    let signature = read(item, Signature::parse);
    signature.is_ok_and(|signature| signature.asyncness.is_some() && signature.receiver().is_none())
}

/// What `find` finds behind the visibility of `item`.
fn read<T>(item: &TokenStream, find: impl FnOnce(ParseStream<'_>) -> syn::Result<T>) -> syn::Result<T> {
    let find = |input: ParseStream<'_>| {
        let _visibility: Visibility = input.parse()?;
        let found = find(input)?;
        let _rest: TokenStream = input.parse()?;
        Ok(found)
    };
    find.parse2(item.clone())
}

/// Checks that a function is next. The error names the item that was found instead.
pub(crate) fn expect_function(kind: Kind, input: ParseStream<'_>) -> syn::Result<()> {
    other_than_function(input).map_err(|found| {
        let help = match found {
            "a module" | "an impl block" => "this one cannot be read",
            "a trait" => "put it on the function that implements a handler",
            "a macro call" => "put it above the `async fn` that the macro writes, inside of the macro",
            _ => "put it above an `async fn`",
        };
        let message = format!(
            "{kind} goes on an async handler function, an inline module or an impl block, not on {found}; {help}"
        );
        syn::Error::new(input.span(), message)
    })
}

/// Names the item that is next, if it is not a function. Only the leading words decide, so that the error is
/// about the kind of item, not about the first unexpected token.
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
            "union" if !ahead.peek(Token![!]) => return Err("a union"),
            "trait" => return Err("a trait"),
            "impl" => return Err("an impl block"),
            "mod" => return Err("a module"),
            "static" => return Err("a static"),
            "type" => return Err("a type alias"),
            "use" => return Err("an import"),
            "macro_rules" | "macro" => return Err("a macro"),
            _ if ahead.peek(Token![!]) || ahead.peek(Token![::]) => return Err("a macro call"),
            "let" => return Err("a statement"),
            _ => return Err("this"),
        }
    }
}

fn is_qualifier(input: ParseStream<'_>) -> bool {
    input.peek(Token![async]) || input.peek(Token![unsafe]) || input.peek(Token![extern])
}
