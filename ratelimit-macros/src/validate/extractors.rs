//! The handler's arguments: extractors and their `cfg` conditions.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, FnArg, Signature};

use crate::diagnostics::Diagnostics;
use crate::parse::code::tokens::has_word;

/// Maximum number of arguments of an Actix-web handler.
const MAX_ARGUMENTS: usize = 16;

/// An argument of a handler.
pub(crate) struct Extractor {
    pub(crate) ty: TokenStream,
    /// The joined condition of its `cfg` attributes, the same for all arguments that have one: the expansion
    /// has a block with these arguments, and one without.
    pub(crate) condition: Option<TokenStream>,
}

pub(crate) fn read(signature: &Signature, diagnostics: &mut Diagnostics) -> Vec<Extractor> {
    let mut extractors: Vec<Extractor> = Vec::new();
    for (index, input) in signature.inputs.iter().enumerate() {
        let argument = match input {
            FnArg::Typed(argument) => argument,
            FnArg::Receiver(receiver) => {
                let message = "a handler cannot take `self`: Actix-web has no value to call it on; pass state in with \
                               `web::Data<T>`";
                diagnostics.error(receiver.self_token, message);
                continue;
            }
        };
        let (ty, condition) = (argument.ty.to_token_stream(), condition(&argument.attrs));
        if has_word(ty.clone(), &["impl"]) {
            let message = "a handler argument cannot be `impl Trait`; write a named generic parameter, such as \
                           `async fn handler<T: Trait>(argument: T)`";
            diagnostics.error(&ty, message);
        }
        if index == MAX_ARGUMENTS {
            let message =
                "an Actix-web handler takes at most 16 arguments; put several extractors in a tuple";
            diagnostics.error(&ty, message);
        }
        let first = extractors.iter().find_map(|extractor| extractor.condition.as_ref());
        if let (Some(first), Some(condition)) = (first, &condition)
            && first.to_string() != condition.to_string()
        {
            let message = "the arguments of a rate-limited handler cannot have different `cfg` conditions; put `cfg` on \
                           the handler instead";
            diagnostics.error(condition, message);
        }
        extractors.push(Extractor { ty, condition });
    }
    extractors
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
