//! What to emit when something is wrong: the errors, and the user's item as if it were not limited.
//!
//! Without the item every use of the handler would fail as well and bury the real mistake.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::ToTokens;

use crate::parse::item::Item;

/// The errors next to the item.
pub(crate) fn expand(errors: &syn::Error, item: &impl ToTokens) -> TokenStream {
    let mut tokens = errors.to_compile_error();
    item.to_tokens(&mut tokens);
    tokens
}

/// A module, impl block or crate without our attributes on what is in it: they would be expanded once more, and complain
/// that there is nothing around them. Of a crate without that of the compiler's own first line, which nobody may write.
pub(crate) struct Stripped<'a>(pub(crate) &'a Item);

impl ToTokens for Stripped<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(strip(self.0.to_token_stream()));
    }
}

/// The attributes that are taken off.
const OURS: [&str; 3] = ["rate_limit", "no_rate_limit", "prelude_import"];

/// Takes them off in every depth.
fn strip(tokens: TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut kept = TokenStream::new();
    while let Some(token) = tokens.next() {
        let token = match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                if tokens.next_if(|next| matches!(next, TokenTree::Group(group) if is_ours(group))).is_some()
                {
                    continue;
                }
                hash.into()
            }
            TokenTree::Group(group) => {
                let mut inside = Group::new(group.delimiter(), strip(group.stream()));
                inside.set_span(group.span());
                inside.into()
            }
            other => other,
        };
        kept.extend([token]);
    }
    kept
}

fn is_ours(attribute: &Group) -> bool {
    let ends_path = |token: &TokenTree| match token {
        TokenTree::Group(_) => true,
        TokenTree::Punct(punct) => punct.as_char() == '=',
        _ => false,
    };
    let path = attribute.stream().into_iter().take_while(|token| !ends_path(token));
    path.last()
        .is_some_and(|token| matches!(token, TokenTree::Ident(word) if OURS.iter().any(|ours| word == ours)))
}
