//! Parts of a cluster's slots.

/// Parts into which the slots of a cluster are divided to tell a node that hangs from the others. A single server is
/// one part.
pub(in crate::store::redis) const SLOT_RANGES: usize = 64;

/// Slots in a cluster.
const SLOTS: u16 = 16_384;

/// The hash tag of a key, which decides where in a cluster it is.
fn hash_tag(key: &str) -> &str {
    key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag)
}

/// The part of the cluster in which a key is.
pub(in crate::store::redis) fn slot_range(key: &str) -> usize {
    let slot = crc16::State::<crc16::XMODEM>::calculate(hash_tag(key).as_bytes()) % SLOTS;
    usize::from(slot) * SLOT_RANGES / usize::from(SLOTS)
}

/// A key in each part of the slots, of those that `key` makes of numbers.
pub(in crate::store::redis) fn one_for_each_range(key: impl Fn(u32) -> String) -> Vec<String> {
    let mut found = vec![String::new(); SLOT_RANGES];
    let mut missing = SLOT_RANGES;
    for key in (0..).map(key) {
        let place = &mut found[slot_range(&key)];
        if place.is_empty() {
            *place = key;
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_key_in_each_part_of_the_slots() {
        let keys = one_for_each_range(|i| format!("rl1:probe:{i}"));
        assert_eq!(keys.len(), SLOT_RANGES);
        for (range, key) in keys.iter().enumerate() {
            assert_eq!(slot_range(key), range, "{key}");
        }
    }
}
