//! Parts of a page that are made from the code, between two comments.

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

#[cfg(test)]
mod tests {
    use super::with_generated;

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
