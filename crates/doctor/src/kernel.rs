//! Kernel support for datagrams and for real-time behaviour.

use std::io;
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::time::Duration;

use openuvr_net::address::path_of;
use openuvr_net::transport_selection::TransportSelector;
use openuvr_net::{Link as _, RecvBatch};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_terminal::shell;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{current_timer_slack, set_current_timer_slack};

use super::finding::Finding;
use super::first_line;

pub(super) fn findings() -> Vec<Finding> {
    let mut findings = vec![offload(), packet(), xdp(), timer_slack(), preemption()];
    findings.push(throttling(
        first_line("/proc/sys/kernel/sched_rt_runtime_us").and_then(|text| text.parse().ok()),
        first_line("/proc/sys/kernel/sched_rt_period_us").and_then(|text| text.parse().ok()),
    ));
    findings.push(quota());
    findings
}

/// The number of datagrams in one batch: roughly one frame at 10 Mb/s and 60 frames/s.
const BATCH: usize = 16;
const SEGMENT: usize = 1200;

/// Sends a batch over the loopback interface and counts the received datagrams.
fn offload() -> Finding {
    let name = "UDP GSO and GRO";
    let remedy = "optional; without GSO and GRO, each datagram costs more CPU time; Linux 5.0 or newer has both";
    match exchange() {
        Ok((BATCH, "udp-gso")) => Finding::ok(
            name,
            format!("all {BATCH} datagrams of one call arrived over the loopback device"),
        ),
        Ok((BATCH, link)) => Finding::better(
            name,
            format!("the transport fell back from udp-gso to {link}"),
            remedy,
        ),
        Ok((count, _)) => Finding::missing(
            name,
            format!("{count} of {BATCH} datagrams arrived over the loopback device"),
            "check the firewall (`sudo nft list ruleset`), and run `sudo ip link set lo up`",
        ),
        Err(why) => Finding::missing(
            name,
            format!("UDP does not work here: {why}"),
            "sudo ip link set lo up",
        ),
    }
}

fn exchange() -> Result<(usize, &'static str), openuvr_net::LinkError> {
    let open = || TransportSelector::host(([127, 0, 0, 1], 0).into(), Some(TransportKind::UdpGso));
    let (from, to) = (open()?, open()?);
    let path = path_of((Ipv4Addr::LOCALHOST, to.port()).into());
    from.send(path, &[7; BATCH * SEGMENT], SEGMENT)?;
    let (mut batch, mut count) = (RecvBatch::default(), 0);
    while count < BATCH {
        to.recv(&mut batch, Some(Duration::from_millis(200)))?;
        if batch.is_empty() {
            break;
        }
        count += batch
            .iter()
            .filter(|(_, bytes)| bytes.len() == SEGMENT)
            .count();
    }
    Ok((count, from.transport(path).name()))
}

/// Whether the kernel has a socket family. The kernel checks the family before the privilege, so a denied privilege
/// shows that the family exists.
fn family(name: &str, family: AddressFamily, kind: SocketType, remedy: &str) -> Finding {
    match socket(family, kind, None) {
        Ok(_) => Finding::ok(name, "available"),
        Err(Errno::PERM | Errno::ACCESS) => {
            Finding::ok(name, "available, but not permitted: see CAP_NET_RAW below")
        }
        Err(why) => Finding::better(
            name,
            format!("not supported by this kernel ({why}); not needed for UDP"),
            remedy,
        ),
    }
}

fn packet() -> Finding {
    let remedy = "sudo modprobe af_packet";
    family(
        "AF_PACKET",
        AddressFamily::PACKET,
        SocketType::DGRAM,
        remedy,
    )
}

fn xdp() -> Finding {
    let remedy = "use a kernel with CONFIG_XDP_SOCKETS=y, such as Debian's or Ubuntu's";
    family("AF_XDP", AddressFamily::XDP, SocketType::RAW, remedy)
}

