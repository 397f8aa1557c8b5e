//! The compared configurations: OpenUVR, OpenUVR without one or more of its optimisations, and OpenUVR with
//! alternatives in place of them.

use crate::baseline::{Baseline, OPTION};

/// An optimisation, and how to disable it. By default, it is enabled.
pub(super) struct Factor {
    /// The optimisation's name in reports.
    pub(super) name: &'static str,
    /// The name of the optimisation's replacement in reports.
    pub(super) instead: &'static str,
    /// The baseline that replaces the optimised part of the host; `None` if options disable the optimisation.
    pub(super) baseline: Option<Baseline>,
    /// The host's options that disable the optimisation.
    pub(super) without: &'static [&'static str],
}

/// The optimisations in the order of the cumulative figure, which follows the path of a frame.
pub(super) const FACTORS: [Factor; 7] = [
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

/// OpenUVR with an alternative. The cumulative figure does not contain these configurations.
pub(super) const ALTERNATIVES: [(&str, &[&str]); 2] = [
    ("RGB, not converted", &["--chroma", "rgb"]),
    // The pacer delays datagrams by design, as in Unity Render Streaming and other WebRTC programs. The OpenUVR paper
    // compares with GamingAnywhere, which has no pacer, so the conventional stream does not contain it.
    ("Unity's pacer", &[OPTION, Baseline::UnityPacer.word()]),
];

/// OpenUVR over a cable between two network namespaces, where every link is available: name, host options, client
/// options. The first link is the reference.
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

/// A configuration: the omitted factors, additional options, and the conditions of the run.
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

    /// The host's options. If two factors set the same option, the earlier factor takes precedence. The bitrate is
    /// constant, because otherwise lower quality would compensate for a slow link.
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

    /// The link that the client's options select; `None` if they select none.
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

/// All configurations, each once.
pub(super) fn configurations() -> Vec<Configuration> {
    let all = FACTORS.len();
    let cumulative =
        (0..=all).map(|with| Configuration::without(&cumulative_step(with), (with..all).collect()));
    // The last factor needs no configuration of its own: the last but one cumulative step is OpenUVR without it.
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

/// Names of the two configurations with every core busy: with real-time scheduling, and as an ordinary program.
pub(super) const BUSY_OURS: &str = "all cores busy, real-time";
pub(super) const BUSY_OTHER: &str = "all cores busy, SCHED_OTHER";

/// The name of the cumulative configuration with the first `with` factors.
pub(super) fn cumulative_step(with: usize) -> String {
    match with.checked_sub(1) {
        None => "conventional".to_owned(),
        Some(last) => format!("+ {}", FACTORS[last].name),
    }
}

/// The name of the configuration of OpenUVR without `factor`.
pub(super) fn without_factor(factor: usize) -> String {
    if factor + 1 == FACTORS.len() {
        return cumulative_step(factor);
    }
    format!("without {}", FACTORS[factor].name)
}
