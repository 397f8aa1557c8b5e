//! A sink of our own that is heard nowhere: what an application plays to it is recorded, and the machine
//! it runs on stays quiet.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::NAME;
use super::sys::Connection;
use crate::audio::{AudioError, RATE};

const MODULE: &str = "module-null-sink";

/// What names of our sinks begin with. Behind it are the number of the PID namespace, that of the process
/// in it, and that of the sink.
const PREFIX: &str = "openuvr_";

/// A sink that exists as long as this value. An application plays to it when it is started with the
/// environment variable `PULSE_SINK` set to its name.
pub struct NullSink {
    connection: Connection,
    module: u32,
    name: String,
}

impl NullSink {
    /// Makes one in `server` (`None`: `$PULSE_SERVER`, or that of this session), and removes those that
    /// processes of this program left behind when they were killed.
    ///
    /// # Errors
    /// [`AudioError`] if there is no libpulse or no server, or if it refuses.
    pub fn create(server: Option<&str>) -> Result<NullSink, AudioError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let mut connection = Connection::open(server, NAME)?;
        for (module, argument) in connection.modules(MODULE)? {
            if let Some(owner) = Owner::of(&argument).filter(|owner| !owner.lives()) {
                tracing::info!(
                    process = owner.process,
                    "a sound sink that was left behind is removed"
                );
                connection.unload_module(module)?;
            }
        }
        let owner = Owner::this();
        let (namespace, process) = (owner.namespace, owner.process);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{namespace}_{process}_{number}");
        let argument = format!(
            "sink_name={name} format=float32le rate={RATE} channels=2 \
             sink_properties=device.description={NAME}"
        );
        // Without rewinding it renders 50 ms ahead at most, not 2 s, until somebody asks for less; what it
        // rendered ahead is missing in its monitor when a stream begins. PulseAudio has it since 15.
        let prompt = format!("{argument} norewinds=1");
        let module = (connection.load_module(MODULE, &prompt))
            .or_else(|_| connection.load_module(MODULE, &argument))?;
        Ok(NullSink {
            connection,
            module,
            name,
        })
    }

    /// By which modules that belong to it are loaded and unloaded.
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Its name: the value of `PULSE_SINK`, and the device of the capture that records it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for NullSink {
    fn drop(&mut self) {
        if let Err(error) = self.connection.unload_module(self.module) {
            tracing::debug!("the sound sink {} was not removed: {error}", self.name);
        }
    }
}

/// The process that made a sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Owner {
    /// In which its number means something; 0 where that is not known.
    namespace: u64,
    process: u32,
}

impl Owner {
    fn this() -> Owner {
        Owner {
            namespace: namespace(),
            process: std::process::id(),
        }
    }

    /// The one that is named in a module's argument, if the sink is one of ours.
    fn of(argument: &str) -> Option<Owner> {
        let mut words = argument.split_whitespace();
        let name = words.find_map(|word| word.strip_prefix("sink_name="))?;
        let mut parts = name.strip_prefix(PREFIX)?.split('_');
        let owner = Owner {
            namespace: parts.next()?.parse().ok()?,
            process: parts.next()?.parse().ok()?,
        };
        parts.next()?.parse::<u32>().ok()?;
        parts.next().is_none().then_some(owner)
    }

    /// Whether it may still be there: of another namespace's processes nothing is known.
    fn lives(self) -> bool {
        self.namespace != namespace() || Path::new(&format!("/proc/{}", self.process)).exists()
    }
}

/// The number of this process's PID namespace (namespaces(7)).
fn namespace() -> u64 {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits = link.to_string_lossy();
    let digits = digits.trim_start_matches("pid:[").trim_end_matches(']');
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sinks_of_dead_processes_are_removed() {
        let this = Owner::this();
        let (namespace, process) = (this.namespace, this.process);
        let argument = format!("sink_name=openuvr_{namespace}_{process}_3 rate=48000");
        assert_eq!(Owner::of(&argument), Some(this));
        assert!(this.lives());
        // Above the largest that Linux gives out.
        let dead = Owner::of(&format!("rate=1 sink_name=openuvr_{namespace}_4194305_0")).unwrap();
        assert!(!dead.lives());
        assert!(
            Owner::of("sink_name=openuvr_1_4194305_0").unwrap().lives(),
            "elsewhere"
        );
        for other in [
            "",
            "sink_name=game",
            "sink_name=openuvr_x_1_0",
            "sink_name=openuvr_1_2",
        ] {
            assert_eq!(Owner::of(other), None, "{other}");
        }
    }
}