/// Sets the timer slack of a new thread, as the media threads do, and reads it back.
fn timer_slack() -> Finding {
    let name = "timer slack";
    let set = || -> io::Result<u64> {
        set_current_timer_slack(NonZeroU64::new(1))?;
        Ok(current_timer_slack()?)
    };
    match std::thread::spawn(set).join() {
        Ok(Ok(1)) => Finding::ok(name, "a thread can reduce its timer slack to 1 ns"),
        Ok(Ok(ns)) => slack_refused(name, &format!("the timer slack stays at {ns} ns")),
        Ok(Err(why)) => slack_refused(name, &why.to_string()),
        Err(_) => slack_refused(name, "its thread failed"),
    }
}

fn slack_refused(name: &str, why: &str) -> Finding {
    Finding::better(
        name,
        format!("timers fire up to 50 µs late: {why}"),
        "in a container, allow prctl(PR_SET_TIMERSLACK) in its seccomp profile",
    )
}

fn preemption() -> Finding {
    let name = "preemption";
    let version = first_line("/proc/sys/kernel/version").unwrap_or_default();
    // Only root can read the model of a PREEMPT_DYNAMIC kernel.
    let chosen = first_line("/sys/kernel/debug/sched/preempt");
    let chosen = chosen.as_deref().and_then(in_parentheses);
    let real_time = first_line("/sys/kernel/realtime").as_deref() == Some("1");
    let remedy = "boot with preempt=full on the kernel's command line";
    match (version.as_str(), chosen) {
        (_, _) if real_time => {
            Finding::ok(name, "PREEMPT_RT: the kernel is almost fully preemptible")
        }
        (_, Some(model @ ("full" | "lazy"))) => {
            Finding::ok(name, format!("preemption model {model}"))
        }
        (_, Some(model)) => Finding::better(
            name,
            format!(
                "preemption model {model}: system calls of other programs delay OpenUVR's threads"
            ),
            remedy,
        ),
        (text, None) if text.contains("PREEMPT_DYNAMIC") => Finding::ok(
            name,
            "PREEMPT_DYNAMIC; the selected model is not readable (preempt=full is best)",
        ),
        (text, None) if text.contains("PREEMPT") => Finding::ok(name, "PREEMPT"),
        _ => Finding::better(
            name,
            "a kernel without PREEMPT: system calls of other programs delay OpenUVR's threads",
            "use a kernel with PREEMPT_DYNAMIC or PREEMPT (Debian's and Ubuntu's since 2022)",
        ),
    }
}

/// The word in parentheses, with which the kernel marks the selected value.
fn in_parentheses(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('(')?;
    rest.split_once(')').map(|(word, _)| word)
}

/// Checks the share of each period that real-time threads may use. Beyond this share, the kernel suspends them.
/// OpenUVR's threads block while they wait, and use about half a core (measured: 42 to 60 % for host and client
/// together at 720p60 and 1080p40), so a share of three quarters or more throttles none of them.
fn throttling(runtime: Option<i64>, period: Option<i64>) -> Finding {
    let name = "real-time throttling";
    match (runtime, period) {
        (Some(-1), _) => Finding::ok(name, "off: real-time threads are never throttled"),
        (Some(runtime), Some(period)) if period > 0 => {
            let percent = runtime.saturating_mul(100) / period;
            let summary = format!("real-time threads may use {percent} % of each core");
            match percent {
                75.. => Finding::ok(name, format!("{summary}: more than OpenUVR uses")),
                _ => Finding::better(
                    name,
                    format!("{summary} and are suspended beyond that"),
                    format!(
                        "sudo sysctl -w kernel.sched_rt_runtime_us={}",
                        period / 100 * 95
                    ),
                ),
            }
        }
        _ => Finding::ok(name, "the kernel reports no limit for real-time threads"),
    }
}

/// The lowest CPU quota of this process's control group and its ancestors.
fn quota() -> Finding {
    let name = "CPU quota";
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let lowest = groups
        .lines()
        .filter_map(quota_of)
        .min_by(|a, b| a.1.total_cmp(&b.1));
    match lowest {
        None => Finding::ok(name, "no control group limits CPU time"),
        Some((_, cores)) if cores >= 2.0 => Finding::ok(name, format!("{cores:.1} cores")),
        Some((file, cores)) => Finding::better(
            name,
            format!(
                "a control group allows {cores:.1} cores; beyond that, all threads are suspended"
            ),
            without_quota(&file),
        ),
    }
}

