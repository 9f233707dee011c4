//! Code as one line of text, for the list of all limits.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// The code with conventional spacing instead of that of printed tokens.
pub(crate) fn of(code: impl ToTokens) -> String {
    let mut text = String::new();
    write(code.to_token_stream(), &mut text);
    text
}

/// Operators of two characters.
const PAIRS: [&str; 9] = ["::", "->", "=>", "==", "!=", "<=", ">=", "&&", "||"];

fn write(tokens: TokenStream, text: &mut String) {
    let mut tokens = tokens.into_iter().peekable();
    let mut in_parameters = false;
    let mut starts = true;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) => {
                separate(text);
                text.push_str(&word.to_string());
                starts = matches!(word.to_string().as_str(), "async" | "move");
            }
            TokenTree::Literal(literal) => {
                separate(text);
                text.push_str(&literal.to_string());
                starts = false;
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{ ", " }"),
                    Delimiter::None => ("", ""),
                };
                if group.delimiter() == Delimiter::Brace {
                    pad(text);
                }
                text.push_str(open);
                write(group.stream(), text);
                text.push_str(close);
                starts = false;
            }
            TokenTree::Punct(first) => {
                let mut operator = first.as_char().to_string();
                if first.spacing() == Spacing::Joint
                    && let Some(next) =
                        tokens.next_if(|next| PAIRS.contains(&format!("{first}{next}").as_str()))
                {
                    operator.push_str(&next.to_string());
                }
                match operator.as_str() {
                    "," | ":" | ";" => text.extend([&*operator, " "]),
                    "|" | "||" if starts || in_parameters => {
                        if starts && !in_parameters && !text.is_empty() && !text.ends_with(['(', ' ']) {
                            text.push(' ');
                        }
                        text.push_str(&operator);
                        in_parameters = operator == "|" && !in_parameters;
                        if !in_parameters {
                            text.push(' ');
                        }
                    }
                    "=" | "==" | "!=" | "=>" | "->" | "<=" | ">=" | "&&" | "||" | "+" | "/" | "%" | "|" => {
                        pad(text);
                        text.extend([&*operator, " "]);
                    }
                    _ => text.push_str(&operator),
                }
                starts = matches!(operator.as_str(), "," | "=" | "=>");
            }
        }
    }
    let length = text.trim_end().len();
    text.truncate(length);
}

/// Appends a blank, unless there is one.
fn pad(text: &mut String) {
    if !text.is_empty() && !text.ends_with([' ', '(']) {
        text.push(' ');
    }
}

/// Appends a blank after a word.
fn separate(text: &mut String) {
    if text.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '"' | '}')) {
        text.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn code_has_conventional_spacing() {
        for code in [
            "caller",
            "a::b::<3>::of",
            "<T as U>::f",
            "Api<T>",
            "|req: &HttpRequest| req.path().len()",
            "|path: web::Path<(u64,)>, req: HttpRequest| (path.0, client_ip(&req))",
            "async |user: User| user.id",
            "async move |user: User| -> Option<u64> { user.id }",
            "|| 1",
            "|status: StatusCode| status == StatusCode::OK || status.is_success()",
            "|a: A| f(|b: B| b, a)?",
        ] {
            let tokens: proc_macro2::TokenStream = code.parse().unwrap();
            assert_eq!(of(tokens), code);
        }
    }
}
