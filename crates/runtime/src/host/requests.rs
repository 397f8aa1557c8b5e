//! What applications and gateways ask of a host that runs, beside the frames of [`subscribe`](super::subscribe).

use std::os::fd::OwnedFd;
use std::time::Duration;

use openuvr_media::input_sink::device::Descriptor;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::controller::{Controlled, Haptic};
use openuvr_proto::display::{PlayersDisplay, Refresh};
use openuvr_proto::id::DeviceId;
use openuvr_proto::pose::Posed;
use openuvr_proto::time::Instant;

use super::HostRuntime;
use super::admit::{Admission, AdmitRefused, AdmissionGrant};
use super::audio::{AudioCommand, Payload};
use super::control::Command;
use crate::clock;

impl HostRuntime {
    /// Opens a pairing window for `span`, in which a device may pair with `pin`.
    pub fn open_pairing(&self, pin: Pin, span: Duration) {
        // 16 wait at most; a person does not type faster.
        let _ = self.command(Command::OpenPairing(pin, span));
    }

    /// Whether this device may come in through a gateway, by the same list and the same pairing window as
    /// every client: `answer` is called with it, by the control thread, and must not block.
    pub fn admit(
        &self,
        admission: Admission,
        answer: impl FnOnce(Result<AdmissionGrant, AdmitRefused>) + Send + 'static,
    ) {
        // Without room, or a host, `answer` is dropped.
        let _ = self.command(Command::Admit(Box::new(admission), Box::new(answer)));
    }

    /// From now on `listener` gets each payload of the host's sound, in the audio thread, until it says
    /// `false` or the host stops; it must not block. Whether there is sound.
    pub fn listen(&self, listener: impl FnMut(&Payload<'_>) -> bool + Send + 'static) -> bool {
        let command = AudioCommand::Listen(Box::new(listener));
        (self.audio.as_ref()).is_some_and(|audio| audio.try_send(command).is_ok())
    }

    /// From now on what the player's device of this number does goes into `fd`, as `struct
    /// input_event`s with a report behind what happened at once: a uinput or evdev device, a pipe,
    /// a socket. It becomes non-blocking; what it does not take is lost, keys excepted. One that
    /// was mapped before is replaced. Devices that are not mapped act as keyboard and mouse.
    ///
    /// # Errors
    /// One line, if it can't be written to, or the host has stopped.
    pub fn map_device(&self, device: DeviceId, fd: OwnedFd) -> Result<(), String> {
        let descriptor = Descriptor::new(fd).map_err(|e| e.to_string())?;
        self.command(Command::Map(device, Some(descriptor)))
    }

    /// Ends [`HostRuntime::map_device`]; what the device holds is released first.
    ///
    /// # Errors
    /// One line, if the host has stopped.
    pub fn unmap_device(&self, device: DeviceId) -> Result<(), String> {
        self.command(Command::Map(device, None))
    }

    /// What the player holds, as it said last; `None` before the current player said it. From any thread.
    #[must_use]
    pub fn controllers(&self) -> Option<Controlled> {
        self.shared.sessions().controllers()
    }

    /// What the player's display is like; `None` before its client said so. From any thread.
    #[must_use]
    pub fn display(&self) -> Option<PlayersDisplay> {
        self.shared.sessions().display()
    }

    /// The application takes poses at these moments, of which the time that a pose is under way is taken off: the
    /// player's client samples then, if it can. Cheap: to be said for each frame. From any thread.
    pub fn poses_wanted(&self, wanted: Refresh<Instant>) {
        let mut sessions = self.shared.sessions();
        if sessions.poses_wanted(clock::now(), wanted) {
            self.shared.flush(&mut sessions);
        }
    }

    /// A hand of the player's is to feel this now, in place of what it felt. From any thread.
    pub fn haptic(&self, haptic: Haptic) {
        let mut sessions = self.shared.sessions();
        sessions.haptic(clock::now(), haptic);
        self.shared.flush(&mut sessions);
    }

    /// Where the player's head was last; `None` before the first pose of the current player. From
    /// any thread.
    #[must_use]
    pub fn pose(&self) -> Option<Posed> {
        self.shared.sessions().pose()
    }
}
