//! The compositor's outputs, and the captured one.

use std::collections::BTreeMap;

use openuvr_proto::units::Size;
use wayland_client::Proxy as _;
use wayland_client::WEnum;
use wayland_client::protocol::wl_output::{Event, Mode, WlOutput};

use super::turn::Transform;

/// All outputs, by their number in the registry.
#[derive(Default)]
pub(super) struct Outputs {
    all: BTreeMap<u32, Output>,
    /// The name of the output to capture; `None` selects the first output with a mode.
    wanted: Option<String>,
    chosen: Option<u32>,
    /// The name of the output that was selected last.
    name: String,
}

pub(super) struct Output {
    pub(super) proxy: WlOutput,
    /// The size of the current mode, in pixels of the panel, before the transform.
    pub(super) mode: Option<Size>,
    pub(super) transform: Transform,
    name: String,
}

impl Outputs {
    pub(super) fn wanted(wanted: Option<String>) -> Outputs {
        Outputs {
            wanted,
            ..Outputs::default()
        }
    }

    pub(super) fn add(&mut self, number: u32, proxy: WlOutput) {
        let output = Output {
            proxy,
            mode: None,
            transform: Transform::default(),
            name: format!("output-{number}"),
        };
        self.all.insert(number, output);
    }

    pub(super) fn remove(&mut self, number: u32) {
        if let Some(output) = self.all.remove(&number)
            && output.proxy.version() >= 3
        {
            output.proxy.release();
        }
        if self.chosen == Some(number) {
            self.chosen = None;
        }
    }

    pub(super) fn handle(&mut self, number: u32, event: Event) {
        let Some(output) = self.all.get_mut(&number) else {
            return;
        };
        match event {
            Event::Mode {
                flags: WEnum::Value(flags),
                width,
                height,
                ..
            } if flags.contains(Mode::Current) => {
                let side = |n: i32| u32::try_from(n).unwrap_or(0);
                let mode = Size::new(side(width), side(height));
                output.mode = Some(mode).filter(|mode| mode.is_valid());
            }
            Event::Geometry {
                transform: WEnum::Value(transform),
                ..
            } => output.transform = Transform::from(transform),
            Event::Name { name } => output.name = name,
            _ => {}
        }
    }

    /// Selects an output, unless one is selected and still exists. It is the output with the requested name, or the
    /// first output with a mode if no name was requested. Returns whether an output was selected by this call.
    pub(super) fn choose(&mut self) -> bool {
        if self.chosen.is_some() {
            return false;
        }
        let fits = |output: &&Output| match &self.wanted {
            Some(wanted) => output.name == *wanted,
            None => output.mode.is_some(),
        };
        let found = self.all.iter().find(|(_, output)| fits(output));
        let Some((number, output)) = found else {
            return false;
        };
        self.name.clone_from(&output.name);
        self.chosen = Some(*number);
        true
    }

    pub(super) fn chosen(&self) -> Option<&Output> {
        self.all.get(&self.chosen?)
    }

    pub(super) fn chosen_name(&self) -> &str {
        &self.name
    }

    pub(super) fn names(&self) -> Vec<&str> {
        let names = self.all.values().map(|output| output.name.as_str());
        names.collect()
    }
}
