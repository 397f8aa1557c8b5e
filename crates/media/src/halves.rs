//! Where a large picture is cut in two, so that two cores convert it.

use std::sync::LazyLock;

/// Above this many pixels a conversion uses two cores: 1280 × 720, below which starting a thread
/// (some 40 µs) takes most of what it saves.
const ONE_CORE: usize = 1280 * 720;

/// The even row at which a conversion of that many rows is split between two cores, if it is
/// worth it.
pub(crate) fn halves(width: u32, rows: usize) -> Option<usize> {
    let large = width as usize * rows > ONE_CORE;
    // It asks the control groups each time.
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    (large && *CORES > 1).then_some(rows / 4 * 2)
}
