//! The pages as modules of `ratelimit_actix::guide`: pictures inside, links to modules instead of files.

use std::collections::BTreeMap;
use std::path::Path;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::links::{Target, resolve};
use crate::{generated, read};

/// The pages that are modules, by file name without its ending.
pub const PAGES: [&str; 16] = [
    "choosing",
    "numbers",
    "recipes",
    "migrating",
    "comparison",
    "reference",
    "operating",
    "overrides",
    "messages",
    "who-is-the-client",
    "when-redis-fails",
    "leases",
    "concurrency",
    "without-http",
    "accuracy",
    "attribute",
];

/// What a picture may not contain inside a Markdown link.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'(')
    .add(b')')
    .add(b'<')
    .add(b'>')
    .add(b'`')
    .add(b'\\');

/// The texts of all modules, by their paths in the repository. Git ignores them, and the package of the facade has them.
pub fn pages() -> BTreeMap<String, String> {
    let made = generated();
    let pages = PAGES.into_iter();
    pages.map(|page| (format!("ratelimit-actix/src/guide/{}.md", module(page)), text(page, &made))).collect()
}

/// The name of the module of a page.
fn module(page: &str) -> String {
    page.replace('-', "_")
}

/// The text of the module of a page. `made` has the pages and pictures that are made from the code.
fn text(page: &str, made: &BTreeMap<String, String>) -> String {
    let path = format!("docs/{page}.md");
    let source = made.get(&path).cloned().unwrap_or_else(|| read(&path));
    let mut text = String::new();
    let mut is_code = false;
    for line in source.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        // Comments mark generated parts.
        if !is_code && line.starts_with("<!--") {
            continue;
        }
        if is_code || is_fence {
            text += line;
        } else {
            text += &with_links(line, &path, made);
        }
        text.push('\n');
    }
    text
}

/// A line whose links lead to modules and whose pictures are inside. A link to another file of the repository becomes its text,
/// since readers of the documentation do not have the file.
fn with_links(line: &str, page: &str, made: &BTreeMap<String, String>) -> String {
    let Some(at) = line.find("](") else { return line.to_owned() };
    let (before, rest) = line.split_at(at);
    let Some((target, after)) = rest[2..].split_once(')') else { return line.to_owned() };
    let after = with_links(after, page, made);
    let Some(begin) = before.rfind('[') else {
        // The text of the link began on the line before; such links must lead to modules.
        return format!(
            "{before}]({}){after}",
            module_link(target, page).unwrap_or_else(|| panic!("{page}: {line}"))
        );
    };
    let (start, text) = before.split_at(begin);
    if let Some(start) = start.strip_suffix('!') {
        // A photograph of a screen would be most of the crate's size: its description stands for it.
        if Path::new(target).extension().is_some_and(|extension| extension == "png") {
            return format!("{start}*{}*{after}", &text[1..]);
        }
        return format!("{start}!{text}]({}){after}", picture(target, page, made));
    }
    match module_link(target, page) {
        Some(module) => format!("{start}{text}]({module}){after}"),
        None => format!("{start}{}{after}", &text[1..]),
    }
}

/// Where a link leads on docs.rs, if it leads anywhere there.
fn module_link(target: &str, page: &str) -> Option<String> {
    let Target::File { path, anchor } = resolve(page, target) else { return Some(target.to_owned()) };
    if path == page {
        return Some(target.to_owned());
    }
    let of_page = path.strip_prefix("docs/").and_then(|path| path.strip_suffix(".md"));
    let other = of_page.filter(|name| PAGES.contains(name))?;
    let anchor = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
    Some(format!("crate::guide::{}{anchor}", module(other)))
}

/// A picture as an address that contains it.
fn picture(target: &str, page: &str, made: &BTreeMap<String, String>) -> String {
    let Target::File { path, .. } = resolve(page, target) else { return target.to_owned() };
    // A line less is an address less long; texts of the pictures have no line breaks of their own.
    let svg = made.get(&path).cloned().unwrap_or_else(|| read(&path)).replace('\n', "");
    format!("data:image/svg+xml,{}", utf8_percent_encode(&svg, ESCAPED))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::with_links;

    #[test]
    fn a_link_leads_to_the_module_or_is_its_text() {
        let line = "[a](accuracy.md#results), [b](../examples/README.md), [c](#d), [e](https://f.example) and [g](leases.md).";
        let expected = "[a](crate::guide::accuracy#results), b, [c](#d), [e](https://f.example) and [g](crate::guide::leases).";
        assert_eq!(with_links(line, "docs/choosing.md", &BTreeMap::new()), expected);
        assert_eq!(
            with_links("domains](https://g.example), h", "docs/choosing.md", &BTreeMap::new()),
            "domains](https://g.example), h"
        );
    }

    #[test]
    fn a_picture_is_inside() {
        let line = with_links("![x](pictures/lease.svg)", "docs/choosing.md", &BTreeMap::new());
        assert!(line.starts_with("![x](data:image/svg+xml,%3Csvg%20"), "{line}");
        assert!(line.ends_with("%3C/svg%3E)"), "{line}");
        assert_eq!(with_links("![a page](operating.png)", "docs/operating.md", &BTreeMap::new()), "*a page*");
    }
}
