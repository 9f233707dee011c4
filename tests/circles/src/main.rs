//! Finds circles among the files of a crate: files that use each other, directly or by way of others.
//!
//! `circles CRATE_FOLDER ..` prints the circles with the paths that make them, and fails if there is one. A file may use the
//! one that it is below, since it continues it. Code under `cfg(test)` does not count.

mod graph;
mod modules;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for folder in std::env::args().skip(1) {
        let modules = match modules::read(&Path::new(&folder).join("src")) {
            Ok(modules) => modules,
            Err(error) => {
                eprintln!("error: {folder}: {error}");
                return ExitCode::FAILURE;
            }
        };
        let arrows = modules.arrows();
        let circles = graph::circles(&arrows);
        println!("{folder}: {} files, {} arrows, {} circles", modules.files(), arrows.len(), circles.len());
        for circle in circles {
            eprintln!("error: {folder}: files use each other in a circle:");
            for (from, to) in circle {
                eprintln!("  {from} uses {to}: `{}`", arrows[&(from.clone(), to.clone())]);
            }
            code = ExitCode::FAILURE;
        }
    }
    code
}
