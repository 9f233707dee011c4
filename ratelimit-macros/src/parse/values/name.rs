//! The values of `key` and `name`, which become parts of stored keys and of quoted header fields.

use proc_macro2::Span;
use syn::{Expr, Lit};

use crate::diagnostics::{Diagnostics, Reported};
use crate::parse::code::by::By;
use crate::parse::code::expr::{expect_str, literal, word};
use crate::parse::usage::Usage;
use crate::parse::values::bounds::{MAX_NAME, is_name_char};
use crate::parse::values::template;

/// A text in the user's program: a key, the name of a policy or of a time zone.
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// A key: a plain name or a template.
pub(crate) enum Key {
    Name(Text),
    /// The name of the policy, and the caller that the placeholders define.
    Template(Text, By),
}

/// Reads the name of a policy.
pub(crate) fn read(usage: &Usage, value: Expr, diagnostics: &mut Diagnostics) -> Result<Text, Reported> {
    let name = usage.name;
    let fault = match (expect_str(usage, &value), word(&value)) {
        (Ok(text), _) => match name_fault(usage, &text.value()) {
            None => return Ok(Text { text: text.value(), span: text.span() }),
            Some(fault) => fault,
        },
        (Err(_), Some(word)) => {
            format!("`{name}` takes a string literal; did you mean `{name} = \"{word}\"`?")
        }
        (Err(fault), None) => fault,
    };
    Err(diagnostics.error(value, fault))
}

/// The fault in a key or name, if there is one.
fn name_fault(usage: &Usage, text: &str) -> Option<String> {
    let Usage { name, example, .. } = usage;
    let wrong = text.chars().find(|c| !is_name_char(*c));
    Some(match wrong {
        _ if text.is_empty() => {
            format!("`{name}` must not be empty: write for example `{example}`")
        }
        None if text.len() <= MAX_NAME => return None,
        None => format!("`{name}` must be at most {MAX_NAME} bytes long, found {}", text.len()),
        Some('{' | '}') => format!(
            "`{name}` must not contain braces, only `key` has placeholders; write for example `{example}`"
        ),
        Some(wrong) if wrong.is_whitespace() => {
            let words: Vec<&str> = text.split_whitespace().collect();
            let joined = words.join("-");
            match name_fault(usage, &joined) {
                None => format!("`{name}` must not contain blanks; did you mean `{name} = \"{joined}\"`?"),
                Some(_) => {
                    format!("`{name}` must not contain blanks: write for example `{example}`")
                }
            }
        }
        Some(wrong) => format!(
            "`{name}` takes printable ASCII without blanks, braces, quotes and backslashes, found {wrong:?}: \
             write for example `{example}`"
        ),
    })
}

/// Reads a plain name or a template.
pub(crate) fn read_key(usage: &Usage, value: Expr, diagnostics: &mut Diagnostics) -> Result<Key, Reported> {
    if let Some(Lit::Str(literal)) = literal(&value)
        && template::is_template(&literal.value())
    {
        let span = literal.span();
        let template = template::parse(&literal.value()).map_err(|fault| diagnostics.error(&value, fault))?;
        if let Some(fault) = name_fault(usage, &template.name) {
            let fault = fault.replace('<', "{").replace('>', "}");
            return Err(diagnostics.error(value, fault));
        }
        let Some(by) = By::from_template(template.placeholders, span) else {
            return Err(diagnostics.error(value, "a template needs a placeholder, such as `{user_id}`"));
        };
        return Ok(Key::Template(Text { text: template.name, span }, by));
    }
    if let Expr::Closure(_) = value {
        let fault =
            "`key` names the count, and `by` distinguishes callers: write `by = |req: &HttpRequest| ..`";
        return Err(diagnostics.error(value, fault));
    }
    read(usage, value, diagnostics).map(Key::Name)
}
