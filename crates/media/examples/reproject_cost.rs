//! Prints the cost of reprojection on this machine in milliseconds per picture: `cargo run --release -p openuvr-media
//! --example reproject_cost`.
//!
//! For each filter, 500 pictures are drawn while the head turns. Each picture has two eyes of 640x640 pixels.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::time::Instant;

use openuvr_media::reproject::{AimedRegion, EyeView, Filter, Source, draw, eye_regions};
use openuvr_proto::reproject::{Camera, Homography};
use openuvr_proto::rotation::Rotation;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::FieldOfView;

const PICTURES: u16 = 500;

fn main() {
    let size = Size::new(1280, 640);
    let angle = 45f32.to_radians();
    let Ok(view) = FieldOfView::new(-angle, angle, angle, -angle) else {
        return;
    };
    let camera = Camera {
        view,
        size: Size::new(640, 640),
    };
    let bytes: Vec<u8> = (0..size.pixels() * 4).map(|i| i.to_le_bytes()[0]).collect();
    let source = Source {
        size,
        bytes: &bytes,
    };
    for filter in [Filter::Nearest, Filter::Bilinear] {
        let (shown, parts) = eye_regions(size, 2, EyeView::Both);
        let mut to = vec![0; shown.pixels() * 4];
        let mut spans: Vec<f64> = (0..PICTURES)
            .filter_map(|i| {
                let turned = f32::from(i % 100) / 10.0;
                let turned = Rotation::of_head(turned.to_radians(), 0.02, 0.01);
                let how = Homography::re_aimed(&camera, &camera, turned)?;
                let aimed: Vec<_> = (parts.iter().cloned())
                    .map(|part| AimedRegion { part, how })
                    .collect();
                let began = Instant::now();
                draw(&source, &aimed, filter, shown, &mut to);
                Some(began.elapsed().as_secs_f64() * 1e3)
            })
            .collect();
        spans.sort_by(f64::total_cmp);
        let at = |part: usize| spans.get(spans.len() * part / 100).copied().unwrap_or(0.0);
        println!("{filter:?}: p50 {:.2} ms, p99 {:.2} ms", at(50), at(99));
    }
}
