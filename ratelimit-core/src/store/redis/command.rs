//! Commands of the store: a script to run, or keys to remove.

use std::iter;

use redis::Cmd;
use smallvec::SmallVec;

use super::script::Script;

/// Keys of one command, as they are sent: one behind the other.
#[derive(Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: SmallVec<[usize; 4]>,
}

impl Keys {
    /// Adds a key, which `write` appends.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
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
        keys.into_iter().for_each(|key| all.push(|bytes| bytes.extend_from_slice(key.as_ref())));
        all
    }
}

/// A script with its keys and arguments.
pub(super) struct ScriptCall {
    pub(super) script: &'static Script,
    pub(super) keys: Keys,
    pub(super) arguments: SmallVec<[Vec<u8>; 2]>,
}

impl ScriptCall {
    /// `EVALSHA` or `EVAL`, with the script's digest or its text.
    fn to_cmd(&self, name: &str, script: &str) -> Cmd {
        let (keys, arguments) = (self.keys.ends.len(), &self.arguments);
        let size = self.keys.bytes.len() + arguments.iter().map(Vec::len).sum::<usize>();
        // One allocation, instead of growing with each key.
        let mut command = Cmd::with_capacity(3 + keys + arguments.len(), 64 + script.len() + size);
        command.arg(name).arg(script).arg(keys);
        self.keys.iter().chain(arguments.iter().map(Vec::as_slice)).for_each(|of| _ = command.arg(of));
        command
    }
}

/// A command, and what is dropped when it has ended, whether it ran or not.
pub(super) struct GuardedCommand {
    pub(super) command: Command,
    pub(super) guard: Box<dyn Send>,
}

/// A command for the server.
pub(super) enum Command {
    Run(ScriptCall),
    /// With a script that the server does not know.
    RunText(ScriptCall),
    Delete(Keys),
}

impl Command {
    pub(super) fn keys(&self) -> &Keys {
        match self {
            Self::Run(call) | Self::RunText(call) => &call.keys,
            Self::Delete(keys) => keys,
        }
    }

    /// Whether the server may not know the script.
    pub(super) const fn is_by_digest(&self) -> bool {
        matches!(self, Self::Run(_))
    }

    /// The same command after the server did not know its script.
    pub(super) fn with_text(self) -> Self {
        match self {
            Self::Run(call) => Self::RunText(call),
            command => command,
        }
    }

    /// The command as it is sent at first.
    pub(super) fn to_cmd(&self) -> Cmd {
        match self {
            Self::Run(call) => call.to_cmd("EVALSHA", &call.script.sha),
            // It loads the script, at whichever node the keys are.
            Self::RunText(call) => call.to_cmd("EVAL", &call.script.text),
            Self::Delete(keys) => {
                let mut command = redis::cmd("UNLINK");
                keys.iter().for_each(|key| _ = command.arg(key));
                command
            }
        }
    }
}
