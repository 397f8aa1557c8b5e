//! Similarity of pictures: luma PSNR, and a history of the newest pictures of a display for comparison.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use openuvr_media::barcode::{self, Stamp};
use openuvr_media::picture::Picture;
use openuvr_proto::units::Size;

use crate::background::Background;
use crate::screen::{Area, Screen};

/// A complete picture, packed BGRX.
#[derive(Clone, Debug)]
pub struct Shot {
    /// The picture's size, in pixels.
    pub size: Size,
    /// The picture's bar code, if it is readable.
    pub stamp: Option<Stamp>,
    /// Four bytes per pixel; rows have no padding.
    pub pixels: Arc<Vec<u8>>,
}

impl Shot {
    /// Captures `area`.
    pub fn take(screen: &Screen, area: Area) -> Result<Shot> {
        let mut pixels = Vec::new();
        screen.grab(area, &mut pixels)?;
        let size = area.size;
        let stamp = barcode::read(&Picture::bgrx(size, &pixels, size.width as usize * 4));
        Ok(Shot {
            size,
            stamp,
            pixels: Arc::new(pixels),
        })
    }

    /// Whether the picture is blank: it has hardly any contrast.
    pub fn is_blank(&self) -> bool {
        let all = luma(&self.pixels);
        let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
        let spread = all.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        // The standard deviation is below 4 of 255: such a picture appears as one flat colour.
        spread / (all.len().max(1) as f64) < 16.0
    }
}

/// Peak signal-to-noise ratio of the luma of two pictures, in decibels; 100 if they are equal, `None` if their sizes
/// differ.
pub fn psnr(one: &Shot, other: &Shot) -> Option<f64> {
    if one.size != other.size || one.pixels.is_empty() {
        return None;
    }
    let (one, other) = (luma(&one.pixels), luma(&other.pixels));
    let squares: f64 = one.iter().zip(&other).map(|(a, b)| (a - b).powi(2)).sum();
    let mean = squares / one.len() as f64;
    Some(if mean <= 0.0 {
        100.0
    } else {
        (10.0 * (255.0_f64.powi(2) / mean).log10()).min(100.0)
    })
}

/// BT.709 luma, full range.
fn luma(pixels: &[u8]) -> Vec<f64> {
    pixels
        .chunks_exact(4)
        .map(|p| 0.0722 * f64::from(p[0]) + 0.7152 * f64::from(p[1]) + 0.2126 * f64::from(p[2]))
        .collect()
}

/// Stores the newest pictures of a display.
pub struct History {
    shots: Arc<Mutex<VecDeque<Shot>>>,
    _thread: Background,
}

/// Number of stored pictures: half a second at 60 frames per second.
const KEPT: usize = 30;

impl History {
    /// Starts to record `area` of `display` (`None`: all of it).
    pub fn start(display: &str, area: Option<Area>) -> Result<History> {
        let mut screen = Screen::open(display)?;
        screen.watch()?;
        let area = area.unwrap_or_else(|| screen.all());
        let shots = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&shots);
        let thread = Background::start("history", move |stop| {
            let mut first = true;
            while !stop.load(Ordering::Relaxed) {
                let Ok(changed) = screen.changed(Duration::from_millis(50)) else {
                    return;
                };
                if !changed && !first {
                    continue;
                }
                first = false;
                let Ok(shot) = Shot::take(&screen, area) else {
                    return;
                };
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_back(shot);
                if kept.len() > KEPT {
                    kept.pop_front();
                }
            }
        })?;
        Ok(History {
            shots,
            _thread: thread,
        })
    }

    /// The stored pictures, oldest first.
    pub fn shots(&self) -> Vec<Shot> {
        self.shots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shot(value: impl Fn(usize) -> u8) -> Shot {
        let pixels = (0..64 * 64)
            .flat_map(|i| [value(i), value(i), value(i), 0])
            .collect();
        Shot {
            size: Size::new(64, 64),
            stamp: None,
            pixels: Arc::new(pixels),
        }
    }

    #[test]
    fn the_ratio_is_that_of_the_definition() {
        let (flat, other) = (shot(|_| 100), shot(|_| 110));
        // All pixels differ by 10: 10·log10(255²/100) = 28.13 dB.
        assert!((psnr(&flat, &other).unwrap() - 28.1308).abs() < 0.001);
        assert_eq!(psnr(&flat, &flat), Some(100.0));
        let small = Shot {
            size: Size::new(32, 128),
            ..flat.clone()
        };
        assert_eq!(psnr(&flat, &small), None);
    }

    #[test]
    fn one_colour_is_blank_and_a_picture_is_not() {
        assert!(shot(|_| 0).is_blank());
        assert!(shot(|i| 200 + u8::try_from(i % 2).unwrap()).is_blank());
        assert!(!shot(|i| u8::try_from(i % 256).unwrap()).is_blank());
    }
}
