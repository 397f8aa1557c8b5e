//! Fuzz targets: functions of a byte slice, in one table, driven by libFuzzer.
//!
//! A target must accept any bytes and return. A panic, an overflow, a hang or unbounded memory is a finding. To add a
//! target, write a function and add it to [`TARGETS`]. The seeds of a target are the files in `vectors/` whose path
//! contains the target's name. `fuzz/run` builds and starts this program.
//!
//! Many targets also check simple properties of a result, for example that an accepted value is the same after it is
//! written and parsed again. Unit tests and property tests check the results themselves.
#![no_main]

mod browsers;
mod captures;
mod conversation;
mod files;
mod handshake;
mod media;
mod moonlight;
mod outside;
mod players;
#[cfg(feature = "portal")]
mod portals;
mod processes;
mod radio;
mod sessions;
mod sys;
mod wire;

use std::sync::OnceLock;

use openuvr_proto::control::handshake::{Established, PublicKey, SessionSecret};
use openuvr_proto::id::SessionId;
use openuvr_proto::seq;

type Target = fn(&[u8]);

/// The targets: the name on the command line of `fuzz/run`, and the function.
#[rustfmt::skip] // one line each: `fuzz/run` reads the names from here
const TARGETS: &[(&str, Target)] = &[
    ("seq", seq_is_antisymmetric),
    ("tickets", wire::tickets),
    ("header", wire::header),
    ("ether_frame", wire::ether_frame),
    ("fragment", wire::fragment),
    ("parity", wire::parity),
    ("timed", wire::timed),
    ("control_messages", wire::control_messages),
    ("negotiation", wire::negotiation),
    ("stream_segments", wire::stream_segments),
    ("media_receiver", media::receiver),
    ("timed_receiver", media::timed_receiver),
    ("uplink_receiver", media::uplink_receiver),
    ("host_session", sessions::host),
    ("client_session", sessions::client),
    ("conversation", conversation::conversation),
    ("handshake", handshake::handshake),
    ("launch_messages", processes::launch_messages),
    ("xr_settings", files::xr_settings),
    ("trust_files", files::trust_files),
    ("portal_link", files::portal_link),
    ("pad_database", files::pad_database),
    ("pad_requests", files::pad_requests),
    ("signalling", browsers::signalling),
    ("log_in", browsers::log_in),
    ("forwarded", browsers::forwarded),
    ("packetise", browsers::packetise),
    ("stun_answers", browsers::stun_answers),
    ("rtsp", players::rtsp),
    ("rtcp", players::rtcp),
    ("moonlight_rtsp", moonlight::rtsp),
    ("moonlight_control", moonlight::control),
    ("moonlight_input", moonlight::input),
    ("moonlight_pairing", moonlight::pairing),
    ("application_lists", files::application_lists),
    ("gateway_messages", processes::gateway_messages),
    ("recording", outside::recording),
    ("iio", outside::iio),
    ("opentrack", outside::opentrack),
    ("radio_scan", radio::radio_scan),
    ("radio_choice", radio::radio_choice),
    ("radio_texts", radio::radio_texts),
    #[cfg(feature = "portal")] ("session_endpoint", portals::session_endpoint),
    #[cfg(feature = "portal")] ("applications", portals::applications),
    #[cfg(feature = "portal")] ("oidc_claims", portals::oidc_claims),
    #[cfg(feature = "portal")] ("device_cookie", portals::device_cookie),
    #[cfg(feature = "portal")] ("slurm_output", portals::slurm_output),
    #[cfg(feature = "portal")] ("pods", portals::pods),
    ("link_script", link_script),
    ("captures", captures::captures),
    ("capi_host", sys::host),
    ("capi_mud", sys::mud),
];

/// The environment variable with the selected target's name. The name cannot be an argument, because libFuzzer owns the
/// command line.
const CHOICE: &str = "OPENUVR_FUZZ_TARGET";

libfuzzer_sys::fuzz_target!(init: { chosen(); }, |bytes: &[u8]| chosen()(bytes));

fn chosen() -> Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var(CHOICE).unwrap_or_default();
        match TARGETS.iter().find(|(known, _)| *known == name) {
            Some((_, target)) => *target,
            None => {
                eprintln!("{CHOICE}={name}: there is no such target; available targets:");
                TARGETS.iter().for_each(|(known, _)| eprintln!("  {known}"));
                std::process::exit(2);
            }
        }
    })
}

/// A link script. A parsed script is the same after it is written and parsed again.
fn link_script(bytes: &[u8]) {
    use openuvr_sim::{link::Impairment, script};
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(course) = script::parse(&Impairment::default(), text) {
        let again = script::parse(&Impairment::default(), &course.to_string());
        assert_eq!(again.as_ref(), Ok(&course));
    }
}

/// Takes values from the fuzzer's bytes. When no bytes are left, all further values are zero.
struct Draw<'a>(&'a [u8]);

impl<'a> Draw<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(n.min(self.0.len()));
        self.0 = tail;
        head
    }

    fn u64(&mut self, n: usize) -> u64 {
        let mut bytes = [0; 8];
        let taken = self.take(n);
        bytes[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bytes)
    }

    fn u8(&mut self) -> u8 {
        self.u64(1) as u8
    }

    fn u16(&mut self) -> u16 {
        self.u64(2) as u16
    }

    fn u32(&mut self) -> u32 {
        self.u64(4) as u32
    }
}

/// The result of a handshake, for host and client.
fn established(device: u8, session: u32) -> Established {
    Established {
        session: SessionId(session),
        secret: SessionSecret([device; 32]),
        peer: PublicKey([device; 32]),
        version: 1,
    }
}

/// Exactly one of two serial numbers is newer, unless they are equal or half the number range apart.
fn seq_is_antisymmetric(bytes: &[u8]) {
    let Some((a, rest)) = bytes.split_first_chunk() else {
        return;
    };
    let Some((b, _)) = rest.split_first_chunk() else {
        return;
    };
    let (a, b) = (u32::from_le_bytes(*a), u32::from_le_bytes(*b));
    let apart = a.wrapping_sub(b);
    let decided = seq::newer(a, b) != seq::newer(b, a);
    assert_eq!(decided, apart != 0 && apart != 1 << 31, "{a} and {b}");
}
