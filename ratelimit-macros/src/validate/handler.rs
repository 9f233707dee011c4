//! The function below the attribute, checked to be a handler.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Signature, Visibility};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::tokens::{find_self, has_word};
use crate::parse::items::item::Item;
use crate::parse::items::item_kind::expect_function;
use crate::parse::items::members::parameters;
use crate::validate::extractors::{self, Extractor};

/// An `async fn` that can be limited.
pub(crate) struct Handler {
    /// Attributes of the wrapper.
    pub(crate) wrapper_attributes: Vec<Attribute>,
    /// Attributes of the user's function.
    pub(crate) function_attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    /// The arguments of the user's function.
    pub(crate) extractors: Vec<Extractor>,
    /// The body with its braces. It is only searched, for `Self`.
    pub(crate) body: TokenStream,
    pub(crate) form: Form,
    /// The type of the impl block as text, if the block is in view.
    pub(crate) owner: Option<String>,
}

/// The place of the user's function.
pub(crate) enum Form {
    /// Inside the wrapper.
    Nested,
    /// Beside the wrapper, under another name.
    Beside {
        name: Ident,
        /// The user chose the name by `inner`, so that other code can call the function.
        is_named: bool,
    },
}

impl Handler {
    /// Reads the function, and records all reasons why it cannot be a handler. `owner`: the type of the impl
    /// block around it.
    pub(crate) fn parse(
        item: &Item,
        owner: Option<&str>,
        inner: Option<&Ident>,
        diagnostics: &mut Diagnostics,
    ) -> Result<Self, Reported> {
        let parts = |input: ParseStream<'_>| {
            let visibility: Visibility = input.parse()?;
            expect_function(diagnostics.kind, input)?;
            Ok((visibility, input.parse::<Signature>()?, input.parse::<TokenStream>()?))
        };
        let parts = parts.parse2(item.rest.clone());
        let (visibility, signature, body) = parts.map_err(|error| diagnostics.push(error))?;
        check_qualifiers(&signature, diagnostics);
        check_body(&signature, &body, diagnostics);
        let extractors = extractors::read(&signature, diagnostics);
        if let Some(inner) = inner
            && inner.unraw() == signature.ident.unraw()
        {
            let message = format!(
                "`{inner}` is the handler, which calls this function; write another name, such as `inner = {}_body`",
                inner.unraw()
            );
            diagnostics.error(inner, message);
        }
        for (attribute, effect) in item.misplaced() {
            let kind = diagnostics.kind;
            let name: String = attribute.path().to_token_stream().to_string().split_whitespace().collect();
            let message = format!(
                "#[{name}] {effect}, which {kind} nests in a wrapper; put #[{name}] above {kind}, \
                 and outside of a module or impl block that is limited as a whole"
            );
            diagnostics.error(attribute, message);
        }
        let form = match (inner, owner) {
            (Some(inner), _) => Form::Beside { name: inner.clone(), is_named: true },
            (None, None) => Form::Nested,
            // Outside of the wrapper `Self` is valid.
            (None, Some(_)) => {
                let name = format_ident!("__rate_limited_{}", signature.ident.unraw());
                Form::Beside { name, is_named: false }
            }
        };
        if matches!(form, Form::Nested)
            && signature.receiver().is_none()
            && let Some(own_type) = find_self(signature.to_token_stream()).or_else(|| find_self(body.clone()))
        {
            let message = format!(
                "`Self` cannot be named in a rate-limited function, which is nested in a wrapper; \
                 write the name of the type instead, or put {} on the impl block",
                diagnostics.kind
            );
            diagnostics.error(own_type, message);
        }
        let (wrapper, function) = item.split_attributes(matches!(form, Form::Beside { .. }));
        Ok(Self {
            wrapper_attributes: wrapper.into_iter().cloned().collect(),
            function_attributes: function.into_iter().cloned().collect(),
            visibility,
            signature,
            extractors,
            body,
            form,
            owner: owner.map(str::to_owned),
        })
    }

    /// The name within the module: the type's, if there is one, and the function's.
    pub(crate) fn path(&self) -> String {
        let name = self.signature.ident.unraw();
        self.owner.as_ref().map_or_else(|| name.to_string(), |owner| format!("{owner}::{name}"))
    }

    /// The parameters for a call of the user's function: `::<T, N>`.
    pub(crate) fn turbofish(&self) -> TokenStream {
        let names: Vec<&Ident> = parameters(&self.signature.generics).collect();
        if names.is_empty() { TokenStream::new() } else { quote!(::<#(#names),*>) }
    }
}

fn check_qualifiers(signature: &Signature, diagnostics: &mut Diagnostics) {
    let Signature { ident: name, constness, safety, abi, output, .. } = signature;
    for qualifier in [constness.to_token_stream(), safety.to_token_stream(), abi.to_token_stream()] {
        if let Some(word) = qualifier.clone().into_iter().next() {
            let message = format!("a handler cannot be `{word}`: write `async fn {name}`");
            diagnostics.error(qualifier, message);
        }
    }
    if signature.asyncness.is_none() {
        // Such a macro has made the function return the future itself.
        let help = if has_word(output.to_token_stream(), &["Future"]) {
            " (a macro above may have taken `async` away; limit the resource by `RateLimitMiddleware`)"
        } else {
            ""
        };
        let message = format!("a rate-limited handler must be async: write `async fn {name}`{help}");
        diagnostics.error(signature.fn_token, message);
    }
    if let Some(variadic) = &signature.variadic {
        let message = "a handler cannot have a variable number of arguments; remove `...`";
        diagnostics.error(variadic, message);
    }
}

fn check_body(signature: &Signature, body: &TokenStream, diagnostics: &mut Diagnostics) {
    let mut tokens = body.clone().into_iter();
    match (tokens.next(), tokens.next()) {
        // A body from a macro has invisible delimiters around its braces.
        (Some(TokenTree::Group(group)), None)
            if matches!(group.delimiter(), Delimiter::Brace | Delimiter::None) => {}
        (None, _) => report_no_body(&signature.ident, diagnostics),
        (Some(TokenTree::Punct(end)), None) if end.as_char() == ';' => report_no_body(end, diagnostics),
        (Some(token), _) => {
            diagnostics.error(token, "expected the body of the handler, in braces");
        }
    }
}

fn report_no_body(at: impl ToTokens, diagnostics: &mut Diagnostics) {
    let kind = diagnostics.kind;
    let help = "put it on the implementation, not on the trait's declaration";
    diagnostics.error(at, format!("{kind} needs a function with a body; {help}"));
}
