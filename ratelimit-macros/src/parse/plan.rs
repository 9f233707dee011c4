//! The value of `plan`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Expr, ExprPath};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::expr::{describe, ungrouped};
use crate::parse::request_fn::{self, Closure};

/// Code that returns the name of a plan per request.
pub(crate) enum Plan {
    Closure(Closure),
    /// The path of a `fn(&HttpRequest) -> P`.
    Function(ExprPath),
}

impl Plan {
    /// The user's tokens.
    pub(crate) fn code(&self) -> TokenStream {
        match self {
            Self::Closure(closure) => closure.tokens.clone(),
            Self::Function(path) => path.to_token_stream(),
        }
    }

    /// Returns true if an extractor may fail.
    pub(crate) fn can_fail(&self) -> bool {
        match self {
            Self::Closure(closure) => closure.can_fail(),
            Self::Function(_) => false,
        }
    }
}

/// Reads code that returns the name of a plan per request.
pub(crate) fn read(value: Expr, diagnostics: &mut Diagnostics) -> Result<Plan, Reported> {
    let value = ungrouped(value);
    let help = match &value {
        Expr::Closure(closure) => {
            return request_fn::closure("plan", closure, diagnostics).map(Plan::Closure);
        }
        Expr::Path(path) => return Ok(Plan::Function(path.clone())),
        Expr::Lit(_) => "; the plans have their numbers in overrides, in `[limit.NAME.plans]`".to_owned(),
        Expr::Call(call) => match (call.args.first(), call.func.to_token_stream().to_string().as_str()) {
            (Some(Expr::Path(path)), "with") => {
                let path = path.to_token_stream().to_string().replace(' ', "");
                format!("; did you mean `plan = {path}`?")
            }
            _ => "; write the path of the function, without calling it".to_owned(),
        },
        _ => format!(", not {}", describe(&value)),
    };
    let fault = format!(
        "`plan` takes a closure that returns the name of a plan, such as `|user: web::ReqData<User>| ..`, or the path of a \
         `fn(&HttpRequest) -> P`{help}"
    );
    Err(diagnostics.error(value, fault))
}
