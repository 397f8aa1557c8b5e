//! Band and link rate of Wi-Fi devices.
//!
//! `iw` reports both (from nl80211). Without `iw`, both are unknown.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::finding::Finding;

pub(super) fn findings() -> Vec<Finding> {
    let Ok(devices) = std::fs::read_dir("/sys/class/net") else {
        return Vec::new();
    };
    let mut names: Vec<String> = devices
        .flatten()
        .filter(|device| is_wireless(&device.path()))
        .filter_map(|device| device.file_name().into_string().ok())
        .collect();
    names.sort();
    names.iter().flat_map(|name| device(name)).collect()
}

fn is_wireless(device: &Path) -> bool {
    device.join("wireless").exists() || device.join("phy80211").exists()
}

fn device(name: &str) -> Vec<Finding> {
    let iw = |words: &[&str]| {
        let mut command = Command::new("iw");
        command.args(["dev", name]).args(words);
        let out = command.env("PATH", search_path()).output().ok()?;
        out.status
            .success()
            .then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let Some(link) = iw(&["link"]) else {
        return vec![Finding::better(
            name,
            "Wi-Fi device with unknown band and rate",
            "sudo apt install iw",
        )];
    };
    let mut findings = vec![judge_link(name, &link)];
    if iw(&["get", "power_save"]).is_some_and(|text| text.contains("Power save: on")) {
        findings.push(Finding::better(
            name,
            "power saving delays datagrams by up to 100 ms",
            format!("sudo iw dev {name} set power_save off"),
        ));
    }
    findings
}

/// The folders in which `iw` is searched. Debian installs it in `/usr/sbin`, which is not in every user's `PATH`.
fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    path.push(":/usr/sbin:/sbin");
    path
}

/// Below this rate in Mb/s between device and access point, retries and other stations leave too little capacity for a
/// stream of 10 to 20 Mb/s (guess).
const SLOW: f64 = 60.0;

/// Evaluates the output of `iw dev NAME link`.
fn judge_link(name: &str, text: &str) -> Finding {
    let value = |key: &str| -> Option<f64> {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let Some(mhz) = value("freq:") else {
        return Finding::ok(name, "not connected");
    };
    let band = match mhz as u32 {
        ..3000 => "2.4 GHz",
        3000..5925 => "5 GHz",
        5925..8000 => "6 GHz",
        _ => "60 GHz",
    };
    let rates = [value("tx bitrate:"), value("rx bitrate:")];
    let slowest = rates.into_iter().flatten().reduce(f64::min);
    let rate = slowest.map_or_else(|| "rate unknown".into(), |mbps| format!("{mbps} Mb/s"));
    let signal = value("signal:").map_or_else(String::new, |dbm| format!(", {dbm} dBm"));
    let summary = format!("{band}, {rate}{signal}");
    if band == "2.4 GHz" {
        let summary = format!("{summary}: a crowded band; expect latency peaks of 20 ms and more");
        return Finding::better(
            name,
            summary,
            "use the access point's network at 5 or 6 GHz",
        );
    }
    match slowest {
        Some(mbps) if mbps < SLOW => Finding::better(
            name,
            format!("{summary}: too slow for a stable stream"),
            "move closer to the access point, or select a wider channel",
        ),
        _ => Finding::ok(name, summary),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    const FIVE: &str = "Connected to 02:00:00:00:00:01 (on wlan0)\n\tSSID: lab\n\tfreq: 5180\n\
                        \tsignal: -48 dBm\n\trx bitrate: 585.1 MBit/s VHT-MCS 7\n\
                        \ttx bitrate: 866.7 MBit/s VHT-MCS 9 80MHz\n";

    #[test]
    fn iw_is_also_found_outside_the_users_path() {
        let folders: Vec<_> = std::env::split_paths(&search_path()).collect();
        for folder in ["/usr/sbin", "/sbin"] {
            assert!(folders.iter().any(|one| one == Path::new(folder)));
        }
    }

    #[test]
    fn band_and_rate_are_read_and_judged() {
        let good = judge_link("wlan0", FIVE);
        assert_eq!(good.level, Level::Ok);
        assert_eq!(good.summary, "5 GHz, 585.1 Mb/s, -48 dBm");
        let crowded = judge_link("wlan0", &FIVE.replace("5180", "2437.0"));
        assert_eq!(crowded.level, Level::Better);
        let slow = judge_link(
            "wlan0",
            &FIVE.replace("866.7", "6.5").replace("5180", "6115"),
        );
        assert_eq!(slow.level, Level::Better);
        assert!(
            slow.summary.starts_with("6 GHz, 6.5 Mb/s"),
            "{}",
            slow.summary
        );
        let idle = judge_link("wlan0", "Not connected.\n");
        assert!(idle.summary.contains("not connected"), "{}", idle.summary);
    }
}
