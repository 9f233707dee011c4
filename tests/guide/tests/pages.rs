//! The pages of the repository: what is made from the code is up to date, every link leads somewhere, recipes
//! stay short.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;

use guide::links::{self, Target};
use guide::{generated, messages, modules, pages, read, repository, snippet};

#[test]
fn everything_that_is_made_from_the_code_is_up_to_date() {
    let old = generated().into_iter().filter(|(path, text)| {
        let there = fs::read_to_string(repository().join(path)).unwrap_or_default();
        there != *text
    });
    let old: Vec<_> = old.map(|(path, _)| path).collect();
    assert!(old.is_empty(), "out of date: {old:#?}; `cargo run -p guide` makes them anew");
}

#[test]
fn every_picture_is_made_and_shown() {
    let made: BTreeSet<_> =
        generated().into_keys().filter(|path| path.starts_with("docs/pictures/")).collect();
    let there = fs::read_dir(repository().join("docs/pictures")).unwrap();
    let there: BTreeSet<_> =
        there.map(|file| format!("docs/pictures/{}", file.unwrap().file_name().to_str().unwrap())).collect();
    assert_eq!(there, made, "docs/pictures holds what is made, and nothing else");
    let text: String = pages().iter().map(|page| read(page)).collect();
    for picture in made {
        let name = picture.rsplit('/').next().unwrap();
        assert!(text.contains(&format!("pictures/{name})")), "no page shows {picture}");
    }
}

#[test]
fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let (mut broken, mut checked) = (Vec::new(), 0);
    for page in pages().into_iter().chain(["llms.txt".to_owned()]) {
        for link in links::of(&read(&page)) {
            checked += 1;
            match links::resolve(&page, &link) {
                Target::Elsewhere => {}
                Target::File { path, anchor } => {
                    if !repository().join(&path).exists() {
                        broken.push(format!("{page}: {link} leads to no file"));
                    } else if let Some(anchor) = anchor
                        && !links::anchors(&read(&path)).contains(&anchor)
                    {
                        broken.push(format!("{page}: {link} leads to no heading"));
                    }
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(checked > 150, "only {checked} links");
}

#[test]
fn a_recipe_has_at_most_fifteen_lines() {
    let lengths = snippet::lengths(&read("docs/recipes.md"), "recipes");
    assert!(lengths.len() >= 10, "{lengths:?}");
    for (name, lines) in lengths {
        assert!(lines <= 15, "{name} has {lines} lines");
    }
}

#[test]
fn every_recipe_and_every_pair_is_on_its_page() {
    for (page, folder) in [("docs/recipes.md", "recipes"), ("docs/migrating.md", "migrating")] {
        let text = read(page);
        for file in fs::read_dir(repository().join("tests/guide/tests").join(folder)).unwrap() {
            let file = file.unwrap().file_name().into_string().unwrap();
            let name = file.strip_suffix(".rs").unwrap();
            assert!(name == "main" || text.contains(&format!(" {name}: made by")), "{page} lacks {name}");
        }
    }
}

/// A text as the page may break it: without marks, in one line.
fn plain(text: &str) -> String {
    let text: String = text.chars().filter(|c| !matches!(c, '`' | '*')).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_line_of_the_log_names_a_section_that_has_its_text() {
    let page = read("docs/messages.md");
    let logged = messages::logged();
    assert!(logged.len() >= 20, "{logged:#?}");
    for line in logged {
        let help = line.help.unwrap_or_else(|| panic!("{:?} names no section", line.text));
        let mut sections = page.split("\n## ").skip(1);
        let section = sections.find(|section| links::anchor(section.lines().next().unwrap()) == help);
        let section = plain(section.unwrap_or_else(|| panic!("docs/messages.md has no section {help}")));
        let first = plain(&line.text).split(';').next().unwrap().trim_end_matches(':').to_owned();
        assert!(section.contains(&first), "section {help} lacks {first:?}");
    }
}

/// The tables of features, in the pages of the crates and in their documentation, have the features of the
/// manifests.
#[test]
fn the_tables_of_features_agree_with_the_manifests() {
    for name in ["ratelimit-core", "ratelimit-actix"] {
        let manifest = read(&format!("{name}/Cargo.toml"));
        let (_, features) = manifest.split_once("[features]\n").unwrap();
        let (features, _) = features.split_once("\n[").unwrap();
        let lines = features.lines().filter_map(|line| line.split_once(" = "));
        let (default, others): (Vec<_>, Vec<_>) = lines.partition(|(feature, _)| *feature == "default");
        let is_default = |feature: &str| default[0].1.contains(&format!("\"{feature}\""));
        let expected: BTreeSet<_> =
            others.iter().map(|(feature, _)| ((*feature).to_owned(), is_default(feature))).collect();
        assert!(expected.len() >= 6, "{expected:?}");
        for page in ["README.md", "src/lib.rs"] {
            let page = format!("{name}/{page}");
            let text = read(&page);
            let lines = text.lines().map(|line| line.trim_start_matches("//! "));
            let mut rows = lines.skip_while(|line| !line.starts_with("| feature | default |")).skip(2);
            let mut listed = BTreeSet::new();
            while let Some(row) = rows.next().filter(|row| row.starts_with('|')) {
                let cells: Vec<_> = row.split('|').map(str::trim).collect();
                assert!(["yes", "no"].contains(&cells[2]) && !cells[3].is_empty(), "{page}: {row}");
                listed.insert((cells[1].trim_matches('`').to_owned(), cells[2] == "yes"));
            }
            assert_eq!(listed, expected, "the features in {page}, and whether they are on by default");
        }
        if name == "ratelimit-actix" {
            let stores = read("docs/stores.md");
            let (_, table) = stores.split_once("| feature | what it adds |").unwrap();
            let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("| `"));
            let listed: BTreeSet<_> = rows
                .map(|row| row.split_once('`').unwrap())
                .map(|(feature, rest)| (feature.to_owned(), rest.starts_with(" (default)")))
                .collect();
            assert_eq!(
                listed, expected,
                "the features in docs/stores.md, and whether they are on by default"
            );
        }
    }
}

#[test]
fn every_page_is_a_module_of_the_guide_and_in_the_list_for_programs() {
    let mut expected = modules();
    // For contributors only.
    expected.push("docs/architecture.md".to_owned());
    expected.sort();
    let there: Vec<_> = pages().into_iter().filter(|page| page.starts_with("docs/")).collect();
    assert_eq!(there, expected);
    let listed = links::of(&read("llms.txt"));
    assert!(there.iter().all(|page| listed.contains(page)), "llms.txt lists every page, and has {listed:?}");
}
