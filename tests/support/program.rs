//! The programs of `bin/` as processes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program that runs.
#[derive(Debug)]
pub struct Program {
    child: Child,
    input: ChildStdin,
    /// What it prints behind its first line.
    pub output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it, and waits until it says that it is ready.
    pub fn start(program: &str, arguments: &[String]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut program = Self { child, input, output };
        assert_eq!(program.line(), "ready");
        program
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn tell(&mut self, word: &str) {
        self.input.write_all(format!("{word}\n").as_bytes()).unwrap();
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    /// Ends the process at once, as a crash does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended in order.
    pub fn wait(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

/// What a program prints until it ends, line by line.
pub fn lines(program: &str, arguments: &[&str]) -> Vec<String> {
    let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{arguments:?}: {} behind:\n{text}", output.status);
    text.lines().map(str::to_owned).collect()
}
