//! Variants take turns: each once a round, in another random order every round.

use std::fmt;
use std::time::Instant;

use crate::random::Random;
use crate::spread::Spread;

/// Something to be measured against others: each call makes one measurement.
pub struct Variant<'a, M> {
    name: String,
    measure: Box<dyn FnMut() -> M + 'a>,
}

impl<'a, M> Variant<'a, M> {
    /// A variant that measures itself.
    pub fn new(name: impl Into<String>, measure: impl FnMut() -> M + 'a) -> Self {
        Self { name: name.into(), measure: Box::new(measure) }
    }
}

impl<'a> Variant<'a, f64> {
    /// A variant that does something `times` times; the measurement is nanoseconds for each.
    pub fn timed(name: impl Into<String>, times: u64, mut act: impl FnMut() + 'a) -> Self {
        Self::new(name, move || {
            let start = Instant::now();
            for _ in 0..times {
                act();
            }
            start.elapsed().as_nanos() as f64 / times as f64
        })
    }
}

impl<M> fmt::Debug for Variant<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variant").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What was measured of one variant, round by round.
#[derive(Debug)]
pub struct Measured<M> {
    /// The variant.
    pub name: String,
    /// One measurement a round.
    pub rounds: Vec<M>,
}

impl<M> Measured<M> {
    /// One number of each round.
    pub fn each(&self, number: impl Fn(&M) -> f64) -> Vec<f64> {
        self.rounds.iter().map(number).collect()
    }

    /// The quartiles of one number.
    pub fn spread(&self, number: impl Fn(&M) -> f64) -> Spread {
        Spread::of(self.each(number))
    }
}

/// Measures every variant once unrecorded and then once in each of `rounds` rounds.
pub fn take_turns<M>(rounds: usize, mut variants: Vec<Variant<'_, M>>) -> Vec<Measured<M>> {
    let mut random = Random::default();
    let mut measured: Vec<Measured<M>> = variants
        .iter()
        .map(|variant| Measured { name: variant.name.clone(), rounds: Vec::with_capacity(rounds) })
        .collect();
    for round in 0..=rounds {
        for i in random.order(variants.len()) {
            let measurement = (variants[i].measure)();
            if round > 0 {
                measured[i].rounds.push(measurement);
            }
        }
    }
    measured
}

/// The variant of this name.
///
/// # Panics
///
/// When there is none.
pub fn find<'a, M>(measured: &'a [Measured<M>], name: &str) -> &'a Measured<M> {
    measured.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no variant is named {name}"))
}
