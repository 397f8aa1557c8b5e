//! One display: a connector, and the scan-out unit (CRTC) and the plane that feed it. This module commits changes of
//! their state.
//!
//! Commits are atomic if the driver supports that; otherwise the older requests are used. The pointer always uses the
//! older requests, because on atomic drivers they update the cursor plane without waiting for the pending flip.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use drm::buffer::DrmFourcc;
use drm::control::atomic::AtomicModeReq;
use drm::control::dumbbuffer::DumbBuffer;
use drm::control::{
    AtomicCommitFlags, Device as _, Mode, PageFlipFlags, PlaneType, ResourceHandle, connector,
    crtc, framebuffer, plane, property,
};
use drm::{ClientCapability, Device as _, DriverCapability};
use openuvr_media::cursor::CursorShape;
use openuvr_media::dma_buf::Layout;
use openuvr_media::window::placement::Rect;
use openuvr_proto::units::Size;

use crate::KmsError;
use crate::buffers::Damage;
use crate::card::Card;
use crate::planes::{self, Formats, Role};

/// A display that this client drives.
pub(crate) struct Output {
    card: Arc<Card>,
    pub(crate) connector: connector::Handle,
    pub(crate) name: String,
    pub(crate) crtc: crtc::Handle,
    pub(crate) mode: Mode,
    /// The output's plane and the numbers of the properties; `None` if commits are not atomic.
    atomic: Option<Atomic>,
    flip_kind: FlipKind,
    cursor: Option<HardwareCursor>,
    /// The previous state of the CRTC, to be restored.
    found: Option<crtc::Info>,
}

struct Atomic {
    plane: plane::Handle,
    of_plane: Properties,
    /// All planes for pictures, including `plane`.
    planes: Vec<VideoPlane>,
    /// The plane that displays a decoded picture; `None` while a composed picture is displayed.
    direct: Option<usize>,
    of_crtc: Properties,
    of_connector: Properties,
    /// The blob of the mode. It is destroyed with the output.
    mode: Option<u64>,
}

/// A plane that may display decoded pictures.
struct VideoPlane {
    handle: plane::Handle,
    role: Role,
    properties: Properties,
    formats: Formats,
    /// Properties with the values of the stream's colours (BT.709, limited range), as far as the driver has them.
    colours: Vec<(property::Handle, u64)>,
}

/// A decoded picture on a plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// The number of the plane, from [`Output::planes_for`].
    pub(crate) plane: usize,
    pub(crate) framebuffer: framebuffer::Handle,
    /// The size of the visible part of the picture, which begins at the upper left corner.
    pub(crate) size: Size,
    /// The picture's area on the display.
    pub(crate) area: Rect,
}

type Properties = HashMap<String, property::Handle>;

/// When a flip happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlipKind {
    /// In the next vertical blank.
    Synchronised,
    /// At once, with an atomic commit.
    AtOnceAtomic,
    /// At once, with the older request.
    AtOnce,
}

struct HardwareCursor {
    buffer: DumbBuffer,
    size: (u32, u32),
}

/// The usual side of a cursor plane, used if the driver does not report a value (drm-kms(7)).
const CURSOR_SIDE: u64 = 64;

