//! A console that another program uses for graphics: the client leaves it alone.

use super::VGA;
use super::rig::Rig;

impl Rig {
    /// Makes a process use a console: `request` is a perl request to the console `F`.
    fn use_console(&mut self, number: u32, request: &str) {
        let script = format!(
            "open F, \"+<\", \"/dev/tty{number}\" or die; {request} or die; \
             open G, \">\", \"/tmp/held{number}\" or die; close G; sleep 1000"
        );
        self.machine
            .succeed(&format!("setsid perl -e '{script}' >/dev/null 2>&1 &"))
            .unwrap();
        self.machine
            .wait_for(&format!("test -e /tmp/held{number}"))
            .unwrap();
    }
}

#[test]
fn a_console_that_shows_graphics_is_left_alone() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    // KDSETMODE with KD_GRAPHICS; VT_SETMODE with VT_PROCESS, for which `struct vt_mode` names the signals.
    rig.use_console(2, "ioctl(F, 0x4b3a, 1)");
    rig.use_console(
        3,
        "$mode = pack(\"ccsss\", 1, 0, 10, 12, 0); ioctl(F, 0x5602, $mode)",
    );
    assert_eq!(rig.display_mode(2), "1");
    rig.start_host_of_pattern(VGA);
    for number in [2, 3] {
        let console = format!("</dev/tty{number} >/dev/tty{number} 2>/tmp/client.log");
        rig.start_client("setsid -c", &console);
        rig.wait_for_client(&format!(
            "/dev/tty{number} is used by another program for graphics: start the client on another console"
        ));
        rig.machine
            .wait_for("! test -d /proc/$(cat /tmp/client.pid)")
            .unwrap();
        rig.expect_text_console();
    }
    assert_eq!(rig.display_mode(2), "1");
    // The kernel still asks the other program before a switch (VT_GETMODE).
    let mode = "open F, \"<\", \"/dev/tty3\" or die; $m = \"\\0\" x 8; ioctl(F, 0x5601, $m) or die; print ord $m";
    let mode = rig.machine.succeed(&format!("perl -e '{mode}'")).unwrap();
    assert_eq!(mode, "1", "VT_PROCESS");
}
