//! Route attributes in view, and the parameters of their paths.

use proc_macro2::{Span, TokenStream};
use syn::parse::ParseStream;
use syn::{Attribute, LitStr};

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
        let first = |input: ParseStream<'_>| {
            let path: LitStr = input.parse()?;
            input.parse::<TokenStream>().map(|_| path)
        };
        let literal = attribute.parse_args_with(first).ok()?;
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
