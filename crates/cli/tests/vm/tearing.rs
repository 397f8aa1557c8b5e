//! `--tearing`: flips before the refresh, if the driver supports them.

use super::VGA;
use super::rig::Rig;

/// A perl script that prints 1 if the card has the capability `DRM_CAP_ASYNC_PAGE_FLIP` or
/// `DRM_CAP_ATOMIC_ASYNC_PAGE_FLIP`, and otherwise 0.
const CAPABLE: &str = "open F, \"+<\", \"/dev/dri/card0\" or die; for $cap (0x7, 0x15) { $c = pack(\"Q2\", $cap, 0); \
                       $can ||= ioctl(F, 0xc010640c, $c) && (unpack(\"Q2\", $c))[1] } print $can ? 1 : 0";

#[test]
fn a_driver_without_immediate_flips_is_named_and_waits() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    let capable = rig.machine.succeed(&format!("perl -e '{CAPABLE}'"));
    let capable = capable.unwrap() == "1";
    rig.client_options = "--tearing";
    rig.stream_pattern(VGA);
    let frames = rig.frames(5);
    assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
    rig.end_client();
    let log = rig.machine.succeed("cat /tmp/client.log").unwrap();
    let warning = "does not support --tearing: each picture waits for the next refresh";
    assert_eq!(log.contains(warning), !capable, "{log}");
    println!("immediate flips on virtio-gpu: {capable}");
    let flips: u64 = rig.client_log_value(" flips").parse().unwrap();
    assert!(flips >= 5, "{flips} flips");
    rig.expect_text_console();
}
