//! What the page says: its rows, its pictures, one caller, an outage, and names with markup.

use ratelimit_actix::{Algorithm, Limit, Policy, RateLimitMiddleware};

use super::*;

/// Starts a browser with the page, and stops the page from asking by itself, so that what a test gives it
/// stays.
fn paused(service: &Service) -> Option<Browser> {
    let mut browser = Browser::start()?;
    open(&mut browser, &format!("http://{}/_limits/", service.address));
    browser.run("document.getElementById('pause').click()");
    Some(browser)
}

fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn rows_tell_the_numbers_in_force_and_where_they_come_from() {
    let service = service(RateLimiter::builder(MemoryStore::new()));
    let Some(browser) = paused(&service) else { return };
    let rows: [(&str, &[&str]); 5] = [
        (
            "orders",
            &[
                "200 per 1s, sliding_window_counter",
                "max from the overrides; the attribute has 100 per 1s; local in an outage",
                "plan pro: 2000 per 1s",
                "callers with rows of their own: 1",
                "orders by ip, tests/browser/main.rs:",
                "last ten minutes: 0 admitted, 0 denied",
                "enforce",
            ],
        ),
        ("search", &["20 per 1m", "from the attribute; local in an outage", "shadow"]),
        ("log-in", &["5 per 1m, blocks for 10m", "deny in an outage"]),
        (
            "reports",
            &["chosen for each request per calendar month in UTC from a day chosen for each request"],
        ),
        ("streams", &["3 at a time, concurrency", "0 running here"]),
    ];
    for (limit, parts) in rows {
        has_all(&text(&browser, &format!("tr[data-limit={limit}]")), parts);
    }
    let body = text(&browser, "main");
    has_all(
        &body,
        &["In force: 3 rows for 1 limit, from the overrides.", "No caller was denied so far.", "Kindmemory"],
    );
    has_all(&body, &["Stateready", "Callers in memory"]);
    assert!(!body.contains("Circuit breaker"), "{body}");
    assert_eq!(browser.run("return document.getElementById('rejected').hidden"), true);
}

#[test]
fn a_caller_is_told_by_every_row_that_may_decide() {
    let service = service(RateLimiter::builder(MemoryStore::new()));
    let Some(browser) = paused(&service) else { return };
    for path in ["/search", "/reports"] {
        assert_eq!(client::get(service.address, path, &[]).status, 200);
    }
    let looks: [(&str, &str, &[&str]); 7] = [
        (
            "orders",
            "127.0.0.1",
            &[
                "from the overrides of the limit",
                "0 of 200",
                "for requests of the plan pro, from the overrides",
                "0 of 2000",
            ],
        ),
        (
            "search",
            "127.0.0.1",
            &["from the program", "1 of 20", "Remaining19", "passes now", "Full quotain "],
        ),
        (
            "orders",
            "203.0.113.7",
            &["from the row of this caller in the overrides", "Nothing is counted for this caller now."],
        ),
        (
            "reports",
            "127.0.0.1",
            &[
                "Counted1",
                "passes if its max is larger than the count",
                "at the next edge, chosen for each request",
            ],
        ),
        ("streams", "127.0.0.1", &["from the program", "Held in all0 of 3", "Remaining3"]),
        ("unknown", "127.0.0.1", &["Not done: this process has no limit with this name"]),
        ("orders", "number x", &["Not done: expected a whole number"]),
    ];
    for (limit, caller, parts) in looks {
        look(&browser, limit, caller);
        has_all(&text(&browser, "#looked"), parts);
    }
    look(&browser, "streams", "127.0.0.1");
    assert!(!text(&browser, "#looked").contains("Full quota"), "slots have no time at which they end");
    browser.run("document.getElementById('reset').click()");
    shows(&browser, "[role=status]", "so nothing is forgotten");
}

