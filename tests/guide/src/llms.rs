//! `llms.txt`: the pages with a sentence each, for programs that read documentation.

use std::fmt::Write as _;

use crate::{modules, read};

/// Further pages of the repository.
const OTHERS: [&str; 6] = [
    "README.md",
    "examples/README.md",
    "docs/architecture.md",
    "CONTRIBUTING.md",
    "benches/report/README.md",
    "CHANGELOG.md",
];

pub(crate) fn text() -> String {
    let mut text = "# ratelimit-actix\n\n> Rate limits for Actix-web handlers by the attribute `#[rate_limit]`, exact by the rule of \
                    the chosen algorithm, in the process or shared through Redis.\n\n\
                    A minimal use: `#[rate_limit(max = 10, window = \"60s\")]` above `#[get(\"/\")]`, and one `RateLimiter` in \
                    `app_data`. Wrong arguments are compile errors with the corrected text.\n\n## Guide\n\n"
        .to_owned();
    for page in modules() {
        add(&mut text, &page);
    }
    text += "\n## Project\n\n";
    for page in OTHERS {
        add(&mut text, page);
    }
    text
}

/// Adds the title of a page and its first sentence.
fn add(text: &mut String, path: &str) {
    let page = read(path);
    let mut lines = page.lines().skip_while(|line| !line.starts_with("# "));
    let title = lines.next().unwrap_or_default().trim_start_matches("# ");
    let first: Vec<_> =
        lines.skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty()).collect();
    let first = without_links(&first.join(" "));
    let end = first.find(". ").map_or(first.len(), |end| end + 1);
    let _ = writeln!(text, "- [{title}]({path}): {}", &first[..end]);
}

/// A text with the words of its links only.
fn without_links(text: &str) -> String {
    let mut parts = text.split('[');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("](").and_then(|(words, rest)| Some((words, rest.split_once(')')?.1))) {
            Some((words, rest)) => _ = write!(plain, "{words}{rest}"),
            None => _ = write!(plain, "[{part}"),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::without_links;

    #[test]
    fn links_are_their_words() {
        assert_eq!(without_links("a [b c](d.md), e [f](g)"), "a b c, e f");
        assert_eq!(without_links("`#[a]` b"), "`#[a]` b");
    }
}
