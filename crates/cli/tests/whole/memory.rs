//! The client's memory: a board with 512 MB must suffice for a client.

use crate::support::{Display, Host, ScreenCapture, scene};

const SIZE: &str = "1280x720";

/// Maximum resident memory at this size, in kB. This is a requirement.
const RESIDENT: u64 = 60 << 10;

/// Maximum resident memory at this size without file mappings, in kB. Measured: 33,600 with two cores.
const ALLOCATED: u64 = 40 << 10;

#[test]
fn the_client_is_small_at_720p() {
    let (Some(here), Some(there)) = (Display::start(SIZE), Display::start(SIZE)) else {
        return;
    };
    let _scene = scene(&here, SIZE, "5");
    let host = Host::paired_with(&["client"], &["--display", &here.name]);
    let client = host.client("client", &there, &[]);
    client.line("showing 1280x720");
    ScreenCapture::open(&there).more_frames(10);
    let (resident, allocated) = (client.memory_kb(), client.allocated_kb());
    println!("the client at {SIZE}: {resident} kB resident, {allocated} kB of them not from files");
    assert!(allocated <= ALLOCATED, "{allocated} kB");
    // An unoptimised program has 6 MB more of code in memory.
    if !cfg!(debug_assertions) {
        assert!(resident <= RESIDENT, "{resident} kB");
    }
}
