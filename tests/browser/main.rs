//! The operator's page in a headless browser; `tests/browser.sh` installs one and runs this.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "also in functions that several tests call")]
#![allow(clippy::disallowed_methods, reason = "deadlines for real processes, and a measure")]

mod driver;
mod words;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse, get, web};
use futures_util::stream;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use ratelimit_actix::{
    MemoryStore, RateLimiter, RateLimiterBuilder, RedisStore, admin, concurrency_limit, rate_limit,
};
use serde_json::Value;
use tests::load::Load;
use tests::noise::Noise;
use tests::own_process::in_own_process;
use tests::service::Service;
use tests::{client, redis, within};

use self::driver::Browser;

/// Longest wait for something that takes about a second: a limit for the test, not a measure.
const PATIENCE: Duration = Duration::from_secs(30);

#[rate_limit(max = 100, window = "1s", key = "orders", by = ip, plan = plan)]
#[get("/orders")]
async fn orders() -> &'static str {
    "orders"
}

fn plan(req: &HttpRequest) -> Option<&str> {
    req.headers().get("x-plan")?.to_str().ok()
}

/// A log, so that no edge of a window comes between a request and what is shown of it.
#[rate_limit(max = 20, window = "1m", key = "search", mode = "shadow", algorithm = "sliding_window_log")]
#[get("/search")]
async fn search() -> &'static str {
    "search"
}

#[rate_limit(max = 5, window = "1m", block = "10m", key = "log-in", on_error = "deny")]
#[get("/log-in")]
async fn log_in() -> &'static str {
    "welcome"
}

#[rate_limit(max = |_: &HttpRequest| 3, window = "month", anchor = |_: &HttpRequest| 15, key = "reports")]
#[get("/reports")]
async fn reports() -> &'static str {
    "reports"
}

#[concurrency_limit(max = 3, key = "streams", by = ip)]
#[get("/streams")]
async fn streams() -> HttpResponse {
    HttpResponse::Ok().streaming(stream::pending::<Result<Bytes, Infallible>>())
}

#[get("/metrics")]
async fn scrape(prometheus: web::Data<PrometheusHandle>) -> String {
    prometheus.render()
}

/// The recorder of the metrics, which a process has once.
fn recorder() -> PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| PrometheusBuilder::new().install_recorder().unwrap()).clone()
}

const OVERRIDES: &str = "[limit.orders]\nmax = 200\n[limit.orders.plans]\npro = { max = 2000 }\n\
                         [limit.orders.callers]\n'address 203.0.113.7' = { max = 500 }\n";

fn service(builder: RateLimiterBuilder) -> Service {
    let prometheus = recorder();
    let limiter = builder.overrides(OVERRIDES.parse().unwrap()).build();
    Service::start(move |config| {
        // The test's browser is the operator.
        let operators =
            admin(limiter.clone(), |req| req.peer_addr().is_some_and(|peer| peer.ip().is_loopback()));
        config
            .app_data(web::Data::new(limiter.clone()))
            .app_data(web::Data::new(prometheus.clone()))
            .service((orders, search, log_in, reports, streams, scrape))
            .service(web::scope("/_limits").service(operators))
            .default_service(web::to(HttpResponse::NotFound));
    })
}

/// The decisions of `orders` by outcome, as the metrics have them.
fn metrics(server: SocketAddr) -> HashMap<String, u64> {
    let text = client::get(server, "/metrics", &[]).body;
    let line = |line: &str| {
        let rest = line.strip_prefix("ratelimit_decisions_total{policy=\"orders\",outcome=\"")?;
        let (outcome, value) = rest.split_once("\"} ")?;
        Some((outcome.to_owned(), value.parse().unwrap()))
    };
    text.lines().filter_map(line).collect()
}

/// The figures of `orders` that the page shows now.
fn shown(browser: &Browser) -> Option<(u64, u64)> {
    let figures = browser.run(
        "return ['admitted', 'denied'].map(name => \
         document.querySelector('tr[data-limit=orders] td[data-figure=' + name + '] span').textContent)",
    );
    let number = |index: usize| figures[index].as_str()?.parse().ok();
    Some((number(0)?, number(1)?))
}

/// Opens the page, and waits until it has its figures.
fn open(browser: &mut Browser, page: &str) {
    browser.open(page);
    let has_figures = || browser.run("return !document.querySelector('main').hidden") == true;
    assert!(within(PATIENCE, has_figures), "{}", browser.run("return document.body.textContent"));
}

/// The text of an element, also of a part that is not in view; nothing if there is none.
fn text(browser: &Browser, selector: &str) -> String {
    let found =
        browser.run(&format!("return (document.querySelector(\"{selector}\") || {{}}).textContent || ''"));
    found.as_str().unwrap().to_owned()
}