#[test]
fn texts_of_the_program_and_of_clients_never_become_markup() {
    const NAME: &str = "!<img/src=x/onerror=document.title='ran'>&amp;";
    const CALLER: &str = "<script>document.title='ran'</script>";
    let policy = Policy::builder("k").max(1).algorithm(Algorithm::SlidingWindowLog).build();
    let policy = policy.with_name(NAME).unwrap();
    let overrides = "[limit.orders.plans]\n\"<i>'&\" = { max = 3 }\n";
    let limiter = RateLimiter::builder(MemoryStore::new()).overrides(overrides.parse().unwrap()).build();
    let service = Service::start(move |config| {
        let by_header = |req: &HttpRequest| Some(req.headers().get("x-name")?.to_str().ok()?.to_owned());
        let limit = RateLimitMiddleware::new(Limit::new(policy.clone()).by(by_header));
        config
            .app_data(limiter.clone())
            .service(orders)
            .service(web::resource("/hostile").wrap(limit).to(async || "home"))
            .service(web::scope("/_limits").service(admin(limiter.clone(), |_| true).show_callers(true)));
    });
    let Some(mut browser) = Browser::start() else { return };
    for status in [200, 429] {
        let answer = client::get(service.address, "/hostile", &[&format!("x-name: {CALLER}")]);
        assert_eq!(answer.status, status);
    }
    open(&mut browser, &format!("http://{}/_limits/", service.address));
    has_all(&text(&browser, "#limits tbody"), &[NAME, "plan <i>'&: 3 per 1s"]);
    has_all(&text(&browser, "#callers tbody"), &[NAME, CALLER]);
    browser.run("document.querySelector('#callers button').click()");
    shows(&browser, "#looked", CALLER);
    has_all(&text(&browser, "#looked"), &[NAME, "Counted1 of 1"]);
    let made = "return [document.querySelectorAll('img, i, body script').length, document.title]";
    assert_eq!(browser.run(made), serde_json::json!([0, "Rate limits"]));
}

#[test]
fn pictures_have_the_present_on_the_right_and_show_few_denials() {
    let service = service(RateLimiter::builder(MemoryStore::new()));
    let Some(browser) = paused(&service) else { return };
    let drawn = |bars: &str| {
        let script = format!(
            "const bar = (admitted, denied, would_deny = 0, unavailable = 0) => ({{ admitted, denied, would_deny, unavailable }}); \
             const drawn = picture({bars}); \
             return [drawn.textContent, ...[...drawn.querySelectorAll('path')].map(path => path.getAttribute('d'))]"
        );
        browser.run(&script)
    };
    let of = |admitted, denied| format!("last ten minutes: {admitted} admitted, {denied} denied");
    // The last two bars are one column: 12 admitted and 4 denied. The one before has a sixteenth.
    assert_eq!(
        drawn("[bar(1, 0), bar(8, 0), bar(4, 4)]"),
        serde_json::json!([of(13, 4), "M58 24V23h1V24zM59 24V6h1V24z", "M59 6V0h1V6z"])
    );
    assert_eq!(drawn("[bar(1000, 1)]"), serde_json::json!([of(1000, 1), "M59 24V1h1V24z", "M59 1V0h1V1z"]));
    assert_eq!(drawn("Array(120).fill(bar(0, 0))"), serde_json::json!([of(0, 0)]));
    assert_eq!(drawn("[]"), serde_json::json!([of(0, 0)]));
    assert!(drawn("Array(120).fill(bar(2, 1))")[1].as_str().unwrap().starts_with("M0 24V8h1V24zM1 24V8"));
    // What a shadow limit would deny is thin, and what had no answer of the store is striped.
    assert_eq!(
        drawn("[bar(0, 0, 2)]"),
        serde_json::json!([format!("{}, 2 would be denied", of(0, 0)), "M59 24V0h.5V24z"])
    );
    assert_eq!(
        drawn("[bar(4, 0, 0, 2)]"),
        serde_json::json!([
            format!("{}, 2 unavailable", of(4, 0)),
            "M59 24V8h1V24z",
            "M59 8V6h1V8zM59 5V3h1V5zM59 2V0h1V2z"
        ])
    );
    has_all(&text(&browser, "#legend"), &["admitted", "denied", "would be denied", "unavailable"]);
    assert_eq!(browser.run("return document.querySelectorAll('#legend path').length"), 4);
}

#[test]
fn times_windows_and_parts_of_a_cluster_are_words() {
    let service = service(RateLimiter::builder(MemoryStore::new()));
    let Some(browser) = paused(&service) else { return };
    let words = "return [time(0), time(59), time(61), time(3660), time(90000), wait(1), wait(1000001), millis(1234), \
                 windowText(6e7), windowText(5400e6), windowText(250000), cut('ab', 2), cut('abc', 2), plural(1, 'row'), \
                 breaker({ open_slot_ranges: [], slot_ranges: 64 }), breaker({ open_slot_ranges: [0, 63], slot_ranges: 64 })]";
    assert_eq!(
        browser.run(words),
        serde_json::json!([
            "0 s",
            "59 s",
            "1 min 1 s",
            "1 h 1 min",
            "1 d 1 h",
            "1 s",
            "2 s",
            "1.23 ms",
            "1m",
            "1h30m",
            "250ms",
            "ab",
            "ab…",
            "1 row",
            "closed",
            "open for 2 of 64 slot ranges: 0-255, 16128-16383"
        ])
    );
}

