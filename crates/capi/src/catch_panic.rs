//! Stops panics at the boundary to C.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an exported function. A panic ends here, and `on_panic` is returned.
pub(crate) fn catch_panic<T>(on_panic: T, work: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => value,
        Err(payload) => {
            // Dropping the payload may panic, too.
            std::mem::forget(payload);
            on_panic
        }
    }
}
