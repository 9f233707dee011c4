//! `cargo bench -p benches`: measures everything, prints it as it comes, and writes `report/`.
//!
//! `-- --full` takes longer and is surer, `-- --smoke` only shows that everything works and writes nothing,
//! and `-- --only SECTION` measures one section and writes nothing.
//!
//! A section that fails does not end the others: the report has its error in its place, and the process fails
//! at the end.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark: a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use benches::children::Programs;
use benches::machine;
use benches::progress::Progress;
use benches::report::Report;
use benches::sections::{
    Bench, actix, cluster, compile, growth, handlers, heap, in_memory, latency, lease, log, micro, network,
    overload, processes, redis_memory, server_cost, slots, throughput,
};
use benches::server::{self, Server};
use benches::settings::Settings;

/// Sections that the quick form leaves out, unless they are asked for.
const SLOW: [&str; 1] = ["compile"];

type Section<'a> = (&'static str, Box<dyn Fn(&mut Report) + 'a>);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let only = arguments
        .iter()
        .position(|argument| argument == "--only")
        .map(|place| arguments.get(place + 1).expect("--only is followed by the name of a section").clone());
    let settings = match (has("--full"), has("--smoke")) {
        (true, _) => Settings::FULL,
        (_, true) => Settings::SMOKE,
        _ => Settings::QUICK,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let programs = Programs {
        heap: env!("CARGO_BIN_EXE_heap"),
        instructions: env!("CARGO_BIN_EXE_instructions"),
        web: env!("CARGO_BIN_EXE_web"),
    };
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let bench = Bench { settings, runtime, programs, scratch };
    let servers: Vec<Server> = if server::is_installed() { vec![Server::start(&[])] } else { Vec::new() };
    let machine = machine::describe(servers.first());
    let mut report = Report::default();
    println!("{} form; {machine}", settings.form);
    if servers.is_empty() {
        report.text("There is no `redis-server` on this machine, so nothing was measured through Redis.");
    }
    let start = Instant::now();
    let sections = sections(&bench, &servers);
    let names: Vec<&str> = sections.iter().map(|(name, _)| *name).collect();
    if let Some(only) = &only {
        assert!(names.contains(&&**only), "there is no section {only}, only {names:?}");
    }
    let mut failed = Vec::new();
    let selected = |name: &str| {
        only.as_ref().map_or_else(|| settings.is_thorough || !SLOW.contains(&name), |only| only == name)
    };
    let progress = Progress::new(names.iter().filter(|name| selected(name)).count());
    for (name, run) in sections {
        if selected(name) {
            progress.begin(name);
            let (start, titles) = (Instant::now(), report.titles());
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&mut report))) {
                report.failed(name, titles, message(&*panic));
                failed.push(name);
            }
            println!("\n[{name}: {:.0} s]", start.elapsed().as_secs_f64());
            progress.end();
        }
    }
    println!("\n{}\n{:.0} s in all", report.goals(), start.elapsed().as_secs_f64());
    if only.is_none() && !has("--smoke") {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/report"));
        report.write(folder, settings.form, &machine).unwrap();
        println!("wrote benches/report/README.md");
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

fn sections<'a>(bench: &'a Bench<'a>, servers: &'a [Server]) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    if !servers.is_empty() {
        sections.push(("network", Box::new(|report| network::run(bench, servers, report))));
        sections.push(("processes", Box::new(|report| processes::run(bench, servers, report))));
        sections.push(("throughput", Box::new(|report| throughput::run(bench, servers, report))));
        sections.push(("latency", Box::new(|report| latency::run(bench, servers, report))));
        sections.push(("actix", Box::new(|report| actix::run(bench, servers, report))));
        sections.push(("lease", Box::new(|report| lease::run(bench, servers, report))));
        sections.push(("overload", Box::new(|report| overload::run(bench, servers, report))));
        sections.push(("redis-memory", Box::new(|report| redis_memory::run(bench, servers, report))));
        sections.push(("server-cost", Box::new(|report| server_cost::run(bench, servers, report))));
        sections.push(("slots", Box::new(|report| slots::run(bench, servers, report))));
        sections.push(("cluster", Box::new(|report| cluster::run(bench, report))));
        sections.push(("long-logs", Box::new(|report| log::run(bench, report))));
        sections.push(("growth-redis", Box::new(|report| growth::in_redis(bench, servers, report))));
    }
    sections.push(("memory", Box::new(|report| in_memory::run(bench, report))));
    sections.push(("handlers", Box::new(|report| handlers::run(bench, servers.first(), report))));
    sections.push(("heap", Box::new(|report| heap::run(bench, report))));
    sections.push(("growth-memory", Box::new(|report| growth::in_memory(bench, report))));
    sections.push(("micro", Box::new(|report| micro::run(bench, report))));
    sections.push(("compile", Box::new(|report| compile::run(bench, report))));
    sections
}
