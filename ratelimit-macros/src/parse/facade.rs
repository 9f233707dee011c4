//! The value of `crate`: the path of the facade.

use quote::ToTokens;
use syn::{Expr, ExprPath, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, literal, ungrouped};

/// Reads the path of the facade.
pub(crate) fn read(value: Expr, diagnostics: &mut Diagnostics) -> Result<ExprPath, Reported> {
    let value = ungrouped(value);
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
