//! The parts of a decision by themselves: a step of each algorithm, and making a key.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use actix_web::test::TestRequest;
use ratelimit_actix::ratelimit_core::Timestamp;
use ratelimit_actix::ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_actix::{Check, IntoCaller, Policy, caller};

use super::{Bench, compare};
use crate::clocks::START_US;
use crate::ours;
use crate::report::Report;
use crate::rounds::{Variant, find, take_turns};
use crate::spread::short;

/// Measures and reports.
pub fn run(bench: &Bench<'_>, report: &mut Report) {
    let (rounds, times) = (bench.settings.micro_rounds, bench.settings.micro_times);
    report.section("Parts of a decision");
    report.text("`decide` on the state of one caller, at a clock that goes on by a millisecond each time.");
    let mut variants = Vec::new();
    for (name, policy) in ours::algorithms() {
        variants.push(step(name, policy, times));
    }
    variants.push(step("60 sub-windows", ours::builder().sub_windows(60).build(), times));
    let steps = take_turns(rounds, variants);
    report.table(&compare(&steps, "two windows", "ns"));

    report.text("Telling callers apart: what the attribute does for `by = ip` and for values of closures, and the digest.");
    let request =
        |address: IpAddr| TestRequest::get().uri("/").peer_addr((address, 4000).into()).to_http_request();
    let v4 = request(Ipv4Addr::new(192, 0, 2, 7).into());
    let v6 = request(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 2, 3, 4, 5).into());
    let policy = ours::builder().build();
    let variants = vec![
        Variant::timed("IPv4 address of a request", times, || drop(black_box(caller::ip(black_box(&v4))))),
        Variant::timed("IPv6 address of a request", times, || drop(black_box(caller::ip(black_box(&v6))))),
        Variant::timed("20 letters", times, || {
            drop(black_box(black_box("abcdefghijklmnopqrst").into_caller()));
        }),
        Variant::timed("an integer", times, || drop(black_box(black_box(7_u64).into_caller()))),
        Variant::timed("a text and an integer", times, || {
            drop(black_box((black_box("tenant"), black_box(7_u64)).into_caller()));
        }),
        Variant::timed("keyed digest of 20 bytes", times, || {
            let check = Check::new(&policy, black_box("abcdefghijklmnopqrst"));
            black_box(check.digest(black_box(&[7; 16]), Timestamp::default()));
        }),
    ];
    let callers = take_turns(rounds, variants);
    report.table(&compare(&callers, "IPv4 address of a request", "ns"));
    let ns = |measured, name| short(find(measured, name).spread(|ns| *ns).median);
    report.conclude(&format!(
        "A decision itself is {} ns of a check, telling an IPv4 client apart {}, and its digest {}.",
        ns(&steps, "two windows"),
        ns(&callers, "IPv4 address of a request"),
        ns(&callers, "keyed digest of 20 bytes"),
    ));
}

fn step(name: &str, policy: Policy, times: u64) -> Variant<'static, f64> {
    let mut state = State::new(&policy);
    let mut now = START_US;
    Variant::timed(name, times, move || {
        now += 1000;
        let outcome = state.decide(&policy, 1, Timestamp::from_micros(now), Operation::Check);
        assert!(black_box(outcome).is_allowed());
    })
}
