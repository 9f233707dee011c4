//! Types of a closure's parameters: the request, or extractors that leave the body unread.

use quote::ToTokens;
use syn::{GenericArgument, PathArguments, Type};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::tokens::find_word;

/// Extractors that read the body, which is not available when a limit is checked.
const BODY_EXTRACTORS: [&str; 8] =
    ["Json", "Form", "Bytes", "BytesMut", "String", "Payload", "Multipart", "MultipartForm"];

/// Wrappers that extract the type inside them.
const WRAPPERS: [&str; 3] = ["Option", "Result", "Either"];

pub(crate) fn check(name: &str, ty: &Type, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    if let Type::Reference(reference) = bare(ty) {
        if reference.mutability.is_some() {
            let shared = reference.elem.to_token_stream().to_string().replace(' ', "");
            let message = format!("closures share what they take by reference: write `&{shared}`");
            return Err(diagnostics.error(ty, message));
        }
        if let Type::Path(path) = bare(&reference.elem)
            && path.path.segments.last().is_some_and(|last| last.ident == "ServiceRequest")
        {
            return Err(
                diagnostics.error(ty, "`ServiceRequest` is only for middleware; write `&HttpRequest`")
            );
        }
        return check(name, &reference.elem, diagnostics);
    }
    if let Some(word) = find_word(ty.to_token_stream(), &["_"]) {
        let message = "a closure's parameters need whole types here: write out what `_` stands for";
        return Err(diagnostics.error(word, message));
    }
    if let Some((reader, place)) = body_reader(ty) {
        let message = format!(
            "`{reader}` reads the body, but `{name}` is decided before the body is read; choose by what is in the head \
             of the request, such as `web::Path`, `web::Query`, `web::ReqData` or `HttpRequest`"
        );
        return Err(diagnostics.error(place, message));
    }
    Ok(())
}

/// Returns true for `&HttpRequest`.
pub(crate) fn is_request(ty: &Type) -> bool {
    matches!(bare(ty), Type::Reference(reference) if matches!(
        bare(&reference.elem),
        Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "HttpRequest")
    ))
}

/// Removes parentheses, and the invisible delimiters of a macro's `$type`.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}

/// The extractor in `ty` that reads the body: its name and its type.
fn body_reader(ty: &Type) -> Option<(String, &Type)> {
    match bare(ty) {
        Type::Tuple(tuple) => tuple.elems.iter().find_map(body_reader),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            let word = last.ident.to_string();
            if BODY_EXTRACTORS.contains(&word.as_str()) {
                return Some((word, ty));
            }
            match &last.arguments {
                PathArguments::AngleBracketed(arguments) if WRAPPERS.contains(&word.as_str()) => {
                    arguments.args.iter().find_map(|argument| match argument {
                        GenericArgument::Type(ty) => body_reader(ty),
                        _ => None,
                    })
                }
                _ => None,
            }
        }
        _ => None,
    }
}
