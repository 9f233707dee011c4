//! What stands between the braces of a module or impl block, item by item.

use proc_macro2::{TokenStream, TokenTree};
use syn::Attribute;
use syn::parse::{Parse, ParseStream, Parser};

/// Cuts what is between the braces into items, each as the tokens that it was written with.
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
