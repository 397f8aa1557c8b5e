//! The client's sound: playback ([`crate::sound_player`]) and its reports.

mod latency;

use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::control::streams::HOST_AUDIO;
use openuvr_proto::recv::jitter_buffer::{JitterCounters, JitterStatus};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::wire::control::AudioReport;

use self::latency::Latencies;
use super::{Notice, PanicReporter, Shared};
use crate::sched::Scheduler;
use crate::sound_player::{AudioSink, PlaybackListener, SoundPlayer};

/// How often playback is reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Starts the audio thread.
pub(super) fn start(
    shared: &Arc<Shared>,
    scheduler: &Scheduler,
    sink: AudioSink,
) -> std::io::Result<SoundPlayer> {
    let listener = HostReporter {
        shared: shared.clone(),
        latencies: Latencies::default(),
        report_at: clock::now() + REPORT_EVERY,
    };
    let panic_reporter = PanicReporter(shared.clone(), "audio");
    let site = "client-media-to-audio";
    SoundPlayer::start(scheduler, site, sink, Box::new(listener), panic_reporter)
}

/// Reports playback to the host, and to the application as notices.
struct HostReporter {
    shared: Arc<Shared>,
    latencies: Latencies,
    report_at: Instant,
}

impl PlaybackListener for HostReporter {
    fn stopping(&self) -> bool {
        self.shared.stopping()
    }

    fn on_error(&self, why: String) {
        self.shared.notice(Notice::Warning(why));
    }

    fn on_played(&mut self, now: Instant, captured: PeerInstant, played: Instant) {
        let session = self.shared.session();
        let mapped = session
            .as_ref()
            .and_then(|s| s.clock().to_mine(captured, now));
        if let Some(captured) = mapped {
            self.latencies
                .push(played.since(captured.at), captured.bound);
        }
    }

    fn wants_report(&self, now: Instant) -> bool {
        now >= self.report_at
    }

    fn report(&mut self, now: Instant, status: JitterStatus, counters: JitterCounters) {
        self.report_at = now + REPORT_EVERY;
        let latency = self.latencies.take();
        let report = AudioReport {
            stream: HOST_AUDIO.stream.number,
            latency: latency.map(|latency| latency.median),
            latency_p99: latency.map(|latency| latency.p99),
            bound: latency.map(|latency| latency.bound),
            jitter: status.jitter,
            target: status.target,
            played: counters.played,
            concealed: counters.concealed,
            longest_concealment: counters.longest_concealment,
            underruns: counters.underruns,
            discarded: counters.discarded,
        };
        if let Some(session) = self.shared.session().as_mut() {
            session.report_audio(report);
            self.shared.flush(session);
        }
        self.shared.notice(Notice::Audio(report));
    }
}
