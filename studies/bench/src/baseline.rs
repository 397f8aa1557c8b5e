//! `openuvr-bench host`: the host of `openuvr host`, in which some parts can be replaced by the usual techniques of
//! streaming programs. The replacements are the baseline with which OpenUVR's own parts are compared.
//!
//! This program runs the same host code, with the same options and the same record. `bench ablation` uses it for all
//! configurations, so that they differ only in the replaced parts and in the options.

mod links;
mod polled;
mod swscale;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::builder::{EnumValueParser, PossibleValue};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueEnum};
use openuvr_cli::host::{self, HostParts, SourceKind};
use openuvr_media::capture::Capture;
use openuvr_media::convert::Converter;
use openuvr_net::Link;
use openuvr_proto::units::Bitrate;
use openuvr_runtime::sched::Scheduler;

use self::links::{Batches, Single};
use self::polled::Polled;
use self::swscale::Swscale;

/// A replacement for a part of the host, as other programs implement it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Baseline {
    /// The host captures a display at a fixed rate.
    Poll,
    /// libswscale converts colours.
    Swscale,
    /// The host sends datagrams in batches, as Unity Render Streaming does.
    UnityPacer,
    /// The host makes one system call per datagram.
    Single,
}

impl Baseline {
    /// The value of `--baseline` that selects this baseline.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Baseline::Poll => "capture=poll",
            Baseline::Swscale => "converter=swscale",
            Baseline::UnityPacer => "pacing=unity",
            Baseline::Single => "sending=single",
        }
    }

    const fn about(self) -> &'static str {
        match self {
            Baseline::Poll => {
                "Capture a display --fps times a second even if it has not changed, as screen grabbers do"
            }
            Baseline::Swscale => {
                "Convert colours with FFmpeg's libswscale, which must be installed"
            }
            Baseline::UnityPacer => {
                "Send datagrams every 5.56 ms, at 1.5 times the bitrate, as a study observed in Unity Render \
                 Streaming; LastSent is then the time when the last datagram was queued"
            }
            Baseline::Single => "Send each datagram in its own system call",
        }
    }
}

impl ValueEnum for Baseline {
    fn value_variants<'a>() -> &'a [Baseline] {
        &[
            Baseline::Poll,
            Baseline::Swscale,
            Baseline::UnityPacer,
            Baseline::Single,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.word()).help(self.about()))
    }
}

pub(crate) const OPTION: &str = "--baseline";

/// The name of the option in clap.
const KEY: &str = "baseline";

/// The host subcommands of this program: the host subcommands of `openuvr`, with [`OPTION`] added to `host`.
pub(crate) fn commands() -> impl Iterator<Item = Command> {
    let option = Arg::new(KEY)
        .long(KEY)
        .value_name("PART")
        .action(ArgAction::Append)
        .value_delimiter(',')
        .value_parser(EnumValueParser::<Baseline>::new())
        .help("Techniques of other programs that replace parts of the host, separated by commas");
    host::commands().into_iter().map(move |command| {
        let command = command.hide(true);
        match command.get_name() {
            "host" => command
                .about("For experiments: `openuvr host`, with parts replaced by techniques of other programs")
                .override_usage("openuvr-bench host [OPTIONS]")
                .arg(option.clone()),
            _ => command,
        }
    })
}

/// Runs the subcommand of [`commands`] with this name.
///
/// # Errors
/// The errors of `openuvr host`. Also returns an error if a prerequisite of a baseline is missing.
pub(crate) fn run(name: &str, matches: &ArgMatches) -> Result<ExitCode> {
    // Only the subcommand `host` has this option.
    let asked = matches.try_get_many::<Baseline>(KEY).ok().flatten();
    let baselines = Baselines(asked.into_iter().flatten().copied().collect());
    host::run(name, matches, &baselines)
}

/// The parts of a host: these baselines, and OpenUVR's own parts otherwise.
struct Baselines(Vec<Baseline>);

impl Baselines {
    fn has(&self, baseline: Baseline) -> bool {
        self.0.contains(&baseline)
    }
}

impl HostParts for Baselines {
    fn capture(
        &self,
        usual: Box<dyn Capture>,
        source: SourceKind,
        fps: f64,
    ) -> Result<Box<dyn Capture>> {
        if !self.has(Baseline::Poll) {
            return Ok(usual);
        }
        if source != SourceKind::X11 {
            bail!("--baseline capture=poll captures a display: it needs --source x11");
        }
        Ok(Box::new(Polled::new(usual, fps)))
    }

    fn converter(&self) -> Result<Converter> {
        match self.has(Baseline::Swscale) {
            true => Ok(Converter::with_nv12(Box::new(Swscale::open()?))),
            false => Ok(Converter::new()),
        }
    }

    fn link(
        &self,
        mut link: Arc<dyn Link>,
        rate: Bitrate,
        scheduler: &Scheduler,
    ) -> Result<Arc<dyn Link>> {
        if self.has(Baseline::Single) {
            link = Arc::new(Single(link));
        }
        if self.has(Baseline::UnityPacer) {
            let batches = Batches::start(link, rate, scheduler);
            link = Arc::new(batches.context("can't start a thread that sends batches")?);
        }
        Ok(link)
    }
}

#[cfg(test)]
mod tests {
    use openuvr_media::capture::pattern::Pattern;
    use openuvr_proto::id::PathId;
    use openuvr_proto::units::Size;
    use openuvr_runtime::lock::lock;

    use super::links::tests::RecordingLink;
    use super::*;

    fn parts(words: &[&str]) -> Baselines {
        let words = [&["host"], words].concat();
        let command = commands().next().expect("the host");
        let matches = command.try_get_matches_from(words).expect("right words");
        let asked = matches.get_many::<Baseline>(KEY).unwrap_or_default();
        Baselines(asked.copied().collect())
    }

    #[test]
    fn each_baseline_is_selected_by_its_name() {
        for baseline in Baseline::value_variants() {
            assert_eq!(parts(&[OPTION, baseline.word()]).0, [*baseline]);
        }
        let two = ["--baseline=sending=single,pacing=unity"];
        assert_eq!(parts(&two).0, [Baseline::Single, Baseline::UnityPacer]);
        assert!(parts(&["--fps", "30"]).0.is_empty());
    }

    #[test]
    fn datagrams_are_sent_one_by_one_on_request() {
        for (asked, sent) in [
            (vec![], vec![3000]),
            (vec![Baseline::Single], vec![1400, 1400, 200]),
        ] {
            let (recording, parts) = (Arc::new(RecordingLink::default()), Baselines(asked));
            let rate = Bitrate::from_mbps(10);
            let link = parts.link(recording.clone(), rate, &Scheduler::ordinary());
            let link = link.expect("nothing is started");
            link.send(PathId::default(), &[7; 3000], 1400)
                .expect("sent");
            assert_eq!(*lock(&recording.0), sent);
        }
    }

    #[test]
    fn only_a_display_is_polled() {
        let pattern = || -> Box<dyn Capture> {
            Box::new(Pattern::open(Size::new(320, 240), 30.0).expect("a pattern"))
        };
        let poll = Baselines(vec![Baseline::Poll]);
        let refused = poll.capture(pattern(), SourceKind::Pattern, 30.0).err();
        let refused = refused.expect("refused").to_string();
        assert!(refused.contains("needs --source x11"), "{refused}");
        let usual = Baselines(Vec::new());
        assert!(usual.capture(pattern(), SourceKind::Pattern, 30.0).is_ok());
    }
}
