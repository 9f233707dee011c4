//! Processor time of processes: what work costs, independent of other load on the machine.

use std::fs;
use std::time::{Duration, Instant};

use crate::server::Server;

/// The longest wait for a server to have nothing to do.
const PATIENCE: Duration = Duration::from_millis(20);

/// Nanoseconds that the servers have used. From the kernel's scheduler where there is `/proc`, otherwise from
/// `INFO`.
pub fn of_servers(servers: &[Server]) -> f64 {
    servers.iter().map(of_server).sum()
}

fn of_server(server: &Server) -> f64 {
    // The main thread, which runs all commands.
    let main = format!("/proc/{}", server.pid());
    // The time of a thread is booked when it stops running.
    let start = Instant::now();
    while is_running(&main) && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    run_time(&main).unwrap_or_else(|| {
        let seconds =
            |field| server.info("cpu", field).and_then(|text| text.parse::<f64>().ok()).unwrap_or(f64::NAN);
        (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e9
    })
}

/// Nanoseconds that this process has used; not a number where that is not known.
pub fn of_this_process() -> f64 {
    of_process(std::process::id())
}

/// Nanoseconds that all threads of a process have used; not a number where that is not known.
pub fn of_process(pid: u32) -> f64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return f64::NAN };
    tasks.flatten().filter_map(|task| run_time(task.path().to_str()?)).sum()
}

/// Nanoseconds that children of this process have used, and their children, as far as they have ended; not a
/// number where that is not known.
pub fn of_children() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields from the third on; `cutime` and `cstime` are the 16th and the 17th, in ticks of 10 ms.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: Vec<f64> = fields.skip(13).take(2).flat_map(str::parse).collect();
    if let [user, system] = ticks[..] { (user + system) * 1e7 } else { f64::NAN }
}

/// Nanoseconds that a thread has used, by its folder in `/proc`.
fn run_time(folder: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("{folder}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Whether a thread runs or waits for a core.
fn is_running(folder: &str) -> bool {
    let text = fs::read_to_string(format!("{folder}/stat")).unwrap_or_default();
    // The name before it, in parentheses, may have any characters.
    text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('R'))
}
