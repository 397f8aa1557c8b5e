//! Stores pictures of the display for manual inspection, in `target/tmp/vm`.

use std::fs;
use std::io::BufWriter;
use std::path::PathBuf;

use openuvr_testbed::machine::Picture;

/// Writes a picture as `NAME.png`, and prints its path.
pub(crate) fn keep(picture: &Picture, name: &str) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("vm");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.png"));
    let file = BufWriter::new(fs::File::create(&path).unwrap());
    let mut encoder = png::Encoder::new(file, picture.size.width, picture.size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let pixels = picture.bgrx.as_chunks::<4>().0;
    let rgb: Vec<u8> = pixels
        .iter()
        .flat_map(|[blue, green, red, _]| [*red, *green, *blue])
        .collect();
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&rgb).unwrap();
    println!("the display is in {}", path.display());
}
