//! The machine, in general terms: enough to read ratios by, and nothing that names it.

use std::process::Command;

use crate::server::Server;

/// One line about the machine.
pub fn describe(server: Option<&Server>) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let rust = version("rustc").unwrap_or_else(|| "unknown".to_owned());
    let redis = server.map_or_else(
        || "no Redis".to_owned(),
        |server| {
            let field = |name| server.info("server", name);
            match field("valkey_version") {
                Some(version) => format!("Valkey {version}"),
                None => format!("Redis {}", field("redis_version").unwrap_or_default()),
            }
        },
    );
    let (family, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{cores} cores, {family} on {architecture}, Rust {rust}, {redis} on the same cores")
}

fn version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    String::from_utf8(output.stdout).ok()?.split_whitespace().nth(1).map(str::to_owned)
}
