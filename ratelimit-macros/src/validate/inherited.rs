//! Limits of a module or impl block, which the handlers inside inherit.

use syn::ExprPath;

use crate::diagnostics::Diagnostics;
use crate::parse::args::{Args, Written};
use crate::parse::kind::Kind;
use crate::parse::route::Route;
use crate::validate::arguments::read;
use crate::validate::counts;

/// Limits around a handler. They apply unless the handler has its own.
#[derive(Clone)]
pub(crate) struct Inherited {
    /// The attributes as they are written, which are read again for each handler.
    pub(crate) group: Vec<Written>,
    /// False if a mistake was reported in them.
    pub(crate) is_valid: bool,
    pub(crate) facade: Option<ExprPath>,
    pub(crate) scope: Vec<String>,
}

impl Inherited {
    pub(crate) fn read(
        group: Vec<Written>,
        facade: Option<&ExprPath>,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut inherited =
            Self { group: Vec::new(), is_valid: true, facade: facade.cloned(), scope: Vec::new() };
        let result = Diagnostics::collect(diagnostics.kind, |own| {
            let mut read_args = Vec::new();
            for attribute in &group {
                let args = read(attribute, own);
                if let Some(inner) = &args.inner {
                    own.error(
                        &inner.keyword,
                        format!(
                            "`inner` names one function; put it on the handler, such as \
                             `#[{}(max = 10, inner = user_body)]`",
                            attribute.kind.name()
                        ),
                    );
                }
                if let Some(facade) = &args.facade {
                    inherited.facade = facade.value.as_ref().ok().cloned();
                }
                read_args.push(args);
            }
            counts::check(&read_args, own);
            Ok(())
        });
        if let Err(errors) = result {
            diagnostics.push(errors);
            inherited.is_valid = false;
        }
        inherited.group = group;
        inherited
    }

    /// Reads the limits for one more handler. Their mistakes have been recorded.
    pub(crate) fn args(&self) -> Vec<Args> {
        let mut ignored = Diagnostics::new(Kind::Rate);
        self.group.iter().map(|attribute| read(attribute, &mut ignored)).collect()
    }

    /// The limits inside a container. A scope adds its path parameters.
    pub(crate) fn within(&self, scope: Option<&Route>) -> Self {
        let mut inside = self.clone();
        inside.scope.extend(scope.into_iter().flat_map(|scope| scope.parameters.iter().cloned()));
        inside
    }
}
