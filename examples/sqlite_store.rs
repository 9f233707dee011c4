//! A custom store in one SQLite file, for all processes of a machine. Counts outlive the processes.
//!
//! `cargo run --example sqlite_store --features sqlite`, more than once within a minute, and
//! `cargo test --example sqlite_store --features sqlite` for the suite of the contract.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ratelimit_core::clock::{Clock, SystemClock};
use ratelimit_core::store::toolkit::{Operation, State, decide_with, refund_with};
use ratelimit_core::store::{Deadline, Store};
use ratelimit_core::{
    Check, Decision, GroupOutcome, Policy, RateLimiter, Reservation, StoreError, Timestamp,
};
use rusqlite::{Connection, Error, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

/// The digests' key and the latest instant are in the file, so that all processes have the same.
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS shared (one INTEGER PRIMARY KEY CHECK (one = 1), digest_key BLOB, now INTEGER) STRICT;
    INSERT OR IGNORE INTO shared VALUES (1, randomblob(16), 0);
    CREATE TABLE IF NOT EXISTS states (digest BLOB PRIMARY KEY, expires_at INTEGER, state BLOB) WITHOUT ROWID, STRICT;
    CREATE INDEX IF NOT EXISTS states_by_expiry ON states (expires_at);";

/// Longest wait for the lock of the file. It blocks the thread, so a service would take less.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Counts in a file.
#[derive(Debug)]
struct SqliteStore<C> {
    clock: C,
    digest_key: [u8; 16],
    connection: Mutex<Connection>,
}

impl<C: Clock> SqliteStore<C> {
    fn open(file: &Path, clock: C) -> Result<Self, StoreError> {
        let connect = || {
            let connection = Connection::open(file)?;
            connection.busy_timeout(LONGEST_WAIT)?;
            connection.execute_batch(SCHEMA)?;
            let digest_key = connection.query_row("SELECT digest_key FROM shared", [], |row| row.get(0))?;
            Ok((digest_key, Mutex::new(connection)))
        };
        let (digest_key, connection) = connect().map_err(failed)?;
        Ok(Self { clock, digest_key, connection })
    }

    /// The clock. Those of other processes with this file may be ahead.
    fn now(&self, connection: &Connection) -> Result<Timestamp, Error> {
        let latest: i64 = connection.query_row("SELECT now FROM shared", [], |row| row.get(0))?;
        Ok(self.clock.now().max(Timestamp::from_micros(latest.unsigned_abs())))
    }

    /// Runs `decide` over the states of `checks`, and writes those that it names, under the write lock of the
    /// file. Beside a check is the instant of its charge, or none for now.
    fn transaction<'a, T>(
        &self,
        checks: impl Iterator<Item = (Check<'a>, Option<Timestamp>)>,
        decide: impl FnOnce(&mut HashMap<u128, State>, Timestamp) -> (T, Vec<u128>),
    ) -> Result<T, StoreError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        // Under the lock, and before the states: each window of a calendar has its own.
        let now = self.now(&tx).map_err(failed)?;
        let mut states = HashMap::new();
        for (check, charged_at) in checks {
            let digest = check.digest(&self.digest_key, charged_at.unwrap_or(now));
            if let Some(bytes) = load(&tx, digest).map_err(failed)? {
                states.insert(digest, State::from_bytes(check.policy(), &bytes)?);
            }
        }
        let (result, changed) = decide(&mut states, now);
        if !changed.is_empty() {
            let changed = changed.iter().filter_map(|digest| states.get_key_value(digest));
            save(&tx, changed, now).map_err(failed)?;
        }
        tx.commit().map_err(failed)?;
        Ok(result)
    }
}

fn load(tx: &Transaction<'_>, digest: u128) -> Result<Option<Vec<u8>>, Error> {
    let query = "SELECT state FROM states WHERE digest = ?";
    tx.query_row(query, [digest.to_be_bytes()], |row| row.get(0)).optional()
}

fn save<'s>(
    tx: &Transaction<'_>,
    changed: impl Iterator<Item = (&'s u128, &'s State)>,
    now: Timestamp,
) -> Result<(), Error> {
    for (digest, state) in changed {
        let row = params![digest.to_be_bytes(), micros(state.expires_at()), state.to_bytes()];
        tx.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", row)?;
    }
    tx.execute("UPDATE shared SET now = ?", [micros(now)])?;
    tx.execute("DELETE FROM states WHERE expires_at <= ?", [micros(now)])?;
    Ok(())
}

fn micros(at: Timestamp) -> i64 {
    at.as_micros().try_into().unwrap_or(i64::MAX)
}

fn failed(error: Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::CannotOpen) => StoreError::unavailable(error),
        _ => StoreError::rejected(error),
    }
}

