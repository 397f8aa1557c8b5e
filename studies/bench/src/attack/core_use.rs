//! CPU use of processes and threads, from `/proc`.

use anyhow::{Context as _, Result};

/// CPU time of a process or thread in hundredths of a second. `stat` is the content of its `stat` file (proc(5)).
pub(super) fn hundredths(stat: &str) -> f64 {
    // Skip the name, which may contain blanks. Then state is field 3, utime is field 14 and stime is field 15.
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let fields = behind.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum()
}

/// CPU seconds of a process's threads with these names.
pub(super) fn threads_use(process: u32, names: &[&str]) -> Result<f64> {
    let folder = format!("/proc/{process}/task");
    let threads = std::fs::read_dir(&folder).with_context(|| format!("no {folder}"))?;
    let mut taken = 0.0;
    for thread in threads.filter_map(Result::ok) {
        let read = |file: &str| std::fs::read_to_string(thread.path().join(file));
        // A thread that has just ended is skipped.
        let (Ok(name), Ok(stat)) = (read("comm"), read("stat")) else {
            continue;
        };
        if names.contains(&name.trim()) {
            taken += hundredths(&stat);
        }
    }
    Ok(taken / 100.0)
}
