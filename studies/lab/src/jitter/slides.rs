//! The figures of the published study: "Reducing Application-Stage Latencies For Real-Time Interactive
//! Systems" (Stauffert, Niebling, Latoschik; SEARIS 2016), the tables of its slides.
//!
//! Measured on an Intel Core i7-2700K (4 cores, 8 threads), Ubuntu 14.04.3, Linux 3.14.57, as it is
//! ("vanilla") and with the RT patch; 16 pairs, 10 000 000 samples.

/// A figure with and without the RT patch; µs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RtComparison {
    /// With the RT patch.
    pub rt: f64,
    /// Without it.
    pub vanilla: f64,
}

/// One row of a table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// Its label.
    pub name: &'static str,
    /// Our corresponding cell: runtime, policy, collector.
    pub cell: Option<[&'static str; 3]>,
    /// Maximum.
    pub max: RtComparison,
    /// The mean.
    pub mean: RtComparison,
    /// The median.
    pub median: RtComparison,
}

const fn row(
    name: &'static str,
    cell: Option<[&'static str; 3]>,
    [max_rt, max, mean_rt, mean, median_rt, median]: [f64; 6],
) -> Row {
    Row {
        name,
        cell,
        max: RtComparison {
            rt: max_rt,
            vanilla: max,
        },
        mean: RtComparison {
            rt: mean_rt,
            vanilla: mean,
        },
        median: RtComparison {
            rt: median_rt,
            vanilla: median,
        },
    }
}

/// Slide "Max, Mean, and Median of Latency Values", under SCHED_OTHER.
pub const RUNTIMES: [Row; 4] = [
    row(
        "Akka",
        Some(["pekko", "other", "cms"]),
        [67_000.0, 63_400.0, 1_900.0, 15_900.0, 915.8, 14_500.0],
    ),
    row(
        "Java",
        Some(["java", "other", ""]),
        [24_700.0, 23_300.0, 684.2, 106.2, 144.3, 67.5],
    ),
    row(
        "C++",
        Some(["pthread", "other", ""]),
        [380.2, 577.9, 48.0, 34.8, 43.1, 35.3],
    ),
    row(
        "C++Actor",
        Some(["caf", "other", ""]),
        [130.8, 72.5, 4.1, 3.7, 3.5, 3.2],
    ),
];

/// Slide "Max, Mean, and Median of GCs": Akka, by collector and policy.
pub const COLLECTORS: [Row; 10] = [
    row(
        "CMS, SCHED_OTHER",
        Some(["pekko", "other", "cms"]),
        [67_000.0, 63_400.0, 1_900.0, 15_900.0, 915.8, 14_500.0],
    ),
    row(
        "CMS, SCHED_RR",
        Some(["pekko", "rr", "cms"]),
        [191_000.0, 212_000.0, 18_300.0, 12_000.0, 14_900.0, 9_500.0],
    ),
    row(
        "G1, SCHED_OTHER",
        Some(["pekko", "other", "g1"]),
        [241_000.0, 216_800.0, 3_400.0, 15_300.0, 1_100.0, 14_100.0],
    ),
    row(
        "G1, SCHED_RR",
        Some(["pekko", "rr", "g1"]),
        [235_900.0, 210_600.0, 45_100.0, 8_800.0, 28_900.0, 454.8],
    ),
    row(
        "Parallel, SCHED_OTHER",
        Some(["pekko", "other", "parallel"]),
        [911_000.0, 1_110_200.0, 3_100.0, 17_100.0, 1_800.0, 14_800.0],
    ),
    row(
        "Parallel, SCHED_RR",
        Some(["pekko", "rr", "parallel"]),
        [
            3_756_600.0,
            192_000.0,
            212_700.0,
            46_300.0,
            62_300.0,
            13_800.0,
        ],
    ),
    row(
        "Serial, SCHED_OTHER",
        Some(["pekko", "other", "serial"]),
        [631_800.0, 385_100.0, 4_200.0, 16_400.0, 1_900.0, 14_900.0],
    ),
    row(
        "Serial, SCHED_RR",
        Some(["pekko", "rr", "serial"]),
        [
            1_423_500.0,
            717_400.0,
            90_800.0,
            42_600.0,
            58_600.0,
            24_400.0,
        ],
    ),
    row(
        "Zing (C4), SCHED_OTHER",
        None,
        [744_300.0, 387_500.0, 11_200.0, 13_700.0, 2_700.0, 11_400.0],
    ),
    row(
        "Zing (C4), SCHED_RR",
        None,
        [720_100.0, 655_600.0, 137_700.0, 126_600.0, 4_800.0, 4_000.0],
    ),
];
