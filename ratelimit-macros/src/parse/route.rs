//! Route attributes in view, and the parameters of their paths.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{Attribute, Lit, LitStr};

use crate::diagnostics::Diagnostics;
use crate::parse::suggest::{list, nearest};

/// The path of a route attribute.
pub(crate) struct Route {
    pub(crate) path: String,
    pub(crate) span: Span,
    /// Parameters of the path and of the scope around it.
    pub(crate) parameters: Vec<String>,
}

impl Route {
    /// Reads the path of a route attribute or of `#[scope]`: the literal at the start of its arguments.
    pub(crate) fn from_attribute(attribute: &Attribute) -> Option<Self> {
        let arguments: TokenStream = attribute.meta.require_list().ok()?.tokens.clone();
        let literal = first_literal(arguments)?;
        let path = literal.value();
        Some(Self { parameters: parameters(&path), path, span: literal.span() })
    }

    /// Reports that the route has no such parameter.
    pub(crate) fn report_missing(&self, name: &str, at: Span, diagnostics: &mut Diagnostics) {
        let own = || self.parameters.iter().map(String::as_str);
        let meant =
            nearest(name, own()).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        let has = if self.parameters.is_empty() {
            "the route has no parameters".to_owned()
        } else {
            format!("the route has: {}", list(own(), '`'))
        };
        let scope = format!("for a parameter of an enclosing scope, write `{{path:{name}}}`");
        let path = &self.path;
        let message = format!("`{name}` is not a parameter of the route {path:?}{meant}\n{has}\n{scope}");
        diagnostics.error_at(at, message);
        diagnostics.error_at(self.span, "the route is declared here");
    }
}

fn first_literal(arguments: TokenStream) -> Option<LitStr> {
    match arguments.into_iter().next()? {
        // A literal from a macro has invisible delimiters.
        TokenTree::Group(group) if group.delimiter() == proc_macro2::Delimiter::None => {
            first_literal(group.stream())
        }
        TokenTree::Literal(literal) => match Lit::new(literal) {
            Lit::Str(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// The names of the parameters: `{name}`, `{name}*` and `{name:pattern}`, whose pattern may contain braces.
fn parameters(path: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut begins = 0;
    for (at, c) in path.char_indices() {
        match c {
            '{' => {
                depth += 1;
                if depth == 1 {
                    begins = at + 1;
                }
            }
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    let parameter = &path[begins..at];
                    let name = parameter.split_once(':').map_or(parameter, |(name, _)| name);
                    names.push(name.to_owned());
                }
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn every_form_of_parameter_is_found() {
        for (path, names) in [
            ("/", &[][..]),
            ("/user", &[]),
            ("/user/{id}", &["id"]),
            ("/{a}/{b}", &["a", "b"]),
            ("/{id:\\d{2}}/x", &["id"]),
            ("/{id:[a-z]{2,3}{1}}/{other}", &["id", "other"]),
            ("/files/{tail}*", &["tail"]),
            ("/files/{tail:.*}", &["tail"]),
            ("/{user-id}.{format}", &["user-id", "format"]),
            ("/{unclosed", &[]),
            ("/}{a}", &["a"]),
            ("/größe/{maß}", &["maß"]),
        ] {
            assert_eq!(parameters(path), names, "{path}");
        }
    }
}
