//! A command for the server: a script to run, or keys to remove.

use redis::{Cmd, RedisResult, Value};
use smallvec::SmallVec;

use super::script::Script;
use super::topology::Wire;

/// Keys of one call; most have one.
pub(super) type Keys = SmallVec<[String; 2]>;

/// A script to run.
pub(super) struct Call {
    pub(super) script: &'static Script,
    pub(super) keys: Keys,
    pub(super) arguments: SmallVec<[Vec<u8>; 2]>,
}

impl Call {
    fn command(&self, name: &str, script: &str) -> Cmd {
        let strings = self.keys.iter().map(String::len).chain(self.arguments.iter().map(Vec::len));
        let (count, size) = strings.fold((0, 0), |(count, size), length| (count + 1, size + length));
        // All at once, instead of growing with each key.
        let mut command = Cmd::with_capacity(3 + count, 64 + script.len() + size);
        command.arg(name).arg(script).arg(self.keys.len()).arg(&self.keys[..]);
        for argument in &self.arguments {
            command.arg(argument);
        }
        command
    }
}

pub(super) enum Question {
    Run(Call),
    Delete(Keys),
}

impl Question {
    pub(super) fn keys(&self) -> &Keys {
        match self {
            Self::Run(call) => &call.keys,
            Self::Delete(keys) => keys,
        }
    }

    pub(super) async fn ask(&self, wire: &mut Wire) -> RedisResult<Value> {
        match self {
            Self::Delete(keys) => wire.send(redis::cmd("UNLINK").arg(&keys[..])).await,
            Self::Run(call) => match wire.send(&call.command("EVALSHA", &call.script.sha)).await {
                // EVAL makes the script known, at whichever node the keys are.
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    wire.send(&call.command("EVAL", &call.script.text)).await
                }
                answer => answer,
            },
        }
    }
}
