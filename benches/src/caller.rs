//! Callers: twenty bytes each, made on the stack from a number.

/// A caller's name, 20 letters and digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller([u8; 20]);

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl Caller {
    /// The caller with this number in this population; two populations have no caller in common.
    pub fn new(population: u16, number: u64) -> Self {
        let mut name = [0; 20];
        // Spread over all bits, since real names do not begin with the same zeros.
        let mut rest =
            (u128::from(population) << 64) | u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for byte in name.iter_mut().rev() {
            *byte = DIGITS[(rest & 15) as usize];
            rest >>= 4;
        }
        Self(name)
    }

    /// The caller of this [text](Self::text).
    pub fn parse(text: &str) -> Option<Self> {
        text.as_bytes().try_into().map(Self).ok()
    }

    /// As a key in Redis: a letter for whose it is, and a hash tag, so that a script may make several keys of
    /// it.
    pub fn key(self, owner: u8) -> [u8; 24] {
        let mut key = [b'{'; 24];
        key[0] = owner;
        key[1] = b':';
        key[3..23].copy_from_slice(&self.0);
        key[23] = b'}';
        key
    }

    /// The name as text.
    pub fn text(self) -> String {
        self.0.iter().map(|byte| char::from(*byte)).collect()
    }
}

impl AsRef<[u8]> for Caller {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The number of callers, and which one comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callers {
    /// Which population.
    pub population: u16,
    /// How many there are.
    pub number: u64,
}

impl Callers {
    /// Any of them.
    pub fn any(self, random: &mut crate::random::Random) -> Caller {
        Caller::new(self.population, random.below(self.number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn callers_are_apart() {
        let names: HashSet<_> = (0..1000).flat_map(|n| [Caller::new(0, n), Caller::new(1, n)]).collect();
        assert_eq!(names.len(), 2000);
    }

    #[test]
    fn a_caller_is_parsed_from_its_text() {
        let caller = Caller::new(3, 7);
        assert_eq!(Caller::parse(&caller.text()), Some(caller));
        assert_eq!(Caller::parse("short"), None);
    }

    #[test]
    fn a_key_is_tagged_with_the_caller() {
        let caller = Caller::new(0, 1);
        assert_eq!(String::from_utf8_lossy(&caller.key(b'x')), format!("x:{{{}}}", caller.text()));
    }
}
