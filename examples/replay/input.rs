//! Logs as lines of bounded length, from files and standard input, plain or gzip.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};

use crate::Failed;

/// Longest line that is read, in bytes. The rest of a longer one is skipped, so a file without line breaks needs no memory.
const LONGEST_LINE: usize = 64 * 1024;
/// Bytes that are read at once.
const BUFFER: usize = 256 * 1024;
/// The first bytes of every gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How much of a log is read, on a terminal only.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn start(name: &str) -> Self {
        let length = std::fs::metadata(name).map(|file| file.len()).ok().filter(|length| *length > 0);
        let (bar, template) = match length {
            Some(length) => (ProgressBar::new(length), "{msg} {bar:40} {bytes} of {total_bytes}, {eta} left"),
            None => (ProgressBar::new_spinner(), "{msg} {spinner} {bytes}, {elapsed}"),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(bar.with_style(style).with_message(name.to_owned()))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The lines of a log.
pub(crate) struct Log {
    source: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
    /// Empty for standard input.
    name: String,
}

impl Log {
    /// Opens a file, or takes standard input.
    pub(crate) fn open(
        name: &str,
        stdin: &mut Option<Box<dyn Read>>,
        progress: &Progress,
    ) -> Result<Self, Failed> {
        let failed = |error: io::Error| format!("{name} cannot be read: {error}");
        let source = match stdin.take_if(|_| name == "-") {
            Some(stdin) => stdin,
            None => Box::new(File::open(name).map_err(failed)?),
        };
        let name = if name == "-" { String::new() } else { name.to_owned() };
        let log = Self::new(Box::new(progress.0.wrap_read(source))).map_err(failed)?;
        Ok(Self { name, ..log })
    }

    pub(crate) fn new(source: Box<dyn Read>) -> io::Result<Self> {
        let mut source = BufReader::with_capacity(BUFFER, source);
        let is_gzip = source.fill_buf()?.starts_with(&GZIP);
        // A rotated log may be several gzip files in one.
        let source: Box<dyn BufRead> = if is_gzip {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(source)))
        } else {
            Box::new(source)
        };
        Ok(Self { source, line: Vec::new(), number: 0, name: String::new() })
    }

    /// The number of the line that was read last, from 1 on.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The same with the name of the file, for a message.
    pub(crate) fn place(&self) -> String {
        if self.name.is_empty() {
            return format!("line {}", self.number);
        }
        format!("line {} of {}", self.number, self.name)
    }

    /// The line that was read last.
    pub(crate) fn line(&self) -> &[u8] {
        let end = self.line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'));
        &self.line[..end.map_or(0, |end| end + 1)]
    }

    /// Reads the next line, which [`line`](Self::line) then has without its end, at most the longest one. False at the end of the log.
    pub(crate) fn next(&mut self) -> io::Result<bool> {
        self.line.clear();
        if self.read_up_to(LONGEST_LINE)? == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.line.len() == LONGEST_LINE && self.line.last() != Some(&b'\n') {
            self.skip_line()?;
        }
        Ok(true)
    }

    fn read_up_to(&mut self, length: usize) -> io::Result<usize> {
        (&mut self.source).take(length as u64).read_until(b'\n', &mut self.line)
    }

    /// Skips the rest of a line that is too long.
    fn skip_line(&mut self) -> io::Result<()> {
        let kept = self.line.len();
        loop {
            let read = self.read_up_to(LONGEST_LINE)?;
            let is_end = read == 0 || self.line.last() == Some(&b'\n');
            self.line.truncate(kept);
            if is_end {
                return Ok(());
            }
        }
    }
}
