//! Under load, the figures of the JSON are those of the metrics.

use std::collections::HashMap;
use std::net::SocketAddr;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tests::load::Load;
use tests::service::Service as RunningService;
use tests::{client, within};

use super::*;

/// The second limit passes whenever the first denies.
#[rate_limit(max = 20, window = "1s", key = "!figures", algorithm = "fixed_window")]
#[rate_limit(max = 1_000_000_000, window = "1h", key = "!figures-wide")]
#[get("/figures")]
async fn figures() -> &'static str {
    "figures"
}

#[rate_limit(max = 5, window = "1h", key = "!figures-shadow", mode = "shadow")]
#[get("/figures-shadow")]
async fn shadow() -> &'static str {
    "shadow"
}

#[get("/metrics")]
async fn scrape(prometheus: web::Data<PrometheusHandle>) -> String {
    prometheus.render()
}

/// What is counted of one limit: by outcome, and near the limit.
type Figures = HashMap<&'static str, u64>;

const NAMES: [(&str, &str); 5] = [
    ("admitted", "ratelimit_decisions_total{policy=\"LIMIT\",outcome=\"allowed\"} "),
    ("denied", "ratelimit_decisions_total{policy=\"LIMIT\",outcome=\"denied\"} "),
    ("passed", "ratelimit_decisions_total{policy=\"LIMIT\",outcome=\"passed\"} "),
    ("would_deny", "ratelimit_decisions_total{policy=\"LIMIT\",outcome=\"would_deny\"} "),
    ("near_limit", "ratelimit_near_limit_total{policy=\"LIMIT\"} "),
];

fn of_metrics(server: SocketAddr, limit: &str) -> Figures {
    let text = client::get(server, "/metrics", &[]).body;
    let figure = |line: &str| {
        let line = line.to_owned();
        text.lines().find_map(|found| found.strip_prefix(&line)).map_or(0, |value| value.parse().unwrap())
    };
    NAMES.iter().map(|(name, line)| (*name, figure(&line.replace("LIMIT", limit)))).collect()
}

fn of_json(server: SocketAddr, limit: &str) -> Figures {
    let limits = client::get(server, "/_limits/limits.json", &["x-role: operator"]).body;
    let limits: Value = serde_json::from_str(&limits).unwrap();
    NAMES.iter().map(|(name, _)| (*name, of(&limits, limit)[*name].as_u64().unwrap())).collect()
}

fn is_between(before: &Figures, found: &Figures, after: &Figures) -> bool {
    NAMES.iter().all(|(name, _)| before[name] <= found[name] && found[name] <= after[name])
}

#[test]
fn figures_under_load_are_between_those_of_the_metrics_before_and_after() {
    let prometheus = PrometheusBuilder::new().install_recorder().unwrap();
    let limiter = RateLimiter::in_memory();
    let service = RunningService::start(move |config| {
        config
            .app_data(web::Data::new(limiter.clone()))
            .app_data(web::Data::new(prometheus.clone()))
            .service((figures, shadow, scrape))
            .service(web::scope("/_limits").service(admin(limiter.clone(), is_operator)));
    });
    let server = service.address;
    let loads =
        [("/figures", 100), ("/figures-shadow", 40)].map(|(path, rate)| Load::start(server, path, rate));
    let limits = ["!figures", "!figures-shadow", "!figures-wide"];
    let has_begun =
        || of_metrics(server, limits[0])["denied"] > 50 && of_metrics(server, limits[1])["would_deny"] > 50;
    assert!(within(Duration::from_secs(30), has_begun), "no load");
    for limit in limits {
        for _ in 0..10 {
            let before = of_metrics(server, limit);
            let found = of_json(server, limit);
            let after = of_metrics(server, limit);
            assert!(is_between(&before, &found, &after), "{limit}: {before:?} {found:?} {after:?}");
        }
    }
    let answers = loads.map(|load| load.stop().len());
    for (limit, answers) in limits.into_iter().zip([answers[0], answers[1], answers[0]]) {
        let last = of_metrics(server, limit);
        assert_eq!(of_json(server, limit), last, "{limit}");
        let sum: u64 = ["admitted", "denied", "passed", "would_deny"].iter().map(|name| last[name]).sum();
        assert_eq!(sum, answers as u64, "each request is in one figure");
    }
    let (first, wide) = (of_metrics(server, limits[0]), of_metrics(server, limits[2]));
    assert_eq!((wide["admitted"], wide["passed"]), (first["admitted"], first["denied"]));
}
