//! The library's version.

use crate::catch_panic::catch_panic;

/// Returns the version of the loaded library, `major << 16 | minor << 8 | patch`: compare it with
/// `OPENUVR_VERSION` of the header. From any thread.
#[unsafe(no_mangle)]
pub extern "C" fn openuvr_version() -> u32 {
    catch_panic(0, || {
        let parts = [
            env!("CARGO_PKG_VERSION_MAJOR"),
            env!("CARGO_PKG_VERSION_MINOR"),
            env!("CARGO_PKG_VERSION_PATCH"),
        ];
        let number = |part: &str| part.parse::<u32>().unwrap_or(0);
        parts
            .into_iter()
            .fold(0, |all, part| all << 8 | number(part))
    })
}
