//! Writes out a handler's entry in the list of all limits.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use crate::expand::paths::Facade;
use crate::parse::by::By;
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
        let by = by_text(&limit.by);
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

/// The caller as it is written in the attribute.
fn by_text(by: &By) -> String {
    match by {
        By::Ip => "ip".to_owned(),
        By::Global => "global".to_owned(),
        By::Path(parameter) => format!("path({:?})", parameter.name),
        By::Header(name) => format!("header({name:?})"),
        By::Function(path) => source_text::of(path),
        By::Closure(closure) => source_text::of(&closure.tokens),
        By::Parts(parts) => {
            let parts: Vec<String> = parts.iter().map(by_text).collect();
            if parts.len() == 1 { format!("({},)", parts[0]) } else { format!("({})", parts.join(", ")) }
        }
    }
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
