//! The programs beside this one: the one that counts allocations, and the one that valgrind counts instructions of.

use std::process::{Command, Stdio};

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

/// Instructions of one check, of what goes by this name in [`memory`](crate::memory); nothing without valgrind.
pub fn instructions(program: &str, name: &str, times: u64) -> Option<f64> {
    // Twice, so that the start of the program cancels out.
    let (few, many) = (counted(program, name, times)?, counted(program, name, 3 * times)?);
    Some((many - few) / (2 * times) as f64)
}

fn counted(program: &str, name: &str, times: u64) -> Option<f64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", program, name]);
    let output = valgrind.arg(times.to_string()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    // `I refs:`, with more or fewer blanks in it.
    let (_, number) =
        text.lines().filter(|line| line.contains(" I ")).find_map(|line| line.split_once("refs:"))?;
    number.trim().replace(',', "").parse().ok()
}
