//! Commands of the store, as they are sent: a script to run, or keys to remove.

use redis::{Arg, Cmd};

use super::script::Script;

/// A command for the server.
pub(super) struct Command {
    cmd: Cmd,
    /// `None` for keys to remove.
    script: Option<&'static Script>,
}

impl Command {
    /// Runs a script by its digest.
    pub(super) fn run(
        script: &'static Script,
        keys: &[impl AsRef<[u8]>],
        arguments: &[impl AsRef<[u8]>],
    ) -> Self {
        let all = || keys.iter().map(AsRef::as_ref).chain(arguments.iter().map(AsRef::as_ref));
        let size: usize = all().map(<[u8]>::len).sum();
        // One allocation, instead of growing with each key.
        let mut cmd = Cmd::with_capacity(3 + keys.len() + arguments.len(), 64 + size);
        cmd.arg("EVALSHA").arg(&script.sha).arg(keys.len());
        all().for_each(|word| _ = cmd.arg(word));
        Self { cmd, script: Some(script) }
    }

    /// Removes keys.
    pub(super) fn delete(keys: &[impl AsRef<[u8]>]) -> Self {
        let mut cmd = redis::cmd("UNLINK");
        keys.iter().map(AsRef::as_ref).for_each(|key| _ = cmd.arg(key));
        Self { cmd, script: None }
    }

    pub(super) const fn cmd(&self) -> &Cmd {
        &self.cmd
    }

    pub(super) const fn runs_script(&self) -> bool {
        self.script.is_some()
    }

    fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.cmd.args_iter().filter_map(|word| if let Arg::Simple(word) = word { Some(word) } else { None })
    }

    /// The first key, of a command that has keys.
    pub(super) fn first_key(&self) -> Option<&[u8]> {
        self.words().nth(if self.runs_script() { 3 } else { 1 })
    }

    /// Sends the text of the script from now on, because the node does not know it; after that it does.
    /// Returns false if the text was sent already.
    pub(super) fn send_text(&mut self) -> bool {
        let Some(Script { text, sha }) = self.script else { return false };
        if self.words().nth(1) != Some(sha.as_bytes()) {
            return false;
        }
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(text);
        self.words().skip(2).for_each(|word| _ = cmd.arg(word));
        self.cmd = cmd;
        true
    }
}

#[cfg(test)]
impl Command {
    /// The keys of a script.
    pub(super) fn keys(&self) -> Vec<&[u8]> {
        self.split().0
    }

    /// The arguments of a script.
    pub(super) fn arguments(&self) -> Vec<&[u8]> {
        self.split().1
    }

    fn split(&self) -> (Vec<&[u8]>, Vec<&[u8]>) {
        let words: Vec<&[u8]> = self.words().collect();
        let keys: usize = std::str::from_utf8(words[2]).unwrap().parse().unwrap();
        (words[3..3 + keys].to_vec(), words[3 + keys..].to_vec())
    }
}

/// A command, with a guard that is dropped when it has ended, whether it ran or not.
pub(super) struct GuardedCommand {
    pub(super) command: Command,
    pub(super) guard: Box<dyn Send>,
}
