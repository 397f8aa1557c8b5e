//! Text between the display's clipboard and the player's.

use std::sync::Arc;

use openuvr_media::clipboard::ReadFailure;
use smithay::wayland::selection::data_device::{
    request_data_device_client_selection, set_data_device_selection,
};

use crate::outside::TEXT_TYPES;
use crate::state::State;

impl State {
    /// Offers the player's text to applications.
    pub(crate) fn offer(&mut self, text: Arc<str>) {
        let types = TEXT_TYPES.map(str::to_owned).to_vec();
        set_data_device_selection(&self.handle, &self.seat, types, text);
    }

    /// An application has copied something in these types. It is requested when its selection is in force.
    pub(crate) fn copied(&mut self, types: Vec<String>) {
        if self.ends.clipboard.reads() {
            self.copied_types = Some(types);
        }
    }

    /// Requests copied text.
    pub(crate) fn request_copied(&mut self) {
        let Some(types) = self.copied_types.take() else {
            return;
        };
        let text = TEXT_TYPES
            .into_iter()
            .find(|text| types.iter().any(|is| is == text));
        let Some(text) = text else {
            return self.ends.clipboard.copied(Err(ReadFailure::NotText));
        };
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let Ok((source, target)) = rustix::pipe::pipe_with(flags) else {
            return self.ends.clipboard.copied(Err(ReadFailure::NoAnswer));
        };
        let sent = request_data_device_client_selection(&self.seat, text.to_owned(), target);
        let source = sent.map(|()| source).map_err(|_| ReadFailure::NoAnswer);
        self.ends.clipboard.copied(source);
    }
}