impl Output {
    /// Selects the CRTC and the plane for a connector. Nothing is displayed yet.
    pub(crate) fn new(
        card: &Arc<Card>,
        info: &connector::Info,
        mode: Mode,
        tearing: bool,
    ) -> Result<Output, KmsError> {
        let failed = |cause: io::Error| KmsError::Device {
            path: card.path.clone(),
            cause,
        };
        let name = info.to_string();
        let crtc = crtc_for(card, info).map_err(failed)?;
        let crtc = crtc.ok_or_else(|| KmsError::NoCrtc { name: name.clone() })?;
        // The request for `Atomic` fails if the driver supports no atomic commits.
        let planes = card.set_client_capability(ClientCapability::UniversalPlanes, true);
        let atomic =
            planes.and_then(|()| card.set_client_capability(ClientCapability::Atomic, true));
        let atomic = match atomic {
            Ok(()) => Atomic::new(card, info.handle(), crtc).map_err(failed)?,
            Err(_) => None,
        };
        let can = |what| card.get_driver_capability(what).unwrap_or(0) != 0;
        let flip_kind = match tearing {
            true if atomic.is_some() && can(DriverCapability::AtomicASyncPageFlip) => {
                FlipKind::AtOnceAtomic
            }
            true if can(DriverCapability::ASyncPageFlip) => FlipKind::AtOnce,
            true => {
                tracing::warn!(
                    "the driver of {} does not support --tearing: each picture waits for the next refresh",
                    card.path.display()
                );
                FlipKind::Synchronised
            }
            false => FlipKind::Synchronised,
        };
        let cursor = HardwareCursor::new(card)
            .inspect_err(|cause| {
                tracing::debug!(
                    "no cursor plane, so the pointer is drawn into the picture: {cause}"
                );
            })
            .ok();
        let found = card.get_crtc(crtc).ok();
        Ok(Output {
            card: Arc::clone(card),
            connector: info.handle(),
            name,
            crtc,
            mode,
            atomic,
            flip_kind,
            cursor,
            found,
        })
    }

