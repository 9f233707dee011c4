//! Runs the vectors in `vectors/` on the pure decision, the memory store and the Redis store, field by field,
//! and compares what each step has stored.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use ratelimit_core::store::toolkit::owned;
use ratelimit_core::{
    Algorithm, Check, Decision, GroupOutcome, Mode, Outcome, Policy, Reservation, Timestamp,
};
use serde::Deserialize;
use tests::timed::{self, Timed};
use tests::timeline;

/// A file for one algorithm: every vector has one policy and one caller.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlgorithmFile {
    vector: Vec<AlgorithmVector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlgorithmVector {
    name: String,
    max: u64,
    window: u64,
    sub_windows: Option<u64>,
    burst: Option<u64>,
    base: i64,
    rows: Vec<AlgorithmRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlgorithmRow {
    at: i64,
    cost: u64,
    allowed: bool,
    remaining: u64,
    reset_after: u64,
    retry_after: Option<Wait>,
    #[serde(default)]
    why: String,
}

/// The file for groups: every vector has several policies, and callers by name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    vector: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    base: i64,
    policies: Vec<VectorPolicy>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorPolicy {
    key: String,
    /// Name by which checks refer to the policy; by default its key.
    name: Option<String>,
    algorithm: String,
    max: u64,
    window: u64,
    sub_windows: Option<u64>,
    burst: Option<u64>,
    block: Option<u64>,
    #[serde(default)]
    shadow: bool,
}

impl VectorPolicy {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.key)
    }

    fn policy(&self) -> Policy {
        let mut builder = Policy::builder("vector")
            .algorithm(algorithm(&self.algorithm))
            .max(self.max)
            .window(Duration::from_micros(self.window))
            .mode(if self.shadow { Mode::Shadow } else { Mode::Enforce });
        if let Some(sub_windows) = self.sub_windows {
            builder = builder.sub_windows(sub_windows);
        }
        if let Some(burst) = self.burst {
            builder = builder.burst(burst);
        }
        if let Some(block) = self.block {
            builder = builder.block(Duration::from_micros(block));
        }
        builder.try_build().unwrap().with_key(&*self.key).unwrap()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_field_names, reason = "the words of the vector files")]
struct Row {
    at: i64,
    #[serde(default)]
    action: Action,
    /// For a refund or a settlement: number of the row with the charges, from 0.
    row: Option<usize>,
    /// For a settlement: the true cost of the first limit that was charged. For as many as fit: the most.
    units: Option<u64>,
    /// For a wait: at most, and when the turn is due.
    at_most: Option<u64>,
    #[serde(default)]
    due_after: u64,
    /// Expected of a check or a peek.
    #[serde(default)]
    allowed: bool,
    retry_after: Option<Wait>,
    #[serde(default)]
    why: String,
    #[serde(default)]
    checks: Vec<Expected>,
}

