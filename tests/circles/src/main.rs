//! Finds circles among the files of a crate: files that use each other, directly or by way of others.
//!
//! `circles CRATE_FOLDER ..` prints the circles with the paths that make them, and fails if there is one. A
//! method that calls one of its own type in another file uses that file. A name that is only passed on by
//! `pub use` is not used. Each file may use the crate's root. Code under `cfg(test)` does not count.

mod graph;
mod methods;
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
