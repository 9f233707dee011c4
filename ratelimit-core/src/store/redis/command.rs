//! Commands of the store: a script to run, or keys to remove.

use redis::{Cmd, RedisResult, Value};
use smallvec::SmallVec;

use super::script::Script;
use super::topology::RedisConnection;

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

    /// The command as a pipeline sends it: a script by its digest.
    pub(super) fn to_cmd(&self) -> Cmd {
        match self {
            Self::Run(call) => call.to_cmd("EVALSHA", &call.script.sha),
            Self::Delete(keys) => redis::cmd("UNLINK").arg(&keys[..]).to_owned(),
        }
    }

    /// Sends the command once, and a script that the server does not know a second time, as text.
    pub(super) async fn send(&self, connection: &mut RedisConnection) -> RedisResult<Value> {
        match self {
            Self::Delete(keys) => connection.send(redis::cmd("UNLINK").arg(&keys[..])).await,
            Self::Run(call) => match connection.send(&call.to_cmd("EVALSHA", &call.script.sha)).await {
                // EVAL loads the script, at whichever node the keys are.
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    connection.send(&call.to_cmd("EVAL", &call.script.text)).await
                }
                reply => reply,
            },
        }
    }
}
