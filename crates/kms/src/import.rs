//! Framebuffers of decoded pictures: dma-bufs of another driver, imported into the card.
//!
//! A decoder reuses its buffers, so each one is imported once and found again by the identity of its dma-bufs.

use std::io;
use std::sync::Arc;

use drm::buffer::{DrmFourcc, DrmModifier, Handle, PlanarBuffer};
use drm::control::{Device as _, FbCmd2Flags, framebuffer};
use drm::{Device as _, DriverCapability};
use openuvr_media::dma_buf::{DmaBufPicture, LINEAR, Layout, MAX_PLANES, PlaneLayout, UNSTATED};
use rustix::fs::fstat;

use crate::card::Card;

/// If this many successive pictures were not in a buffer, the decoder no longer uses the buffer. Decoders have fewer
/// buffers: 20 in `h264_v4l2m2m`.
const UNUSED: u64 = 64;

/// A framebuffer in the memory of a decoder.
pub(crate) struct Import {
    card: Arc<Card>,
    pub(crate) framebuffer: framebuffer::Handle,
    handles: Handles,
}

/// The card's handles of a picture's planes. Planes in the same object have the same handle.
type Handles = [Option<Handle>; MAX_PLANES];

/// The identity of a buffer: its layout, and the device and inode of each object. An import keeps its dma-bufs open, so
/// their inodes are not reused.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Identity {
    layout: Layout,
    objects: [(u64, u64); MAX_PLANES],
}

impl Identity {
    fn of(picture: &DmaBufPicture) -> io::Result<Identity> {
        let mut objects = [(0, 0); MAX_PLANES];
        for (plane, id) in picture.layout().planes().iter().zip(&mut objects) {
            let fd = picture.object(plane.object).ok_or_else(no_object)?;
            let found = fstat(fd)?;
            *id = (found.st_dev, found.st_ino);
        }
        Ok(Identity {
            layout: *picture.layout(),
            objects,
        })
    }
}

/// The imported buffers.
pub(crate) struct Imports {
    card: Arc<Card>,
    cache: Recent<Identity, Arc<Import>>,
    /// Number of imports.
    pub(crate) count: u64,
}

impl Imports {
    pub(crate) fn new(card: &Arc<Card>) -> Imports {
        Imports {
            card: Arc::clone(card),
            cache: Recent::default(),
            count: 0,
        }
    }

    /// The framebuffer of a picture.
    pub(crate) fn of(&mut self, picture: &DmaBufPicture) -> io::Result<Arc<Import>> {
        let identity = Identity::of(picture)?;
        if let Some(found) = self.cache.find(&identity) {
            return Ok(Arc::clone(found));
        }
        let import = Arc::new(Import::new(&self.card, picture)?);
        self.count += 1;
        self.cache.add(identity, Arc::clone(&import));
        Ok(import)
    }
}

impl Import {
    fn new(card: &Arc<Card>, picture: &DmaBufPicture) -> io::Result<Import> {
        let mut handles: Handles = [None; MAX_PLANES];
        let added = get_handles(card, picture, &mut handles)
            .and_then(|()| add_framebuffer(card, picture.layout(), handles));
        match added {
            Ok(framebuffer) => Ok(Import {
                card: Arc::clone(card),
                framebuffer,
                handles,
            }),
            Err(cause) => {
                close(card, &handles);
                Err(cause)
            }
        }
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        let _ = self.card.destroy_framebuffer(self.framebuffer);
        close(&self.card, &self.handles);
    }
}

fn get_handles(card: &Card, picture: &DmaBufPicture, handles: &mut Handles) -> io::Result<()> {
    for (plane, handle) in picture.layout().planes().iter().zip(handles) {
        let fd = picture.object(plane.object).ok_or_else(no_object)?;
        *handle = Some(card.prime_fd_to_buffer(fd)?);
    }
    Ok(())
}

