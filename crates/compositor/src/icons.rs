//! The images of named cursors: from the cursor theme of the machine, or a built-in arrow.

use std::collections::BTreeMap;
use std::sync::Arc;

use openuvr_media::cursor::CursorShape;
use smithay::input::pointer::CursorIcon;
use xcursor::CursorTheme;
use xcursor::parser::parse_xcursor;

/// The side of a cursor at scale 1, unless `XCURSOR_SIZE` is set. Most desktops use this size.
const USUAL: f64 = 24.0;

/// The maximum side of an image, as in [`CursorShape`].
const MAX_SIDE: u32 = 256;

/// The images that have been used so far.
#[derive(Default)]
pub(crate) struct Icons {
    theme: Option<CursorTheme>,
    known: BTreeMap<(&'static str, u32), Arc<CursorShape>>,
}

impl Icons {
    /// The image of a cursor on a display of this scale.
    pub(crate) fn shape(&mut self, icon: CursorIcon, scale: f64) -> Arc<CursorShape> {
        let usual = std::env::var("XCURSOR_SIZE");
        let usual = usual.ok().and_then(|size| size.parse().ok());
        let side = (usual.unwrap_or(USUAL) * scale).clamp(8.0, MAX_SIDE.into());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the side is clamped"
        )]
        let side = side.round() as u32;
        if let Some(shape) = self.known.get(&(icon.name(), side)) {
            return shape.clone();
        }
        let theme = self.theme.get_or_insert_with(|| {
            let name = std::env::var("XCURSOR_THEME");
            CursorTheme::load(name.as_deref().unwrap_or("default"))
        });
        let names = [icon.name()]
            .into_iter()
            .chain(icon.alt_names().iter().copied());
        let shape = names
            .filter_map(|name| read(theme, name, side))
            .next()
            .unwrap_or_else(CursorShape::arrow);
        let shape = Arc::new(shape);
        self.known.insert((icon.name(), side), shape.clone());
        shape
    }
}

/// The image of the cursor `name` in the theme, in the size nearest to `side`.
fn read(theme: &CursorTheme, name: &str, side: u32) -> Option<CursorShape> {
    let file = std::fs::read(theme.load_icon(name)?).ok()?;
    let images = parse_xcursor(&file)?;
    let fits =
        |image: &&xcursor::parser::Image| image.width <= MAX_SIDE && image.height <= MAX_SIDE;
    let image = images
        .iter()
        .filter(fits)
        .min_by_key(|image| image.size.abs_diff(side))?;
    let short = |number: u32| u16::try_from(number).ok();
    let argb: Vec<u32> = image
        .pixels_argb
        .chunks_exact(4)
        .map(|p| p.try_into().map_or(0, u32::from_be_bytes))
        .collect();
    let complete = argb.len() == image.width as usize * image.height as usize;
    complete.then_some(CursorShape {
        width: short(image.width)?,
        height: short(image.height)?,
        hot_x: short(image.xhot.min(image.width.saturating_sub(1)))?,
        hot_y: short(image.yhot.min(image.height.saturating_sub(1)))?,
        argb,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_cursor_has_an_image() {
        let mut icons = Icons::default();
        for icon in [CursorIcon::Default, CursorIcon::Text, CursorIcon::ZoomIn] {
            let shape = icons.shape(icon, 1.0);
            let pixels = usize::from(shape.width) * usize::from(shape.height);
            assert_eq!(shape.argb.len(), pixels, "{icon:?}");
            assert!(shape.argb.iter().any(|pixel| pixel >> 24 != 0), "{icon:?}");
            assert!(shape.hot_x < shape.width && shape.hot_y < shape.height);
        }
    }
}
