//! Prometheus' own `promtool` evaluates the rules and the board.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{ALERTS, Metric, alerts, board_queries};

/// Runs `promtool test rules`. Without the program, the test is skipped, visibly; that is a failure if
/// `PROMTOOL_REQUIRED` is set.
fn test_rules(file: &Path) {
    let Ok(output) = Command::new("promtool").args(["test", "rules"]).arg(file).output() else {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        assert!(std::env::var_os("PROMTOOL_REQUIRED").is_none(), "{test} needs promtool");
        // Not `eprintln!`, which the test harness captures: a skipped test must be seen.
        std::io::stderr().write_all(format!("skipped: {test} needs promtool\n").as_bytes()).unwrap();
        return;
    };
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

const TESTS: &str = include_str!("../../../docs/alerts.test.yml");

#[test]
fn every_alert_fires_when_its_line_says_so() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    test_rules(&folder.join("alerts.test.yml"));
    for alert in alerts() {
        // The case may be on one line, or on several.
        let named = format!("alertname: {alert}\n");
        let cases = TESTS.split(&named).skip(1);
        let fires = cases.filter(|rest| rest.trim_start().starts_with("exp_alerts:\n")).count();
        assert!(fires > 0, "docs/alerts.test.yml has no case in which {alert} fires");
    }
}

/// Series of each metric with each of its labels and values, as an exporter has them: counters that rise, and
/// gauges.
fn series() -> Vec<Value> {
    let mut series = Vec::new();
    for metric in Metric::all() {
        let mut labels = vec!["job=\"shop\", instance=\"a\"".to_owned()];
        for label in &metric.labels {
            let values = if *label == "policy" { vec!["carts"] } else { metric.values() };
            let with = |before: &String| {
                values.iter().map(|value| format!("{before}, {label}=\"{value}\"")).collect::<Vec<_>>()
            };
            labels = labels.iter().flat_map(with).collect();
        }
        for labels in labels {
            let mut add = |end: &str, more: &str, values: &str| {
                let name = metric.name;
                series.push(json!({ "series": format!("{name}{end}{{{labels}{more}}}"), "values": values }));
            };
            match metric.kind {
                "counter" => add("", "", "0+1x60"),
                "gauge" => add("", "", "1x60"),
                "histogram" => {
                    add("_bucket", ", le=\"0.1\"", "0+1x60");
                    add("_bucket", ", le=\"+Inf\"", "0+2x60");
                    add("_count", "", "0+2x60");
                    add("_sum", "", "0+3x60");
                }
                kind => panic!("{}: {kind}", metric.name),
            }
        }
    }
    series
}

/// A file of promtool, which reads YAML, so also JSON.
fn evaluate(series: &[Value], queries: &[(String, f64)]) {
    let samples = |value: f64| json!([{ "labels": "{}", "value": value }]);
    let queries: Vec<_> = queries
        .iter()
        .map(|(query, value)| json!({ "expr": query, "eval_time": "20m", "exp_samples": samples(*value) }))
        .collect();
    let tests = json!([{ "interval": "30s", "input_series": series, "promql_expr_test": queries }]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = json!({ "evaluation_interval": "30s", "tests": tests }).to_string();
    std::fs::write(file.path(), text).unwrap();
    test_rules(file.path());
}

#[test]
fn every_query_of_the_board_has_data() {
    let counted: Vec<_> =
        board_queries().into_iter().map(|query| (format!("count({query}) > bool 0"), 1.0)).collect();
    assert!(counted.len() >= 20, "{counted:?}");
    evaluate(&series(), &counted);
}

/// The buckets of the example for the metric of a constant.
fn buckets(constant: &str) -> Vec<f64> {
    let example = include_str!("../../../examples/metrics.rs");
    let rest = example.split(&format!("Matcher::Full(metrics::{constant}")).nth(1).unwrap();
    let list = rest.split("&[").nth(1).unwrap().split(']').next().unwrap();
    list.split(',').map(|bound| bound.trim().parse().unwrap()).collect()
}

#[test]
fn waits_of_20_seconds_are_drawn_as_such_with_the_buckets_of_the_example() {
    let waits = board_queries().into_iter().find(|query| query.contains("ratelimit_wait_seconds")).unwrap();
    let bounds = buckets("WAIT_SECONDS");
    let bucket = |bound: &str, values: &str| {
        let labels = format!("job=\"shop\", instance=\"a\", policy=\"carts\", le=\"{bound}\"");
        json!({ "series": format!("ratelimit_wait_seconds_bucket{{{labels}}}"), "values": values })
    };
    let mut series = vec![bucket("+Inf", "0+10x60")];
    for bound in &bounds {
        let mut text = String::new();
        write!(text, "{bound}").unwrap();
        series.push(bucket(&text, if *bound >= 20.0 { "0+10x60" } else { "0x60" }));
    }
    // Within a bucket Prometheus takes the waits for spread evenly.
    evaluate(&series, &[(format!("sum({waits} > bool 15) * sum({waits} <= bool 20)"), 1.0)]);
    assert!(bounds.last() >= Some(&300.0), "{bounds:?}");
}

#[test]
fn the_rules_say_how_they_are_tested() {
    assert!(ALERTS.contains("promtool test rules alerts.test.yml"));
}