/// Lets the page have these limits: a script that gets the first limit of the service as `limit`.
fn serve(browser: &Browser, limits: &str) {
    browser.run(&format!(
        "const asked = window.fetch; window.fetch = async (path, options) => {{ \
             if (path !== 'limits.json') return asked(path, options); \
             const [limit] = await (await asked(path, options)).json(); \
             return new Response(JSON.stringify({limits})); }}; \
         return refresh()"
    ));
}

#[test]
fn many_limits_are_shown_in_pages() {
    let service = service(RateLimiter::builder(MemoryStore::new()));
    let Some(browser) = paused(&service) else { return };
    serve(&browser, "[...Array(40).keys()].map(number => ({ ...limit, name: `limit-${number}` }))");
    let shown = || {
        browser.run(
        "return [document.querySelectorAll('#limits tbody tr').length, document.getElementById('page').textContent, \
         document.getElementById('previous').disabled, document.getElementById('next').disabled]",
    )
    };
    for (button, expected) in [
        (None, serde_json::json!([15, "Page 1 of 3", true, false])),
        (Some("next"), serde_json::json!([15, "Page 2 of 3", false, false])),
        (Some("next"), serde_json::json!([10, "Page 3 of 3", false, true])),
        (Some("previous"), serde_json::json!([15, "Page 2 of 3", false, false])),
    ] {
        if let Some(button) = button {
            browser.run(&format!("document.getElementById('{button}').click()"));
        }
        assert_eq!(shown(), expected, "a page that is paused turns as well");
    }
    assert_eq!(text(&browser, "#total"), "40");
}

#[test]
fn limits_are_ordered_and_found_over_all_pages() {
    let service = service(RateLimiter::builder(MemoryStore::new()));
    let Some(browser) = paused(&service) else { return };
    serve(
        &browser,
        "[...Array(26).keys()].map(number => { \
             const [now, all] = { 3: [{}, { denied: 1000 }], 5: [{}, { denied: 2 }], 17: [{ denied: 5 }, { denied: 50 }], \
                 21: [{ unavailable: 9 }, { unavailable: 9 }], 24: [{}, { admitted: 9000 }], \
                 25: [{ admitted: 700 }, { admitted: 700 }] }[number] || [{}, {}]; \
             return { ...limit, ...all, name: `limit-${String(number).padStart(2, 0)}`, \
                 last_minute: { ...limit.last_minute, ...now }, \
                 recent: number === 5 ? [{ admitted: 0, denied: 2, would_deny: 0, unavailable: 0 }] : [] }; })",
    );
    let click = |of: &str| _ = browser.run(&format!("document.querySelector('{of}').click()"));
    let head = |column: &str| click(&format!("th[data-sort={column}] button"));
    // The numbers of the first limits of the page that is shown, and the column that orders them.
    let expect = |numbers: &[u64], order: &str| {
        let shown = browser.run(
            "return [[...document.querySelectorAll('#limits tbody tr')].map(row => Number(row.dataset.limit.slice(6))), \
             [...document.querySelectorAll('[aria-sort]')].map(one => one.dataset.sort + ' ' + one.ariaSort).join()]",
        );
        let first: Vec<_> = shown[0].as_array().unwrap().iter().take(numbers.len()).cloned().collect();
        assert_eq!(
            (first, &shown[1]),
            (numbers.iter().map(|one| Value::from(*one)).collect(), &order.into())
        );
    };
    // Now, then in ten minutes, then ever.
    expect(&[21, 17, 5, 3, 0, 1, 2, 4], "");
    head("denied");
    expect(&[17, 3, 5, 0], "denied descending");
    let span = |value: &str| {
        let set = "const span = document.getElementById('span'); span.value =";
        browser.run(&format!("{set} '{value}'; span.dispatchEvent(new Event('change'))"));
    };
    span("");
    expect(&[3, 17, 5, 0], "denied descending");
    head("denied");
    click("#next");
    expect(&[18], "denied ascending");
    let last = "return document.querySelector('#limits tbody tr:last-child').dataset.limit";
    assert_eq!(browser.run(last), "limit-03");
    head("denied");
    expect(&[21, 17, 5, 3, 0], "");
    head("admitted");
    expect(&[24, 25, 0], "admitted descending");
    span("last_minute");
    expect(&[25, 24, 0], "admitted descending");
    head("name");
    expect(&[0, 1, 2], "name ascending");
    head("name");
    expect(&[25, 24, 23], "name descending");
    click("#usual");
    expect(&[21, 17, 5, 3, 0], "");
    assert_eq!(browser.run("return document.getElementById('usual').hidden"), true);
    let find = |wanted: &str| {
        browser.run(&format!(
            "const find = document.getElementById('find'); find.value = '{wanted}'; find.dispatchEvent(new Event('input'))"
        ));
        text(&browser, "#total")
    };
    click("#next");
    assert_eq!(
        (find(" LIMIT-2 "), text(&browser, "#page")),
        ("6 of 26".to_owned(), "Page 1 of 1".to_owned())
    );
    expect(&[21, 20, 22, 23, 24, 25], "");
    assert_eq!([find("log_in"), find("nothing"), find("")], ["26", "0 of 26", "26"], "also by handler");
    has_all(&text(&browser, "tr[data-limit=limit-17] td[data-figure=denied]"), &["50", "5/min"]);
}

