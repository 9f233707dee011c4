//! A server whose wall clock the test moves, without touching the system's.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::redis::{Server, is_installed, skip};

const SHIM: &str = include_str!("clock_shim.c");

/// A server with a clock of its own.
#[derive(Debug)]
pub struct Clocked {
    pub server: Server,
    offset: File,
    _folder: TempDir,
}

/// Starts a server with a clock of its own, or says that this test is skipped.
pub fn clocked_server() -> Option<Clocked> {
    if !is_installed() {
        return None;
    }
    let folder = TempDir::new().unwrap();
    let Some(shim) = compile(folder.path()) else {
        skip("a C compiler, `cc`, on Linux");
        return None;
    };
    let path = folder.path().join("offset");
    let mut offset = File::create(&path).unwrap();
    offset.write_all(&0i64.to_ne_bytes()).unwrap();
    let variables = [("LD_PRELOAD".to_owned(), shim), ("CLOCK_SHIM_FILE".to_owned(), path.into_os_string())];
    let clocked = Clocked { server: Server::start_in(&[], &variables), offset, _folder: folder };
    Some(clocked)
}

fn compile(folder: &Path) -> Option<OsString> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let (source, library) = (folder.join("clock_shim.c"), folder.join("clock_shim.so"));
    std::fs::write(&source, SHIM).unwrap();
    let compiler =
        Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).status();
    compiler.is_ok_and(|status| status.success()).then(|| library.into_os_string())
}

impl Clocked {
    /// Lets the server's clock be so many microseconds ahead of the system's.
    pub fn ahead(&mut self, micros: i64) {
        // In one write and without truncation: the server reads it all the time.
        self.offset.seek(SeekFrom::Start(0)).unwrap();
        self.offset.write_all(&micros.to_ne_bytes()).unwrap();
    }
}
