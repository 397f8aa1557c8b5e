//! Divides the conversion of a large picture between two cores.

use std::sync::LazyLock;

/// Above this number of pixels (1280 × 720), a conversion uses two cores. Below it, starting a thread (about 40 µs)
/// costs most of the gain.
const ONE_CORE: usize = 1280 * 720;

/// The even row at which to divide a conversion of this many rows between two cores. `None` if a division is not
/// worthwhile.
pub(crate) fn halves(width: u32, rows: usize) -> Option<usize> {
    let large = width as usize * rows > ONE_CORE;
    // `available_parallelism` queries the control groups at each call, so its result is kept.
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    (large && *CORES > 1).then_some(rows / 4 * 2)
}
