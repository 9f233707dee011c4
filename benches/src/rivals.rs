//! Other ways of deciding through Redis, over one multiplexed connection: the usual layouts, and baselines.

mod wire;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use redis::{Cmd, cmd};

pub use self::wire::Wire;
use crate::caller::Caller;
use crate::drive::Decider;
use crate::random::Random;
use crate::server::Server;
use crate::{MAX, WINDOW};

/// How a rival decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A plain `INCR`, which limits nothing: what one command costs.
    Incr,
    /// A script that does nothing: what one script costs.
    Empty,
    /// The leanest two-window script, one call a check.
    Lean,
    /// The usual two-window counter: two string keys, read and written apart.
    TwoKeys,
    /// The usual fixed window: a counter and its time to live.
    FixedWindow,
    /// The usual sliding log: a sorted set.
    Log,
    /// The usual sub-windows: a hash, read in one round trip and written in another.
    SubWindows,
    /// GCRA as in `redis_rate`: a string, the server's clock.
    Gcra,
    /// Look, and count afterwards: two round trips, as limitador's Redis storage makes them.
    LookThenCount,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Incr,
        Self::Empty,
        Self::Lean,
        Self::TwoKeys,
        Self::FixedWindow,
        Self::Log,
        Self::SubWindows,
        Self::Gcra,
        Self::LookThenCount,
    ];

    /// What the report calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Incr => "plain INCR",
            Self::Empty => "empty EVALSHA",
            Self::Lean => "lean script",
            Self::TwoKeys => "usual two-window script, two keys",
            Self::FixedWindow => "usual fixed-window script",
            Self::Log => "usual log, sorted set",
            Self::SubWindows => "usual sub-windows, hash",
            Self::Gcra => "GCRA as in redis_rate",
            Self::LookThenCount => "look, then count",
        }
    }

    /// Whether a check is one command, which can be sent without waiting for the one before.
    pub const fn is_one_command(self) -> bool {
        !matches!(self, Self::SubWindows | Self::LookThenCount)
    }

    const fn script(self) -> Option<&'static str> {
        match self {
            Self::Incr | Self::SubWindows => None,
            Self::Empty => Some(include_str!("../lua/empty.lua")),
            Self::Lean => Some(include_str!("../lua/lean.lua")),
            Self::TwoKeys => Some(include_str!("../lua/two_keys.lua")),
            Self::FixedWindow => Some(include_str!("../lua/fixed_window.lua")),
            Self::Log => Some(include_str!("../lua/log.lua")),
            Self::Gcra => Some(include_str!("../lua/gcra.lua")),
            Self::LookThenCount => Some(include_str!("../lua/count.lua")),
        }
    }

    /// A letter of its own, so that ways share no keys.
    const fn letter(self) -> u8 {
        b'a' + self as u8
    }
}

/// A way of deciding, over a connection.
#[derive(Clone, Debug)]
pub struct Rival {
    way: Way,
    wire: Wire,
    sha: Arc<str>,
    max: u64,
}

impl Rival {
    /// Loads its script on all servers.
    pub fn new(way: Way, wire: Wire, servers: &[Server]) -> Self {
        let mut sha = String::new();
        if let Some(script) = way.script() {
            for server in servers {
                sha = server.ask(cmd("SCRIPT").arg("LOAD").arg(script));
            }
        }
        Self { way, wire, sha: sha.into(), max: MAX }
    }

    /// Loads its script over its own connection.
    ///
    /// # Panics
    ///
    /// When the way has no script.
    pub async fn over(way: Way, mut wire: Wire) -> Self {
        let script = way.script().expect("the way has a script");
        let sha: String = cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut wire).await.unwrap();
        Self { way, wire, sha: sha.into(), max: MAX }
    }

    /// How it decides.
    pub const fn way(&self) -> Way {
        self.way
    }

    /// The same with another limit than [`MAX`].
    #[must_use]
    pub fn max(mut self, max: u64) -> Self {
        self.max = max;
        self
    }

    /// The one command of a check, for rivals that need only one.
    pub fn command(&self, caller: Caller) -> Cmd {
        let key = caller.key(self.way.letter());
        if self.way == Way::Incr {
            return Cmd::incr(&key[..], 1);
        }
        let (now, window) = (unix_ms(), WINDOW.as_millis() as u64);
        let mut call = cmd("EVALSHA");
        call.arg(&*self.sha).arg(1);
        match self.way {
            Way::Lean => call.arg(&key[..]).arg(self.max).arg(window).arg(now),
            Way::TwoKeys => call.arg(&key[..]).arg(self.max).arg(window / 1000).arg(now / 1000),
            Way::FixedWindow => {
                // The window's number is in the key.
                let mut named = [0; 32];
                named[..24].copy_from_slice(&key);
                named[24..].copy_from_slice(&(now / window).to_be_bytes());
                call.arg(&named[..]).arg(window / 1000)
            }
            Way::Log => {
                let member = Random::default().next();
                call.arg(&key[..]).arg(now).arg(window).arg(self.max).arg(member).arg(window / 1000)
            }
            Way::Gcra => call.arg(&key[..]).arg(window * 1000 / self.max).arg(window * 1000),
            Way::LookThenCount => call.arg(&key[..]).arg(window),
            Way::Incr | Way::Empty | Way::SubWindows => call.arg(&key[..]),
        };
        call
    }

    /// The reply to a command over its connection.
    pub async fn ask<T: redis::FromRedisValue>(&self, command: &Cmd) -> T {
        command.query_async(&mut self.wire.clone()).await.unwrap()
    }
}

impl Decider for Rival {
    async fn decide(&self, caller: Caller) -> bool {
        match self.way {
            Way::Incr => self.ask::<u64>(&self.command(caller)).await > 0,
            Way::Empty => self.ask::<u64>(&self.command(caller)).await == 1,
            Way::Lean => self.ask::<i64>(&self.command(caller)).await >= 0,
            Way::TwoKeys | Way::Log => self.ask::<(u64, i64, i64)>(&self.command(caller)).await.0 == 1,
            Way::Gcra => self.ask::<(u64, i64, i64, i64)>(&self.command(caller)).await.0 == 1,
            Way::FixedWindow => self.ask::<(u64, i64)>(&self.command(caller)).await.0 <= self.max,
            Way::SubWindows => {
                let key = caller.key(self.way.letter());
                let counts: Vec<(u64, u64)> = self.ask(&Cmd::hgetall(&key[..])).await;
                if counts.iter().map(|(_, count)| count).sum::<u64>() >= self.max {
                    return false;
                }
                let mut write = redis::pipe();
                write
                    .atomic()
                    .hincr(&key[..], unix_ms() / 1000, 1)
                    .expire(&key[..], WINDOW.as_secs().cast_signed());
                let (count, _): (u64, u64) = write.query_async(&mut self.wire.clone()).await.unwrap();
                count > 0
            }
            Way::LookThenCount => {
                let key = caller.key(self.way.letter());
                let count: Option<u64> = self.ask(&Cmd::get(&key[..])).await;
                count.unwrap_or(0) < self.max && self.ask::<u64>(&self.command(caller)).await > 0
            }
        }
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}
