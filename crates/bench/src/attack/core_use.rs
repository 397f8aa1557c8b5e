//! What processes and threads have taken of a core, by `/proc`.

use anyhow::{Context as _, Result};

/// What a process or thread has taken of a core, in hundredths of a second, by its `stat` (proc(5)).
pub(super) fn hundredths(stat: &str) -> f64 {
    // Behind the name, which may have blanks: state is field 3, the two times 14 and 15.
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let fields = behind.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum()
}

/// Seconds of a core that a process's threads of these names have taken.
pub(super) fn threads_use(process: u32, names: &[&str]) -> Result<f64> {
    let folder = format!("/proc/{process}/task");
    let threads = std::fs::read_dir(&folder).with_context(|| format!("no {folder}"))?;
    let mut taken = 0.0;
    for thread in threads.filter_map(Result::ok) {
        let read = |file: &str| std::fs::read_to_string(thread.path().join(file));
        // One that has just ended took what it took before.
        let (Ok(name), Ok(stat)) = (read("comm"), read("stat")) else {
            continue;
        };
        if names.contains(&name.trim()) {
            taken += hundredths(&stat);
        }
    }
    Ok(taken / 100.0)
}