/// What a row does. A refund, a settlement and a reset have no outcome: a peek shows their effect.
#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Action {
    #[default]
    Check,
    Peek,
    /// The costs of the checks are the units that are charged.
    UpTo,
    /// A wait of one limit for its turn.
    Wait,
    Refund,
    Settle,
    Reset,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    policy: String,
    caller: String,
    #[serde(default)]
    cost: u64,
    #[serde(default)]
    remaining: u64,
    #[serde(default)]
    reset_after: u64,
    retry_after: Option<Wait>,
    /// Whether the limit is looked at, and charged nothing.
    #[serde(default)]
    uncharged: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Wait {
    Micros(u64),
    Never(Never),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Never {
    Never,
}

impl Wait {
    fn micros(self) -> Option<u64> {
        match self {
            Self::Micros(micros) => Some(micros),
            Self::Never(Never::Never) => None,
        }
    }

    fn decision(self) -> Decision {
        Decision::Denied { retry_after: self.micros().map(Duration::from_micros) }
    }
}

fn algorithm(name: &str) -> Algorithm {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A vector of one algorithm as one of groups.
fn from_algorithm(vector: AlgorithmVector, algorithm: Algorithm) -> Vector {
    let AlgorithmVector { name, max, window, sub_windows, burst, base, rows } = vector;
    let rows = rows.into_iter().map(|row| Row {
        at: row.at,
        action: Action::Check,
        row: None,
        units: None,
        at_most: None,
        due_after: 0,
        allowed: row.allowed,
        retry_after: row.retry_after,
        why: row.why,
        checks: vec![Expected {
            policy: "vector".to_owned(),
            caller: "a".to_owned(),
            cost: row.cost,
            remaining: row.remaining,
            reset_after: row.reset_after,
            retry_after: row.retry_after,
            uncharged: false,
        }],
    });
    let policy = VectorPolicy {
        key: "vector".to_owned(),
        name: None,
        algorithm: algorithm.as_str().to_owned(),
        max,
        window,
        sub_windows,
        burst,
        block: None,
        shadow: false,
    };
    Vector { name, base, policies: vec![policy], rows: rows.collect() }
}

/// Every vector of every file, by the file's name.
fn vectors() -> Vec<(String, Vec<Vector>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    // Edges of calendars, without decisions: core/calendar.rs has them.
    files.retain(|path| !path.ends_with("calendar.toml"));
    files.sort();
    files
        .iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = fs::read_to_string(path).unwrap();
            let vectors = if let Ok(algorithm) = name.parse() {
                let file: AlgorithmFile =
                    toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
                file.vector.into_iter().map(|vector| from_algorithm(vector, algorithm)).collect()
            } else {
                let file: GroupFile = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
                file.vector
            };
            (name, vectors)
        })
        .collect()
}

#[test]
fn every_algorithm_has_a_file_of_vectors() {
    let files = vectors();
    for algorithm in Algorithm::ALL {
        let vectors = files.iter().find(|(name, _)| name == algorithm.as_str()).map(|(_, vectors)| vectors);
        assert!(
            vectors.is_some_and(|vectors| vectors.iter().any(|vector| !vector.rows.is_empty())),
            "tests/vectors/{algorithm}.toml has no row"
        );
    }
}

