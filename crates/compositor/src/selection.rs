//! Copied data between the player, Wayland applications and X11 applications.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use openuvr_media::clipboard::ReadFailure;
use smithay::wayland::selection::data_device::{
    clear_data_device_selection, current_data_device_selection_userdata,
    request_data_device_client_selection, set_data_device_selection,
};

use crate::copied::Copied;
use crate::outside::TEXT_TYPES;
use crate::state::State;
use crate::xwayland::wire::MAX_TRANSFERS;

impl State {
    /// Offers the player's text to applications.
    pub(crate) fn offer(&mut self, text: Arc<str>) {
        let types = TEXT_TYPES.map(str::to_owned).to_vec();
        self.offer_to_x11(types.clone());
        set_data_device_selection(&self.handle, &self.seat, types, Copied::Text(text));
    }

    /// Offers copied data of these types to X11 applications. An empty list offers nothing.
    pub(crate) fn offer_to_x11(&mut self, types: Vec<String>) {
        self.copied_elsewhere = types;
        self.tell_x11_of_copied();
    }

    /// Informs the X11 window manager about the types of copied data that does not come from an X11 application.
    pub(crate) fn tell_x11_of_copied(&self) {
        if let Some(x11) = &self.x11 {
            let types = self.copied_elsewhere.clone();
            x11.running
                .board
                .request(|requests| requests.copied = Some(types));
        }
    }

    /// Handles a copy by an X11 application, which offers the data in these types. An empty list means that the
    /// application no longer offers it.
    pub(crate) fn x11_copied(&mut self, types: Vec<String>) {
        if types.is_empty() {
            if self.is_copied_by_x11() {
                clear_data_device_selection(&self.handle, &self.seat);
            }
            return;
        }
        self.copied_elsewhere.clear();
        set_data_device_selection(&self.handle, &self.seat, types.clone(), Copied::ByX11);
        self.copied(types);
    }

    /// Requests data that an X11 application has copied. The window manager writes it to `target`.
    pub(crate) fn fetch_from_x11(&self, kind: String, target: OwnedFd) {
        if let Some(x11) = &self.x11 {
            x11.running.board.request(|requests| {
                if requests.fetches.len() < MAX_TRANSFERS {
                    requests.fetches.push_back((kind, target));
                }
            });
        }
    }

    /// Serves a paste by an X11 application: writes the copied data of this type to `target`.
    pub(crate) fn x11_pastes(&self, kind: String, target: OwnedFd) {
        let text = match current_data_device_selection_userdata(&self.seat).as_deref() {
            Some(Copied::Text(text)) => Some(text.clone()),
            Some(Copied::ByX11) => return,
            None => None,
        };
        match text {
            Some(text) => self.ends.clipboard.paste(text, target),
            // The request fails if the selection is gone. In this case, nothing is pasted.
            None => drop(request_data_device_client_selection(
                &self.seat, kind, target,
            )),
        }
    }

    fn is_copied_by_x11(&self) -> bool {
        let copied = current_data_device_selection_userdata(&self.seat);
        matches!(copied.as_deref(), Some(Copied::ByX11))
    }

    /// Handles a copy by an application, which offers the data in these types. The data is requested later, when the
    /// application's selection is in effect.
    pub(crate) fn copied(&mut self, types: Vec<String>) {
        if self.ends.clipboard.reads() {
            self.copied_types = Some(types);
        }
    }

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
        if self.is_copied_by_x11() {
            self.fetch_from_x11(text.to_owned(), target);
            return self.ends.clipboard.copied(Ok(source));
        }
        let sent = request_data_device_client_selection(&self.seat, text.to_owned(), target);
        let source = sent.map(|()| source).map_err(|_| ReadFailure::NoAnswer);
        self.ends.clipboard.copied(source);
    }
}
