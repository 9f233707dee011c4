//! Writes everything that the pages have from the code: `cargo run -p guide`, then read the difference like code.
//!
//! `cargo run -p guide -- links FOLDER` checks the links of built documentation.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => write(),
        ["links", folder] => check_links(Path::new(folder)),
        _ => {
            eprintln!("error: expected no argument, or `links FOLDER`");
            ExitCode::FAILURE
        }
    }
}

fn write() -> ExitCode {
    for (path, text) in guide::generated() {
        if let Err(error) = fs::write(guide::repository().join(&path), text) {
            eprintln!("error: {path}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn check_links(folder: &Path) -> ExitCode {
    let (checked, broken) = guide::html::check(folder);
    for line in &broken {
        eprintln!("error: {line}");
    }
    if checked == 0 {
        eprintln!("error: {} has no pages with links", folder.display());
    }
    println!("{checked} links checked, {} lead nowhere", broken.len());
    if broken.is_empty() && checked > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
