//! The grammar of `key` templates: text with placeholders in braces, such as `"user:{user_id}"`. The
//! placeholders name the caller, the text names the policy.

use crate::parse::suggest::{list, nearest};

/// The kinds of placeholders, with an example each.
const PLACEHOLDERS: [(&str, &str); 3] =
    [("path", "{path:id}"), ("header", "{header:x-api-key}"), ("ip", "{ip}")];

/// A key with placeholders.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template {
    /// The name of the policy: the template with `<` and `>` for braces.
    pub(crate) name: String,
    pub(crate) placeholders: Vec<Placeholder>,
}

/// A placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placeholder {
    /// `{name}`, checked against the routes in view, or `{path:name}`, not checked.
    Path { name: String, checked: bool },
    /// `{header:name}`, in lower case.
    Header(String),
    /// `{ip}`.
    Ip,
}

/// Returns true if a key has braces, and is thus meant to have placeholders.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains(['{', '}'])
}

/// Reads a template.
///
/// # Errors
///
/// The fault in `text`, and what to write instead.
pub(crate) fn parse(text: &str) -> Result<Template, String> {
    if text.contains("{{") || text.contains("}}") {
        return Err(format!(
            "a key has no doubled braces, found {text:?}: braces are for placeholders, such as \
             `key = \"user:{{user_id}}\"`, and cannot be escaped"
        ));
    }
    let mut name = String::new();
    let mut placeholders = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        name.push_str(&rest[..at]);
        if rest[at..].starts_with('}') {
            return Err(format!(
                "`}}` without `{{` before it in {text:?}; placeholders are like `{{user_id}}`"
            ));
        }
        rest = &rest[at + 1..];
        let Some(end) = rest.find(['{', '}']) else {
            let meant = if rest.is_empty() { "user_id}" } else { "}" };
            return Err(format!("`{{` is not closed in {text:?}; did you mean `key = \"{text}{meant}\"`?"));
        };
        if rest[end..].starts_with('{') {
            return Err(format!(
                "a placeholder cannot have braces in it, found {text:?}; close it with `}}` first"
            ));
        }
        let placeholder = read_placeholder(&rest[..end], text)?;
        name.push_str(&placeholder.shown());
        placeholders.push(placeholder);
        rest = &rest[end + 1..];
    }
    name.push_str(rest);
    Ok(Template { name, placeholders })
}

impl Placeholder {
    /// The placeholder in the name of the policy.
    fn shown(&self) -> String {
        match self {
            Self::Path { name, .. } => format!("<{name}>"),
            Self::Header(name) => format!("<header:{name}>"),
            Self::Ip => "<ip>".to_owned(),
        }
    }
}

fn read_placeholder(inside: &str, text: &str) -> Result<Placeholder, String> {
    if inside.trim().is_empty() {
        return Err(format!(
            "`{{{inside}}}` is empty in {text:?}; name the caller, such as `{{user_id}}` or `{{ip}}`"
        ));
    }
    if inside.contains(char::is_whitespace) {
        let joined: String = inside.split_whitespace().collect();
        return Err(format!(
            "a placeholder has no blanks, found `{{{inside}}}`; did you mean `{{{joined}}}`?"
        ));
    }
    match inside.split_once(':') {
        None if inside == "ip" => Ok(Placeholder::Ip),
        None if inside == "header" || inside == "path" => {
            let example =
                PLACEHOLDERS.iter().find(|(source, _)| *source == inside).map_or("", |(_, example)| example);
            Err(format!("`{{{inside}}}` needs a name; write for example `{example}`"))
        }
        None => Ok(Placeholder::Path { name: inside.to_owned(), checked: true }),
        Some(("path", "")) => {
            Err("`{path:}` needs the name of a parameter; write for example `{path:id}`".to_owned())
        }
        Some(("path", name)) => Ok(Placeholder::Path { name: name.to_owned(), checked: false }),
        Some(("header", name)) => header(name).map(Placeholder::Header),
        Some((source, name)) => {
            let expected = list(PLACEHOLDERS.map(|(_, example)| example), '`');
            let meant = match (source, nearest(source, PLACEHOLDERS.map(|(source, _)| source))) {
                (_, Some("ip")) | ("peer" | "addr" | "client", _) => "; did you mean `{ip}`?".to_owned(),
                (_, Some(meant)) => format!("; did you mean `{{{meant}:{name}}}`?"),
                ("param" | "route" | "url", _) => format!("; did you mean `{{path:{name}}}`?"),
                _ => String::new(),
            };
            Err(format!(
                "unknown source `{source}` in `{{{inside}}}`{meant}\nexpected a parameter of the route, or one of: {expected}"
            ))
        }
    }
}

/// The name of a header field in lower case.
///
/// # Errors
///
/// The reason why `name` cannot be a field name.
pub(crate) fn header(name: &str) -> Result<String, String> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    match name.chars().find(|c| !is_token(*c)) {
        _ if name.is_empty() => Err("a header needs a name, such as `x-api-key`".to_owned()),
        None => Ok(name.to_ascii_lowercase()),
        Some(wrong) => {
            let words: Vec<&str> = name.split(|c| !is_token(c)).filter(|word| !word.is_empty()).collect();
            let meant = if wrong.is_ascii() && !words.is_empty() {
                format!("; did you mean `{}`?", words.join("-"))
            } else {
                String::new()
            };
            Err(format!("{name:?} cannot be the name of a header, because of {wrong:?}{meant}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str, checked: bool) -> Placeholder {
        Placeholder::Path { name: name.to_owned(), checked }
    }

    #[test]
    fn text_names_the_policy_and_placeholders_name_the_caller() {
        for (text, name, placeholders) in [
            ("user:{user_id}", "user:<user_id>", vec![path("user_id", true)]),
            ("{path:org}", "<org>", vec![path("org", false)]),
            ("{header:X-API-Key}", "<header:x-api-key>", vec![Placeholder::Header("x-api-key".into())]),
            ("{ip}", "<ip>", vec![Placeholder::Ip]),
            ("a{b}c{d}e", "a<b>c<d>e", vec![path("b", true), path("d", true)]),
            ("{a}{b}", "<a><b>", vec![path("a", true), path("b", true)]),
            ("{path:ip}", "<ip>", vec![path("ip", false)]),
        ] {
            assert_eq!(parse(text), Ok(Template { name: name.into(), placeholders }), "{text}");
        }
    }
}
