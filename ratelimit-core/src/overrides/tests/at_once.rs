//! Overrides that are put in force while others are, or while something else looks.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use parking_lot::Mutex;

use super::*;
use crate::overrides::check::DeclaredLimits;

/// How long a test waits for what happens at once, before it fails.
const LONG: Duration = Duration::from_secs(10);

/// A row at which the check of overrides stops until the test lets it go on.
struct Gate {
    is_reached: Sender<()>,
    go_on: Receiver<()>,
}

static GATES: Mutex<Vec<(&str, Gate)>> = Mutex::new(Vec::new());

thread_local! {
    /// How many rows of callers this thread has read.
    pub(super) static CALLERS_READ: Cell<usize> = const { Cell::new(0) };
}

inventory::submit! { DeclaredLimits { limits: Vec::new, caller } }

/// Callers of the kind `gate`.
fn caller(text: &str) -> Result<Vec<u8>, String> {
    CALLERS_READ.set(CALLERS_READ.get() + 1);
    let Some(name) = text.strip_prefix("gate ") else { return Err("expected `gate`".to_owned()) };
    let gate = {
        let mut gates = GATES.lock();
        gates.iter().position(|(gate, _)| *gate == name).map(|at| gates.swap_remove(at).1)
    };
    if let Some(gate) = gate {
        gate.is_reached.send(()).unwrap();
        gate.go_on.recv_timeout(LONG).unwrap();
    }
    Ok(text.into())
}

/// Runs `while_checked` while the check of overrides with this `max` is inside, and returns what `put`
/// returned.
fn at_gate<T: Send>(
    name: &'static str,
    put: impl FnOnce(&Overrides) -> T + Send,
    while_checked: impl FnOnce(),
) -> T {
    let (is_reached, reached) = channel();
    let (go_on, going_on) = channel();
    GATES.lock().push((name, Gate { is_reached, go_on: going_on }));
    let overrides = parsed(&format!("[limit.shop]\nmax = 77\n[limit.shop.callers]\n\"gate {name}\" = {{}}"));
    thread::scope(|scope| {
        let putting = scope.spawn(move || put(&overrides));
        reached.recv_timeout(LONG).expect("the check reaches the row");
        while_checked();
        go_on.send(()).unwrap();
        putting.join().unwrap()
    })
}

fn max_in_force(current: &Arc<Current>) -> u64 {
    current.guard().limit(&SHOP).map_or(SHOP.max(), |limit| limit.policy().max())
}

#[test]
fn a_look_at_the_limits_does_not_wait_for_overrides_that_are_checked() {
    let current = current();
    let number = current.replace(&parsed("[limit.shop]\nmax = 5")).unwrap();
    let looked = || {
        let (sender, found) = channel();
        let current = Arc::clone(&current);
        thread::spawn(move || {
            let found =
                (current.builder_policies().len(), current.watches.is_over(number), max_in_force(&current));
            sender.send((found, current.watches.rejected())).unwrap();
        });
        let found = found.recv_timeout(LONG).expect("an answer while overrides are checked");
        assert_eq!(found, ((3, false, 5), None));
    };
    at_gate("looked", |overrides| current.replace(overrides), looked).unwrap();
    assert_eq!(max_in_force(&current), 77);
}

#[test]
fn of_two_replacements_at_once_the_one_whose_check_ends_later_is_in_force() {
    let current = current();
    let mut inner = 0;
    let outer = at_gate(
        "two",
        |overrides| current.replace(overrides).unwrap(),
        || {
            inner = current.replace(&parsed("[limit.shop]\nmax = 5")).unwrap();
            assert_eq!(max_in_force(&current), 5);
        },
    );
    assert_eq!((outer, max_in_force(&current)), (inner + 1, 77));
    assert!(current.watches.is_over(inner) && !current.watches.is_over(outer));
}

#[test]
fn a_watch_that_ends_while_its_contents_are_checked_changes_nothing() {
    let current = current();
    let number = current.replace(&parsed("[limit.shop]\nmax = 20")).unwrap();
    let put = at_gate(
        "watch",
        |overrides| current.replace_by(number, overrides).map(Result::unwrap),
        || assert_eq!(current.replace(&parsed("[limit.shop]\nmax = 5")), Ok(number + 1)),
    );
    assert_eq!((put, max_in_force(&current)), (None, 5));
    let number = current.replace(&parsed("[limit.shop]\nmax = 6")).unwrap();
    let put = current.replace_by(number, &parsed("[limit.shop]\nmax = 7")).map(Result::unwrap);
    assert_eq!((put, max_in_force(&current)), (Some((1, 1)), 7));
}
