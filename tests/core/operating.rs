//! The board, the alerts and the pages for operators name metrics that exist, and all of them, with their
//! labels.
#![allow(clippy::unwrap_used, reason = "tests")]

mod promtool;

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

/// A metric as its documentation has it.
struct Metric {
    name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    kind: &'static str,
    labels: Vec<&'static str>,
    documentation: String,
}

/// The parts of a text between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

impl Metric {
    /// Every metric: the row of the table at the top of the file, and the comment of its constant.
    fn all() -> Vec<Self> {
        const SOURCE: &str = include_str!("../../ratelimit-core/src/observe/metrics.rs");
        let rows = SOURCE.lines().filter_map(|line| line.strip_prefix("//! | [`"));
        let metrics: Vec<_> = rows
            .map(|row| {
                let [constant, kind, labels] = row.splitn(3, " | ").collect::<Vec<_>>()[..] else {
                    panic!("{row}")
                };
                let constant = constant.trim_end_matches("`]");
                let (before, rest) = SOURCE.split_once(&format!("!({constant}, \"")).unwrap();
                let comment: Vec<_> =
                    before.lines().rev().skip(1).take_while(|line| line.contains("///")).collect();
                let documentation = comment.into_iter().rev().collect::<Vec<_>>().join("\n");
                Self { name: rest.split('"').next().unwrap(), kind, labels: quoted(labels), documentation }
            })
            .collect();
        let names: BTreeSet<_> = metrics.iter().map(|metric| metric.name).collect();
        assert_eq!(names, ALL.iter().copied().collect());
        metrics
    }

    /// The values of its labels that are no names of the application.
    fn values(&self) -> Vec<&str> {
        let is_value = |word: &&str| {
            word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && !self.labels.contains(word)
        };
        quoted(&self.documentation).into_iter().filter(is_value).collect()
    }
}

/// The names of the alerts.
fn alerts() -> Vec<&'static str> {
    ALERTS.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: ")).collect()
}

/// The queries of the board, with the variables that it lets choose filled in.
fn board_queries() -> Vec<String> {
    let board: Value = serde_json::from_str(BOARD).unwrap();
    let targets =
        board["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    queries
        .map(|query| query.replace("$__rate_interval", "5m").replace("$job", ".*").replace("$policy", ".*"))
        .collect()
}

/// The queries of the alerts.
fn alert_queries() -> Vec<String> {
    let rules = ALERTS.split("- alert: ").skip(1);
    rules
        .map(|rule| {
            let query = rule.split("expr: ").nth(1).unwrap();
            let end = query
                .find("\n        for: ")
                .into_iter()
                .chain(query.find("\n        labels: "))
                .min()
                .unwrap();
            query[..end].trim_start_matches(">-").split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[test]
fn every_query_asks_for_labels_and_values_that_its_metrics_have() {
    let (metrics, queries) = (Metric::all(), [board_queries(), alert_queries()].concat());
    assert!(queries.len() >= 30, "{queries:?}");
    let of_targets = ["job", "instance"];
    for query in &queries {
        let used: Vec<_> = metrics.iter().filter(|metric| named(query).contains(metric.name)).collect();
        assert!(!used.is_empty(), "{query}");
        // What a query sums by, or joins on, is a label of one of its metrics.
        let groups = [" by (", " on ("].iter().flat_map(|word| query.split(word).skip(1));
        for label in groups.flat_map(|group| group.split(')').next().unwrap().split(',')) {
            let label = label.trim();
            let is_known = of_targets.contains(&label)
                || label == "le" && query.contains("_bucket")
                || used.iter().any(|metric| metric.labels.contains(&label));
            assert!(is_known, "{label}: {query}");
        }
        for metric in used {
            for selector in query.split(metric.name).skip(1).filter_map(|rest| {
                let rest = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| rest.strip_prefix(end))
                    .unwrap_or(rest);
                rest.strip_prefix('{')?.split('}').next()
            }) {
                for condition in selector.split(',') {
                    let (label, values) = condition.trim().split_once('=').unwrap();
                    let values = values.trim_start_matches('~').trim_matches('"');
                    assert!(
                        of_targets.contains(&label) || metric.labels.contains(&label),
                        "{label}: {query}"
                    );
                    if of_targets.contains(&label) || label == "policy" {
                        continue;
                    }
                    for value in values.split('|') {
                        assert!(metric.values().contains(&value), "{label}={value}: {query}");
                    }
                }
            }
        }
    }
    for outcome in ["allowed", "denied", "passed", "would_deny"] {
        assert!(BOARD.contains(outcome), "{outcome}");
    }
}
