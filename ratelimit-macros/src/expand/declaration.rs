//! Writes out a handler's entry in the list of all limits.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use crate::expand::paths::Facade;
use crate::parse::choice::Count;
use crate::source_text;
use crate::validate::handler::Handler;
use crate::validate::spec::HandlerSpec;

/// Submits the limits to the list of all limits in the program.
pub(crate) fn expand(spec: &HandlerSpec) -> TokenStream {
    let HandlerSpec { handler, limits, .. } = spec;
    let span = Span::mixed_site();
    let private = Facade::of(spec).private(span);
    let texts = limits.iter().map(|limit| {
        let by = limit.by.text();
        let count = count_text(&limit.count);
        let chooses_cost = limit.dynamic_cost().is_some();
        let skips = limit.skip.is_some();
        let has_plan = limit.plan.is_some();
        quote_spanned! {span=>
            #private::SourceText {
                by: #by,
                count: #count,
                has_dynamic_cost: #chooses_cost,
                skips: #skips,
                has_plan: #has_plan,
            }
        }
    });
    let name = handler.path();
    let line = line(handler);
    quote_spanned! {span=>
        #private::inventory::submit! {
            #private::Declaration {
                handler: #name,
                module: ::core::module_path!(),
                file: ::core::file!(),
                line: #line,
                limits: &__RATE_LIMIT_LIMITS,
                texts: &[#(#texts),*],
            }
        }
    }
}

/// The line of the handler's name. Spanned at that name; elsewhere `line!` would give the line of the attribute.
fn line(handler: &Handler) -> TokenStream {
    quote_spanned!(handler.signature.ident.span()=> ::core::line!())
}

fn count_text(count: &Count) -> String {
    match count {
        Count::All => "all".to_owned(),
        Count::Failures => "failures".to_owned(),
        Count::Successes => "successes".to_owned(),
        Count::Closure(when) => source_text::of(when),
        Count::Function(when) => format!("with({})", source_text::of(when)),
    }
}
