//! Tables that are elsewhere as well: of algorithms in their documentation, of the fields of overrides on
//! their page.

use std::fmt::Write as _;

use ratelimit_core::Algorithm;

use crate::read;

/// The rows of the first table of a text whose head begins so.
fn rows<'t>(text: &'t str, head: &str) -> impl Iterator<Item = &'t str> {
    let (_, table) = text.split_once(head).unwrap_or_else(|| panic!("no table {head}"));
    table
        .lines()
        .skip(2)
        .map(|line| line.trim_start_matches("/// "))
        .map_while(|line| line.strip_prefix("| "))
}

/// The algorithms for the README: name, worst case and use.
pub(crate) fn algorithms() -> String {
    let source = read("ratelimit-core/src/policy/algorithm.rs");
    let mut text = "| algorithm | most in any one window | choose it for |\n|---|---|---|\n".to_owned();
    for algorithm in Algorithm::ALL {
        let name = format!("[`{algorithm:?}`]");
        let row = rows(&source, "| algorithm |").find(|row| row.starts_with(&name));
        let row = row.unwrap_or_else(|| panic!("the documentation has no row of {name}"));
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        _ = writeln!(text, "| `{algorithm}` | {} | {} |", cells[2], cells[3]);
    }
    text
}

/// The fields of overrides for their documentation, where no link leads to a page.
pub(crate) fn fields() -> String {
    let page = read("docs/overrides.md");
    let rows = rows(&page, "| field | value |").map(|row| format!("| {}\n", without_links(row)));
    format!("| field | value |\n|---|---|\n{}", rows.collect::<String>())
}

/// The text with `[this](..)` as `this`.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let (shown, after) = link.split_once("](").expect("a link");
        plain += before;
        plain += shown;
        rest = after.split_once(')').expect("the end of a link").1;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::without_links;

    #[test]
    fn a_link_becomes_its_text() {
        assert_eq!(without_links("a [b](c.md#d), [`e`](f) g"), "a b, `e` g");
        assert_eq!(without_links("none"), "none");
    }
}
