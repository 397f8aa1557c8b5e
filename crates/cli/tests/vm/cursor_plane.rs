//! The pointer on the display's cursor plane, as the kernel reports it (debugfs).

use std::time::{Duration, Instant};

use super::VGA;
use super::rig::Rig;

/// The kernel's list of planes.
const STATE: &str = "/sys/kernel/debug/dri/0/state";

/// The format of a plane with transparency. Pictures have no transparency, so only the pointer's plane has this format.
const FORMAT: &str = "format=AR24";

/// The maximum duration of each wait. It is long, because an emulated processor is fifty times slower than a real one.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The largest pointer of virtio-gpu, in pixels.
const SIDE: i32 = 64;

impl Rig {
    /// Points at a position in units of [`Qmp::point`](openuvr_testbed::machine::qmp::Qmp::point), and waits until the
    /// cursor plane's position meets a condition.
    fn point_at(
        &mut self,
        (x, y): (u16, u16),
        condition: impl Fn((i32, i32)) -> bool,
    ) -> (i32, i32) {
        self.machine.qmp().point(x, y).unwrap();
        let end = Instant::now() + TIMEOUT;
        loop {
            let state = self.machine.succeed(&format!("cat {STATE}")).unwrap();
            if let Some(at) = cursor(&state).filter(|at| condition(*at)) {
                return at;
            }
            let log = "tail -n 20 /tmp/host.log /tmp/client.log";
            if Instant::now() >= end {
                panic!("{state}\n{}", self.machine.run(log).unwrap().text);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// The upper left corner of the cursor plane, if the plane is on.
fn cursor(state: &str) -> Option<(i32, i32)> {
    let plane = state.split("plane[").find(|plane| plane.contains(FORMAT))?;
    let area = (plane.lines()).find_map(|line| line.trim().strip_prefix("crtc-pos="))?;
    // For example, 64x64+153+113.
    let signs = ['+', '-'];
    let (_, at) = area.split_at(area.find(signs)?);
    let (x, y) = at.split_at(at.rfind(signs)?);
    Some((x.parse().ok()?, y.trim().parse().ok()?))
}

#[test]
fn the_pointer_moves_on_the_cursor_plane() {
    assert_eq!(
        cursor("plane[31]: a\n\tformat=XR24\n\tcrtc-pos=640x480+0+0\n"),
        None
    );
    let negative =
        "plane[31]: a\n\tfb=5\nplane[34]: b\n\t\tformat=AR24 x\n\tcrtc-pos=64x64-3+113\n";
    assert_eq!(cursor(negative), Some((-3, 113)));
    let Some(mut rig) = Rig::start() else {
        return;
    };
    let mounted = format!("busybox mount -t debugfs debugfs /sys/kernel/debug && test -e {STATE}");
    rig.machine.succeed(&mounted).unwrap();
    rig.stream_events(VGA);
    // A quarter of the display to the right and down. The plane's position is the shape's corner, not its hot spot.
    let near =
        |(x, y): (i32, i32)| (160 - SIDE..=160).contains(&x) && (120 - SIDE..=120).contains(&y);
    let (x, y) = rig.point_at((8192, 8192), near);
    rig.point_at((16_384, 24_576), |at| at == (x + 160, y + 240));
    rig.end_client();
    // The console is restored without the pointer.
    rig.machine
        .wait_for(&format!("! grep -q {FORMAT} {STATE}"))
        .unwrap();
    rig.expect_text_console();
}
