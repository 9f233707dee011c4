//! The value of `policy`: the path of a policy that is written elsewhere.

use quote::ToTokens;
use syn::{Expr, ExprPath, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, literal, ungrouped};

/// Reads the path of a `static` or `const` policy. The compiler checks its type.
pub(crate) fn read(value: Expr, diagnostics: &mut Diagnostics) -> Result<ExprPath, Reported> {
    let value = ungrouped(value);
    let meant = match &value {
        Expr::Path(path) => return Ok(path.clone()),
        Expr::Reference(reference) => match &*reference.expr {
            Expr::Path(path) => Some(path.clone()),
            _ => None,
        },
        other => match literal(other) {
            Some(Lit::Str(text)) => syn::parse_str::<ExprPath>(&text.value()).ok().filter(is_constant),
            _ => None,
        },
    };
    let what = if matches!(value, Expr::Reference(_)) { "a reference" } else { describe(&value) };
    let fault = match meant {
        Some(path) => {
            let path = path.to_token_stream().to_string().replace(' ', "");
            format!("`policy` takes the path of a `static`, not {what}; did you mean `policy = {path}`?")
        }
        None => format!(
            "`policy` takes the path of a `static`, not {what}; write for example \
             `static SEARCH: Policy = Policy::new(\"search\", 10, Duration::from_secs(60));` and `policy = SEARCH`"
        ),
    };
    Err(diagnostics.error(value, fault))
}

/// Returns true if the last word of the path is written like the name of a constant.
fn is_constant(path: &ExprPath) -> bool {
    let last = path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
    !last.contains(char::is_lowercase)
}
