//! Writes everything that the pages have from the code: `cargo run -p guide`, then read the difference like
//! code.

use std::{fs, io};

fn main() -> io::Result<()> {
    for (path, text) in guide::generated() {
        fs::write(guide::repository().join(path), text)?;
    }
    Ok(())
}
