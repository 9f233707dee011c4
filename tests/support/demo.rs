//! A service of `examples/` as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratelimit_actix::ratelimit_core::clock::{Clock, SystemClock};

use crate::within;

/// The variables that the examples read; what the shell has set for itself must not reach a test.
const VARIABLES: [&str; 10] = [
    "ADMIN_TOKEN",
    "REDIS_URL",
    "LIMITS_FILE",
    "ALGORITHM",
    "BIND",
    "PORT",
    "RUST_LOG",
    "TRUSTED_PROXIES",
    "HEADER_STYLE",
    "BODY_STYLE",
];

/// A running service; it ends with this value.
#[derive(Debug)]
pub struct Demo {
    process: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// The line in which it says so, and which store it uses.
    pub introduction: String,
    printed: Arc<Mutex<Vec<String>>>,
}

impl Demo {
    /// Starts `binary` on a free port, and returns when it listens.
    pub fn start(binary: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_command(&mut command(binary, variables))
    }

    /// The same, with its log in a file.
    pub fn start_logging_to(log: std::fs::File, binary: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_command(command(binary, variables).stderr(log))
    }

    fn start_command(command: &mut Command) -> Self {
        let mut process = command.env("PORT", "0").stdout(Stdio::piped()).spawn().unwrap();
        // The server prints where it listens once it does; if it cannot, it ends, and with it this pipe.
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let introduction = lines.next().expect("the demo ended before it listened").unwrap();
        // Whatever else it prints has to go somewhere, or it would wait for a reader.
        let printed = Arc::new(Mutex::new(Vec::new()));
        let rest = Arc::clone(&printed);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                rest.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        let address = introduction
            .split_once("http://")
            .and_then(|(_, rest)| rest.split(',').next())
            .expect(&introduction);
        Self { address: address.parse().unwrap(), introduction, process, printed }
    }

    /// What it has printed since its introduction, once that has `count` lines.
    pub fn printed(&self, count: usize) -> Vec<String> {
        let printed = || self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(within(Duration::from_secs(5), || printed().len() >= count), "{:?}", printed());
        printed()
    }

    /// Starts a demo that is expected to end at once because of its settings, and gives what it says.
    pub fn refusal(binary: &str, variables: &[(&str, &str)]) -> String {
        let mut process = command(binary, &[("PORT", "0")])
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A demo that starts after all says so on the one pipe; one that does not closes it.
        let mut started = String::new();
        let stdout = process.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut started).unwrap();
        if !started.is_empty() {
            process.kill().unwrap();
        }
        let output = process.wait_with_output().unwrap();
        assert!(started.is_empty(), "the demo started: {started}");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(binary: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(binary);
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command.envs(variables.iter().copied());
    command
}

/// Runs `requests` within one minute, again if need be: windows that start with the minute then have no edge
/// in between. The result is to be checked afterwards.
pub fn within_one_minute<T>(mut requests: impl FnMut() -> T) -> T {
    let minute = || SystemClock::new().now().as_micros() / 60_000_000;
    loop {
        let before = minute();
        let result = requests();
        if minute() == before {
            return result;
        }
    }
}
