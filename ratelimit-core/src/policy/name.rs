//! Keys and names of policies: allowed characters and length.

/// Longest key or name of a policy: 128 bytes. A module path and a function name fit.
pub const MAX_NAME_LEN: usize = 128;

/// Whether this may be a key or a name: printable ASCII that needs no escape in a Redis key or a quoted header field.
pub(super) const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_NAME_LEN {
        return false;
    }
    let mut i = 0;
    while i < bytes.len() {
        if !is_name_byte(bytes[i]) {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether a key or a name may have this byte.
pub const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}' | b'"' | b'\\')
}
