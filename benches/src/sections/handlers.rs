//! What a limit adds to a request of a one-route app.

use super::{Bench, compare};
use crate::handlers::{
    BARE, EXTENSIBLE, GOVERNOR, IN_MEMORY, LIMITATION, OURS, OURS_DRAFT, OURS_OVERRIDES, OURS_REDIS,
    OURS_SILENT, THROUGH_REDIS, make, requests,
};
use crate::report::{Goal, Report, Row};
use crate::rounds::{Measured, Variant, find, take_turns};
use crate::server::Server;
use crate::spread::{Spread, short};
use crate::table::Table;

/// Requests that are made beforehand and then served in one go.
const BATCH: u64 = 64;

/// Measures and reports.
pub fn run(bench: &Bench<'_>, server: Option<&Server>, report: &mut Report) {
    let settings = bench.settings;
    report.section("A whole handler");
    report.text("One-route apps, without sockets and parsing: nanoseconds from the request to the answer.");
    let measured = serve(&IN_MEMORY, "", settings.micro_rounds, settings.micro_times / BATCH);
    report.table(&compare(&measured, BARE, "ns"));
    let over = |name: &str| Spread::difference(&find(&measured, name).rounds, &find(&measured, BARE).rounds);
    let mut table = Table::new(["what", "ns over the bare handler"]);
    for name in &IN_MEMORY[1..] {
        table.row([(*name).to_owned(), over(name).to_string()]);
    }
    report.table(&table);
    let fields =
        |name| Spread::difference(&find(&measured, name).rounds, &find(&measured, OURS_SILENT).rounds);
    report.text(&format!(
        "Header fields by themselves: {} ns for the three usual ones, {} ns for the IETF's.",
        fields(OURS),
        fields(OURS_DRAFT)
    ));
    report.text(&format!(
        "Overrides that are loaded but do not touch the limit: {} × the handler without overrides.",
        against(&measured, OURS_OVERRIDES, OURS)
    ));
    let what = "with header fields, over the bare handler";
    report.goal(Goal::at_most(Row::Handler, what, 400.0, " ns", over(OURS)));
    ahead(&measured, OURS, EXTENSIBLE, report);
    report.conclude(&format!(
        "A limit in memory adds {} us to a request ({GOVERNOR} adds {}, {EXTENSIBLE} {}).",
        micros(over(OURS)),
        micros(over(GOVERNOR)),
        micros(over(EXTENSIBLE)),
    ));
    let Some(server) = server else { return };
    report.text(
        "The same through Redis, one request after the other; actix-limitation makes a connection for each:",
    );
    // Few, since each leaves a port behind that is not free again for a while.
    let measured = serve(&THROUGH_REDIS, &server.url(), settings.goal_rounds.min(25), 3);
    report.table(&compare(&measured, OURS_REDIS, "ns"));
    ahead(&measured, OURS_REDIS, LIMITATION, report);
}

fn micros(nanos: Spread) -> String {
    short(nanos.median / 1000.0)
}

/// How often the time of one is that of the other.
fn against(measured: &[Measured<f64>], one: &str, other: &str) -> Spread {
    Spread::ratio(&find(measured, one).rounds, &find(measured, other).rounds)
}

fn ahead(measured: &[Measured<f64>], ours: &str, peer: &str, report: &mut Report) {
    let ratio = against(measured, ours, peer);
    let met = ratio.median < 1.0;
    report.goal(Goal::new(
        Row::Handler,
        format!("{ours}, against {peer}"),
        "< 1 ×",
        format!("{ratio} ×"),
        met,
    ));
}

fn serve(names: &[&str], url: &str, rounds: usize, batches: u64) -> Vec<Measured<f64>> {
    let system = actix_web::rt::System::new();
    let variants = names.iter().map(|name| {
        let (app, system) = (system.block_on(make(name, url)), &system);
        Variant::new(*name, move || {
            let nanos: u128 =
                (0..batches).map(|_| system.block_on(app.serve(requests(BATCH))).as_nanos()).sum();
            nanos as f64 / (batches * BATCH) as f64
        })
    });
    take_turns(rounds, variants.collect())
}
