//! The value of `inner`: a name for the handler's own function.

use proc_macro2::Ident;
use syn::{Expr, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, literal, ungrouped};

/// Reads the name of the handler's own function.
pub(crate) fn read(value: Expr, diagnostics: &mut Diagnostics) -> Result<Ident, Reported> {
    let value = ungrouped(value);
    if let Expr::Path(path) = &value
        && let Some(name) = path.path.get_ident()
    {
        return Ok(name.clone());
    }
    let fault = match literal(&value) {
        Some(Lit::Str(text)) if syn::parse_str::<Ident>(&text.value()).is_ok() => {
            format!("`inner` takes a name without quotes; did you mean `inner = {}`?", text.value())
        }
        _ => format!(
            "`inner` takes a new name for the function, not {}; write for example `inner = user_body`",
            describe(&value)
        ),
    };
    Err(diagnostics.error(value, fault))
}
