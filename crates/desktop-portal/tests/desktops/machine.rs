//! KDE of a newer release, in a virtual machine: KWin streams no pictures without a render node, and the virtual
//! machine's display provides one.

use std::path::PathBuf;
use std::time::Duration;

use openuvr_testbed::machine::{self, Hardware, Machine};

use crate::SCREEN;

/// How long the test in the machine may take (measured: 43 s on an idle, emulated machine).
const LIMIT: Duration = Duration::from_secs(900);

/// The release's programs, this test's program and the machine's image take 1 GB of the memory.
const MEMORY_MIB: u32 = 3072;

/// Mounts what the test needs below the release's file system `$T`, which is read-only, and runs a test there.
/// `CI=true` makes this test fail if a program is missing.
const RUN: &str = "
for folder in tmp run root; do mount -t tmpfs tmpfs $T/$folder || exit; done
mount -t proc proc $T/proc && mount -t sysfs sysfs $T/sys && mount -o bind /dev $T/dev && mount -o bind /host $T/mnt || exit
chmod 1777 $T/tmp && chmod 666 /dev/dri/renderD128 || exit
exec chroot $T env -i CI=true HOME=/root LC_ALL=C.UTF-8 PATH=/usr/bin:/bin \
    /mnt/$PROGRAM --exact kde_is_captured_and_played --nocapture";

#[test]
#[ignore = "needs a newer release, which ./dev test-newer makes"]
fn kde_of_a_newer_release_streams_pictures() {
    let image = machine::image().expect("OPENUVR_VM: the folder of the image");
    let release = std::env::var_os("OPENUVR_NEWER_KDE").expect("the folder of the release");
    let release = PathBuf::from(release);
    let program = std::env::current_exe().unwrap();
    // The build folder contains both the program and the release.
    let shared = release.ancestors().nth(2).unwrap();
    let [program, release] = [&program, &release].map(|file| file.strip_prefix(shared).unwrap());
    let mut machine = Machine::start(&Hardware {
        image: &image,
        display: SCREEN,
        shared,
        memory: MEMORY_MIB,
    })
    .unwrap();
    machine.wait_for("test -c /dev/dri/renderD128").unwrap();
    let run = format!(
        "T=/host/{} PROGRAM={}\n{RUN}",
        release.display(),
        program.display()
    );
    let output = machine.run_within(LIMIT, &run).unwrap();
    assert_eq!(output.status, 0, "{}", output.text);
    assert!(output.text.contains("1 passed"), "{}", output.text);
}
