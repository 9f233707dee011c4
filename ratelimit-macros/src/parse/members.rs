//! The items between the braces of a module or impl block.

use proc_macro2::{TokenStream, TokenTree};
use syn::Attribute;
use syn::parse::{Parse, ParseStream, Parser};

/// Splits the content of the braces into inner attributes and items. Items keep their tokens.
pub(crate) fn split_items<T: Parse>(inside: TokenStream) -> syn::Result<(Vec<Attribute>, Vec<TokenStream>)> {
    let parser = |input: ParseStream<'_>| {
        let inner = Attribute::parse_inner(input)?;
        let mut items = Vec::new();
        while !input.is_empty() {
            let ahead = input.fork();
            ahead.parse::<T>()?;
            let mut item = TokenStream::new();
            while input.cursor() < ahead.cursor() {
                item.extend([input.parse::<TokenTree>()?]);
            }
            items.push(item);
        }
        Ok((inner, items))
    };
    parser.parse2(inside)
}
