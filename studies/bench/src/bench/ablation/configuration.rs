//! The compared configurations: ours, without one or more of its optimisations, or with
//! alternatives in their place.

use crate::baseline::{Baseline, OPTION};

/// One optimisation, and how to disable it. It is enabled by default.
pub(super) struct Factor {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// Its replacement.
    pub(super) instead: &'static str,
    /// The baseline that replaces the part of the host, if there is one.
    pub(super) baseline: Option<Baseline>,
    /// The host's options that disable it.
    pub(super) without: &'static [&'static str],
}

/// The factors in the order of the cumulative figure, along a frame's path.
pub(super) const FACTORS: [Factor; 8] = [
    Factor {
        name: "capture when drawn",
        instead: "polled at 60 Hz",
        baseline: Some(Baseline::Poll),
        without: &[],
    },
    Factor {
        name: "SIMD conversion",
        instead: "swscale",
        baseline: Some(Baseline::Swscale),
        without: &[],
    },
    Factor {
        name: "own rate control",
        instead: "x264's CBR",
        baseline: None,
        without: &["--rate-control", "cbr"],
    },
    Factor {
        name: "slice streaming",
        instead: "whole frame, one thread",
        baseline: None,
        without: &["--slices", "1", "--encoder-threads", "1"],
    },
    Factor {
        name: "two encoder threads",
        instead: "one thread",
        baseline: None,
        without: &["--encoder-threads", "1"],
    },
    Factor {
        name: "burst",
        instead: "batches of 5.56 ms",
        baseline: Some(Baseline::Batches),
        without: &[],
    },
    Factor {
        name: "segmentation offload",
        instead: "a call per datagram",
        baseline: Some(Baseline::Single),
        without: &["--link", "udp"],
    },
    Factor {
        name: "real-time scheduling",
        instead: "SCHED_OTHER",
        baseline: None,
        without: &["--realtime", "off"],
    },
];

/// Ours with an alternative, which is not part of the cumulative figure.
pub(super) const ALTERNATIVES: [(&str, &[&str]); 1] =
    [("RGB, not converted", &["--chroma", "rgb"])];

/// Ours over a cable between two network namespaces, where every link is available: the name, and the options of host and
/// client. The first is the reference.
pub(super) const LINKS: [(&str, &[&str], &[&str]); 5] = [
    (
        "a call per datagram",
        &[OPTION, Baseline::Single.word()],
        &["--link", "udp"],
    ),
    ("segmented by the kernel", &[], &["--link", "udp-gso"]),
    ("raw Ethernet", &[], &["--link", "raw"]),
    ("raw Ethernet by rings", &[], &["--link", "raw-ring"]),
    ("AF_XDP", &[], &["--link", "xdp"]),
];

/// A configuration: omitted factors, additional options, and whether all cores are busy.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Configuration {
    pub(super) name: String,
    pub(super) without: Vec<usize>,
    pub(super) more: Vec<String>,
    pub(super) more_client: Vec<String>,
    pub(super) busy: bool,
    pub(super) cable: bool,
}

impl Configuration {
    fn without(name: &str, without: Vec<usize>) -> Configuration {
        Configuration {
            name: name.to_owned(),
            without,
            more: Vec::new(),
            more_client: Vec::new(),
            busy: false,
            cable: false,
        }
    }

    /// The host's options. An option of a later factor yields to that of an earlier one. The bitrate is constant, because
    /// otherwise lower quality would compensate for a slow link.
    pub(super) fn host_words(&self) -> Vec<String> {
        let mut words: Vec<String> = ["--rate", "constant"].map(String::from).to_vec();
        for &factor in &self.without {
            let Factor {
                baseline, without, ..
            } = FACTORS[factor];
            words.extend(
                baseline
                    .into_iter()
                    .flat_map(|part| [OPTION, part.word()].map(String::from)),
            );
            for pair in without.chunks(2) {
                if !words.iter().any(|word| word == pair[0]) {
                    words.extend(pair.iter().map(|word| (*word).to_owned()));
                }
            }
        }
        words.extend(self.more.iter().cloned());
        words
    }

    /// The link that the client forces.
    pub(super) fn link(&self) -> Option<&str> {
        let mut words = self.more_client.iter();
        words.find(|word| *word == "--link")?;
        words.next().map(String::as_str)
    }

    pub(super) fn client_words(&self) -> Vec<String> {
        let mut words = self.more_client.clone();
        if self
            .host_words()
            .windows(2)
            .any(|w| w == ["--realtime", "off"])
        {
            words.extend(["--realtime", "off"].map(String::from));
        }
        words
    }
}

/// Every configuration, each once.
pub(super) fn configurations() -> Vec<Configuration> {
    let all = FACTORS.len();
    let cumulative =
        (0..=all).map(|with| Configuration::without(&cumulative_step(with), (with..all).collect()));
    // The last step but one is ours without the last factor.
    let leave_one_out =
        (0..all - 1).map(|factor| Configuration::without(&without_factor(factor), vec![factor]));
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let alternatives = ALTERNATIVES.iter().map(|(name, words)| Configuration {
        more: owned(words),
        ..Configuration::without(name, Vec::new())
    });
    let links = LINKS.iter().map(|(name, host, client)| Configuration {
        more: owned(host),
        more_client: owned(client),
        cable: true,
        ..Configuration::without(name, Vec::new())
    });
    let busy =
        [(BUSY_OURS, vec![]), (BUSY_OTHER, vec![all - 1])].map(|(name, without)| Configuration {
            busy: true,
            ..Configuration::without(name, without)
        });
    cumulative
        .chain(leave_one_out)
        .chain(alternatives)
        .chain(links)
        .chain(busy)
        .collect()
}

/// With every core busy: ours, and ours as an ordinary program.
pub(super) const BUSY_OURS: &str = "all cores busy, real-time";
pub(super) const BUSY_OTHER: &str = "all cores busy, SCHED_OTHER";

/// The cumulative configuration with the first `with` factors.
pub(super) fn cumulative_step(with: usize) -> String {
    match with.checked_sub(1) {
        None => "conventional".to_owned(),
        Some(last) => format!("+ {}", FACTORS[last].name),
    }
}

/// Ours without `factor`.
pub(super) fn without_factor(factor: usize) -> String {
    if factor + 1 == FACTORS.len() {
        return cumulative_step(factor);
    }
    format!("without {}", FACTORS[factor].name)
}