#[test]
fn an_outage_of_redis_and_of_the_process_is_told() {
    let Some(mut browser) = Browser::start() else { return };
    let Some(mut server) = redis::server() else { return };
    let service = service(RateLimiter::builder(RedisStore::builder(&server.url()).build().unwrap()));
    open(&mut browser, &format!("http://{}/_limits/", service.address));
    (0..20).for_each(|_| _ = client::get(service.address, "/orders", &[]));
    shows(&browser, "#store", "Circuit breakerclosed");
    shows(&browser, "#store", "calls in the last one to two minutes; deadline ");
    assert_eq!(browser.run("return document.getElementById('wrong').hidden"), true);
    server.kill();
    for _ in 0..20 {
        client::get(service.address, "/orders", &[]);
        assert_eq!(client::get(service.address, "/log-in", &[]).status, 503);
    }
    shows(&browser, "#store", "not connected: limits follow their failure policies");
    // What is wrong stands above everything else, in view.
    shows(&browser, "#wrong", "The store (redis) is not connected: limits follow their failure policies.");
    shows(
        &browser,
        "#wrong",
        "Rejected for want of the store in the last minute: requests under log-in (20).",
    );
    let [bottom, limits] = ["wrong", "limits"].map(|id| {
        let at = format!("return Math.round(document.getElementById('{id}').getBoundingClientRect().bottom)");
        browser.run(&at).as_i64().unwrap()
    });
    assert!(0 < bottom && bottom < 300 && bottom < limits, "{bottom}, {limits}");
    assert!(!text(&browser, "#store").contains("Circuit breaker"), "it contradicts a lost connection");
    let figure = |limit: &str, name: &str| {
        text(&browser, &format!("tr[data-limit={limit}] td[data-figure={name}] span"))
    };
    let degraded = || figure("orders", "degraded");
    assert!(
        within(PATIENCE, || degraded().parse::<u64>().is_ok_and(|degraded| degraded > 0)),
        "{}",
        degraded()
    );
    assert_eq!([figure("log-in", "unavailable"), figure("log-in", "degraded")], ["20", "0"]);
    shows(&browser, "tr[data-limit=log-in] title", "last ten minutes: 0 admitted, 0 denied, 20 unavailable");
    let first = "return document.querySelector('#limits tbody tr').dataset.limit";
    assert_eq!(browser.run(first), "log-in", "what rejects most now stands first");
    assert_eq!(
        browser.run("return !!document.querySelector('tr[data-limit=log-in] path.unavailable')"),
        true
    );
    look(&browser, "orders", "127.0.0.1");
    has_all(&text(&browser, "#looked"), &["counted in this process only"]);
    look(&browser, "log-in", "127.0.0.1");
    has_all(&text(&browser, "#looked"), &["Not done: the store does not answer"]);
    server.restart();
    let is_hidden = || browser.run("return document.getElementById('wrong').textContent") == "";
    shows(&browser, "#store", "Circuit breakerclosed");
    // Until the last rejection is a minute ago.
    shows(&browser, "#wrong", "Rejected for want of the store");
    assert!(!text(&browser, "#wrong").contains("not connected") && !is_hidden());
    // As if the process had ended.
    browser.run("window.fetch = () => Promise.reject(new Error('gone'))");
    shows(&browser, "#trouble", "The figures are not those of now: gone.");
}
