//! The programs beside this one: the one that counts allocations, the one that valgrind counts instructions
//! of, and an Actix server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where the programs are.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// Counts allocations.
    pub heap: &'a str,
    /// Runs under valgrind.
    pub instructions: &'a str,
    /// An Actix server.
    pub web: &'a str,
}

/// One line of the program that counts allocations.
#[derive(Clone, Debug)]
pub struct Count {
    /// What was counted.
    pub what: String,
    /// Whose.
    pub name: String,
    /// How much.
    pub number: f64,
}

/// Runs the program that counts allocations.
///
/// # Panics
///
/// When it fails.
pub fn heap(program: &str, crowd: u64) -> Vec<Count> {
    let output = Command::new(program).arg(crowd.to_string()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "the program that counts allocations failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let count = |line: &str| {
        let [what, name, number] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        Count { what: what.to_owned(), name: name.to_owned(), number: number.parse().unwrap() }
    };
    text.lines().map(count).collect()
}

/// Instructions of one check, of what goes by this name in [`memory`](crate::memory); nothing without
/// valgrind.
pub fn instructions(program: &str, name: &str, times: u64) -> Option<f64> {
    let mut valgrind = Command::new("valgrind");
    // Of the program's own function, so that neither its start nor the end of it counts.
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.args(["--toggle-collect=*decide_counted_by_valgrind*", program, name]);
    let output = valgrind.arg(times.to_string()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let (_, number) = text.lines().find_map(|line| line.split_once("Collected :"))?;
    Some(number.trim().parse::<f64>().ok()? / times as f64)
}

/// A running Actix server; it ends with this value.
#[derive(Debug)]
pub struct Web {
    child: Child,
    port: u16,
}

impl Web {
    /// Starts a server with one route, which is limited as `limit` says, through the Redis server at this
    /// port, and whose handler computes for `computes`.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn start(program: &str, limit: &str, redis: u16, computes: Duration) -> Self {
        let mut command = Command::new(program);
        command
            .args([limit, &redis.to_string(), &computes.as_micros().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut port = String::new();
        // The server prints its port once it listens.
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let port = port.trim().parse().expect("the web server did not print a port");
        Self { child, port }
    }

    /// The port it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // By its own pid; it has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
