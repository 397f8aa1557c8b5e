//! Sets the settings of a host one by one (paper, Table I), instead of in one structure.

use std::ffi::c_int;

use openuvr_proto::units::{Bitrate, Size};
use openuvr_runtime::host::EncoderName;
use openuvr_runtime::host::config::KEY_FRAME_INTERVALS;
use openuvr_runtime::lock::lock;

use crate::enums::{self, OPENUVR_FEATURE};
use crate::error::{DONE, Failure, Outcome};
use crate::handle::{Handle, call};
use crate::host::{Host, Settings, Started, openuvr_context};

/// Sets a feature (paper, Table I) of `OPENUVR_FEATURE` before the threads are started. The bitrate, the GOP size, and
/// the width, height, format and stride of the pixel buffer can be set later, too. They apply from the next picture, so
/// set the layout of the buffer between two pictures. From any thread.
///
/// # Safety
/// `context` is NULL or a context that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_set_feature(
    context: *mut openuvr_context,
    feature: u32,
    value: c_int,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let feature = enums::feature(feature)?;
            let mut settings = lock(&handle.settings);
            match handle.running() {
                Some(started) if feature.is_of_the_buffer() => {
                    settings.set(feature, value)?;
                    started.apply_layout(&settings);
                    Ok(DONE)
                }
                Some(started) => started.set_feature(feature, value),
                None => settings.set(feature, value),
            }
        })
    }
}

impl Settings {
    fn set(&mut self, feature: OPENUVR_FEATURE, value: c_int) -> Outcome {
        use OPENUVR_FEATURE::*;
        let wrong =
            |range: &str| Failure::argument(format!("{feature:?} must be {range}, not {value}"));
        let whole = u32::try_from(value).map_err(|_| wrong("at least 0"))?;
        let flag = || match whole {
            0 | 1 => Ok(whole == 1),
            _ => Err(wrong("0 or 1")),
        };
        let part = || {
            let part = u8::try_from(whole).ok().filter(|n| (1..=64).contains(n));
            part.ok_or_else(|| wrong("1 to 64"))
        };
        let side = || match whole {
            1..=Size::MAX_SIDE => Ok(whole),
            _ => Err(wrong("1 to 16384")),
        };
        let config = &mut self.config;
        match feature {
            OPENUVR_FEATURE_TARGET_FPS if (1..=240).contains(&whole) => {
                (config.fps, config.follows_display) = (whole.into(), false);
            }
            OPENUVR_FEATURE_TARGET_FPS => return Err(wrong("1 to 240")),
            OPENUVR_FEATURE_BITRATE => config.bitrate = Some(bitrate(value)?),
            OPENUVR_FEATURE_GOP => config.key_frame_interval = key_frame_interval(value)?,
            OPENUVR_FEATURE_WIDTH => self.size.width = side()?,
            OPENUVR_FEATURE_HEIGHT => self.size.height = side()?,
            OPENUVR_FEATURE_FORMAT => {
                crate::picture::format_of(whole)?;
                self.format = whole;
            }
            OPENUVR_FEATURE_PORT => {
                let port = u16::try_from(whole).map_err(|_| wrong("0 to 65535"))?;
                config.bind.set_port(port);
            }
            OPENUVR_FEATURE_SLICES => config.slices = part()?,
            OPENUVR_FEATURE_ENCODER_THREADS => config.encoder_threads = Some(part()?),
            OPENUVR_FEATURE_PAIRING => config.pair = flag()?,
            OPENUVR_FEATURE_REALTIME => config.realtime = flag()?,
            OPENUVR_FEATURE_STRIDE => self.stride = whole as usize,
            OPENUVR_FEATURE_ENCODER => {
                enums::serves(
                    whole,
                    enums::OPENUVR_NETWORK_TYPE::OPENUVR_NETWORK_ANY as u32,
                )?;
                config.encoders = vec![EncoderName(enums::encoder(whole)?.encoder)];
            }
        }
        Ok(DONE)
    }
}

impl OPENUVR_FEATURE {
    /// Whether the setting is a part of the pixel buffer's layout, which is read for each picture.
    fn is_of_the_buffer(self) -> bool {
        use OPENUVR_FEATURE::*;
        matches!(
            self,
            OPENUVR_FEATURE_WIDTH
                | OPENUVR_FEATURE_HEIGHT
                | OPENUVR_FEATURE_FORMAT
                | OPENUVR_FEATURE_STRIDE
        )
    }
}

impl Started {
    /// Passes the buffer's layout to the thread that polls it. While the values contradict each other, because the
    /// application sets them one by one, the previous layout applies.
    fn apply_layout(&self, settings: &Settings) {
        if let (Some(poller), Ok(layout)) = (&*lock(&self.poller), settings.layout()) {
            poller.set_layout(layout);
        }
    }

    fn set_feature(&self, feature: OPENUVR_FEATURE, value: c_int) -> Outcome {
        match feature {
            OPENUVR_FEATURE::OPENUVR_FEATURE_BITRATE => self.guest.set_bitrate(bitrate(value)?),
            OPENUVR_FEATURE::OPENUVR_FEATURE_GOP => {
                let frames = key_frame_interval(value)?;
                self.guest.set_key_frame_interval(frames);
            }
            _ => {
                return Err(Failure::state(format!(
                    "{feature:?} must be set before openuvr_init_thread"
                )));
            }
        }
        Ok(DONE)
    }
}

/// Checks a GOP size in frames. `None`: key frames only on request.
fn key_frame_interval(frames: c_int) -> Outcome<Option<u32>> {
    let known = u32::try_from(frames).ok();
    let known = known.filter(|n| *n == 0 || KEY_FRAME_INTERVALS.contains(n));
    let frames = known.ok_or_else(|| {
        let (least, most) = (KEY_FRAME_INTERVALS.start(), KEY_FRAME_INTERVALS.end());
        Failure::argument(format!(
            "invalid GOP size of {frames} frames: it must be {least} to {most}, or 0 for key frames only on request"
        ))
    })?;
    Ok(Some(frames).filter(|frames| *frames != 0))
}

fn bitrate(kilobits: c_int) -> Outcome<Bitrate> {
    let rate = u64::try_from(kilobits)
        .ok()
        .filter(|k| (100..=1_000_000).contains(k));
    let rate = rate.ok_or_else(|| {
        Failure::argument(format!(
            "invalid bitrate {kilobits} kbit/s: it must be 100 to 1000000"
        ))
    });
    rate.map(|kilobits| Bitrate(kilobits * 1000))
}
