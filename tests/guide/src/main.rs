//! Writes everything that the pages have from the code: `cargo run -p guide`, then read the difference like code.
//!
//! `cargo run -p guide -- pages` writes the pages for docs.rs instead, which a package needs and git ignores.
//! `cargo run -p guide -- links FOLDER` checks the links of built documentation.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => written(guide::generated()),
        ["pages"] => written(guide::on_docs_rs::pages()),
        ["links", folder] => check_links(Path::new(folder)),
        _ => {
            eprintln!("error: expected no argument, `pages`, or `links FOLDER`");
            ExitCode::FAILURE
        }
    }
}

fn written(files: BTreeMap<String, String>) -> ExitCode {
    match write(files) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(files: BTreeMap<String, String>) -> io::Result<()> {
    for (path, text) in files {
        let path = guide::repository().join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
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
