//! Processor time of processes: what work costs, independent of other load on the machine.

use std::fs;

use crate::server::Server;

/// Nanoseconds that the servers have used. From the kernel's scheduler where there is `/proc`, otherwise from `INFO`.
pub fn of_servers(servers: &[Server]) -> f64 {
    servers.iter().map(of_server).sum()
}

fn of_server(server: &Server) -> f64 {
    let path = format!("/proc/{}/schedstat", server.pid());
    // The main thread, which runs all commands.
    if let Some(nanos) = fs::read_to_string(path).ok().and_then(|text| first_number(&text)) {
        return nanos;
    }
    let seconds =
        |field| server.info("cpu", field).and_then(|text| text.parse::<f64>().ok()).unwrap_or(f64::NAN);
    (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e9
}

/// Nanoseconds that this process has used; not a number where that is not known.
pub fn of_this_process() -> f64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return f64::NAN };
    let nanos = tasks.flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        first_number(&text)
    });
    nanos.sum()
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}
