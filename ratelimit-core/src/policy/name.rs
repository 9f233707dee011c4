//! Which keys and names a policy may have.

/// Longest key or name of a policy, in bytes; a module path and a function name fit.
pub const MAX_NAME_LEN: usize = 128;

/// Keys and names go into Redis keys and quoted header fields: printable ASCII without what either would escape.
pub(super) const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_NAME_LEN {
        return false;
    }
    let mut i = 0;
    while i < bytes.len() {
        if !bytes[i].is_ascii_graphic() || matches!(bytes[i], b'{' | b'}' | b'"' | b'\\') {
            return false;
        }
        i += 1;
    }
    true
}
