//! Energy counters of the processor packages (RAPL), from the kernel's powercap interface
//! (`Documentation/power/powercap/powercap.rst`).
//!
//! A counter covers all processes that run on a package. With most kernels, only root may read the counters. Most
//! virtual machines have no such counters.

use std::fs::read_to_string;
use std::path::Path;

/// The folder of all power zones.
const ZONES: &str = "/sys/class/powercap";

/// Prefix of the names of RAPL zones, also on AMD processors. Zones with another prefix, such as `intel-rapl-mmio:0`,
/// count the energy of the same packages a second time.
const PREFIX: &str = "intel-rapl:";

/// A reading of the counters of all packages.
#[derive(Clone, Debug)]
pub(crate) struct Energy(Vec<Counter>);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Counter {
    package: String,
    microjoules: u64,
    /// The largest value of the counter. After it, the counter continues at 0.
    last: u64,
}

impl Energy {
    /// Reads the counters. `None` if there are none, or if one of them cannot be read.
    pub(crate) fn now() -> Option<Energy> {
        Energy::read(Path::new(ZONES))
    }

    fn read(zones: &Path) -> Option<Energy> {
        let mut counters = Vec::new();
        for zone in std::fs::read_dir(zones).ok()?.flatten() {
            let folder = zone.path();
            let text = |file: &str| read_to_string(folder.join(file)).ok();
            let is_rapl = zone.file_name().to_string_lossy().starts_with(PREFIX);
            // Other zones are for a part of a package, such as its cores, or for the whole platform.
            let name = text("name").filter(|name| is_rapl && name.starts_with("package-"));
            let Some(package) = name else { continue };
            let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
            counters.push(Counter {
                package: package.trim().to_owned(),
                microjoules: number("energy_uj")?,
                last: number("max_energy_range_uj")?,
            });
        }
        counters.sort();
        (!counters.is_empty()).then_some(Energy(counters))
    }

    /// The energy of all packages since `earlier`, in joules. The result is too low if a counter has counted more than
    /// its whole range since then, which takes about an hour at 60 W. `None` if the packages differ.
    pub(crate) fn since(&self, earlier: &Energy) -> Option<f64> {
        let names = |energy: &Energy| Vec::from_iter(energy.0.iter().map(|c| c.package.clone()));
        if names(self) != names(earlier) {
            return None;
        }
        let each = self.0.iter().zip(&earlier.0).map(|(now, before)| {
            match now.microjoules.checked_sub(before.microjoules) {
                Some(grown) => grown,
                // The counter has wrapped.
                None => before.last.saturating_sub(before.microjoules) + 1 + now.microjoules,
            }
        });
        Some(each.sum::<u64>() as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a zone with its name and its counter.
    fn zone(zones: &Path, folder: &str, name: &str, microjoules: u64) {
        let folder = zones.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("name", name.to_owned()),
            ("energy_uj", microjoules.to_string()),
            ("max_energy_range_uj", "9999999".to_owned()),
        ] {
            std::fs::write(folder.join(file), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn packages_count_once_and_counters_turn_over() {
        let zones = tempfile::tempdir().unwrap();
        let zones = zones.path();
        assert!(Energy::read(zones).is_none(), "no zones");
        zone(zones, "intel-rapl:0", "package-0", 1_000_000);
        zone(zones, "intel-rapl:1", "package-1", 9_000_000);
        let parts = [
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:2", "psys"),
            ("intel-rapl-mmio:0", "package-0"),
        ];
        for (folder, name) in parts {
            zone(zones, folder, name, 5);
        }
        let before = Energy::read(zones).unwrap();
        assert_eq!(before.since(&before), Some(0.0));
        zone(zones, "intel-rapl:0", "package-0", 3_500_000);
        zone(zones, "intel-rapl:1", "package-1", 500_000);
        let now = Energy::read(zones).unwrap();
        assert_eq!(now.since(&before), Some(2.5 + 1.5));
        std::fs::remove_dir_all(zones.join("intel-rapl:1")).unwrap();
        assert_eq!(Energy::read(zones).unwrap().since(&now), None);
        std::fs::remove_file(zones.join("intel-rapl:0/energy_uj")).unwrap();
        assert!(Energy::read(zones).is_none(), "unreadable");
    }
}
