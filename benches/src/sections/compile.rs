//! What the attribute adds to the compilation of a service: to `cargo check`, to `cargo build`, and to the
//! binary.

use super::Bench;
use crate::report::{Goal, Report, Row};
use crate::rounds::{Measured, Variant, find, take_turns};
use crate::service::{BUILD, CHECK, HANDLERS, RELEASE, Service};
use crate::spread::{Spread, short};
use crate::table::Table;

/// The service that all are compared with.
const NONE: &str = "none";
/// The service of the goals.
const ONE: &str = "one";

/// Names of the services, what they have, and the attributes above the route attribute of each handler.
const SERVICES: [(&str, &str, &str); 4] = [
    (NONE, "no limit", ""),
    (ONE, "one limit", "#[rate_limit(max = 10, window = \"60s\")]\n"),
    (
        "three",
        "three limits",
        "#[rate_limit(max = 10, window = \"60s\")]\n#[rate_limit(max = 100, window = \"1h\")]\n#[rate_limit(max = 1000, window = \"1d\")]\n",
    ),
    (
        "chosen",
        "one limit with choices and `count`",
        "#[rate_limit(max = |_: &HttpRequest| 10, by = |id: web::Path<u64>| *id, count = \"failures\")]\n",
    ),
];

/// Compiles and reports.
pub fn run(bench: &Bench<'_>, report: &mut Report) {
    report.section("Compiling a handler");
    report.text(&format!(
        "Services of {HANDLERS} handlers with a path parameter, under a route attribute with and without limits: milliseconds of \
         processor time for each handler, more than under the route attribute alone, of `cargo check` and `cargo build` in the debug \
         profile without incremental compilation and without debug information, the dependencies compiled before; and bytes of the \
         binary without symbols. It takes minutes, so that it is in the full form only; `cargo bench -p benches -- --only compile` \
         measures it by itself.",
    ));
    let services = SERVICES.map(|(name, _, attributes)| Service::new(bench.scratch, name, attributes));
    let time = |how: &[&str]| {
        let variants = services.iter().zip(SERVICES);
        let variants = variants.map(|(service, (name, ..))| Variant::new(name, move || service.compile(how)));
        take_turns(bench.settings.rounds, variants.collect())
    };
    let (check, build) = (time(&CHECK), time(&BUILD));
    let release = bench.settings.is_thorough.then(|| time(&RELEASE));
    let bytes = |index: usize| (services[index].size() - services[0].size()) / f64::from(HANDLERS);

    let mut table = Table::new(["each handler has", "check, ms", "build, ms", "release, ms", "bytes"]);
    for (index, (name, what, _)) in SERVICES.into_iter().enumerate().skip(1) {
        table.row([
            what.to_owned(),
            over(&check, name).to_string(),
            over(&build, name).to_string(),
            release.as_ref().map_or_else(|| "–".to_owned(), |release| over(release, name).to_string()),
            short(bytes(index)),
        ]);
    }
    report.table(&table);
    let whole = |times: &[Measured<f64>]| short(find(times, NONE).spread(|time| *time).median / 1000.0);
    report.text(&format!(
        "Without a limit the whole service takes {} s to check and {} s to build, and has {:.1} MB.",
        whole(&check),
        whole(&build),
        services[0].size() / 1e6,
    ));
    let (check, build) = (over(&check, ONE), over(&build, ONE));
    report.goal(Goal::at_most(Row::Compile, "check", 5.0, " ms", check));
    report.goal(Goal::at_most(Row::Compile, "build", 9.0, " ms", build));
    report.goal(Goal::new(Row::Compile, "binary", "≤ 5000 B", short(bytes(1)), bytes(1) <= 5000.0));
    report.conclude(&format!(
        "A limit adds {} ms to `cargo check` and {} ms to `cargo build` for each handler that has one.",
        short(check.median),
        short(build.median),
    ));
}

/// Milliseconds for each handler, more than without a limit.
fn over(times: &[Measured<f64>], name: &str) -> Spread {
    let each = |name| find(times, name).each(|time| time / f64::from(HANDLERS));
    Spread::difference(&each(name), &each(NONE))
}
