//! Reads a file of overrides, which may be anything.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// Longest file of overrides: 4 MiB.
pub const MAX_FILE_LEN: u64 = 4 * 1024 * 1024;

/// The name of a file in messages.
pub(super) fn file_name(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// The text of a file, or why there is none.
pub(super) fn read_file(path: &Path) -> Result<String, String> {
    let cannot = |error: io::Error| format!("cannot read the file: {error}");
    // Before it is opened, because opening a device may do something.
    expect_text(&fs::metadata(path).map_err(cannot)?)?;
    let file = open_file(path).map_err(cannot)?;
    // Another one may have taken its place.
    let found = file.metadata().map_err(cannot)?;
    expect_text(&found)?;
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default());
    // It may grow meanwhile.
    file.take(MAX_FILE_LEN + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_FILE_LEN {
        return Err(too_long());
    }
    let text = String::from_utf8(bytes).map_err(|_| "expected UTF-8 text".to_owned())?;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(
            "the last line does not end with a line break, so the file may not be written to its end"
                .to_owned(),
        );
    }
    Ok(text)
}

fn too_long() -> String {
    format!("expected at most {MAX_FILE_LEN} bytes")
}

/// Whether this is a file that is not too long.
fn expect_text(found: &Metadata) -> Result<(), String> {
    if found.is_dir() {
        return Err("expected a file, found a directory".to_owned());
    }
    if !found.is_file() {
        return Err("expected a regular file".to_owned());
    }
    if found.len() > MAX_FILE_LEN {
        return Err(format!("{}, found {}", too_long(), found.len()));
    }
    Ok(())
}

/// Opens a file to read it. Does not wait for the other end of a named pipe, where the system allows that.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use std::os::unix::fs::OpenOptionsExt;

        use rustix::fs::OFlags;

        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    options.open(path)
}
