//! The applications that clients choose from.

/// An application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Application {
    /// Its number: the same at each start of the host.
    pub(crate) number: u32,
    /// Its name.
    pub(crate) title: String,
}

/// Sides of the box art: clients show 200 × 267 pixels and stretch other shapes (moonshine's `webserver/mod.rs`).
const ART: (u32, u32) = (300, 400);

/// Width of its frame.
const FRAME: u32 = 12;

impl Application {
    /// With a number from its name (FNV-1a of 32 bits, without the sign that some clients' numbers have).
    #[must_use]
    pub(crate) fn new(title: &str) -> Application {
        let hash = title.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        Application {
            // 0 means that no application runs.
            number: (hash & 0x7fff_ffff).max(1),
            title: title.to_owned(),
        }
    }

    /// Its box art, as PNG: a colour of its own. `None` if the library fails.
    #[must_use]
    pub(crate) fn art(&self) -> Option<Vec<u8>> {
        let [red, green, blue, _] = self.number.to_le_bytes();
        // Dark enough for the white title that some clients draw over it.
        let inside = [red, green, blue].map(|part| 32 + part / 3);
        let frame = inside.map(|part| part + part / 2);
        let (width, height) = ART;
        let mut pixels = Vec::new();
        for y in 0..height {
            for x in 0..width {
                let edge = x.min(width - 1 - x).min(y).min(height - 1 - y);
                pixels.extend(if edge < FRAME { frame } else { inside });
            }
        }
        let mut image = Vec::new();
        let mut encoder = png::Encoder::new(&mut image, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().ok()?;
        writer.write_image_data(&pixels).ok()?;
        writer.finish().ok()?;
        Some(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable_and_differ() {
        let desktop = Application::new("Desktop");
        assert_eq!(desktop, Application::new("Desktop"));
        assert_ne!(desktop.number, Application::new("Game").number);
        assert!(desktop.number > 0 && desktop.number < 1 << 31);
    }

    #[test]
    fn box_art_is_a_picture() {
        let art = Application::new("Desktop").art().unwrap();
        let decoder = png::Decoder::new(std::io::Cursor::new(art));
        let reader = decoder.read_info().unwrap();
        assert_eq!((reader.info().width, reader.info().height), ART);
    }
}
