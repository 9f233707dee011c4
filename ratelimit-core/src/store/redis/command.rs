//! Commands of the store: a script to run, or keys to remove.

use std::iter;

use redis::Cmd;
use smallvec::SmallVec;

use super::script::Script;

/// Keys of one command, as they are sent, one after the other.
#[derive(Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: SmallVec<[usize; 4]>,
}

impl Keys {
    /// Adds a key.
    pub(super) fn push(&mut self, key: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(key.as_ref());
        self.ends.push(self.bytes.len());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    pub(super) fn first(&self) -> Option<&[u8]> {
        self.iter().next()
    }
}

impl<K: AsRef<[u8]>> FromIterator<K> for Keys {
    fn from_iter<T: IntoIterator<Item = K>>(keys: T) -> Self {
        let mut all = Self::default();
        keys.into_iter().for_each(|key| all.push(key));
        all
    }
}

/// A script with its keys and arguments.
pub(super) struct ScriptCall {
    pub(super) script: &'static Script,
    pub(super) keys: Keys,
    pub(super) arguments: SmallVec<[Vec<u8>; 2]>,
    /// Whether the text of the script is sent, because the server does not know it.
    sends_text: bool,
}

impl ScriptCall {
    pub(super) const fn new(script: &'static Script, keys: Keys, arguments: SmallVec<[Vec<u8>; 2]>) -> Self {
        Self { script, keys, arguments, sends_text: false }
    }

    /// `EVALSHA` with the script's digest, or `EVAL` with its text, after which the node knows the script.
    fn to_cmd(&self) -> Cmd {
        let Script { text, sha } = self.script;
        let (name, script) = if self.sends_text { ("EVAL", text) } else { ("EVALSHA", sha) };
        let (keys, arguments) = (self.keys.ends.len(), &self.arguments);
        let size = self.keys.bytes.len() + arguments.iter().map(Vec::len).sum::<usize>();
        // One allocation, instead of growing with each key.
        let mut command = Cmd::with_capacity(3 + keys + arguments.len(), 64 + script.len() + size);
        command.arg(name).arg(script).arg(keys);
        self.keys.iter().chain(arguments.iter().map(Vec::as_slice)).for_each(|of| _ = command.arg(of));
        command
    }
}

/// A command, with a guard that is dropped when it has ended, whether it ran or not.
pub(super) struct GuardedCommand {
    pub(super) command: Command,
    pub(super) guard: Box<dyn Send>,
}

/// A command for the server.
pub(super) enum Command {
    Run(ScriptCall),
    Delete(Keys),
}

impl Command {
    pub(super) fn keys(&self) -> &Keys {
        match self {
            Self::Run(call) => &call.keys,
            Self::Delete(keys) => keys,
        }
    }

    /// Sends the text of the script from now on, because the server does not know it. Returns false if it was
    /// sent already.
    pub(super) const fn send_text(&mut self) -> bool {
        match self {
            Self::Run(call) if !call.sends_text => {
                call.sends_text = true;
                true
            }
            _ => false,
        }
    }

    pub(super) fn to_cmd(&self) -> Cmd {
        match self {
            Self::Run(call) => call.to_cmd(),
            Self::Delete(keys) => {
                let mut command = redis::cmd("UNLINK");
                keys.iter().for_each(|key| _ = command.arg(key));
                command
            }
        }
    }
}