    /// Whether commits are atomic.
    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic.is_some()
    }

    /// Sets the mode and displays a buffer. Returns when that is done.
    pub(crate) fn set_mode(&mut self, framebuffer: framebuffer::Handle) -> io::Result<()> {
        let Some(atomic) = &mut self.atomic else {
            let (origin, connectors) = ((0, 0), [self.connector]);
            let (mode, picture) = (Some(self.mode), Some(framebuffer));
            return (self.card).set_crtc(self.crtc, picture, origin, &connectors, mode);
        };
        let property::Value::Blob(blob) = self.card.create_property_blob(&self.mode)? else {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        };
        if let Some(before) = atomic.mode.replace(blob) {
            // The CRTC may use the previous blob until the commit. The kernel counts references, so the blob exists
            // until then.
            let _ = self.card.destroy_property_blob(before);
        }
        let (width, height) = self.mode.size();
        let mut request = AtomicModeReq::new();
        let values = [("CRTC_ID", u32::from(self.crtc).into())];
        set(&mut request, self.connector, &atomic.of_connector, &values)?;
        let values = [("MODE_ID", blob), ("ACTIVE", 1)];
        set(&mut request, self.crtc, &atomic.of_crtc, &values)?;
        let size = Size::new(width.into(), height.into());
        let values = place(self.crtc, framebuffer, size, whole(size));
        set(&mut request, atomic.plane, &atomic.of_plane, &values)?;
        atomic.turn_off_overlay(&mut request)?;
        let flags = AtomicCommitFlags::ALLOW_MODESET;
        self.card.atomic_commit(flags, request)?;
        atomic.direct = None;
        Ok(())
    }

    /// The planes that take decoded pictures of this kind, in the order in which they are tried.
    pub(crate) fn planes_for(&self, layout: &Layout) -> Vec<usize> {
        let planes = self.atomic.as_ref().map(|atomic| &*atomic.planes);
        let all = planes.unwrap_or_default().iter();
        planes::order(all.map(|plane| (plane.role, &plane.formats)), layout)
    }

    /// Whether the driver can display a picture. `below` is a buffer of the mode's size for the primary plane.
    pub(crate) fn can_display(&self, picture: &Placed, below: framebuffer::Handle) -> bool {
        let Some(atomic) = &self.atomic else {
            return false;
        };
        let tested = self.direct_request(atomic, picture, below);
        let tested =
            tested.and_then(|it| self.card.atomic_commit(AtomicCommitFlags::TEST_ONLY, it));
        if let Err(cause) = &tested {
            tracing::debug!("plane {} refuses a picture: {cause}", picture.plane);
        }
        tested.is_ok()
    }

    /// The name of a plane's role.
    pub(crate) fn role(&self, plane: usize) -> &'static str {
        let plane = self.atomic.as_ref().and_then(|it| it.planes.get(plane));
        match plane.map(|plane| plane.role) {
            Some(Role::Primary) => "primary",
            _ => "overlay",
        }
    }

    /// Whether a picture is displayed over the primary plane.
    pub(crate) fn is_overlay(&self, picture: &Placed) -> bool {
        let plane = (self.atomic.as_ref()).and_then(|it| it.planes.get(picture.plane));
        plane.is_some_and(|plane| plane.role == Role::Overlay)
    }

    /// Flips to a decoded picture, like [`flip`](Self::flip).
    pub(crate) fn flip_direct(
        &mut self,
        picture: &Placed,
        below: framebuffer::Handle,
    ) -> io::Result<()> {
        let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
        let atomic = self.atomic.as_ref().ok_or_else(unsupported)?;
        let request = self.direct_request(atomic, picture, below)?;
        let flags = AtomicCommitFlags::PAGE_FLIP_EVENT | AtomicCommitFlags::NONBLOCK;
        self.card.atomic_commit(flags, request)?;
        if let Some(atomic) = &mut self.atomic {
            atomic.direct = Some(picture.plane);
        }
        Ok(())
    }

    fn direct_request(
        &self,
        atomic: &Atomic,
        picture: &Placed,
        below: framebuffer::Handle,
    ) -> io::Result<AtomicModeReq> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let plane = atomic.planes.get(picture.plane).ok_or_else(missing)?;
        let mut request = AtomicModeReq::new();
        if atomic.direct != Some(picture.plane) {
            atomic.turn_off_overlay(&mut request)?;
        }
        if plane.role == Role::Overlay {
            self.place_composed(atomic, &mut request, below)?;
        }
        let values = place(self.crtc, picture.framebuffer, picture.size, picture.area);
        set(&mut request, plane.handle, &plane.properties, &values)?;
        for (property, value) in &plane.colours {
            request.add_raw_property(plane.handle.into(), *property, *value);
        }
        Ok(request)
    }

    /// Places a buffer of the mode's size on the primary plane.
    fn place_composed(
        &self,
        atomic: &Atomic,
        request: &mut AtomicModeReq,
        framebuffer: framebuffer::Handle,
    ) -> io::Result<()> {
        let (width, height) = self.mode.size();
        let size = Size::new(width.into(), height.into());
        let values = place(self.crtc, framebuffer, size, whole(size));
        set(request, atomic.plane, &atomic.of_plane, &values)
    }

    /// Flips to a buffer without waiting. The kernel reports the flip with an event. `damage` is the difference between
    /// this buffer and the previous one.
    pub(crate) fn flip(
        &mut self,
        framebuffer: framebuffer::Handle,
        damage: Damage,
    ) -> io::Result<()> {
        match (&self.atomic, self.flip_kind) {
            (Some(atomic), FlipKind::Synchronised) => {
                let mut request = AtomicModeReq::new();
                if atomic.direct.is_some() {
                    self.place_composed(atomic, &mut request, framebuffer)?;
                    atomic.turn_off_overlay(&mut request)?;
                }
                let values = [("FB_ID", u32::from(framebuffer).into())];
                set(&mut request, atomic.plane, &atomic.of_plane, &values)?;
                let clips = atomic.of_plane.get("FB_DAMAGE_CLIPS");
                // After a decoded picture, no damage is stated, because it would refer to a different buffer than the
                // displayed one.
                let clips = clips.filter(|_| atomic.direct.is_none());
                // `struct drm_mode_rect` (drm_mode.h).
                let rect = [0, damage.first, damage.width, damage.end];
                let blob = clips.and_then(|clips| {
                    let blob = self.card.create_property_blob(&rect).ok()?;
                    let number = property::RawValue::from(blob);
                    request.add_raw_property(atomic.plane.into(), *clips, number);
                    Some(number)
                });
                let flags = AtomicCommitFlags::PAGE_FLIP_EVENT | AtomicCommitFlags::NONBLOCK;
                let committed = self.card.atomic_commit(flags, request);
                if let Some(blob) = blob {
                    let _ = self.card.destroy_property_blob(blob);
                }
                if committed.is_ok()
                    && let Some(atomic) = &mut self.atomic
                {
                    atomic.direct = None;
                }
                committed
            }
            (Some(atomic), FlipKind::AtOnceAtomic) => {
                let mut request = AtomicModeReq::new();
                let values = [("FB_ID", u32::from(framebuffer).into())];
                set(&mut request, atomic.plane, &atomic.of_plane, &values)?;
                let flags = AtomicCommitFlags::PAGE_FLIP_EVENT
                    | AtomicCommitFlags::NONBLOCK
                    | AtomicCommitFlags::PAGE_FLIP_ASYNC;
                self.card.atomic_commit(flags, request)
            }
            (_, kind) => {
                let flags = match kind {
                    FlipKind::Synchronised => PageFlipFlags::EVENT,
                    FlipKind::AtOnce | FlipKind::AtOnceAtomic => {
                        PageFlipFlags::EVENT | PageFlipFlags::ASYNC
                    }
                };
                self.card.page_flip(self.crtc, framebuffer, flags, None)
            }
        }
    }

    /// Gives up immediate flips after the driver has refused one. Some drivers support such flips only for certain
    /// buffers. Returns whether flips were immediate until now.
    pub(crate) fn give_up_tearing(&mut self) -> bool {
        let before = std::mem::replace(&mut self.flip_kind, FlipKind::Synchronised);
        before != FlipKind::Synchronised
    }

    /// Displays the pointer's shape on the cursor plane. Returns `false` if that is impossible, so that the pointer
    /// must be drawn into the picture.
    pub(crate) fn cursor_shape(&mut self, shape: &CursorShape) -> bool {
        let Some(cursor) = &mut self.cursor else {
            return false;
        };
        let (width, height) = (u32::from(shape.width), u32::from(shape.height));
        if width > cursor.size.0 || height > cursor.size.1 {
            return false;
        }
        let mut copy = cursor.buffer;
        let drawn = self.card.map_dumb_buffer(&mut copy).map(|mut memory| {
            memory.fill(0);
            let pitch = drm::buffer::Buffer::pitch(&cursor.buffer) as usize;
            let rows = memory.chunks_exact_mut(pitch);
            let pixels = shape.argb.chunks(usize::from(shape.width).max(1));
            for (to, from) in rows.zip(pixels) {
                for (to, from) in to.as_chunks_mut::<4>().0.iter_mut().zip(from) {
                    *to = from.to_le_bytes();
                }
            }
        });
        let hot = (i32::from(shape.hot_x), i32::from(shape.hot_y));
        let shown = drawn.and_then(|()| {
            #[allow(deprecated, reason = "atomic commits of the cursor wait for the flip")]
            let set = self.card.set_cursor2(self.crtc, Some(&cursor.buffer), hot);
            set
        });
        if let Err(cause) = &shown {
            tracing::debug!("no cursor plane, so the pointer is drawn into the picture: {cause}");
            self.cursor_gone();
        }
        shown.is_ok()
    }

    /// Moves the upper left corner of the cursor plane.
    pub(crate) fn move_cursor(&self, at: (i32, i32)) {
        #[allow(deprecated, reason = "atomic commits of the cursor wait for the flip")]
        let moved = self.card.move_cursor(self.crtc, at);
        // The next motion of the pointer tries again.
        if let Err(cause) = moved {
            tracing::debug!("can't move the cursor: {cause}");
        }
    }

    pub(crate) fn hide_cursor(&self) {
        #[allow(deprecated, reason = "atomic commits of the cursor wait for the flip")]
        let _ = self.card.set_cursor(self.crtc, None::<&DumbBuffer>);
    }

    fn cursor_gone(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            let _ = self.card.destroy_dumb_buffer(cursor.buffer);
        }
    }

    /// Restores the mode and the picture that were displayed before, as far as they still exist. When the card is
    /// closed, the kernel's console restores the rest.
    pub(crate) fn put_back(&mut self) {
        self.hide_cursor();
        let Some(found) = &self.found else { return };
        if let (Some(mode), Some(picture)) = (found.mode(), found.framebuffer()) {
            let (at, to) = (found.position(), [self.connector]);
            let put = (self.card).set_crtc(self.crtc, Some(picture), at, &to, Some(mode));
            if let Err(cause) = put {
                tracing::debug!("can't restore the previous mode: {cause}");
            }
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.cursor_gone();
        if let Some(blob) = self.atomic.as_mut().and_then(|atomic| atomic.mode.take()) {
            let _ = self.card.destroy_property_blob(blob);
        }
    }
}

