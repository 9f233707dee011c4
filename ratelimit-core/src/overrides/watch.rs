//! Putting overrides in force, and watching their file: a thread that reads it four times a second.
//!
//! It compares contents, and neither times nor events. So it works for every way in which a file is replaced
//! (written in place, renamed, a link that is switched, a mounted volume) and on every file system, and needs
//! no system service that can be full. A file of overrides is small.

use std::path::PathBuf;
use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::Duration;

use super::current::Current;
use super::error::OverridesError;
use super::file::{file_name, read_file};
use super::set::Overrides;
use crate::observe::Observer;
use crate::observe::log::help;

/// Pause between two reads.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// What a read finds: the text, or why there is none.
type Contents = Result<String, String>;

/// Compares what a file has with what is in force.
#[derive(Debug)]
pub(super) struct Watcher {
    path: PathBuf,
    /// What the last read found.
    seen: Contents,
    /// What was put in force or rejected last.
    judged: Contents,
    /// The number of this watch.
    number: u64,
}

impl Watcher {
    /// Watches a file whose text is in force.
    pub(super) fn new(path: PathBuf, text: String, number: u64) -> Self {
        Self { path, judged: Ok(text.clone()), seen: Ok(text), number }
    }

    /// Reads the file. Contents that two reads in a row have found, and that are new, are put in force or
    /// rejected.
    pub(super) fn poll(&mut self, current: &Current) {
        let found = read_file(&self.path);
        if found != self.seen {
            self.seen = found;
        } else if self.seen != self.judged {
            self.judged = found;
            self.judge(current);
        }
    }

    fn judge(&self, current: &Current) {
        match self.apply(current) {
            None => {}
            Some(Ok((limits, rows))) => {
                tracing::info!(
                    help = help("overrides"),
                    file = %self.path.display(),
                    limits,
                    rows,
                    "the overrides were read again and are in force"
                );
                Observer::overrides_reloaded(true, 1);
            }
            Some(Err(error)) => {
                let error = Arc::new(error);
                if !current.watches.reject(self.number, Arc::clone(&error)) {
                    return;
                }
                tracing::error!(
                    help = help("overrides"),
                    %error,
                    "the new overrides are rejected; those before stay in force"
                );
                Observer::overrides_reloaded(false, 1);
            }
        }
    }

    /// The number of limits and rows that are in force now. `None` if the watch is over.
    fn apply(&self, current: &Current) -> Option<Result<(usize, usize), OverridesError>> {
        let overrides = match &self.judged {
            // What is left of a file after a full disk or a lost write.
            Ok(text) if text.trim().is_empty() && current.has_rules() => {
                Err(self.fault("the file is empty; to end all overrides, leave a comment in it"))
            }
            Ok(text) => Overrides::from_text_of(&self.path, text.clone()),
            Err(text) => Err(self.fault(text)),
        };
        match overrides {
            Ok(overrides) => current.replace_by(self.number, &overrides),
            Err(error) => Some(Err(error)),
        }
    }

    fn fault(&self, text: &str) -> OverridesError {
        OverridesError::one(&file_name(&self.path), text)
    }
}

impl Overrides {
    /// Puts these in force, and begins to watch their file if they are to be watched. Ends the watch before.
    pub(crate) fn start(self, current: &Arc<Current>) -> Result<(), OverridesError> {
        // Before anything changes: without room for a thread the overrides stay as they are.
        let thread = match &self.file {
            Some((path, text)) if self.is_watched => Some(start_thread(path.clone(), text.clone(), current)?),
            _ => None,
        };
        let number = current.replace(&self)?;
        if let Some(begin) = thread {
            Observer::overrides_watched();
            // The thread waits for it.
            let _ = begin.send(number);
        }
        Ok(())
    }
}

/// Starts a thread that watches a file, from the number of the watch on until the limiter is dropped or gets
/// other overrides. It ends if no number comes.
fn start_thread(
    path: PathBuf,
    text: String,
    current: &Arc<Current>,
) -> Result<mpsc::Sender<u64>, OverridesError> {
    let name = file_name(&path);
    let current: Weak<Current> = Arc::downgrade(current);
    let (sender, number) = mpsc::channel();
    let watch = move || {
        let Ok(number) = number.recv() else { return };
        let mut watcher = Watcher::new(path, text, number);
        while let Some(current) = current.upgrade().filter(|current| !current.watches.is_over(number)) {
            watcher.poll(&current);
            drop(current);
            thread::sleep(PAUSE);
        }
    };
    match thread::Builder::new().name("ratelimit-overrides".to_owned()).spawn(watch) {
        Ok(_) => Ok(sender),
        Err(error) => {
            Err(OverridesError::one(&name, format!("cannot start a thread that watches it: {error}")))
        }
    }
}