/// Waits until an element has a text.
fn shows(browser: &Browser, selector: &str, part: &str) {
    let shown = || text(browser, selector).contains(part);
    assert!(within(PATIENCE, shown), "{part}: {}", text(browser, "body"));
}

/// Looks at a caller by the form.
fn look(browser: &Browser, limit: &str, caller: &str) {
    browser.run(&format!(
        "document.getElementById('looked').replaceChildren(); document.getElementById('limit').value = {}; \
         document.getElementById('caller').value = {}; document.querySelector('#look button').click()",
        Value::from(limit),
        Value::from(caller)
    ));
    assert!(within(PATIENCE, || !text(browser, "#looked").is_empty()), "no answer");
}

#[test]
fn the_page_shows_the_figures_of_the_metrics_within_a_second() {
    // Metrics are those of a process.
    in_own_process(|| {
        let Some(mut browser) = Browser::start() else { return };
        let service = service(RateLimiter::builder(MemoryStore::new()));
        let page = format!("http://{}/_limits/", service.address);
        open(&mut browser, &page);
        let load = Load::start(service.address, "/orders", 400);
        assert!(within(PATIENCE, || shown(&browser).is_some_and(|(_, denied)| denied > 100)), "not live");
        // The page is about a second behind: what it shows is between the metrics of some time before and
        // those after.
        let noise = Noise::watch();
        let (mut samples, mut seen) = (Vec::new(), Vec::new());
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            samples.push((Instant::now(), metrics(service.address)));
            let asked = Instant::now();
            let Some((admitted, denied)) = shown(&browser) else { continue };
            let after = metrics(service.address);
            assert!(
                admitted <= after["allowed"] && denied <= after["denied"],
                "{admitted}, {denied}: {after:?}"
            );
            seen.push((asked, admitted, denied));
        }
        assert!(seen.len() > 5, "{seen:?}");
        // The page asks each second, and an answer takes its time.
        let behind = Duration::from_secs(1) + noise.slack();
        println!("compared with the metrics of {behind:?} before");
        for (asked, admitted, denied) in seen {
            let earlier = samples.iter().rev().find(|(at, _)| asked.duration_since(*at) > behind);
            let is_behind = |(_, then): &(Instant, HashMap<String, u64>)| {
                admitted < then["allowed"] || denied < then["denied"]
            };
            assert!(!earlier.is_some_and(is_behind), "{admitted}, {denied}: {earlier:?}");
        }
        load.stop();
        let last = metrics(service.address);
        let began = Instant::now();
        assert!(within(PATIENCE, || shown(&browser) == Some((last["allowed"], last["denied"]))));
        println!("equal to the metrics {} ms after the load ended", began.elapsed().as_millis());

        for path in ["/search", "/log-in"] {
            (0..30).for_each(|_| _ = client::get(service.address, path, &[]));
        }
        nothing_is_blocked_and_the_keyboard_reaches_everything(&mut browser, &page);
        a_caller_is_reset_by_the_page(&mut browser, &page, service.address);
        texts_are_readable_in_both_color_schemes(&mut browser, &page);
        every_figure_is_seen_on_a_phone(&mut browser, &page);
        without_scripts_the_page_names_the_json(&page);
    });
}

fn nothing_is_blocked_and_the_keyboard_reaches_everything(browser: &mut Browser, page: &str) {
    open(browser, page);
    // A style that the policy had blocked would leave the default margin.
    assert_eq!(browser.run("return getComputedStyle(document.querySelector('h1')).marginTop"), "0px");
    assert_eq!(browser.run("return performance.getEntriesByType('resource').every(one => one.name.startsWith(location.origin))"), true);
    let inline = browser.run(
        "const script = document.createElement('script'); script.textContent = 'window.ran = true'; \
         document.body.append(script); return window.ran === true",
    );
    assert_eq!(inline, false, "an inline script ran");
    // Pausing keeps what has the focus in its place.
    browser.run("document.getElementById('pause').click()");
    let mut reached = Vec::new();
    for _ in 0..40 {
        browser.press_tab();
        let at = browser.run(
            "const at = document.activeElement; return at.id || at.getAttribute('aria-label') || at.tagName",
        );
        reached.push(at.as_str().unwrap_or_default().to_owned());
    }
    for control in ["pause", "find", "span", "BUTTON", "limit", "caller"] {
        assert!(reached.iter().any(|one| one == control), "{control}: {reached:?}");
    }
}

