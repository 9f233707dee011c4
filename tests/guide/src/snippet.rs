//! Code of a page, from the test that runs it.

use crate::page::{names, with_generated};
use crate::read;

/// The page with the code of each part whose name is a kind of snippet and a file of the folder: `recipe login` is the text
/// between `// recipe` and `// end` of `login.rs`.
pub(crate) fn with_snippets(page: &str, folder: &str) -> String {
    names(page).iter().fold(page.to_owned(), |page, name| {
        let Some((kind, file)) = name.split_once(' ') else { panic!("{name} names no snippet") };
        let source = read(&format!("tests/guide/tests/{folder}/{file}.rs"));
        with_generated(&page, name, &format!("```rust\n{}\n```", dedented(snippet(&source, kind))))
    })
}

/// A snippet of a module, without the indentation of the module.
fn dedented(snippet: &str) -> String {
    let is_nested = snippet.lines().all(|line| line.is_empty() || line.starts_with("    "));
    let lines = snippet.lines().map(|line| if is_nested { line.get(4..).unwrap_or_default() } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// The lines between `// kind` and the next `// end`.
pub(crate) fn snippet<'a>(source: &'a str, kind: &str) -> &'a str {
    let begin = format!("// {kind}\n");
    let (_, rest) = source.split_once(&begin).unwrap_or_else(|| panic!("no line // {kind}"));
    let (snippet, _) = rest.split_once("// end\n").unwrap_or_else(|| panic!("// {kind} has no end"));
    snippet.trim_end()
}

/// The number of lines of each snippet that the page has.
pub fn lengths(page: &str, folder: &str) -> Vec<(String, usize)> {
    let length = |name: String| {
        let (kind, file) = name.split_once(' ')?;
        let source = read(&format!("tests/guide/tests/{folder}/{file}.rs"));
        let lines = snippet(&source, kind).lines().filter(|line| !line.trim().is_empty()).count();
        Some((name, lines))
    };
    names(page).into_iter().filter_map(length).collect()
}

#[cfg(test)]
mod tests {
    use super::{dedented, snippet};

    #[test]
    fn a_nested_snippet_moves_left() {
        assert_eq!(dedented("    a {\n\n        b\n    }"), "a {\n\n    b\n}");
        assert_eq!(dedented("a {\n    b\n}"), "a {\n    b\n}");
    }

    #[test]
    fn a_snippet_ends_at_its_end() {
        assert_eq!(snippet("a\n// ours\nb\n\nc\n\n// end\nd\n// end\n", "ours"), "b\n\nc");
    }
}
