//! What a watch does with each change of its file.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::overrides::watch::{PAUSE, Watcher};

/// A watch of a file, which the test polls.
struct Watched {
    folder: TempDir,
    current: Arc<Current>,
    watcher: Watcher,
}

impl Watched {
    /// A watch of a file in which `max` is 20.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("limits.toml");
        let text = max(20);
        fs::write(&path, &text).unwrap();
        let current = current();
        let number = current.replace(&Overrides::from_file(&path).unwrap()).unwrap();
        Self { watcher: Watcher::new(path, text, number), current, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("limits.toml")
    }

    /// The `max` in force after so many reads.
    fn max_after(&mut self, reads: usize) -> u64 {
        for _ in 0..reads {
            self.watcher.poll(&self.current);
        }
        self.current.guard().limit(&SHOP).map_or(SHOP.max(), |limit| limit.policy().max())
    }

    fn rejected(&self) -> String {
        self.current.watches.rejected().map(|error| error.to_string()).unwrap_or_default()
    }
}

fn max(max: u64) -> String {
    format!("[limit.shop]\nmax = {max}\n")
}

#[test]
fn new_contents_are_in_force_once_two_reads_agree() {
    let mut watched = Watched::new();
    assert_eq!(watched.max_after(3), 20);
    fs::write(watched.path(), max(30)).unwrap();
    assert_eq!(watched.max_after(1), 20);
    assert_eq!(watched.max_after(1), 30);
    assert_eq!(watched.rejected(), "");
}

#[test]
fn a_file_that_is_half_written_is_not_used() {
    let mut watched = Watched::new();
    // Each part is complete TOML.
    let text = "[limit.shop]\nwindow = '2m'\nmax = 30\n";
    for part in [0, 13, 27, text.len()] {
        fs::write(watched.path(), &text[..part]).unwrap();
        assert_eq!(watched.max_after(1), 20);
    }
    assert_eq!(watched.max_after(1), 30);
    assert_eq!(watched.rejected(), "");
}

#[test]
fn a_file_whose_last_line_has_no_end_is_not_used_however_long_its_writer_pauses() {
    let mut watched = Watched::new();
    fs::write(watched.path(), "[limit.shop]\nmax = 3").unwrap();
    assert_eq!(watched.max_after(9), 20);
    assert!(
        watched.rejected().contains("the last line does not end with a line break"),
        "{}",
        watched.rejected()
    );
    fs::write(watched.path(), "[limit.shop]\nmax = 300\n").unwrap();
    assert_eq!(watched.max_after(2), 300);
    assert_eq!(watched.rejected(), "");
}

#[test]
fn contents_of_the_same_length_at_the_same_time_are_noticed() {
    let mut watched = Watched::new();
    let times = fs::metadata(watched.path()).unwrap().modified().unwrap();
    fs::write(watched.path(), max(21)).unwrap();
    fs::File::options().write(true).open(watched.path()).unwrap().set_modified(times).unwrap();
    assert_eq!(watched.max_after(2), 21);
}

#[test]
fn a_file_that_is_renamed_over_the_old_one_is_noticed() {
    let mut watched = Watched::new();
    let new = watched.folder.path().join("new.toml");
    fs::write(&new, max(30)).unwrap();
    fs::rename(new, watched.path()).unwrap();
    assert_eq!(watched.max_after(2), 30);
}

#[test]
fn contents_that_cannot_be_used_change_nothing() {
    let long = format!("#{}\n", "x".repeat(usize::try_from(super::super::MAX_FILE_LEN).unwrap()));
    for (contents, expected) in [
        ("[limit.shopp]\nmax = 1\n", "did you mean `shop`?"),
        ("[limit.shop]\nmax = 0\n", "max must be from 1"),
        ("[limit.shop\n", "expected TOML"),
        ("", "the file is empty; to end all overrides, leave a comment in it"),
        (" \n", "the file is empty"),
        (long.as_str(), "expected at most 4194304 bytes"),
    ] {
        let mut watched = Watched::new();
        fs::write(watched.path(), contents).unwrap();
        assert_eq!(watched.max_after(3), 20);
        assert!(watched.rejected().contains(expected), "{}", watched.rejected());
        fs::write(watched.path(), max(30)).unwrap();
        assert_eq!(watched.max_after(2), 30);
        assert_eq!(watched.rejected(), "");
    }
}

#[test]
fn a_file_that_vanishes_or_becomes_a_directory_changes_nothing() {
    let mut watched = Watched::new();
    fs::remove_file(watched.path()).unwrap();
    assert_eq!(watched.max_after(3), 20);
    assert!(watched.rejected().contains("cannot read the file"), "{}", watched.rejected());
    fs::create_dir(watched.path()).unwrap();
    assert_eq!(watched.max_after(3), 20);
    assert!(watched.rejected().contains("found a directory"), "{}", watched.rejected());
    fs::remove_dir(watched.path()).unwrap();
    fs::write(watched.path(), max(20)).unwrap();
    assert_eq!(watched.max_after(2), 20);
    assert_eq!(watched.rejected(), "", "the same contents are back");
}

#[test]
fn a_comment_ends_all_overrides() {
    let mut watched = Watched::new();
    fs::write(watched.path(), "# none\n").unwrap();
    assert_eq!(watched.max_after(2), SHOP.max());
    assert!(!watched.current.has_rules());
}

#[test]
fn a_watch_is_over_once_there_are_other_overrides() {
    let mut watched = Watched::new();
    watched.current.replace(&parsed("[limit.shop]\nmax = 5")).unwrap();
    for contents in [max(30).as_str(), "[limit.shop\n"] {
        fs::write(watched.path(), contents).unwrap();
        assert_eq!(watched.max_after(3), 5);
        assert_eq!(watched.rejected(), "");
    }
}

#[test]
fn a_watch_whose_overrides_are_refused_leaves_those_before_and_their_watch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    fs::write(&path, "[limit.shopp]\nmax = 1\n").unwrap();
    let mut watched = Watched::new();
    let error = Overrides::from_file(&path).unwrap().watch(true).start(&watched.current).unwrap_err();
    assert!(error.to_string().contains("did you mean `shop`?"), "{error}");
    fs::write(watched.path(), max(30)).unwrap();
    assert_eq!(watched.max_after(2), 30, "the watch before goes on");
}

/// With the real thread. Two of its reads have to agree, so a change is in force after two pauses at most,
/// within a second.
#[test]
fn a_watched_file_is_in_force_within_a_second_and_its_thread_ends_with_the_limiter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    fs::write(&path, max(20)).unwrap();
    let overrides = Overrides::from_file(&path).unwrap().watch(true);
    let limiter = RateLimiter::builder(MemoryStore::new()).policies(known()).overrides(overrides).build();
    let current = Arc::downgrade(limiter.overrides_cell());
    fs::write(&path, max(30)).unwrap();
    assert!(wait_for(|| limiter.in_force(&SHOP).policy().max() == 30));
    const { assert!(2 * PAUSE.as_millis() < 1_000) };
    drop(limiter);
    assert!(wait_for(|| current.strong_count() == 0));
}

/// Whether a condition comes true; the deadline is one for a thread on a busy machine.
#[allow(clippy::disallowed_methods, reason = "the time that a real thread takes")]
fn wait_for(is_so: impl Fn() -> bool) -> bool {
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}