/// The command that removes the quota in a file. The names of control groups may contain backslashes.
fn without_quota(file: &str) -> String {
    let unlimited = if file.ends_with("/cpu.max") {
        "max"
    } else {
        "-1"
    };
    format!("echo {unlimited} | sudo tee {}", shell::word(file))
}

/// The lowest quota, in cores, of a control group and its ancestors, and the file that contains this quota. `line` is a
/// line of `/proc/self/cgroup` and names the control group.
fn quota_of(line: &str) -> Option<(String, f64)> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "cpu.max"),
        c if c.split(',').any(|c| c == "cpu") => ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
        _ => return None,
    };
    let mut path = path.trim_end_matches('/');
    let mut lowest: Option<(String, f64)> = None;
    loop {
        let file = format!("{root}{path}/{file}");
        let period = || first_line(&format!("{root}{path}/cpu.cfs_period_us"));
        if let Some(cores) = first_line(&file).and_then(|text| cores(&text, period))
            && lowest.as_ref().is_none_or(|(_, least)| cores < *least)
        {
            lowest = Some((file, cores));
        }
        let Some((parent, _)) = path.rsplit_once('/') else {
            return lowest;
        };
        path = parent;
    }
}

/// Parses a quota, such as `50000 100000` or `max 100000` (cpu.max), or `50000` or `-1` (cpu.cfs_quota_us).
fn cores(text: &str, period: impl FnOnce() -> Option<String>) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok().filter(|quota| *quota > 0.0)?;
    let period = words.next().map(str::to_owned).or_else(period)?;
    let period: f64 = period.parse().ok().filter(|period| *period > 0.0)?;
    Some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn datagrams_are_received_over_loopback() {
        let (count, _) = exchange().unwrap();
        assert_eq!(count, BATCH);
    }

    #[test]
    fn throttling_is_ok_where_our_threads_stay_below_it() {
        let level = |runtime, period| throttling(runtime, period).level;
        assert_eq!(level(Some(950_000), Some(1_000_000)), Level::Ok);
        assert_eq!(level(Some(-1), Some(1_000_000)), Level::Ok);
        assert_eq!(level(None, None), Level::Ok);
        let low = throttling(Some(100_000), Some(1_000_000));
        assert_eq!(low.level, Level::Better);
        assert_eq!(
            low.remedy.as_deref(),
            Some("sudo sysctl -w kernel.sched_rt_runtime_us=950000")
        );
        assert_eq!(level(Some(0), Some(0)), Level::Ok, "no division by zero");
    }

    #[test]
    fn quotas_are_read_in_both_versions_of_control_groups() {
        let period = || Some("100000".to_owned());
        assert_eq!(cores("max 100000", period), None);
        assert_eq!(cores("-1", period), None);
        assert_eq!(cores("50000 100000", period), Some(0.5));
        assert_eq!(cores("150000", period), Some(1.5));
        assert_eq!(cores("1 0", period), None);
        assert_eq!(quota_of("9:name=systemd:/"), None);
        assert_eq!(quota_of("nonsense"), None);
    }

    #[test]
    fn a_quota_is_removed_in_both_versions_of_control_groups() {
        assert_eq!(
            without_quota("/sys/fs/cgroup/app-a\\x2db.scope/cpu.max"),
            "echo max | sudo tee '/sys/fs/cgroup/app-a\\x2db.scope/cpu.max'"
        );
        assert_eq!(
            without_quota("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us"),
            "echo -1 | sudo tee /sys/fs/cgroup/cpu/a/cpu.cfs_quota_us"
        );
    }

    #[test]
    fn the_selected_word_is_the_one_in_parentheses() {
        assert_eq!(in_parentheses("none voluntary (full) lazy"), Some("full"));
        assert_eq!(in_parentheses("none"), None);
    }
}
