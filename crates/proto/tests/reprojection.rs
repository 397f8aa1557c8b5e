//! Compares reprojected pictures with `vectors/reprojection.txt`. The same file tests the web page's implementation.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use openuvr_proto::reproject::{Camera, Homography};
use openuvr_proto::rotation::Rotation;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::FieldOfView;

const VECTORS: &str = include_str!("../../../vectors/reprojection.txt");

/// Pixels per side.
const SIDE: u32 = 1000;

fn camera(degrees: &[f32]) -> Camera {
    let [left, right, up, down] = [0, 1, 2, 3].map(|side: usize| degrees[side].to_radians());
    Camera {
        view: FieldOfView::new(left, right, up, down).unwrap(),
        size: Size::new(SIDE, SIDE),
    }
}

#[test]
fn pictures_are_reprojected_as_in_the_vectors() {
    let mut count = 0;
    for line in VECTORS.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        count += 1;
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<f32> = words.iter().map_while(|word| word.parse().ok()).collect();
        let turned = Rotation([0, 1, 2, 3].map(|part: usize| numbers[8 + part]));
        let (drawn, shown) = (camera(&numbers[..4]), camera(&numbers[4..8]));
        let homography = Homography::re_aimed(&drawn, &shown, turned).unwrap();
        let pixels = f64::from(SIDE);
        let [x, y] = [12, 13].map(|at: usize| f64::from(numbers[at]) * pixels);
        let found = homography.source(x, y);
        assert_eq!(found.is_none(), words[14] == "behind", "{line}");
        let Some(found) = found else { continue };
        for (found, wanted) in found.iter().zip(&numbers[14..]) {
            let off = found / pixels - f64::from(*wanted);
            assert!(off.abs() < 1e-3, "{found}: {line}");
        }
    }
    assert!(count > 20, "{count} lines");
}