/// Plays every row of every file.
fn check_vectors(on: &str, store: &Timed) {
    let (mut rows, mut vectors_count) = (0, 0);
    let files = vectors();
    let model = timed::reference();
    for (file, vectors) in &files {
        for vector in vectors {
            vectors_count += 1;
            let policies: Vec<Policy> = vector.policies.iter().map(VectorPolicy::policy).collect();
            let policy_of = |check: &Expected| {
                let place = vector.policies.iter().position(|policy| policy.name() == check.policy);
                &policies[place.expect("a policy's name")]
            };
            // For each row the charges, by either subject.
            let mut reservations: Vec<[Option<Reservation<'static>>; 2]> = Vec::new();
            for row in &vector.rows {
                rows += 1;
                let place = format!("{on}: {file}, \"{}\", at {} ({})", vector.name, row.at, row.why);
                let now = Timestamp::from_micros(u64::try_from(vector.base + row.at).unwrap());
                // Callers of their own, so that one store serves all vectors.
                let callers: Vec<String> =
                    row.checks.iter().map(|e| format!("{file}/{}/{}", vector.name, e.caller)).collect();
                let checks = row.checks.iter().zip(&callers);
                let check = |(e, caller)| Check::new(policy_of(e), caller).with_cost(e.cost);
                let group: Vec<Check<'_>> = checks
                    .map(
                        |(e, caller)| {
                            if e.uncharged { check((e, caller)).uncharged() } else { check((e, caller)) }
                        },
                    )
                    .collect();
                let subjects = [store, &model];
                let played = subjects.iter().enumerate().map(|(subject, timed)| {
                    timed.set(now.as_micros());
                    match row.action {
                        Action::Check => Some(timed.check_all(&group)),
                        Action::Peek => Some(timed.peek_all(&group)),
                        Action::UpTo => {
                            let most = row.units.expect("the most units");
                            let (units, outcome) =
                                timed.run(timed.limiter.check_up_to_all(&group, most)).unwrap();
                            let expected = if row.allowed { row.checks[0].cost } else { 0 };
                            assert_eq!(units, expected, "{place}");
                            Some(outcome)
                        }
                        Action::Wait => {
                            let at_most = Duration::from_micros(row.at_most.expect("the longest wait"));
                            let ([check], [caller]) = (&group[..], &callers[..]) else {
                                panic!("one limit: {place}")
                            };
                            let outcome = timed.wait(check.policy(), caller, check.cost(), at_most);
                            Some(GroupOutcome::new(now, [outcome]))
                        }
                        Action::Settle => {
                            let charged = &reservations[row.row.expect("the row that is settled")][subject];
                            let mut charged = owned(charged.as_ref().expect("it was charged"));
                            let policy = charged.charges().next().unwrap().check().policy().name().to_owned();
                            let one = charged.take_limit(&policy).unwrap();
                            timed.run(timed.limiter.settle(one, row.units.expect("the true cost"))).unwrap();
                            None
                        }
                        Action::Refund => {
                            let charged = &reservations[row.row.expect("the row that is refunded")][subject];
                            timed.refund(owned(charged.as_ref().expect("it was charged")));
                            None
                        }
                        Action::Reset => {
                            for check in &group {
                                timed.run(timed.limiter.reset(check.policy(), check.partition())).unwrap();
                            }
                            None
                        }
                    }
                });
                let played: Vec<Option<GroupOutcome>> = played.collect();
                let charged = |subject: usize| {
                    let outcome = played[subject].as_ref().filter(|_| row.action != Action::Peek)?;
                    Some(outcome.reservation(&group)?.into_owned())
                };
                reservations.push([charged(0), charged(1)]);
                timeline::assert_same(&place, store, &model, &group, now);
                let [Some(outcome), Some(model_outcome)] = &played[..] else { continue };
                assert_eq!(
                    timeline::shown(outcome),
                    timeline::shown(&expected(&group, row, outcome)),
                    "{place}"
                );
                assert_eq!(outcome, model_outcome, "{place}");
                let retry_after = row.retry_after.and_then(Wait::micros).map(Duration::from_micros);
                assert_eq!(outcome.retry_after(), retry_after, "{place}");
                assert_eq!(row.allowed, row.retry_after.is_none(), "the vector itself: {place}");
            }
        }
    }
    assert!(files.len() >= 5 && rows > 400, "{rows} rows in {} files", files.len());
    timed::report(&format!("{on}: {rows} rows of {vectors_count} vectors in {} files", files.len()));
}

/// The outcome that the row expects. Rows have no wait for one more unit; that is taken from `outcome`.
fn expected(group: &[Check<'_>], row: &Row, outcome: &GroupOutcome) -> GroupOutcome {
    let outcomes = row.checks.iter().zip(group).zip(outcome.outcomes()).map(|((e, check), actual)| {
        let limit = check.policy().capacity();
        let expected = Outcome::new(limit, e.retry_after.map_or(Decision::Allowed, Wait::decision))
            .with_cost(e.cost)
            .with_remaining(e.remaining)
            .with_reset_after(Duration::from_micros(e.reset_after));
        let expected = match row.due_after {
            0 => expected,
            wait => expected.with_due_after(Duration::from_micros(wait)),
        };
        let expected = if check.is_shadow() { expected.in_shadow() } else { expected };
        actual.next_unit_after().map_or(expected.clone(), |wait| expected.with_next_unit_after(wait))
    });
    let expected = GroupOutcome::new(outcome.at(), outcomes);
    assert_eq!(expected.is_allowed(), row.allowed, "the row contradicts itself");
    expected
}

#[test]
fn the_pure_decision_follows_the_vectors() {
    check_vectors("pure", &timed::reference());
}

#[test]
fn the_memory_store_follows_the_vectors() {
    check_vectors("memory", &timed::memory());
}

#[test]
fn the_redis_store_follows_the_vectors() {
    let Some(store) = timed::redis() else { return };
    check_vectors("redis", &store);
}
