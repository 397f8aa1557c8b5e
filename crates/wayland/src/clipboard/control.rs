//! The two protocols for clipboard managers. Both have the same objects.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use wayland_client::globals::{GlobalListContents, registry_queue_init};
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::protocol::wl_seat::WlSeat;
use wayland_client::{
    Connection, Dispatch, EventQueue, Proxy as _, QueueHandle, delegate_noop, event_created_child,
};
use wayland_protocols::ext::data_control::v1::client::{
    ext_data_control_device_v1, ext_data_control_manager_v1, ext_data_control_offer_v1,
    ext_data_control_source_v1,
};
use wayland_protocols_wlr::data_control::v1::client::{
    zwlr_data_control_device_v1, zwlr_data_control_manager_v1, zwlr_data_control_offer_v1,
    zwlr_data_control_source_v1,
};

/// A type that this program adds to its own offers, in order to recognise them.
const OWN: &str = "application/x-openuvr-offer";

/// The maximum number of types stored per offer, and the maximum length of a stored type in bytes. A hostile program
/// may offer any number.
const MAX_TYPES: usize = 64;
const MAX_TYPE: usize = 128;

/// The types of an offer.
pub(super) type Types = Mutex<BTreeSet<String>>;

/// The compositor's reports.
#[derive(Default)]
pub(super) struct State {
    /// The new contents of the clipboard, if they have changed; `Some(None)` if the clipboard is empty now.
    pub(super) selected: Option<Option<Offer>>,
    /// The text that this program offers.
    pub(super) offered: Option<Arc<str>>,
    /// Requests of programs that paste this text: the type, and the file to which the text is written.
    pub(super) wanted: Vec<(String, OwnedFd)>,
    /// Whether the compositor has ended the use of the clipboard.
    pub(super) finished: bool,
}

/// Contents of the clipboard that a program offers.
pub(super) struct Offer {
    object: OfferObject,
}

impl Offer {
    fn types(&self) -> &Types {
        let data = match &self.object {
            OfferObject::Ext(offer) => offer.data::<Types>(),
            OfferObject::Wlr(offer) => offer.data::<Types>(),
        };
        static NONE: Types = Mutex::new(BTreeSet::new());
        data.unwrap_or(&NONE)
    }

    /// Whether the offer has this type.
    pub(super) fn has(&self, kind: &str) -> bool {
        let types = self.types().lock();
        types.unwrap_or_else(PoisonError::into_inner).contains(kind)
    }

    /// Whether the offer is from this program.
    pub(super) fn is_own(&self) -> bool {
        self.has(OWN)
    }

    /// Requests that the offering program write its text into `file`.
    pub(super) fn receive(&self, kind: &str, file: &OwnedFd) {
        match &self.object {
            OfferObject::Ext(offer) => offer.receive(kind.to_owned(), file.as_fd()),
            OfferObject::Wlr(offer) => offer.receive(kind.to_owned(), file.as_fd()),
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        match &self.object {
            OfferObject::Ext(offer) => offer.destroy(),
            OfferObject::Wlr(offer) => offer.destroy(),
        }
    }
}

enum OfferObject {
    Ext(ext_data_control_offer_v1::ExtDataControlOfferV1),
    Wlr(zwlr_data_control_offer_v1::ZwlrDataControlOfferV1),
}

/// The bound protocol.
pub(super) enum Control {
    Ext(
        ext_data_control_manager_v1::ExtDataControlManagerV1,
        ext_data_control_device_v1::ExtDataControlDeviceV1,
    ),
    Wlr(
        zwlr_data_control_manager_v1::ZwlrDataControlManagerV1,
        zwlr_data_control_device_v1::ZwlrDataControlDeviceV1,
    ),
}

impl Control {
    /// Binds `ext-data-control-v1` if the compositor has it, otherwise `wlr-data-control-unstable-v1`.
    ///
    /// # Errors
    /// Returns an error if the compositor is gone or has neither protocol.
    pub(super) fn bind(conn: &Connection) -> Result<(Control, EventQueue<State>), String> {
        let (globals, queue) =
            registry_queue_init::<State>(conn).map_err(|cause| cause.to_string())?;
        let handle = queue.handle();
        let seat: WlSeat = globals
            .bind(&handle, 1..=1, ())
            .map_err(|_| "the compositor has no seat".to_owned())?;
        let control = if let Ok(manager) = globals.bind(&handle, 1..=1, ()) {
            let manager: ext_data_control_manager_v1::ExtDataControlManagerV1 = manager;
            let device = manager.get_data_device(&seat, &handle, ());
            Control::Ext(manager, device)
        } else if let Ok(manager) = globals.bind(&handle, 1..=1, ()) {
            let manager: zwlr_data_control_manager_v1::ZwlrDataControlManagerV1 = manager;
            let device = manager.get_data_device(&seat, &handle, ());
            Control::Wlr(manager, device)
        } else {
            return Err("the compositor has neither ext-data-control nor wlr-data-control".into());
        };
        Ok((control, queue))
    }

