//! Settings of a client whose sensor moves a game.

use openuvr_media::motion::{Axes, MotionSettings, Output};

use super::endpoints::HeadSpec;
use super::kind::{Choice, Form, Kind};

/// The use of head poses as input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MotionKind {
    /// Head poses are sent as poses.
    Off,
    /// Head poses move the mouse.
    Mouse,
    /// Head poses deflect a stick of a game pad.
    Pad,
}

impl Choice for MotionKind {
    const VALUES: &'static [(&'static str, Self)] = &[
        ("off", MotionKind::Off),
        ("mouse", MotionKind::Mouse),
        ("pad", MotionKind::Pad),
    ];
}

/// Two angles, such as `yaw,-pitch`.
pub(super) fn axes() -> Kind<Axes> {
    Kind {
        placeholder: "AXIS,AXIS",
        range: "yaw, pitch, roll, none".to_owned(),
        allowed: "two of yaw, pitch, roll and none, separated by a comma; a - before an angle inverts it, as in \
                  yaw,-pitch"
            .to_owned(),
        form: Form::Text,
        parse: Box::new(|text| text.parse().ok()),
        absent: None,
    }
}

/// The options as given.
#[derive(Clone, Copy, Debug)]
pub(super) struct MotionOptions {
    pub(super) motion: MotionKind,
    pub(super) axes: Axes,
    pub(super) gain: Option<f64>,
    pub(super) range: Option<f64>,
    pub(super) dead_zone: Option<f64>,
}

impl MotionOptions {
    /// The mapping of head poses to input; `None` if they are sent as poses.
    pub(super) fn settings(&self) -> Option<MotionSettings> {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the seven digits of an f32 are enough"
        )]
        let or = |value: Option<f64>, usual: f32| value.map_or(usual, |value| value as f32);
        let (output, dead_zone) = match self.motion {
            MotionKind::Off => return None,
            MotionKind::Mouse => {
                let gain = or(self.gain, MotionSettings::USUAL_GAIN);
                (Output::Mouse(gain), 0.0)
            }
            MotionKind::Pad => {
                let range = or(self.range, MotionSettings::USUAL_RANGE);
                (Output::Pad(range), MotionSettings::USUAL_PAD_DEAD_ZONE)
            }
        };
        Some(MotionSettings {
            output,
            axes: self.axes,
            dead_zone: or(self.dead_zone, dead_zone),
        })
    }

    /// The reason why the options contradict each other or this head-pose source, if they do.
    pub(super) fn contradiction(&self, head: &HeadSpec) -> Option<&'static str> {
        let pad = self.motion == MotionKind::Pad;
        let settings = self.settings();
        let narrow = settings.is_some_and(|settings| match settings.output {
            Output::Pad(range) => settings.dead_zone >= range,
            Output::Mouse(_) => false,
        });
        Some(match () {
            () if settings.is_some() && *head == HeadSpec(None) => {
                "--motion requires a sensor: use --head-pose iio, opentrack or script:FILE"
            }
            () if settings.is_some() && *head == HeadSpec(Some("mouse".to_owned())) => {
                "--motion requires a sensor: with --head-pose mouse, the mouse moves the head, not the game"
            }
            () if self.gain.is_some() && self.motion != MotionKind::Mouse => {
                "--motion-gain requires --motion mouse"
            }
            () if self.range.is_some() && !pad => "--motion-range requires --motion pad",
            () if self.dead_zone.is_some() && settings.is_none() => {
                "--motion-dead-zone requires --motion mouse or --motion pad"
            }
            () if narrow => "--motion-dead-zone must be smaller than --motion-range",
            () => return None,
        })
    }
}
