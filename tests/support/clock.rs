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
    shim: Shim,
}

/// What gives a process a clock of its own.
#[derive(Debug)]
pub struct Shim {
    /// For its environment.
    pub variables: Vec<(String, OsString)>,
    offset: File,
    _folder: TempDir,
}

/// In the environment of a process with a shim: the file with its offset.
const OFFSET: &str = "CLOCK_SHIM_FILE";

/// Makes a shim, or says that this test is skipped.
pub fn shim() -> Option<Shim> {
    let folder = TempDir::new().unwrap();
    let Some(shim) = compile(folder.path()) else {
        skip("a C compiler, `cc`, on Linux");
        return None;
    };
    let path = folder.path().join("offset");
    let mut offset = File::create(&path).unwrap();
    offset.write_all(&[0; 16]).unwrap();
    let variables = vec![("LD_PRELOAD".to_owned(), shim), (OFFSET.to_owned(), path.into_os_string())];
    Some(Shim { variables, offset, _folder: folder })
}

/// Starts a server with a clock of its own, or says that this test is skipped.
pub fn clocked_server() -> Option<Clocked> {
    if !is_installed() {
        return None;
    }
    let shim = shim()?;
    Some(Clocked { server: Server::start_in(&[], &shim.variables), shim })
}

/// Sets the wall clock of this process, which was started with a shim, `micros` microseconds ahead of the
/// system's.
pub fn set_own(micros: i64) {
    set(&mut own(), 0, micros);
}

/// Lets the machine of this process, which was started with a shim, seem to have been suspended for `micros`
/// microseconds.
pub fn suspend_own(micros: i64) {
    set(&mut own(), 0, micros);
    set(&mut own(), 8, micros);
}

fn own() -> File {
    File::options().write(true).open(std::env::var_os(OFFSET).unwrap()).unwrap()
}

fn set(offset: &mut File, place: u64, micros: i64) {
    // In one write and without truncation: the process reads it all the time.
    offset.seek(SeekFrom::Start(place)).unwrap();
    offset.write_all(&micros.to_ne_bytes()).unwrap();
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
    /// Sets the server's clock `micros` microseconds ahead of the system's.
    pub fn ahead(&mut self, micros: i64) {
        set(&mut self.shim.offset, 0, micros);
    }
}
