//! This machine's name, which its host and its client go by if they are given none.

/// The longest name of a device in bytes: what the protocol carries, a host name's label (RFC 1035
/// section 2.3.4: 63 octets) and one.
pub const LONGEST_NAME: usize = 64;

/// The name of a machine that has none.
const NAMELESS: &str = "openuvr";

/// This machine's name, if the protocol carries it, or a word in its place.
#[must_use]
pub fn name() -> String {
    // proc(5): the name of this UTS namespace.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let fits = |name: &&str| !name.is_empty() && name.len() <= LONGEST_NAME;
    Some(name.trim())
        .filter(fits)
        .unwrap_or(NAMELESS)
        .to_owned()
}

/// A name that was given, if the protocol carries it.
///
/// # Errors
/// One line: it is too long.
pub fn checked(name: &str) -> Result<String, String> {
    if name.len() > LONGEST_NAME {
        return Err(format!(
            "name: {name:?} is longer than {LONGEST_NAME} bytes"
        ));
    }
    Ok(name.to_owned())
}
