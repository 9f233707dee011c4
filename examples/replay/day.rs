//! A made-up day of a service, always the same: ordinary users, one crawler, and one attempt to log in with
//! stolen passwords.

const HOUR: u64 = 3_600;

/// The log of the day in the combined format.
pub(crate) fn log() -> String {
    // The same random numbers in each run.
    let mut state = 7_u64;
    let mut below = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    // Second of the day, address, request and status.
    let mut requests = Vec::new();
    for user in 0..1_500 {
        let mut at = 4 * HOUR + below(9 * HOUR) + below(9 * HOUR);
        for _ in 0..10 + below(50) {
            at += 1 + below(60);
            let (request, status) = match below(60) {
                0 => ("POST /login", 401),
                1..4 => ("POST /login", 200),
                4..20 => ("GET /search?q=word", 200),
                _ => ("GET /items/7", 200),
            };
            requests.push((at, format!("10.0.{}.{}", user / 250, user % 250 + 1), request, status));
        }
    }
    for at in 2 * HOUR..5 * HOUR {
        requests.push((at, "203.0.113.7".to_owned(), "GET /items/8", 200));
    }
    for attacker in 1..=8 {
        for at in (14 * HOUR..15 * HOUR).filter(|_| below(3) == 0) {
            requests.push((at, format!("198.51.100.{attacker}"), "POST /login", 401));
        }
    }
    requests.sort();
    let line = |(at, address, request, status): (u64, String, &str, u16)| {
        let time = format!("20/Nov/2025:{:02}:{:02}:{:02} +0000", at / HOUR, at / 60 % 60, at % 60);
        format!("{address} - - [{time}] \"{request} HTTP/1.1\" {status} 512 \"-\" \"-\"\n")
    };
    requests.into_iter().map(line).collect()
}
