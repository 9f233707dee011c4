//! Searches in unparsed tokens.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::LitStr;

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

/// The settlements of limits in a function: each name in `.limit("name")` that `.settle(..)` or `.settle_on_drop(..)` follows,
/// and that method. A settlement of a variable is not found.
pub(crate) fn find_settlements(tokens: TokenStream) -> Vec<(String, Ident)> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            found.extend(find_settlements(group.stream()));
        }
        if let Some((method, arguments)) = method_call(&tokens[place..])
            && method == "limit"
            && let Ok(name) = syn::parse2::<LitStr>(arguments)
        {
            found.extend(next_settlement(&tokens[place + 3..]).map(|method| (name.value(), method)));
        }
    }
    found
}

/// The call `.method(arguments)` at the start of the tokens.
fn method_call(tokens: &[TokenTree]) -> Option<(&Ident, TokenStream)> {
    match tokens {
        [TokenTree::Punct(dot), TokenTree::Ident(method), TokenTree::Group(arguments), ..]
            if dot.as_char() == '.' && arguments.delimiter() == Delimiter::Parenthesis =>
        {
            Some((method, arguments.stream()))
        }
        _ => None,
    }
}

/// The method that settles the value of which these tokens are the methods, such as `?.settle(5)`.
fn next_settlement(mut tokens: &[TokenTree]) -> Option<Ident> {
    loop {
        if let Some((method, _)) = method_call(tokens) {
            if method == "settle" || method == "settle_on_drop" {
                return Some(method.clone());
            }
            tokens = &tokens[3..];
        } else {
            match tokens {
                [TokenTree::Punct(mark), rest @ ..] if mark.as_char() == '?' => tokens = rest,
                _ => return None,
            }
        }
    }
}

/// Returns true if one of `words` is among the tokens, at any depth.
pub(crate) fn has_word(tokens: TokenStream, words: &[&str]) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => words.iter().any(|other| word == other),
        TokenTree::Group(group) => has_word(group.stream(), words),
        _ => false,
    })
}
