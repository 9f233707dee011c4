//! Tests of turns together with refunds, which move no turn: requests that start at their turns pass the
//! plain bucket.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::check::Check;
use crate::reservation::Charge;

/// What happens at a bucket.
#[derive(Clone, Debug)]
enum Event {
    Advance(u64),
    Check(u64),
    Wait {
        cost: u64,
        at_most: u64,
    },
    /// Refunds the charge of a check, or of a turn that is not due.
    Refund(Index),
}

/// Units, window in microseconds, and burst of buckets in which a unit takes whole microseconds.
const BUCKETS: [(u64, u64, u64); 4] = [(1, 1_000, 1), (1, 1_000, 4), (7, 7_000, 2), (1, 1_000, 20)];

fn events() -> impl Strategy<Value = ((u64, u64, u64), Vec<Event>)> {
    prop::sample::select(&BUCKETS[..]).prop_flat_map(|(max, window, burst)| {
        let unit = window / max;
        let time = move || prop_oneof![1 => Just(1), 4 => 0..unit * 2, 1 => 0..unit * 20];
        let event = prop_oneof![
            3 => time().prop_map(Event::Advance),
            4 => (1..=burst).prop_map(Event::Check),
            4 => (1..=burst, time()).prop_map(|(cost, at_most)| Event::Wait { cost, at_most: 3 * at_most }),
            3 => any::<Index>().prop_map(Event::Refund),
        ];
        (Just((max, window, burst)), prop::collection::vec(event, 1..40))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_starts_passes_the_plain_bucket_whatever_goes_back(((max, window, burst), events) in events()) {
        let policy = bucket(max, window, burst);
        let (mut now, mut state) = (START, State::new(&policy));
        // Each charge with the instant of its start.
        let mut charges: Vec<(u64, Charge<'_>)> = Vec::new();
        for event in events {
            let (operation, cost) = match event {
                Event::Advance(by) => {
                    now += by;
                    continue;
                }
                Event::Check(cost) => (Operation::Check, cost),
                Event::Wait { cost, at_most } => (Operation::Wait { at_most_us: at_most }, cost),
                Event::Refund(index) => {
                    // A turn that is due has started.
                    let may_go_back = |(start, charge): &(u64, Charge<'_>)| *start > now || at(*start) == charge.at();
                    let open: Vec<usize> = (0..charges.len()).filter(|&place| may_go_back(&charges[place])).collect();
                    if !open.is_empty() {
                        let (_, charge) = charges.remove(*index.get(&open));
                        state.refund_charge(&charge, at(now));
                    }
                    continue;
                }
            };
            let outcome = &state.decide(&policy, cost, at(now), operation);
            if outcome.is_allowed() {
                let due = now + u64::try_from(outcome.due_after().as_micros()).unwrap();
                charges.push((due, Charge::turn(Check::new(&policy, "a").with_cost(cost), outcome)));
            }
        }
        charges.sort_by_key(|(start, _)| *start);
        let mut plain = State::new(&policy);
        for (start, charged) in &charges {
            charge(&mut plain, &policy, *start, charged.check().cost());
        }
    }
}
