//! Links of Markdown pages: which there are, where they lead, and which headings they can name.

use std::collections::BTreeSet;

/// Where a link leads.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// A file or folder of the repository, and a heading in it.
    File {
        /// Its path in the repository.
        path: String,
        /// The anchor, without `#`.
        anchor: Option<String>,
    },
    /// An address on the web, or an item of Rust.
    Elsewhere,
}

/// The text of a page without its blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code
    })
}

/// The targets of all links and pictures of a page, as they are written. A link may span two lines.
pub fn of(page: &str) -> Vec<String> {
    let text = prose(page).collect::<Vec<_>>().join("\n");
    let text = without_inline_code(&text);
    let mut links = Vec::new();
    for part in text.split("](").skip(1) {
        if let Some((link, _)) = part.split_once(')') {
            links.push(link.trim().to_owned());
        }
    }
    // Definitions: `[name]: target`.
    let definitions = text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
    links.extend(definitions.map(|(_, target)| target.trim().to_owned()));
    links
}

/// Code in a line can look like a link, as in `links[0](x)`.
fn without_inline_code(text: &str) -> String {
    text.split('`').enumerate().filter(|(number, _)| number % 2 == 0).map(|(_, part)| part).collect()
}

/// Where a link of the page at this path leads.
pub fn resolve(page: &str, link: &str) -> Target {
    if link.contains("://") || link.contains("::") || link.starts_with("mailto:") {
        return Target::Elsewhere;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let mut path: Vec<&str> = page.split('/').collect();
    if !file.is_empty() {
        path.pop();
        for part in file.split('/') {
            match part {
                "." | "" => {}
                ".." => {
                    path.pop();
                }
                part => path.push(part),
            }
        }
    }
    Target::File { path: path.join("/"), anchor: anchor.map(str::to_owned) }
}

/// The anchors of the headings of a page.
pub fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page)
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    headings.map(anchor).collect()
}

/// The anchor of a heading: lower case, words joined by hyphens, no other signs.
pub fn anchor(heading: &str) -> String {
    let text = heading.trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_none() {
        let page = "[a](b.md) and `[c](d)`\n```\n[e](f)\n```\n[a\nb](g.md#h) ![p](q.svg)\n\n[x]: https://y\n";
        assert_eq!(of(page), ["b.md", "g.md#h", "q.svg", "https://y"]);
    }

    #[test]
    fn a_link_is_relative_to_its_page() {
        let file = |path: &str, anchor: Option<&str>| Target::File {
            path: path.to_owned(),
            anchor: anchor.map(str::to_owned),
        };
        assert_eq!(resolve("docs/a.md", "../README.md#b"), file("README.md", Some("b")));
        assert_eq!(resolve("docs/a.md", "#c"), file("docs/a.md", Some("c")));
        assert_eq!(resolve("README.md", "docs/a.md"), file("docs/a.md", None));
        assert_eq!(resolve("README.md", "https://a.example/#b"), Target::Elsewhere);
        assert_eq!(resolve("README.md", "crate::Policy"), Target::Elsewhere);
    }

    #[test]
    fn an_anchor_is_that_of_the_usual_renderers() {
        assert_eq!(
            anchor("A client that honours `Retry-After`, 2 × max"),
            "a-client-that-honours-retry-after-2--max"
        );
        assert!(anchors("# A b\n\n```\n# c\n```\n### D\n").iter().eq(["a-b", "d"]));
    }
}
