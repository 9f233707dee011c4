//! Searches in unparsed tokens, and their text.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ExprPath;

/// The first `Self` that means the type around the function. Nested items have their own `Self` and are
/// skipped.
pub(crate) fn find_self(tokens: TokenStream) -> Option<Ident> {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "Self" => return Some(ident),
            TokenTree::Ident(ident)
                if ["impl", "trait", "struct", "enum"].iter().any(|word| ident == word) =>
            {
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

/// Returns true if one of `words` is among the tokens, at any depth.
pub(crate) fn has_word(tokens: TokenStream, words: &[&str]) -> bool {
    find_word(tokens, words).is_some()
}

/// The first of `words` among the tokens, at any depth.
pub(crate) fn find_word(tokens: TokenStream, words: &[&str]) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(word) => Some(word).filter(|word| words.iter().any(|other| word == other)),
        TokenTree::Group(group) => find_word(group.stream(), words),
        _ => None,
    })
}

/// A path as text.
pub(crate) fn path_text(path: &ExprPath) -> String {
    // The blanks around `as` in `<T as U>::f` stay.
    let text = path.to_token_stream().to_string().replace(" as ", "\0").replace(' ', "");
    text.replace('\0', " as ")
}

/// Parts of printed tokens with blanks that code does not have, and the same as code.
const BLANKS: [(&str, &str); 10] = [
    (" :: ", "::"),
    (" : ", ": "),
    (" . ", "."),
    (" ,", ","),
    (" ?", "?"),
    ("& ", "&"),
    (" &&", " && "),
    (" < ", "<"),
    (" (", "("),
    (" >", ">"),
];

/// Code as one line of text, for the list of all limits.
pub(crate) fn code_text(code: impl ToTokens) -> String {
    let printed = code.to_token_stream().to_string();
    let line = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = BLANKS.iter().fold(line, |text, (blanks, code)| text.replace(blanks, code));
    // The parameters of a closure.
    match text.splitn(3, '|').collect::<Vec<_>>()[..] {
        [before, parameters, body] => format!("{before}|{}| {}", parameters.trim(), body.trim_start()),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_has_conventional_spacing() {
        for code in [
            "Api<T>",
            "|req: &HttpRequest| req.path().len()",
            "|path: web::Path<u64>, req: HttpRequest| f(path.0, &req)?",
            "|path: web::Path<(u64,)>, req: HttpRequest| (path.0, client_ip(&req))",
            "|status: StatusCode| status == StatusCode::OK && status.is_success() || is_free(&status)",
            "async |user: User| user.id",
            "|| 1",
        ] {
            let tokens: TokenStream = code.parse().unwrap();
            assert_eq!(code_text(tokens), code);
        }
    }

    #[test]
    fn a_path_has_no_blanks_but_those_around_as() {
        for path in ["caller", "a::b::<3>::of", "<T as U>::f"] {
            assert_eq!(path_text(&syn::parse_str(path).unwrap()), path);
        }
    }
}
