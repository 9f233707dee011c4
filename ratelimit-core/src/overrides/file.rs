//! Reading a file of overrides without trust in what it is.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Longest file of overrides: 4 MiB.
pub const MAX_FILE_LEN: u64 = 4 * 1024 * 1024;

/// The name of a file in messages.
pub(super) fn name(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// The text of a file, or why there is none.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot read the file: {error}");
    // Opening a named pipe would wait for its other end.
    let found = fs::metadata(path).map_err(cannot)?;
    if found.is_dir() {
        return Err("expected a file, found a directory".to_owned());
    }
    if !found.is_file() {
        return Err("expected a regular file".to_owned());
    }
    let too_long = || format!("expected at most {MAX_FILE_LEN} bytes");
    if found.len() > MAX_FILE_LEN {
        return Err(format!("{}, found {}", too_long(), found.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default());
    // It may grow meanwhile.
    File::open(path).map_err(cannot)?.take(MAX_FILE_LEN + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_FILE_LEN {
        return Err(too_long());
    }
    String::from_utf8(bytes).map_err(|_| "expected UTF-8 text".to_owned())
}
