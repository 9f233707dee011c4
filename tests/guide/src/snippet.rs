//! Parts of a page that are made from the code, between two comments: tables, and the code of tests.

use crate::read;

/// The page with another text between `<!-- name: made by cargo run -p guide -->` and `<!-- end -->`.
pub(crate) fn with_generated(page: &str, name: &str, text: &str) -> String {
    let begin = format!("<!-- {name}: made by `cargo run -p guide` -->\n");
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("the page lacks the line {begin}"));
    let (_, after) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{name} has no end"));
    format!("{before}{begin}\n{}\n\n<!-- end -->{after}", text.trim())
}

/// The names of the generated parts of a page, in order.
pub(crate) fn names(page: &str) -> Vec<String> {
    let names = page
        .lines()
        .filter_map(|line| line.strip_prefix("<!-- ")?.strip_suffix(": made by `cargo run -p guide` -->"));
    names.map(str::to_owned).collect()
}

/// The page with the code of each part whose name is a kind of snippet and a file of the folder:
/// `recipe login` is the text between `// recipe` and `// end` of `login.rs`.
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
    use super::{dedented, snippet, with_generated};

    #[test]
    fn a_nested_snippet_moves_left() {
        assert_eq!(dedented("    a {\n\n        b\n    }"), "a {\n\n    b\n}");
        assert_eq!(dedented("a {\n    b\n}"), "a {\n    b\n}");
    }

    #[test]
    fn a_snippet_ends_at_its_end() {
        assert_eq!(snippet("a\n// ours\nb\n\nc\n\n// end\nd\n// end\n", "ours"), "b\n\nc");
    }

    #[test]
    fn only_the_named_part_is_replaced() {
        let page = "a\n<!-- x: made by `cargo run -p guide` -->\nold\n<!-- end -->\nb\n<!-- y: made by `cargo run -p guide` -->\n\
                    kept\n<!-- end -->\n";
        let expected = "a\n<!-- x: made by `cargo run -p guide` -->\n\nnew\n\n<!-- end -->\nb\n\
                        <!-- y: made by `cargo run -p guide` -->\nkept\n<!-- end -->\n";
        assert_eq!(with_generated(page, "x", "new\n"), expected);
        assert_eq!(with_generated(expected, "x", "new"), expected);
    }
}