    /// Offers this program's text under these types. The compositor cancels the previous offer.
    pub(super) fn offer(&self, handle: &QueueHandle<State>, types: &[&str]) {
        let types = types.iter().chain(&[OWN]).map(|kind| (*kind).to_owned());
        match self {
            Control::Ext(manager, device) => {
                let source = manager.create_data_source(handle, ());
                types.for_each(|kind| source.offer(kind));
                device.set_selection(Some(&source));
            }
            Control::Wlr(manager, device) => {
                let source = manager.create_data_source(handle, ());
                types.for_each(|kind| source.offer(kind));
                device.set_selection(Some(&source));
            }
        }
    }
}

/// The events of one protocol.
macro_rules! dispatch {
    ($variant:ident, $device:ident::$Device:ident, $source:ident::$Source:ident, $offer:ident::$Offer:ident) => {
        impl Dispatch<$device::$Device, ()> for State {
            fn event(
                state: &mut State,
                _: &$device::$Device,
                event: $device::Event,
                (): &(),
                _: &Connection,
                _: &QueueHandle<State>,
            ) {
                match event {
                    $device::Event::Selection { id } => {
                        let object = id.map(OfferObject::$variant);
                        state.selected = Some(object.map(|object| Offer { object }));
                    }
                    $device::Event::PrimarySelection { id: Some(offer) } => offer.destroy(),
                    $device::Event::Finished => state.finished = true,
                    _ => {}
                }
            }

            event_created_child!(State, $device::$Device, [
                $device::EVT_DATA_OFFER_OPCODE => ($offer::$Offer, Types::default()),
            ]);
        }

        impl Dispatch<$offer::$Offer, Types> for State {
            fn event(
                _: &mut State,
                _: &$offer::$Offer,
                event: $offer::Event,
                types: &Types,
                _: &Connection,
                _: &QueueHandle<State>,
            ) {
                if let $offer::Event::Offer { mime_type } = event {
                    let mut types = types.lock().unwrap_or_else(PoisonError::into_inner);
                    if types.len() < MAX_TYPES && mime_type.len() <= MAX_TYPE {
                        types.insert(mime_type);
                    }
                }
            }
        }

        impl Dispatch<$source::$Source, ()> for State {
            fn event(
                state: &mut State,
                source: &$source::$Source,
                event: $source::Event,
                (): &(),
                _: &Connection,
                _: &QueueHandle<State>,
            ) {
                match event {
                    $source::Event::Send { mime_type, fd } => state.wanted.push((mime_type, fd)),
                    $source::Event::Cancelled => source.destroy(),
                    _ => {}
                }
            }
        }
    };
}

dispatch!(
    Ext,
    ext_data_control_device_v1::ExtDataControlDeviceV1,
    ext_data_control_source_v1::ExtDataControlSourceV1,
    ext_data_control_offer_v1::ExtDataControlOfferV1
);
dispatch!(
    Wlr,
    zwlr_data_control_device_v1::ZwlrDataControlDeviceV1,
    zwlr_data_control_source_v1::ZwlrDataControlSourceV1,
    zwlr_data_control_offer_v1::ZwlrDataControlOfferV1
);

delegate_noop!(State: ext_data_control_manager_v1::ExtDataControlManagerV1);
delegate_noop!(State: zwlr_data_control_manager_v1::ZwlrDataControlManagerV1);
delegate_noop!(State: ignore WlSeat);

impl Dispatch<WlRegistry, GlobalListContents> for State {
    fn event(
        _: &mut State,
        _: &WlRegistry,
        _: wl_registry::Event,
        _: &GlobalListContents,
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
    }
}