/// Closes each handle once, because the kernel returns the same handle for the same dma-buf and does not count
/// requests.
fn close(card: &Card, handles: &Handles) {
    for (number, handle) in handles.iter().enumerate() {
        if let Some(handle) = handle.filter(|it| !handles[..number].contains(&Some(*it))) {
            let _ = card.close_buffer(handle);
        }
    }
}

fn add_framebuffer(
    card: &Card,
    layout: &Layout,
    handles: Handles,
) -> io::Result<framebuffer::Handle> {
    let format = DrmFourcc::try_from(layout.format);
    let unknown = |_| io::Error::from(io::ErrorKind::Unsupported);
    let takes_modifiers = card
        .get_driver_capability(DriverCapability::AddFB2Modifiers)
        .is_ok_and(|value| value != 0);
    let modifier = match layout.modifier {
        UNSTATED => None,
        // Without this capability, drivers expect linear memory.
        LINEAR if !takes_modifiers => None,
        modifier => Some(DrmModifier::from(modifier)),
    };
    let flags = match modifier {
        Some(_) => FbCmd2Flags::MODIFIERS,
        None => FbCmd2Flags::empty(),
    };
    let buffer = Planes {
        layout,
        format: format.map_err(unknown)?,
        modifier,
        handles,
    };
    card.add_planar_framebuffer(&buffer, flags)
}

fn no_object() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

struct Planes<'a> {
    layout: &'a Layout,
    format: DrmFourcc,
    modifier: Option<DrmModifier>,
    handles: Handles,
}

impl Planes<'_> {
    fn each(&self, value: impl Fn(&PlaneLayout) -> u32) -> [u32; MAX_PLANES] {
        let mut all = [0; MAX_PLANES];
        for (to, plane) in all.iter_mut().zip(self.layout.planes()) {
            *to = value(plane);
        }
        all
    }
}

impl PlanarBuffer for Planes<'_> {
    fn size(&self) -> (u32, u32) {
        (self.layout.size.width, self.layout.size.height)
    }

    fn format(&self) -> DrmFourcc {
        self.format
    }

    fn modifier(&self) -> Option<DrmModifier> {
        self.modifier
    }

    fn pitches(&self) -> [u32; MAX_PLANES] {
        self.each(|plane| plane.pitch)
    }

    fn handles(&self) -> Handles {
        self.handles
    }

    fn offsets(&self) -> [u32; MAX_PLANES] {
        self.each(|plane| plane.offset)
    }
}

/// A cache. An entry expires when [`UNUSED`] successive searches have not found it.
struct Recent<K, V> {
    /// The key, the value, and the number of the search that last found them.
    entries: Vec<(K, V, u64)>,
    searches: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent {
            entries: Vec::new(),
            searches: 0,
        }
    }
}

impl<K: PartialEq, V> Recent<K, V> {
    fn find(&mut self, key: &K) -> Option<&V> {
        self.searches += 1;
        let now = self.searches;
        self.entries.retain(|(_, _, used)| now - used < UNUSED);
        let found = self.entries.iter_mut().find(|(known, _, _)| known == key)?;
        found.2 = now;
        Some(&found.1)
    }

    fn add(&mut self, key: K, value: V) {
        self.entries.push((key, value, self.searches));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recurring_buffers_are_found_and_abandoned_ones_expire() {
        let mut cache = Recent::default();
        let (old, new): (Vec<u32>, Vec<u32>) = ((0..20).collect(), (20..40).collect());
        let value = Arc::new(());
        for buffers in [&old, &new] {
            let mut added = 0;
            for picture in 0..200 {
                let buffer = buffers[picture % buffers.len()];
                if cache.find(&buffer).is_none() {
                    cache.add(buffer, Arc::clone(&value));
                    added += 1;
                }
            }
            assert_eq!(added, buffers.len());
        }
        assert_eq!(cache.entries.len(), new.len());
        assert_eq!(Arc::strong_count(&value), 1 + new.len());
        assert_eq!(cache.find(&old[0]), None);
    }
}
