//! What to emit when something is wrong: the errors, and the user's item as if it were not limited.
//!
//! Without the item every use of the handler would fail as well and bury the real mistake.

use proc_macro2::TokenStream;
use quote::ToTokens;

use crate::item::Item;

/// The errors next to the item.
pub(crate) fn expand(errors: &syn::Error, item: &Item) -> TokenStream {
    let mut tokens = errors.to_compile_error();
    item.to_tokens(&mut tokens);
    tokens
}
