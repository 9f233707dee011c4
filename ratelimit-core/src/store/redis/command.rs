//! Commands of the store: a script to run, or keys to remove.

use redis::Cmd;
use smallvec::SmallVec;

use super::script::Script;

/// Keys of one command; most have one.
pub(super) type Keys = SmallVec<[String; 2]>;

/// A script with its keys and arguments.
pub(super) struct ScriptCall {
    pub(super) script: &'static Script,
    pub(super) keys: Keys,
    pub(super) arguments: SmallVec<[Vec<u8>; 2]>,
}

impl ScriptCall {
    /// `EVALSHA` or `EVAL`, with the script's digest or its text.
    fn to_cmd(&self, name: &str, script: &str) -> Cmd {
        let strings = self.keys.iter().map(String::len).chain(self.arguments.iter().map(Vec::len));
        let (count, size) = strings.fold((0, 0), |(count, size), length| (count + 1, size + length));
        // One allocation, instead of growing with each key.
        let mut command = Cmd::with_capacity(3 + count, 64 + script.len() + size);
        command.arg(name).arg(script).arg(self.keys.len()).arg(&self.keys[..]);
        for argument in &self.arguments {
            command.arg(argument);
        }
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
            Self::Delete(keys) => redis::cmd("UNLINK").arg(&keys[..]).to_owned(),
        }
    }
}
