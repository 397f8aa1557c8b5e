//! This machine's name, which is the default name of its host and client.

/// The maximum length of a device name in the protocol, in bytes: a DNS label (RFC 1035 section 2.3.4: 63 octets) plus
/// one.
pub const LONGEST_NAME: usize = 64;

/// The name of a machine without a host name.
const NAMELESS: &str = "openuvr";

/// This machine's name, or a default if it is empty or too long for the protocol.
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

/// Returns a name if the protocol can carry it.
///
/// # Errors
/// Returns one line if the name is too long.
pub fn checked(name: &str) -> Result<String, String> {
    if name.len() > LONGEST_NAME {
        return Err(format!(
            "name: {name:?} is longer than {LONGEST_NAME} bytes"
        ));
    }
    Ok(name.to_owned())
}
