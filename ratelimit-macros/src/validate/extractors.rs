//! The handler's arguments: extractors and their `cfg` conditions.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, FnArg, Signature};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::tokens::has_word;

/// Maximum number of arguments of an Actix-web handler.
const MAX_ARGUMENTS: usize = 16;

/// An argument of a handler.
pub(crate) struct Extractor {
    pub(crate) ty: TokenStream,
    /// The joined condition of its `cfg` attributes, the same for all arguments that have one: the expansion has
    /// a block with these arguments, and one without.
    pub(crate) condition: Option<TokenStream>,
}

pub(crate) fn read(signature: &Signature, diagnostics: &mut Diagnostics) -> Result<Vec<Extractor>, Reported> {
    let mut sound = Ok(());
    let mut extractors = Vec::new();
    for (index, input) in signature.inputs.iter().enumerate() {
        match input {
            FnArg::Receiver(receiver) => {
                sound = Err(diagnostics.error(
                    receiver.self_token,
                    "a handler cannot take `self`: Actix-web has no value to call it on; \
                     pass state in with `web::Data<T>`",
                ));
            }
            FnArg::Typed(argument) => {
                let ty = argument.ty.to_token_stream();
                if has_word(ty.clone(), &["impl"]) {
                    sound = Err(diagnostics.error(
                        &argument.ty,
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
                extractors.push(Extractor { ty, condition: condition(&argument.attrs) });
            }
        }
    }
    sound?;
    let mut conditions = extractors.iter().filter_map(|extractor| extractor.condition.as_ref());
    let first = conditions.next().map(ToString::to_string);
    if let Some(other) = conditions.find(|other| Some(other.to_string()) != first) {
        return Err(diagnostics.error(
            other,
            "the arguments of a rate-limited handler cannot have different `cfg` conditions; put `cfg` on the handler \
             instead",
        ));
    }
    Ok(extractors)
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
