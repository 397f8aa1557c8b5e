//! Pictures in dma-bufs on the display of the virtual machine. An example of the crate `openuvr-kms` replaces the
//! hardware decoder, with buffers of the display's own driver.

use openuvr_media::barcode;
use openuvr_media::picture::Picture as View;

use super::rig::Rig;
use super::skip::skip;
use super::{DISPLAY, VGA};

/// The buffers of the example.
const BUFFERS: u64 = 4;

fn start(arguments: &str) -> Option<Rig> {
    let mut rig = Rig::start()?;
    let copied = "cp /host/examples/dma_bufs /usr/bin/dma_bufs";
    if rig.machine.run(copied).unwrap().status != 0 {
        skip("the example dma_bufs is missing: ./dev test-vm builds it");
        return None;
    }
    let shell = format!("echo $$ >/tmp/client.pid; exec dma_bufs {arguments}");
    let command = format!("setsid sh -c '{shell}' >/tmp/client.log 2>&1 &");
    rig.machine.succeed(&command).unwrap();
    Some(rig)
}

/// The number of the picture on the display.
fn displayed(rig: &mut Rig) -> Option<u32> {
    let picture = rig.machine.picture().unwrap();
    let stride = picture.size.width as usize * 4;
    Some(barcode::read(&View::bgrx(picture.size, &picture.bgrx, stride))?.frame)
}

#[test]
fn buffers_of_a_decoder_are_displayed_and_returned() {
    let Some(mut rig) = start(&format!("xrgb {VGA}")) else {
        return;
    };
    let frames = rig.frames(12);
    assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
    assert_eq!(rig.machine.picture().unwrap().size, VGA);
    rig.wait_for_client("displays the decoder.s pictures without a copy (XR24, primary plane)");
    rig.end_client();
    assert_eq!(rig.client_log_value(" copied"), "0");
    let in_use: u64 = rig.client_log_value(" in use").parse().unwrap();
    assert!((1..BUFFERS).contains(&in_use), "{in_use} buffers in use");
    assert_eq!(rig.client_log_value(" left"), "0");
    // Each buffer was imported once.
    assert_eq!(
        rig.client_log_value(" buffers imported"),
        BUFFERS.to_string()
    );
    rig.expect_text_console();
}

#[test]
fn text_over_the_last_picture_is_composed_from_a_copy() {
    let Some(mut rig) = start(&format!("xrgb {VGA} 10")) else {
        return;
    };
    rig.wait_for_client("^no more pictures");
    // The picture is still displayed, with the text below its bar code.
    let grey = |pixel: &[u8; 4]| pixel[..3] == [128; 3];
    let code = barcode::height(VGA.width) as usize * VGA.width as usize;
    let text = (0..300).any(|_| {
        let picture = rig.machine.picture().unwrap();
        !picture.bgrx.as_chunks::<4>().0[code..].iter().all(grey)
    });
    assert!(text, "no text is displayed");
    rig.end_client();
    assert_eq!(rig.client_log_value(" copied"), "0");
    assert_eq!(rig.client_log_value(" left"), "0");
}

#[test]
fn a_console_switch_keeps_the_picture_and_the_buffers() {
    let Some(mut rig) = start(&format!("xrgb {VGA}")) else {
        return;
    };
    rig.frames(3);
    let own = rig.foreground();
    rig.machine.succeed("chvt 1").unwrap();
    rig.expect_text_console();
    rig.machine.succeed(&format!("chvt {own}")).unwrap();
    let frames = rig.frames(8);
    assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
    rig.end_client();
    assert_eq!(rig.client_log_value(" left"), "0");
    assert_eq!(
        rig.client_log_value(" buffers imported"),
        BUFFERS.to_string()
    );
}

#[test]
fn a_format_without_a_plane_is_copied() {
    let Some(mut rig) = start(&format!("nv12 {VGA}")) else {
        return;
    };
    let frames = rig.frames(5);
    assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
    assert!(displayed(&mut rig).is_some());
    rig.wait_for_client("pictures are copied for display: no plane of .* supports NV12");
    rig.end_client();
    assert_eq!(rig.client_log_value(" direct, "), "0");
    assert_eq!(rig.client_log_value(" left"), "0");
}

#[test]
fn a_size_without_a_mode_is_copied_if_no_plane_scales() {
    let Some(mut rig) = start("xrgb 600x600") else {
        return;
    };
    rig.wait_for_client("no plane of .* can display pictures of 600x600 in this mode");
    // The picture is scaled to 720x720, between two bars of 280 columns. Pictures with different numbers
    // differ.
    let mut different: Vec<Vec<u8>> = Vec::new();
    for _ in 0..100 {
        let shown = rig.machine.picture().unwrap();
        assert_eq!(shown.size, DISPLAY);
        let black = |pixels: &[[u8; 4]]| pixels.iter().all(|pixel| pixel[..3] == [0; 3]);
        let rows = shown.bgrx.as_chunks::<4>().0.chunks_exact(1280);
        assert!(
            rows.clone()
                .all(|row| black(&row[..280]) && black(&row[1000..]))
        );
        let is_shown = rows.clone().any(|row| !black(&row[280..1000]));
        if is_shown && !different.contains(&shown.bgrx) {
            different.push(shown.bgrx);
        }
        if different.len() == 3 {
            break;
        }
    }
    assert_eq!(different.len(), 3);
    rig.end_client();
    assert_eq!(rig.client_log_value(" direct, "), "0");
}