impl<C: Clock> Store for SqliteStore<C> {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        _: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        self.transaction(group.iter().map(|check| (*check, None)), |states, now| {
            let decided = decide_with(group, operation, now, &self.digest_key, states);
            (decided.outcome, decided.changed)
        })
    }

    async fn reset(&self, group: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now(&connection).map_err(failed)?;
        for check in group {
            let digest = check.digest(&self.digest_key, now).to_be_bytes();
            connection.execute("DELETE FROM states WHERE digest = ?", [digest]).map_err(failed)?;
        }
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        let charges = reservation.charges().map(|charge| (charge.check(), Some(charge.at())));
        self.transaction(charges, |states, now| {
            let refunded = refund_with(reservation, now, &self.digest_key, states);
            (refunded.result, refunded.changed)
        })?
    }

    fn kind(&self) -> &'static str {
        "sqlite"
    }
}

static JOBS: Policy = Policy::new("jobs", 3, Duration::from_secs(60));

#[actix_web::main]
async fn main() -> Result<(), StoreError> {
    let file = std::env::temp_dir().join("ratelimit-jobs.db");
    let limiter = RateLimiter::new(SqliteStore::open(&file, SystemClock::new())?);
    for job in 1..=2 {
        let outcome = limiter.check(&JOBS, "tenant-42").await?;
        match outcome.decision() {
            Decision::Allowed => println!("job {job} may start, {} more at once", outcome.remaining()),
            Decision::Denied { retry_after: Some(wait) } => {
                println!("job {job} has to wait {} s", wait.as_secs_f32().ceil());
            }
            _ => println!("job {job} never starts"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    fn block_on<F: Future>(future: F) -> F::Output {
        actix_web::rt::System::new().block_on(future)
    }

    mod conformance {
        use ratelimit_core::clock::FakeClock;
        use ratelimit_core::conformance::Fixture;
        use tempfile::TempDir;

        use super::super::SqliteStore;
        use super::block_on;

        /// Two stores on one file, as two processes have.
        struct TwoOnOneFile(
            [SqliteStore<FakeClock>; 2],
            #[allow(dead_code, reason = "removed at the end")] TempDir,
        );

        impl Fixture for TwoOnOneFile {
            type Store = SqliteStore<FakeClock>;

            fn store(&self) -> &Self::Store {
                &self.0[0]
            }

            fn second(&self) -> Option<&Self::Store> {
                Some(&self.0[1])
            }
        }

        #[allow(clippy::unnecessary_wraps, reason = "the suite wants an option: `None` skips")]
        fn stores(clock: &FakeClock) -> Option<TwoOnOneFile> {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("counts.db");
            let stores = [(), ()].map(|()| SqliteStore::open(&file, clock.clone()).unwrap());
            Some(TwoOnOneFile(stores, directory))
        }

        ratelimit_core::conformance_suite! { store: stores, block_on: block_on }
    }

    const FILE: &str = "SQLITE_STORE_FILE";

    /// Whether the only request of a caller passes.
    fn passes(store: &SqliteStore<SystemClock>, caller: &str) -> bool {
        let policy = Policy::builder("race").max(1).window(Duration::from_secs(86_400)).build();
        let group = [Check::new(&policy, caller)];
        block_on(store.decide(&group, Operation::Check, Deadline::none())).unwrap().is_allowed()
    }

    /// Each round is a caller of which both processes check one request, in every other round at once. This
    /// test is also the second process.
    #[test]
    fn of_two_processes_that_race_for_one_unit_one_gets_it() {
        if let Some(file) = env::var_os(FILE) {
            let store = SqliteStore::open(Path::new(&file), SystemClock::new()).unwrap();
            for caller in std::io::stdin().lines() {
                println!("passes: {}", passes(&store, &caller.unwrap()));
            }
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("counts.db");
        let store = SqliteStore::open(&file, SystemClock::new()).unwrap();
        let mut second = Command::new(env::current_exe().unwrap())
            .args(["of_two_processes_that_race_for_one_unit_one_gets_it", "--nocapture"])
            .env(FILE, &file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut callers = second.stdin.take().unwrap();
        let mut answers = BufReader::new(second.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut won = [0, 0];
        for round in 0..200 {
            let caller = round.to_string();
            writeln!(callers, "{caller}").unwrap();
            let mut answer =
                || answers.find_map(|line| Some(line.split_once("passes: ")?.1 == "true")).unwrap();
            // In every other round the second process is first, since it may lose each race.
            let (first, answer) = if round % 2 == 0 {
                (passes(&store, &caller), answer())
            } else {
                let answer = answer();
                (passes(&store, &caller), answer)
            };
            assert!(first != answer, "round {round}: the first {first}, the second {answer}");
            won[usize::from(answer)] += 1;
        }
        drop(callers);
        assert!(second.wait().unwrap().success());
        assert!(won[0] > 0 && won[1] > 0, "{won:?}");
    }
}
