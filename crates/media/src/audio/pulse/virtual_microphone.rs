//! A virtual microphone: applications record the samples played to its sink.

use super::NullSink;
use crate::audio::{AudioError, RATE};

const MODULE: &str = "module-remap-source";

/// A microphone that exists as long as this value. An application records from the microphone if its environment
/// variable `PULSE_SOURCE` contains the microphone's name.
pub struct VirtualMicrophone {
    sink: NullSink,
    source: String,
    module: Option<u32>,
}

impl VirtualMicrophone {
    /// Creates a virtual microphone on `server` (`None`: `$PULSE_SERVER`, or the session's server).
    ///
    /// # Errors
    /// [`AudioError`] if libpulse or the server is missing, or if the server refuses.
    pub fn create(server: Option<&str>) -> Result<VirtualMicrophone, AudioError> {
        let mut sink = NullSink::create(server)?;
        let monitor = format!("{}.monitor", sink.name());
        // To avoid feedback, many programs do not list monitor sources, so another source is made from the monitor.
        let source = format!("{}_microphone", sink.name());
        let argument = format!(
            "master={monitor} source_name={source} format=float32le rate={RATE} channels=2 \
             source_properties=device.description=OpenUVR_microphone"
        );
        let (source, module) = match sink.connection().load_module(MODULE, &argument) {
            Ok(module) => (source, Some(module)),
            Err(why) => {
                tracing::debug!(
                    "the virtual microphone is the sink's monitor, because no separate source could be made: {why}"
                );
                (monitor, None)
            }
        };
        Ok(VirtualMicrophone {
            sink,
            source,
            module,
        })
    }

    /// The name of the sink to play to.
    #[must_use]
    pub fn sink(&self) -> &str {
        self.sink.name()
    }

    /// The name of the source: the value for `PULSE_SOURCE`.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl Drop for VirtualMicrophone {
    fn drop(&mut self) {
        // The microphone's module is unloaded before its master source, which is removed with the sink.
        if let Some(module) = self.module
            && let Err(error) = self.sink.connection().unload_module(module)
        {
            tracing::debug!("the microphone {} was not removed: {error}", self.source);
        }
    }
}
