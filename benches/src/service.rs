//! A service of many handlers, as a package that cargo compiles.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cpu;

/// The number of its handlers.
pub const HANDLERS: u32 = 150;

/// What cargo is told for a check without code.
pub const CHECK: [&str; 1] = ["check"];
/// For a debug build.
pub const BUILD: [&str; 1] = ["build"];
/// For a release build.
pub const RELEASE: [&str; 2] = ["build", "--release"];

/// A package with handlers that differ only in their names and paths. Its dependencies are compiled once for
/// all services in a folder.
#[derive(Debug)]
pub struct Service {
    name: &'static str,
    package: PathBuf,
    artifacts: PathBuf,
    source: String,
}

impl Service {
    /// Writes the package of this name below `folder`, each of its handlers with these `attributes`.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn new(folder: &Path, name: &'static str, attributes: &str) -> Self {
        let (package, workspace) = (folder.join(name), Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
        fs::create_dir_all(package.join("src")).unwrap();
        let facade = workspace.join("ratelimit-actix");
        fs::write(package.join("Cargo.toml"), manifest(name, &facade)).unwrap();
        // The versions of this workspace: no others need to be on the machine.
        fs::copy(workspace.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
        Self { name, package, artifacts: folder.join("target"), source: source(attributes) }
    }

    /// Compiles the package anew, without its dependencies from the second time on. Milliseconds of processor
    /// time.
    ///
    /// # Panics
    ///
    /// When it does not compile.
    pub fn compile(&self, how: &[&str]) -> f64 {
        // A file that is written again is compiled again.
        fs::write(self.package.join("src/main.rs"), &self.source).unwrap();
        let before = cpu::of_children();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(how).args(["--quiet", "--offline"]).current_dir(&self.package);
        cargo.env("CARGO_TARGET_DIR", &self.artifacts).stdin(Stdio::null());
        assert!(cargo.status().unwrap().success(), "{} does not compile", self.name);
        (cpu::of_children() - before) / 1e6
    }

    /// Bytes of the debug binary without symbols. It has been built.
    ///
    /// # Panics
    ///
    /// When it has not.
    pub fn size(&self) -> f64 {
        let binary = format!("debug/{}{}", self.name, std::env::consts::EXE_SUFFIX);
        fs::metadata(self.artifacts.join(binary)).unwrap().len() as f64
    }
}

fn manifest(name: &str, facade: &Path) -> String {
    let facade = facade.display();
    format!(
        r#"[package]
name = "{name}"
version = "0.0.0"
edition = "2024"

[dependencies]
actix-web = {{ version = "4.18", default-features = false, features = ["macros"] }}
ratelimit-actix = {{ path = '{facade}', default-features = false }}

[profile.dev]
debug = false
incremental = false
strip = true

[workspace]
"#
    )
}

fn source(attributes: &str) -> String {
    let mut text = String::from("#![allow(unused_imports)]\nuse actix_web::{App, HttpRequest, get, web};\n");
    text.push_str("use ratelimit_actix::rate_limit;\n");
    // What a limiter adds once is in every service, since each has one handler with a limit.
    text.push_str(&handler("first", "#[rate_limit(max = 1, window = \"1s\")]\n"));
    for i in 0..HANDLERS {
        text.push_str(&handler(&format!("h{i}"), attributes));
    }
    text.push_str("\nfn main() {\n    let app = App::new().service(first)");
    for i in 0..HANDLERS {
        let _ = write!(text, ".service(h{i})");
    }
    text.push_str(";\n    drop(app);\n}\n");
    text
}

fn handler(name: &str, attributes: &str) -> String {
    let route = format!("\n{attributes}#[get(\"/{name}/{{id}}\")]\n");
    format!("{route}async fn {name}(id: web::Path<u64>) -> String {{\n    format!(\"{{id}}\")\n}}\n")
}