impl Atomic {
    /// `None` if the CRTC has no primary plane that is available to this client.
    fn new(
        card: &Card,
        connector: connector::Handle,
        crtc: crtc::Handle,
    ) -> io::Result<Option<Atomic>> {
        let resources = card.resource_handles()?;
        let (mut primary, mut planes) = (None, Vec::new());
        for plane in card.plane_handles()? {
            let info = card.get_plane(plane)?;
            if !resources
                .filter_crtcs(info.possible_crtcs())
                .contains(&crtc)
            {
                continue;
            }
            let (properties, values) = properties(card, plane)?;
            let kind = values.get("type").copied();
            let role = if kind == Some(PlaneType::Overlay as u64) && info.framebuffer().is_none() {
                Role::Overlay
            } else if kind == Some(PlaneType::Primary as u64) && primary.is_none() {
                primary = Some((plane, properties.clone()));
                Role::Primary
            } else {
                continue;
            };
            let listed = values.get("IN_FORMATS").copied().filter(|blob| *blob != 0);
            let listed = listed.and_then(|blob| card.get_property_blob(blob).ok());
            let formats = listed.and_then(|blob| Formats::parse(&blob));
            planes.push(VideoPlane {
                handle: plane,
                role,
                colours: colours(card, &properties),
                formats: formats.unwrap_or_else(|| Formats::linear(info.formats())),
                properties,
            });
        }
        let Some((plane, of_plane)) = primary else {
            return Ok(None);
        };
        Ok(Some(Atomic {
            plane,
            of_plane,
            planes,
            direct: None,
            of_crtc: properties(card, crtc)?.0,
            of_connector: properties(card, connector)?.0,
            mode: None,
        }))
    }

