//! Searches in unparsed tokens.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

/// The first `Self` that means the type around the function. Nested items have their own `Self` and are skipped.
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
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => words.iter().any(|other| word == other),
        TokenTree::Group(group) => has_word(group.stream(), words),
        _ => false,
    })
}
