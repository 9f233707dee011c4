//! The examples, started, and sent the requests of their README.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tests::client::{self};
use tests::demo::{Demo, within_one_minute};
use tests::within;

const API: &str = env!("CARGO_BIN_EXE_demo");
const METRICS: &str = env!("CARGO_BIN_EXE_demo-metrics");
const WORKER: &str = env!("CARGO_BIN_EXE_demo-worker");
const CUSTOM_STORE: &str = env!("CARGO_BIN_EXE_demo-custom-store");
const BEHIND_PROXY: &str = env!("CARGO_BIN_EXE_demo-behind-proxy");
const HEADERS: &str = env!("CARGO_BIN_EXE_demo-headers");
const API_KEYS: &str = env!("CARGO_BIN_EXE_demo-api-keys");
const SCOPE: &str = env!("CARGO_BIN_EXE_demo-scope");
const LOGIN: &str = env!("CARGO_BIN_EXE_demo-login");
const TOKENS: &str = env!("CARGO_BIN_EXE_demo-tokens");
const BILLING: &str = env!("CARGO_BIN_EXE_demo-billing");
const OPENAPI: &str = env!("CARGO_BIN_EXE_demo-openapi");

#[test]
fn tokens_settles_a_stream_that_is_cut_to_what_was_sent() {
    let demo = Demo::start(TOKENS, &[]);
    let left = || {
        // Settled to nothing, so it does not change what is left.
        let reply = client::send(demo.address, "POST", "/complete/0", &[]);
        let fields = reply.header("ratelimit").unwrap().to_owned();
        let (_, tokens) = fields.split_once("\"tokens\";r=").unwrap();
        tokens.split(';').next().unwrap().parse::<u64>().unwrap()
    };
    let mut client = TcpStream::connect(demo.address).unwrap();
    client.write_all(b"POST /chat/1000 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"token 30\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
    assert_eq!(left(), 150, "the estimate, while the answer is sent");
    drop(client);
    // One chunk of 30 tokens; more only if the machine stood still for seconds.
    let settled = [170, 140, 110];
    assert!(within(Duration::from_secs(20), || settled.contains(&left())), "{}", left());
}

#[test]
fn an_invalid_or_taken_port_gives_a_clear_error() {
    for example in [BEHIND_PROXY, HEADERS, API_KEYS, SCOPE, LOGIN, TOKENS, BILLING, OPENAPI, METRICS] {
        for port in ["65536", "-1", "", "http"] {
            let said = Demo::refusal(example, &[("PORT", port)]);
            assert_eq!(said, "error: PORT must be a number from 0 to 65535\n");
        }
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for example in [BEHIND_PROXY, HEADERS, API_KEYS, SCOPE, LOGIN, TOKENS, BILLING, OPENAPI, METRICS] {
        let said = Demo::refusal(example, &[("PORT", &address.port().to_string())]);
        assert!(said.starts_with(&format!("error: cannot listen on {address}: ")), "{said}");
    }
}

#[test]
fn an_invalid_variable_gives_a_clear_error() {
    for value in ["draft11", "draft-12", "Legacy", "", "legacy,draft-11"] {
        let said = Demo::refusal(HEADERS, &[("HEADER_STYLE", value)]);
        assert_eq!(said, "error: HEADER_STYLE must be legacy, draft-11, draft-06 or none\n");
    }
    for value in ["problem+json", "PROBLEM", ""] {
        let said = Demo::refusal(HEADERS, &[("BODY_STYLE", value)]);
        assert_eq!(said, "error: BODY_STYLE must be json, problem or text\n");
    }
    let said = Demo::refusal(METRICS, &[("REDIS_URL", "hunter2")]);
    assert!(said.starts_with("error: REDIS_URL cannot be used: ") && !said.contains("hunter2"), "{said}");
}

// ---- The README -------------------------------------------------------------------------------------------

const README: &str = include_str!("../../examples/README.md");
/// Compiled only with their features, and then they have tests of their own.
const APART: [&str; 2] = ["sqlite_store", "replay"];

/// What the README says about one example.
struct Section {
    name: &'static str,
    text: &'static str,
}

impl Section {
    /// All of them, in order.
    fn all() -> Vec<Self> {
        let sections = README.split("\n## `").skip(1);
        sections
            .map(|section| section.split_once("`\n").unwrap())
            .map(|(name, text)| Self { name, text })
            .collect()
    }

    /// The blocks of this language.
    fn blocks(&self, language: &str) -> Vec<&'static str> {
        let fence = format!("\n```{language}\n");
        let mut blocks = Vec::new();
        let mut rest = self.text;
        while let Some((_, block)) = rest.split_once(&fence) {
            let (block, after) = block.split_once("```").unwrap();
            assert!(
                block.ends_with('\n'),
                "{}: the end of a block needs a line of its own: {block}",
                self.name
            );
            blocks.push(block);
            rest = after;
        }
        blocks
    }

    /// The program, and the variables with which it is started first.
    fn start(&self) -> (&'static str, Vec<(&'static str, &'static str)>) {
        let binary = match self.name {
            "api" => API,
            "headers" => HEADERS,
            "api_keys" => API_KEYS,
            "scope" => SCOPE,
            "login" => LOGIN,
            "tokens" => TOKENS,
            "billing" => BILLING,
            "behind_proxy" => BEHIND_PROXY,
            "openapi" => OPENAPI,
            "metrics" => METRICS,
            "worker" => WORKER,
            "custom_store" => CUSTOM_STORE,
            other => panic!("nothing starts {other}"),
        };
        let command = self.blocks("sh")[0].trim();
        let (variables, rest) = command.split_once(&format!("cargo run --example {}", self.name)).unwrap();
        assert!(rest.is_empty() || rest.starts_with(" --features "), "{command}");
        (binary, variables.split_whitespace().map(|pair| pair.split_once('=').unwrap()).collect())
    }

    /// The commands and what they print, in order.
    fn transcript(&self) -> Vec<(String, String)> {
        let blocks = self.blocks("text");
        assert!(!blocks.is_empty(), "{} has nothing to try", self.name);
        let mut steps: Vec<(String, String)> = Vec::new();
        for line in blocks.iter().flat_map(|block| block.lines()) {
            match (line.strip_prefix("$ "), line.strip_prefix("> "), steps.last_mut()) {
                (Some(command), _, _) => steps.push((command.to_owned(), String::new())),
                (_, Some(more), Some((command, _))) => command.extend(["\n", more]),
                (_, _, Some((_, output))) => output.extend([line, "\n"]),
                _ => panic!("{}: output before a command: {line}", self.name),
            }
        }
        steps
    }
}

#[test]
fn the_readme_indexes_every_example_in_reading_order() {
    let index =
        README.lines().filter_map(|line| line.strip_prefix("| [`")?.split_once("`](").map(|(name, _)| name));
    let index: Vec<_> = index.collect();
    let sections: Vec<_> = Section::all().iter().map(|section| section.name).collect();
    assert_eq!(index, sections);
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples")).unwrap();
    // A file, or a folder with a `main.rs`.
    let name = |path: PathBuf| {
        let is_example =
            path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists();
        is_example.then(|| path.file_stem().unwrap().to_str().unwrap().to_owned())
    };
    let mut examples: Vec<_> = folder.filter_map(|entry| name(entry.unwrap().path())).collect();
    // What the examples share.
    examples.retain(|example| example != "settings");
    examples.sort();
    let mut listed = index.clone();
    listed.sort_unstable();
    assert_eq!(listed, examples);
}

/// What a shell says to `command`, at the address that the README's stands for.
fn shell(command: &str, address: Option<SocketAddr>) -> String {
    let address = address.map_or(String::new(), |address| address.to_string());
    let command = command.replace("127.0.0.1:8080", &address);
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// What does not depend on when, and in which order header fields are sent.
fn lasting(output: &str) -> Vec<String> {
    let mut lines: Vec<_> = output.lines().map(str::trim_end).map(without_times).collect();
    lines.sort();
    lines
}

fn without_times(line: &str) -> String {
    if line.starts_with("date: ") || line.starts_with("content-length: ") {
        return line.split_once(' ').unwrap().0.to_owned();
    }
    let mut line = line.to_owned();
    for before in [";t=", "retry-after: ", "x-ratelimit-reset: ", "again in ", "\"retryAfter\":", "wait "] {
        let parts: Vec<_> = line.split(before).collect();
        let (first, rest) = parts.split_first().unwrap();
        let rest = rest.iter().map(|part| part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
        line = rest.fold((*first).to_owned(), |text, part| text + before + part);
    }
    line.replace(" second.", " seconds.")
}

#[test]
fn the_demo_prints_the_lines_of_its_section() {
    let api = Section::all().into_iter().find(|section| section.name == "api").unwrap();
    let documented = api.transcript();
    let demo = Demo::start(API, &[]);
    let address = demo.address.to_string();
    // A blank line, the commands, and another one.
    let printed = demo.printed(documented.len().min(7) + 2);
    let printed: Vec<_> = printed.iter().filter_map(|line| line.strip_prefix("  ")).collect();
    let documented: Vec<_> =
        documented.iter().map(|(command, _)| command.replace("127.0.0.1:8080", &address)).collect();
    assert_eq!(printed, documented[..printed.len()]);
    assert_eq!(printed.len(), 7);
}

#[test]
fn the_project_readme_shows_the_responses_of_the_demo() {
    const PAGE: &str = include_str!("../../README.md");
    let text = PAGE.split_once("\n## What the client sees\n").unwrap().1.split_once("\n## ").unwrap().0;
    answers_as_it_says(&Section { name: "api", text }, API, &[]);
}

#[test]
fn every_command_of_the_readme_prints_the_documented_output() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: the README's lines need curl");
        return;
    }
    for section in Section::all().into_iter().filter(|section| !APART.contains(&section.name)) {
        let (binary, variables) = section.start();
        answers_as_it_says(&section, binary, &variables);
    }
}

fn answers_as_it_says(section: &Section, binary: &str, variables: &[(&str, &str)]) {
    let steps = section.transcript();
    let run = || {
        within_one_minute(|| {
            // Those that do not serve.
            if ["custom_store", "worker"].contains(&section.name) {
                return vec![shell(binary, None)];
            }
            let demo = Demo::start(binary, variables);
            steps.iter().map(|(command, _)| shell(command, Some(demo.address))).collect::<Vec<_>>()
        })
    };
    let mut printed = run();
    assert_eq!(printed.len(), steps.len());
    // On a machine that stands still for half a second, a client cuts the answer somewhere else.
    for _ in 0..2 {
        let has_cut = |command: &str| command.contains("--max-time");
        let mut cuts = steps.iter().zip(&printed).filter(|((command, _), _)| has_cut(command));
        if cuts.all(|((_, expected), printed)| lasting(printed) == lasting(expected)) {
            break;
        }
        printed = run();
    }
    for ((command, expected), printed) in steps.iter().zip(&printed) {
        assert_eq!(lasting(printed), lasting(expected), "{}: {command}", section.name);
    }
}