fn a_caller_is_reset_by_the_page(browser: &mut Browser, page: &str, server: SocketAddr) {
    open(browser, page);
    for is_listed in [true, false] {
        (0..6).for_each(|_| _ = client::get(server, "/log-in", &[]));
        assert_eq!(client::get(server, "/log-in", &[]).status, 429);
        if is_listed {
            let row = "[...document.querySelectorAll('#callers tbody tr')].find(row => row.textContent.includes('log-in'))";
            assert!(within(PATIENCE, || browser.run(&format!("return !!{row}")) == true));
            browser.run(&format!("{row}.querySelector('button').click()"));
        } else {
            look(browser, "log-in", "127.0.0.1");
        }
        shows(browser, "#looked h3", "under log-in");
        shows(browser, "#looked", "passes in ");
        assert_eq!(browser.run("return document.activeElement.tagName"), "H3", "the answer has the focus");
        browser.run("document.getElementById('reset').click()");
        shows(browser, "[role=status]", "What was counted for this caller is forgotten.");
        shows(browser, "#looked", "passes now");
        assert_eq!(client::get(server, "/log-in", &[]).status, 200);
    }
}

/// Whatever is right of the screen would have to be searched for.
fn every_figure_is_seen_on_a_phone(browser: &mut Browser, page: &str) {
    browser.resize(420, 900);
    open(browser, page);
    look(browser, "orders", "127.0.0.1");
    let beyond = browser.run(
        "const seen = [...document.querySelectorAll('td, th[scope=row], dd, dt, button, svg, input, textarea, p')] \
             .filter(part => part.checkVisibility()); \
         const names = seen.filter(part => { const at = part.getBoundingClientRect(); \
             return at.left < 0 || at.right > 420 || at.width === 0 && part.textContent; }).map(part => part.outerHTML); \
         const whole = document.documentElement; \
         return [seen.length, names, whole.scrollWidth - whole.clientWidth]",
    );
    assert!(beyond[0].as_u64() > Some(50), "{beyond}");
    assert_eq!((&beyond[1], &beyond[2]), (&Value::Array(Vec::new()), &Value::from(0)), "{beyond}");
    // Each figure says what it is.
    let head = browser.run(
        "return getComputedStyle(document.querySelector('td[data-figure=near_limit]'), '::before').content",
    );
    assert_eq!(head, "\"Near limit\"");
    let buttons = browser.run("return [...document.querySelectorAll('#limits thead button')].filter(one => one.checkVisibility()).length");
    assert_eq!(buttons, 8, "heads that order");
    browser.resize(1300, 1500);
}

/// The contrast is that of the accessibility guidelines (WCAG 2): at least 4.5 for text.
fn texts_are_readable_in_both_color_schemes(browser: &mut Browser, page: &str) {
    let contrasts = "const light = color => { const [r, g, b] = color.match(/[0-9.]+/g).map(part => part / 255) \
         .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4); \
         return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; \
         const ground = light(getComputedStyle(document.body).backgroundColor); \
         const contrast = color => { const both = [light(color), ground].sort((one, other) => other - one); \
         return (both[0] + 0.05) / (both[1] + 0.05); }; \
         const of = (selector, property) => contrast(getComputedStyle(document.querySelector(selector))[property]); \
         return [ground, of('body', 'color'), of('.place', 'color'), of('caption', 'color'), of('path.denied', 'fill'), \
         of('path.unavailable', 'fill')];";
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer_color_scheme(scheme);
        open(browser, page);
        let found = browser.run(contrasts);
        let found: Vec<f64> = found.as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
        grounds.push(found[0]);
        assert!(found[1..].iter().all(|contrast| *contrast >= 4.5), "{scheme}: {found:?}");
    }
    browser.prefer_color_scheme("light");
    assert!(grounds[0] > 0.9 && grounds[1] < 0.1, "{grounds:?}");
}

fn without_scripts_the_page_names_the_json(page: &str) {
    let Some(mut browser) = Browser::start_without_scripts() else { return };
    browser.open(page);
    let body = browser.text_of("body");
    assert!(body.contains("This page needs scripts.") && body.contains("callers denied most"), "{body}");
    assert!(!body.contains("Numbers in force"), "{body}");
}

/// Writes a picture of the page for the documentation, as Base64, if a file is named. It takes ninety
/// seconds, so that the pictures of the last minutes have something to show.
#[test]
fn a_picture_for_the_documentation() {
    let Some(file) = std::env::var_os("SCREENSHOT") else { return };
    let Some(mut browser) = Browser::start() else { return };
    let server = redis::server().unwrap();
    let service = service(RateLimiter::builder(RedisStore::builder(&server.url()).build().unwrap()));
    for rate in [60, 150, 230, 260, 180, 240, 300, 120, 80] {
        let loads =
            [("/orders", rate), ("/search", 20)].map(|(path, rate)| Load::start(service.address, path, rate));
        std::thread::sleep(Duration::from_secs(10));
        (0..3).for_each(|_| _ = client::get(service.address, "/log-in", &[]));
        for load in loads {
            load.stop();
        }
    }
    open(&mut browser, &format!("http://{}/_limits/", service.address));
    let picture: Value = browser.screenshot();
    std::fs::write(file, picture.as_str().unwrap()).unwrap();
}
