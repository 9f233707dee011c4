//! A real Sentinel set-up: a master, a replica, and three sentinels that watch them, on loopback.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::redis::{Server, is_installed};

/// What the sentinels call the service.
pub const SERVICE: &str = "limits";

/// A running set-up.
#[derive(Debug)]
pub struct Sentinels {
    pub master: Server,
    pub replica: Server,
    watchers: Vec<(u16, Child)>,
    folders: Vec<TempDir>,
}

/// Starts everything, or says that this test is skipped.
pub async fn sentinels() -> Option<Sentinels> {
    if !is_installed() {
        return None;
    }
    let master = Server::start_with(&[]);
    let options = ["--replicaof", "127.0.0.1", &master.port().to_string(), "--repl-diskless-sync-delay", "0"];
    let replica = Server::start_with(&options.map(str::to_owned));
    until(replica.port(), "INFO replication", "master_link_status:up").await;
    let mut set_up = Sentinels { master, replica, watchers: Vec::new(), folders: Vec::new() };
    set_up.add_three();
    for (port, _) in &set_up.watchers {
        sees(*port, 2).await;
    }
    Some(set_up)
}

/// Waits until a sentinel sees the replica, and so many other sentinels.
async fn sees(port: u16, others: usize) {
    until(port, &format!("SENTINEL MASTER {SERVICE}"), "num-slaves\"'), bulk-string('\"1\"'").await;
    let others = format!("num-other-sentinels\"'), bulk-string('\"{others}\"'");
    until(port, &format!("SENTINEL MASTER {SERVICE}"), &others).await;
}

/// Starts a sentinel.
fn sentinel(master: &Server) -> (u16, Child, TempDir) {
    loop {
        let folder = TempDir::new().unwrap();
        let port = crate::redis::free_port();
        let path = folder.path().join("sentinel.conf");
        let mut file = std::fs::File::create(&path).unwrap();
        writeln!(
            file,
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {SERVICE} 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds {SERVICE} 500\nsentinel failover-timeout {SERVICE} 3000\n",
            folder.path().display(),
            master.port()
        )
        .unwrap();
        let mut child = Command::new(crate::redis::binary())
            .arg(&path)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if crate::redis::comes_up(&mut child, port) {
            return (port, child, folder);
        }
    }
}

/// Waits until the answer to `command` at `port`, printed for debugging, contains `text`.
async fn until(port: u16, command: &str, text: &str) {
    let mut last = String::new();
    // A sentinel that was held up for two seconds does nothing for half a minute.
    for _ in 0..12_000 {
        let client = redis::Client::open(("127.0.0.1", port)).unwrap();
        if let Ok(mut wire) = client.get_multiplexed_async_connection().await {
            let mut words = command.split_whitespace();
            let mut request = redis::cmd(words.next().unwrap());
            for word in words {
                request.arg(word);
            }
            if let Ok(answer) = request.query_async::<redis::Value>(&mut wire).await {
                last = format!("{answer:?}");
                if last.contains(text) {
                    return;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{command} never said {text}: {last}");
}

/// The port of the master, as the sentinel at `port` sees it; `None` while it does not answer.
pub fn master_port(port: u16) -> Option<u16> {
    // An array of two strings, each behind its length: the host, then the port.
    let answer = crate::redis::ask(port, &format!("SENTINEL GET-MASTER-ADDR-BY-NAME {SERVICE}"), 5)?;
    answer[4].parse().ok()
}

impl Sentinels {
    /// Stops (`STOP`) or continues (`CONT`) a sentinel without ending it.
    pub fn signal(&self, sentinel: usize, signal: &str) {
        let pid = self.watchers[sentinel].1.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    fn add_three(&mut self) {
        for _ in 0..3 {
            let (port, child, folder) = sentinel(&self.master);
            self.watchers.push((port, child));
            self.folders.push(folder);
        }
    }

    /// Starts three more sentinels, and waits until all know each other.
    pub async fn join_three(&mut self) {
        self.add_three();
        for (port, _) in &self.watchers {
            sees(*port, 5).await;
        }
    }

    /// Ends the first three of six sentinels, and has the others forget them.
    pub async fn retire_three(&mut self) {
        for (_, mut sentinel) in self.watchers.drain(..3) {
            sentinel.kill().unwrap();
            sentinel.wait().unwrap();
        }
        for (port, _) in &self.watchers {
            until(*port, &format!("SENTINEL RESET {SERVICE}"), "1").await;
        }
        for (port, _) in &self.watchers {
            sees(*port, 2).await;
        }
    }

    /// The port of a sentinel.
    pub fn watcher(&self, sentinel: usize) -> u16 {
        self.watchers[sentinel].0
    }

    /// All sentinels, as one URL.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.watchers.iter().map(|(port, _)| format!("127.0.0.1:{port}")).collect();
        format!("redis-sentinel://{}/{SERVICE}", hosts.join(","))
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        for (_, sentinel) in &mut self.watchers {
            let _ = sentinel.kill();
            let _ = sentinel.wait();
        }
    }
}
