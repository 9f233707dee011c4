//! The board, the alerts and the pages for operators name metrics that exist, and all of them.

use std::collections::BTreeSet;

use ratelimit_core::metrics::ALL;
use serde_json::Value;

const BOARD: &str = include_str!("../../docs/grafana.json");
const ALERTS: &str = include_str!("../../docs/alerts.yml");
const PAGES: [&str; 2] =
    [include_str!("../../docs/operating.md"), include_str!("../../docs/when-redis-fails.md")];

/// The names of metrics in a text, without what an exporter adds to those of histograms.
fn named(text: &str) -> BTreeSet<&str> {
    let is_name =
        |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    let words = text.split(|character: char| !is_name(character));
    let words = words.filter(|word| {
        // Names of crates and files.
        word.starts_with("ratelimit_")
            && !["ratelimit_actix", "ratelimit_core", "ratelimit_macros"].contains(word)
    });
    words
        .map(|word| {
            ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word)
        })
        .collect()
}

#[test]
fn every_metric_that_is_named_exists() {
    for text in [BOARD, ALERTS].into_iter().chain(PAGES) {
        let unknown: Vec<_> = named(text).into_iter().filter(|name| !ALL.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(!named(text).is_empty());
    }
}

#[test]
fn the_board_and_the_page_have_every_metric() {
    for text in [BOARD, PAGES[1]] {
        let missing: Vec<_> = ALL.iter().filter(|name| !named(text).contains(**name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn the_board_is_complete() {
    let board: Value = serde_json::from_str(BOARD).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(
            !panel["title"].as_str().unwrap().is_empty()
                && !panel["description"].as_str().unwrap().is_empty()
        );
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let count = |character: char| query.matches(character).count();
            assert!(
                count('(') == count(')') && count('{') == count('}') && count('[') == count(']'),
                "{query}"
            );
            assert!(!named(query).is_empty(), "{query}");
        }
    }
}

#[test]
fn the_page_has_every_alert() {
    let listed = |text: &'static str, before: &'static str, after: &'static str| -> BTreeSet<&str> {
        text.lines().filter_map(|line| line.trim_start().strip_prefix(before)?.split(after).next()).collect()
    };
    let (alerts, described) = (listed(ALERTS, "- alert: ", " "), listed(PAGES[0], "| `RateLimit", "`"));
    let described: BTreeSet<String> = described.into_iter().map(|name| format!("RateLimit{name}")).collect();
    assert!(alerts.len() >= 9, "{alerts:?}");
    assert_eq!(alerts, described.iter().map(String::as_str).collect());
}

/// The labels that the documentation of the metrics lists.
#[test]
fn queries_use_labels_that_exist() {
    let labels = ["policy", "outcome", "on_error", "class", "end", "job", "instance", "le"];
    for text in [BOARD, ALERTS] {
        for group in text.split(" by (").skip(1) {
            for label in group.split(')').next().unwrap().split(',') {
                assert!(labels.contains(&label.trim()), "{label}");
            }
        }
    }
    for outcome in ["allowed", "denied", "passed", "would_deny"] {
        assert!(BOARD.contains(outcome), "{outcome}");
    }
}
