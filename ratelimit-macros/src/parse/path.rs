//! The values of `policy`, `inner` and `crate`: paths and names in the user's program.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{Expr, ExprPath, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, literal};

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
    let fault = match &value {
        Expr::Path(path) if path.qself.is_none() && is_plain(&path.path) => {
            let text = path.to_token_stream().to_string().replace(' ', "");
            let first =
                path.path.segments.first().map(|segment| segment.ident.to_string()).unwrap_or_default();
            match first.as_str() {
                _ if path.path.leading_colon.is_some() => None,
                "crate" | "$crate" => None,
                "self" | "super" => {
                    Some("write it from the root of this crate, such as `crate = crate::facade`".to_owned())
                }
                _ => Some(format!("did you mean `crate = ::{text}`, or `crate = crate::{text}`?")),
            }
            .map(|help| format!("`crate` takes an absolute path, found `{text}`; {help}"))
        }
        _ => Some(match literal(&value) {
            Some(Lit::Str(text)) => {
                let text = text.value();
                let path = text.trim_start_matches(':');
                match syn::parse_str::<syn::Path>(path) {
                    Ok(_) => format!("`crate` takes a path without quotes; did you mean `crate = ::{path}`?"),
                    Err(_) => {
                        "`crate` takes a path, not a string; write for example `crate = ::ratelimit_actix`"
                            .to_owned()
                    }
                }
            }
            _ if matches!(value, Expr::Path(_)) => {
                "`crate` takes the path of a crate or module, without types; write for example \
                 `crate = ::ratelimit_actix`"
                    .to_owned()
            }
            _ => format!(
                "`crate` takes a path, not {}; write for example `crate = ::ratelimit_actix`",
                describe(&value)
            ),
        }),
    };
    match (fault, value) {
        (None, Expr::Path(path)) => Ok(path),
        (fault, value) => Err(diagnostics.error(value, fault.unwrap_or_default())),
    }
}

fn is_plain(path: &syn::Path) -> bool {
    path.segments.iter().all(|segment| segment.arguments.is_none())
}
