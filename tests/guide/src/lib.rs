//! The pages of `docs/`: what in them is made from the code, and checks of the rest.
//!
//! `cargo run -p guide` writes the pictures and the generated parts of the pages. The tests make all of it
//! once more and compare.
#![allow(clippy::expect_used, clippy::missing_panics_doc, reason = "a panic is the report of a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

mod arguments;
mod canvas;
mod capacity;
pub mod links;
pub mod messages;
mod overview;
mod run;
pub mod snippet;
mod tables;
mod timeline;
mod traffic;

/// The folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file of the repository.
pub fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The Markdown pages of the repository, by path.
pub fn pages() -> Vec<String> {
    const FOLDERS: [&str; 9] = [
        "",
        "docs/",
        "examples/",
        "benches/report/",
        "ratelimit-actix/",
        "ratelimit-core/",
        "ratelimit-core/lua/",
        "ratelimit-macros/",
        "tests/mutants/",
    ];
    let mut pages = Vec::new();
    for folder in FOLDERS {
        let found =
            fs::read_dir(repository().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let names =
            found.map(|file| file.expect("a file").file_name().into_string().expect("a name in ASCII"));
        let is_page = |name: &String| Path::new(name).extension().is_some_and(|extension| extension == "md");
        pages.extend(names.filter(is_page).map(|name| format!("{folder}{name}")));
    }
    pages.sort();
    pages
}

/// The pages that are modules of `ratelimit_actix::guide`, in its order.
pub fn modules() -> Vec<String> {
    let guide = read("ratelimit-actix/src/guide.rs");
    let rows = guide.lines().filter_map(|line| line.trim().strip_suffix(".md\"")?.split_once(" \""));
    rows.map(|(_, page)| format!("docs/{page}.md")).collect()
}

/// Every file of the repository that is made from the code, in whole or in part: its path in the repository,
/// and its text as it has to be.
pub fn generated() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut picture = |name: &str, svg: String| {
        files.insert(format!("docs/pictures/{name}.svg"), svg);
    };
    let runs = run::all();
    for run in &runs {
        picture(&run.name, timeline::draw(run));
    }
    picture("algorithms", overview::draw(&runs));
    for (page, name, table) in [
        ("docs/choosing.md", "traffic", run::table(&runs)),
        ("docs/redis.md", "capacity", capacity::table()),
        ("docs/arguments.md", "arguments", arguments::table()),
        ("README.md", "arguments", arguments::short_table()),
        ("README.md", "algorithms", tables::algorithms()),
        ("ratelimit-core/src/overrides/file_format.md", "fields", tables::fields()),
    ] {
        // A page may have several.
        let text = files.remove(page).unwrap_or_else(|| read(page));
        files.insert(page.to_owned(), snippet::with_generated(&text, name, &table));
    }
    for (page, folder) in [("docs/recipes.md", "recipes"), ("docs/migrating.md", "migrating")] {
        files.insert(page.to_owned(), snippet::with_snippets(&read(page), folder));
    }
    files
}
