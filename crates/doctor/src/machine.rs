//! The processor and its clocks.

use rustix::time::{ClockId, clock_getres};

use super::finding::Finding;
use super::{first_line, sys};
use openuvr_clock as clock;

pub(super) fn processor() -> Vec<Finding> {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        match cores {
            1 => Finding::better(
                "cores",
                "one core: capture, codec and network can't run in parallel",
                "use two or more cores; `taskset -p $$` shows whether this shell is pinned to one",
            ),
            n => Finding::ok("cores", format!("{n}")),
        },
        governor(first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").as_deref()),
        aes(&info),
    ]
}

fn governor(name: Option<&str>) -> Finding {
    match name {
        None => Finding::ok("governor", "no frequency scaling"),
        Some("performance") => Finding::ok("governor", "performance"),
        Some(other) => Finding::better(
            "governor",
            format!("{other}: the CPU clock may be low at the start of each frame"),
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        ),
    }
}

/// Whether the processor supports AES instructions (x86: `flags`, Arm: `Features` of cpuinfo).
fn aes(info: &str) -> Finding {
    let has = info
        .lines()
        .filter(|line| line.starts_with("flags") || line.starts_with("Features"))
        .any(|line| line.split_whitespace().any(|word| word == "aes"));
    match has {
        true => Finding::ok("AES", "in hardware: encrypting a frame takes microseconds"),
        false => Finding::better(
            "AES",
            "in software: encryption takes longer",
            "in a virtual machine, let the hypervisor pass the physical CPU model through",
        ),
    }
}

pub(super) fn clock() -> Vec<Finding> {
    let source = first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let sources = first_line("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    vec![
        clock_source(source.as_deref(), sources.as_deref()),
        resolution(),
        synchronised(sys::clock_state()),
    ]
}

/// `available` lists the sources that the kernel offers. The kernel does not offer a TSC that it has found unstable.
fn clock_source(name: Option<&str>, available: Option<&str>) -> Finding {
    let has_tsc = available.is_some_and(|all| all.split_whitespace().any(|one| one == "tsc"));
    match name {
        // These sources are read without a system call.
        Some(name @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
            Finding::ok("source", name)
        }
        Some(name) => Finding::better(
            "source",
            format!("{name}: each reading of the clock is a system call"),
            match has_tsc {
                true => {
                    "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
                }
                false => {
                    "the kernel offers no faster source; in a virtual machine, let the hypervisor provide a stable TSC"
                }
            },
        ),
        None => Finding::ok("source", "not reported by this system"),
    }
}

/// Number of clock readings over which the cost of a reading is measured.
const READINGS: u32 = 1000;

fn resolution() -> Finding {
    let step = clock_getres(ClockId::Monotonic);
    let step = step
        .tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(step.tv_nsec);
    let begun = clock::now();
    for _ in 1..READINGS {
        std::hint::black_box(clock::now());
    }
    let cost = clock::now().since(begun).as_nanos() / u128::from(READINGS);
    let summary = format!("steps of {step} ns; a reading takes {cost} ns");
    match step {
        ..=1000 => Finding::ok("resolution", summary),
        _ => Finding::better(
            "resolution",
            summary,
            "remove nohz=off and highres=off from the kernel's command line",
        ),
    }
}

fn synchronised(state: sys::ClockState) -> Finding {
    let name = "time of day";
    match state {
        sys::ClockState::Synchronised => Finding::ok(name, "synchronised (NTP or similar)"),
        sys::ClockState::Alone => Finding::better(
            name,
            "not synchronised: times in the logs of two machines can't be compared; latency figures are still \
             correct",
            "sudo timedatectl set-ntp true",
        ),
        sys::ClockState::Hidden => Finding::ok(
            name,
            "the kernel does not report whether the clock is synchronised; latency figures do not depend on it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn the_aes_flag_is_a_whole_word() {
        assert_eq!(aes("flags\t: fpu aes sse").level, Level::Ok);
        assert_eq!(aes("Features\t: fp asimd aes").level, Level::Ok);
        assert_eq!(aes("flags\t: fpu vaes\nbugs: aes").level, Level::Better);
    }

    #[test]
    fn slow_clocks_and_governors_are_reported() {
        assert_eq!(clock_source(Some("kvm-clock"), None).level, Level::Ok);
        let slow = |available| clock_source(Some("acpi_pm"), Some(available));
        assert_eq!(slow("tsc hpet acpi_pm").level, Level::Better);
        let remedy = |available| slow(available).remedy.unwrap();
        assert!(remedy("tsc hpet acpi_pm").starts_with("echo tsc "));
        assert!(!remedy("hpet acpi_pm").contains("echo"));
        assert_eq!(governor(Some("powersave")).level, Level::Better);
        assert_eq!(governor(Some("performance")).level, Level::Ok);
        assert_eq!(governor(None).level, Level::Ok);
    }
}
