//! Requests of applications and gateways to a running host. [`subscribe`](super::subscribe) handles the frames.

use std::os::fd::OwnedFd;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::input_sink::device::Descriptor;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::controller::{Haptic, ReceivedControllers};
use openuvr_proto::display::{PlayerDisplay, RefreshTiming};
use openuvr_proto::id::DeviceId;
use openuvr_proto::pose::ReceivedPose;
use openuvr_proto::time::Instant;

use super::HostRuntime;
use super::admit::{Admission, AdmissionGrant, AdmitRefused};
use super::audio::{AudioCommand, Payload, SoundCodec};
use super::control::Command;

impl HostRuntime {
    /// Opens a pairing window for `span`, in which a device may pair with `pin`.
    pub fn open_pairing(&self, pin: Pin, span: Duration) {
        // Ignore a full queue. It holds 16 commands, and a user does not open pairing windows that fast.
        let _ = self.command(Command::OpenPairing(pin, span));
    }

    /// Requests admission of a gateway's device, by the same device list and pairing window as for other clients. The
    /// control thread calls `answer`, which must not block.
    pub fn admit(
        &self,
        admission: Admission,
        answer: impl FnOnce(Result<AdmissionGrant, AdmitRefused>) + Send + 'static,
    ) {
        // If the queue is full or the host has stopped, `answer` is dropped.
        let _ = self.command(Command::Admit(Box::new(admission), Box::new(answer)));
    }

    /// Adds a listener, which is called with each payload of the host's sound in `codec` until it returns `false` or
    /// the host stops. The listener is called in the audio thread and must not block. Returns whether the listener was
    /// added; `false` without sound, or if the audio thread's queue is full.
    pub fn listen(
        &self,
        codec: SoundCodec,
        listener: impl FnMut(&Payload<'_>) -> bool + Send + 'static,
    ) -> bool {
        let command = AudioCommand::Listen(codec, Box::new(listener));
        (self.audio.as_ref()).is_some_and(|audio| audio.try_send(command).is_ok())
    }

    /// Writes the events of the player's device with this number to `fd`, as `struct input_event`s. A SYN_REPORT
    /// follows each group of simultaneous events. `fd` is a uinput or evdev device, a pipe or a socket, and is set
    /// non-blocking. Events that `fd` does not accept are lost; the missed changes of keys and touches are written
    /// before the next event that it accepts. The mapping replaces an earlier mapping of the device. Devices without a
    /// mapping act as keyboard and mouse.
    ///
    /// # Errors
    /// Returns a one-line error if `fd` cannot be written to, the command queue is full, or the host has stopped.
    pub fn map_device(&self, device: DeviceId, fd: OwnedFd) -> Result<(), String> {
        let descriptor = Descriptor::new(fd).map_err(|e| e.to_string())?;
        self.command(Command::Map(device, Some(descriptor)))
    }

    /// Ends the mapping of [`HostRuntime::map_device`]. The device's pressed keys are released first.
    ///
    /// # Errors
    /// Returns a one-line error if the command queue is full or the host has stopped.
    pub fn unmap_device(&self, device: DeviceId) -> Result<(), String> {
        self.command(Command::Map(device, None))
    }

    /// The player's newest controller states; `None` before the current player has sent any. Callable from any thread.
    #[must_use]
    pub fn controllers(&self) -> Option<ReceivedControllers> {
        self.shared.sessions().controllers()
    }

    /// The player's display; `None` until the player's client has reported it. Callable from any thread.
    #[must_use]
    pub fn display(&self) -> Option<PlayerDisplay> {
        self.shared.sessions().display()
    }

    /// Announces the times at which the player's client should sample poses. The caller computes them: the times at
    /// which the application reads poses, minus the transmission time. The client samples at these times if it supports
    /// that. This call is cheap: call it for each frame. Callable from any thread.
    pub fn pose_schedule(&self, schedule: RefreshTiming<Instant>) {
        let mut sessions = self.shared.sessions();
        if sessions.pose_schedule(clock::now(), schedule) {
            self.shared.flush(&mut sessions);
        }
    }

    /// Plays haptic feedback on one hand of the player. It replaces the previous feedback for that hand. Callable from
    /// any thread.
    pub fn haptic(&self, haptic: Haptic) {
        let mut sessions = self.shared.sessions();
        sessions.haptic(clock::now(), haptic);
        self.shared.flush(&mut sessions);
    }

    /// The player's newest head pose; `None` before the current player has sent a pose. Callable from any thread.
    #[must_use]
    pub fn pose(&self) -> Option<ReceivedPose> {
        self.shared.sessions().pose()
    }
}
