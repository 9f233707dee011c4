//! Links of built documentation: each leads to a file that is there, and each anchor to an element with that `id`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The crates whose pages are checked.
const CRATES: [&str; 3] = ["ratelimit_actix", "ratelimit_core", "ratelimit_macros"];

/// The number of links of the pages below `folder`, and those that lead nowhere.
pub fn check(folder: &Path) -> (usize, Vec<String>) {
    let mut pages = Vec::new();
    for name in CRATES {
        collect(&folder.join(name), &mut pages);
    }
    let (mut checked, mut broken, mut ids) = (0, Vec::new(), BTreeMap::new());
    for page in &pages {
        let text = fs::read_to_string(page).unwrap_or_default();
        for link in values(&text, " href=\"") {
            if link.contains("://") || link.starts_with("data:") || link.starts_with("javascript:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            // The pages of the guide are as they are in the repository, where their links lead somewhere.
            if Path::new(file).extension().is_some_and(|extension| extension != "html") && is_of_guide(page) {
                continue;
            }
            checked += 1;
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            let Ok(target) = target.canonicalize() else {
                broken.push(format!("{}: {link} leads to no file", page.display()));
                continue;
            };
            // Lines of source are numbered by a script.
            let is_source = target.components().any(|part| part == Component::Normal("src".as_ref()));
            if anchor.is_empty()
                || is_source
                || target.extension().is_none_or(|extension| extension != "html")
            {
                continue;
            }
            let ids: &BTreeSet<String> = ids
                .entry(target.clone())
                .or_insert_with(|| values(&destination(&target), " id=\"").into_iter().collect());
            if !ids.contains(anchor) {
                broken.push(format!("{}: {link} leads to no element", page.display()));
            }
        }
    }
    (checked, broken)
}

fn is_of_guide(page: &Path) -> bool {
    page.components().any(|part| part == Component::Normal("guide".as_ref()))
}

/// The text of a page, or of the one to which it redirects: rustdoc has such pages at the private paths of items.
fn destination(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap_or_default();
    let redirect =
        text.split_once("http-equiv=\"refresh\" content=\"0;URL=").and_then(|(_, rest)| rest.split_once('"'));
    match redirect {
        Some((file, _)) => fs::read_to_string(page.with_file_name(file)).unwrap_or_default(),
        None => text,
    }
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "html") {
            pages.push(path);
        }
    }
}

/// The values of an attribute.
fn values(text: &str, attribute: &str) -> Vec<String> {
    let values = text.split(attribute).skip(1).filter_map(|rest| rest.split_once('"'));
    values.map(|(value, _)| value.replace("&amp;", "&").replace("&#39;", "'")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found() {
        let folder = std::env::temp_dir().join(format!("guide-html-{}", std::process::id()));
        let place = folder.join("ratelimit_core/a");
        fs::create_dir_all(&place).expect("a temporary folder");
        let page = r##"<a id="x" href="../b.html"></a><a href="#x"></a><a href="#y"></a><a href="c.html"></a><a href="https://d.example"></a><a href="../old.html#x"></a>"##;
        fs::write(place.join("index.html"), page).expect("a temporary file");
        fs::write(folder.join("ratelimit_core/b.html"), "").expect("a temporary file");
        let redirect = r#"<meta http-equiv="refresh" content="0;URL=a/index.html">"#;
        fs::write(folder.join("ratelimit_core/old.html"), redirect).expect("a temporary file");
        let (checked, broken) = check(&folder);
        fs::remove_dir_all(&folder).expect("the temporary folder");
        assert_eq!(checked, 5);
        let ends = ["index.html: #y leads to no element", "index.html: c.html leads to no file"];
        assert!(
            broken.iter().zip(ends).all(|(line, end)| line.ends_with(end)) && broken.len() == 2,
            "{broken:?}"
        );
    }
}
