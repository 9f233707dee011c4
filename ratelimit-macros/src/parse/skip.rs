//! The value of `skip`.

use quote::ToTokens;
use syn::{Expr, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, ungrouped};
use crate::parse::request_fn::{self, RequestFn};

/// Reads code that returns a boolean per request.
pub(crate) fn read(value: Expr, diagnostics: &mut Diagnostics) -> Result<RequestFn, Reported> {
    let value = ungrouped(value);
    if let Some(function) = request_fn::read("skip", &value, diagnostics) {
        return function;
    }
    let help = match &value {
        Expr::Path(path) => {
            let path = path.to_token_stream().to_string().replace(' ', "");
            format!("; did you mean `skip = with({path})`?")
        }
        Expr::Lit(literal) if matches!(literal.lit, Lit::Bool(_)) => {
            "; remove `skip` to always apply the limit, or the attribute to never apply it".to_owned()
        }
        _ => format!(", not {}", describe(&value)),
    };
    let fault =
        format!("`skip` takes a closure, such as `|req: &HttpRequest| ..`, or `with(function)`{help}");
    Err(diagnostics.error(value, fault))
}
