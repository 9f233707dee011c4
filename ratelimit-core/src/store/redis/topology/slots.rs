//! Slots of a cluster, in ranges that fail independently.

/// Number of ranges into which the slots of a cluster are divided, so that a hanging node does not affect the others. A single
/// server is one range.
pub(in crate::store::redis) const SLOT_RANGES: usize = 64;

/// Number of slots in a cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The hash tag of a key, which decides its slot.
fn hash_tag(key: &str) -> &str {
    key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag)
}

/// The slot of a hash tag.
pub(in crate::store::redis) fn slot_of_tag(tag: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag) % SLOTS
}

/// The range of a slot.
pub(in crate::store::redis) fn range_of_slot(slot: u16) -> usize {
    usize::from(slot) * SLOT_RANGES / usize::from(SLOTS)
}

/// The slot of a key.
pub(in crate::store::redis) fn slot_of_key(key: &str) -> u16 {
    slot_of_tag(hash_tag(key).as_bytes())
}

/// One key in each slot range, found among `key(0)`, `key(1)` and so on.
pub(in crate::store::redis) fn key_in_each_range(key: impl Fn(u32) -> String) -> Vec<String> {
    let mut found = vec![String::new(); SLOT_RANGES];
    let mut missing = SLOT_RANGES;
    for key in (0..).map(key) {
        let place = &mut found[range_of_slot(slot_of_key(&key))];
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
    fn a_key_is_found_in_each_slot_range() {
        let keys = key_in_each_range(|i| format!("rl1:probe:{i}"));
        assert_eq!(keys.len(), SLOT_RANGES);
        for (range, key) in keys.iter().enumerate() {
            assert_eq!(range_of_slot(slot_of_key(key)), range, "{key}");
        }
    }
}