    /// Removes the decoded picture that an overlay displays.
    fn turn_off_overlay(&self, request: &mut AtomicModeReq) -> io::Result<()> {
        let plane = self.direct.and_then(|number| self.planes.get(number));
        match plane.filter(|plane| plane.role == Role::Overlay) {
            Some(plane) => {
                let values = [("FB_ID", 0), ("CRTC_ID", 0)];
                set(request, plane.handle, &plane.properties, &values)
            }
            None => Ok(()),
        }
    }
}

/// The properties of a plane that displays a picture in an area.
fn place(
    crtc: crtc::Handle,
    framebuffer: framebuffer::Handle,
    size: Size,
    area: Rect,
) -> [(&'static str, u64); 10] {
    let pixels = |pixels: i32| u64::try_from(pixels).unwrap_or(0);
    // Source coordinates have 16 fractional bits.
    [
        ("FB_ID", u32::from(framebuffer).into()),
        ("CRTC_ID", u32::from(crtc).into()),
        ("SRC_X", 0),
        ("SRC_Y", 0),
        ("SRC_W", u64::from(size.width) << 16),
        ("SRC_H", u64::from(size.height) << 16),
        ("CRTC_X", pixels(area.x)),
        ("CRTC_Y", pixels(area.y)),
        ("CRTC_W", pixels(area.width)),
        ("CRTC_H", pixels(area.height)),
    ]
}

fn whole(size: Size) -> Rect {
    let side = |pixels: u32| i32::try_from(pixels).unwrap_or(i32::MAX);
    Rect {
        x: 0,
        y: 0,
        width: side(size.width),
        height: side(size.height),
    }
}

/// The properties of a plane for the stream's colours, with their values (the kernel's `drm_color_mgmt.c`).
fn colours(card: &Card, properties: &Properties) -> Vec<(property::Handle, u64)> {
    let wanted = [
        ("COLOR_ENCODING", "ITU-R BT.709 YCbCr"),
        ("COLOR_RANGE", "YCbCr limited range"),
    ];
    let value = |(property, name): (&str, &str)| {
        let handle = *properties.get(property)?;
        let info = card.get_property(handle).ok()?;
        let property::ValueType::Enum(values) = info.value_type() else {
            return None;
        };
        let (_, values) = values.values();
        let found = (values.iter()).find(|value| value.name().to_bytes() == name.as_bytes())?;
        Some((handle, found.value()))
    };
    wanted.into_iter().filter_map(value).collect()
}

impl HardwareCursor {
    fn new(card: &Card) -> io::Result<HardwareCursor> {
        let side = |what| {
            let side = card.get_driver_capability(what).unwrap_or(CURSOR_SIDE);
            u32::try_from(side.clamp(CURSOR_SIDE, 512)).unwrap_or(64)
        };
        let size = (
            side(DriverCapability::CursorWidth),
            side(DriverCapability::CursorHeight),
        );
        let buffer = card.create_dumb_buffer(size, DrmFourcc::Argb8888, 32)?;
        Ok(HardwareCursor { buffer, size })
    }
}

/// The numbers of an object's properties by name, and their values.
fn properties<T: ResourceHandle>(
    card: &Card,
    handle: T,
) -> io::Result<(Properties, HashMap<String, u64>)> {
    let (mut numbers, mut values) = (Properties::new(), HashMap::new());
    for (number, value) in card.get_properties(handle)?.iter() {
        let info = card.get_property(*number)?;
        let name = info.name().to_string_lossy().into_owned();
        values.insert(name.clone(), *value);
        numbers.insert(name, *number);
    }
    Ok((numbers, values))
}

fn set<T: ResourceHandle>(
    request: &mut AtomicModeReq,
    object: T,
    properties: &Properties,
    values: &[(&str, u64)],
) -> io::Result<()> {
    let object = object.into();
    for (name, value) in values {
        let missing = || io::Error::other(format!("the driver has no property {name}"));
        let number = properties.get(*name).ok_or_else(missing)?;
        request.add_raw_property(object, *number, *value);
    }
    Ok(())
}

/// A CRTC that can feed the connector: preferably the current one, then an idle one, then any.
fn crtc_for(card: &Card, info: &connector::Info) -> io::Result<Option<crtc::Handle>> {
    if let Some(encoder) = info.current_encoder()
        && let Some(crtc) = card.get_encoder(encoder)?.crtc()
    {
        return Ok(Some(crtc));
    }
    let resources = card.resource_handles()?;
    let mut possible = Vec::new();
    for encoder in info.encoders() {
        let filter = card.get_encoder(*encoder)?.possible_crtcs();
        possible.extend(resources.filter_crtcs(filter));
    }
    let idle = |crtc: &&crtc::Handle| {
        (card.get_crtc(**crtc)).is_ok_and(|info| info.framebuffer().is_none())
    };
    Ok(possible.iter().find(idle).or(possible.first()).copied())
}
