//! The values of `policy`, `inner` and `crate`: paths and names in the user's program.

use proc_macro2::Ident;
use syn::{Expr, ExprPath, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::expr::{describe, literal};
use crate::parse::code::tokens::path_text;

/// Reads the path of a `static` or `const` policy. The compiler checks its type.
pub(crate) fn policy(value: Expr, diagnostics: &mut Diagnostics) -> Result<ExprPath, Reported> {
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
            let path = path_text(&path);
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
pub(crate) fn is_constant(path: &ExprPath) -> bool {
    let last = path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
    !last.contains(char::is_lowercase)
}

/// Reads the name of the handler's own function.
pub(crate) fn inner(value: Expr, diagnostics: &mut Diagnostics) -> Result<Ident, Reported> {
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

/// Reads the path of the facade.
pub(crate) fn facade(value: Expr, diagnostics: &mut Diagnostics) -> Result<ExprPath, Reported> {
    let example = "write for example `crate = ::ratelimit_actix`";
    let fault = match (&value, literal(&value)) {
        (Expr::Path(path), _) if path.qself.is_none() && is_plain(&path.path) => {
            let first = path.path.segments.first().map(|segment| segment.ident.to_string());
            let text = path_text(path);
            let help = match first.unwrap_or_default().as_str() {
                _ if path.path.leading_colon.is_some() => return Ok(path.clone()),
                "crate" | "$crate" => return Ok(path.clone()),
                "self" | "super" => {
                    "write it from the root of this crate, such as `crate = crate::facade`".to_owned()
                }
                _ => format!("did you mean `crate = ::{text}`, or `crate = crate::{text}`?"),
            };
            format!("`crate` takes an absolute path, found `{text}`; {help}")
        }
        (_, Some(Lit::Str(text))) => {
            let text = text.value();
            let path = text.trim_start_matches(':');
            if syn::parse_str::<syn::Path>(path).is_ok() {
                format!("`crate` takes a path without quotes; did you mean `crate = ::{path}`?")
            } else {
                format!("`crate` takes a path, not a string; {example}")
            }
        }
        (Expr::Path(_), _) => {
            format!("`crate` takes the path of a crate or module, without types; {example}")
        }
        _ => format!("`crate` takes a path, not {}; {example}", describe(&value)),
    };
    Err(diagnostics.error(value, fault))
}

fn is_plain(path: &syn::Path) -> bool {
    path.segments.iter().all(|segment| segment.arguments.is_none())
}
