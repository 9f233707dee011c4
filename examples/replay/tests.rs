//! Whole logs under whole files of limits.

mod agrees;
mod bad_input;
mod formats;
mod memory;
mod pages;

use std::fs;
use std::io::Cursor;

use tempfile::TempDir;

/// What the program prints, and its error, for a file of limits and a log on standard input. `FOLDER` stands for a temporary folder.
fn replayed(limits: &str, log: impl Into<Vec<u8>>, options: &[&str]) -> (String, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("limits.toml"), limits).unwrap();
    let arguments = [&["FOLDER/limits.toml", "--pictures", "FOLDER"], options, &["-"]].concat();
    ran(&folder, &arguments, log)
}

fn ran(folder: &TempDir, arguments: &[&str], stdin: impl Into<Vec<u8>>) -> (String, Option<String>) {
    let path = folder.path().to_str().unwrap();
    let mut out = Vec::new();
    let arguments = arguments.iter().map(|argument| argument.replace("FOLDER", path));
    let result = crate::run(arguments, Box::new(Cursor::new(stdin.into())), &mut out);
    let error = result.err().map(|error| error.to_string().replace(path, "FOLDER"));
    (String::from_utf8(out).unwrap().replace(path, "FOLDER"), error)
}

/// A line in the common log format: a request of 192.0.2.1 to `/`.
fn line(time: &str) -> String {
    format!("192.0.2.1 - - [{time}] \"GET / HTTP/1.1\" 200 512\n")
}
