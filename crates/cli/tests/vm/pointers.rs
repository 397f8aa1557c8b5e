//! Pointing devices of the kernel (uinput): a touch screen and a mouse, with and without a grab.

use super::VGA;
use super::rig::Rig;

/// An event as a device reports it: type, code, value (the kernel's `input-event-codes.h`).
type Event = (u16, u16, i32);

const fn key(code: u16, value: i32) -> Event {
    (1, code, value)
}

const fn step(axis: u16, value: i32) -> Event {
    (2, axis, value)
}

const fn position(axis: u16, value: i32) -> Event {
    (3, axis, value)
}

const X: u16 = 0;
const Y: u16 = 1;
const WHEEL: u16 = 8;
const BTN_LEFT: u16 = 0x110;
const BTN_TOUCH: u16 = 0x14a;

impl Rig {
    /// Plugs in a device of `pointer.pl`: `touch` or `mouse`.
    fn plug_in(&mut self, kind: &str) {
        let commands = [
            format!(
                "cat >/tmp/pointer.pl <<'END'\n{}\nEND",
                include_str!("pointer.pl")
            ),
            format!("mkfifo /tmp/{kind}"),
            format!(
                "setsid sh -c 'exec 5<>/tmp/{kind}; exec perl /tmp/pointer.pl {kind} <&5' >/tmp/{kind}.log 2>&1 &"
            ),
        ];
        for command in commands {
            self.machine.succeed(&command).unwrap();
        }
        let listed = format!("grep -q 'Test {kind}' /proc/bus/input/devices");
        if let Err(why) = self.machine.wait_for(&listed) {
            let log = self.machine.run(&format!("cat /tmp/{kind}.log")).unwrap();
            panic!("{why:#}\n{}", log.text);
        }
    }

    /// Makes a device report these events at once.
    fn report(&mut self, kind: &str, events: &[Event]) {
        let numbers: Vec<String> = events
            .iter()
            .map(|(event, code, value)| format!("{event} {code} {value}"))
            .collect();
        let line = numbers.join(" ");
        self.machine
            .succeed(&format!("echo '{line}' >/tmp/{kind}"))
            .unwrap();
    }

    /// Waits until the host's application has received an X event at this position of its display.
    fn expect_event(&mut self, event: &str, (x, y): (i32, i32)) {
        let found = format!("grep -A2 '^{event} event' /tmp/events | grep -qF 'root:({x},{y}),'");
        if let Err(why) = self.machine.wait_for(&found) {
            let events = self.machine.run("tail -n 40 /tmp/events").unwrap();
            panic!("{why:#}\n{}", events.text);
        }
    }

    fn count_of(&mut self, event: &str) -> String {
        let count = format!("grep -c '^{event} event' /tmp/events");
        self.machine.run(&count).unwrap().text.trim().to_owned()
    }
}

#[test]
fn a_finger_on_the_display_presses_where_it_touches() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.plug_in("touch");
    rig.stream_events(VGA);
    let at = |x: i32, y: i32| [position(X, x), position(Y, y)];
    let [x, y] = at(8192, 8192);
    rig.report("touch", &[x, y, key(BTN_TOUCH, 1)]);
    rig.expect_event("ButtonPress", (160, 120));
    rig.report("touch", &at(16_384, 24_576));
    rig.expect_event("MotionNotify", (320, 360));
    rig.report("touch", &[key(BTN_TOUCH, 0)]);
    rig.expect_event("ButtonRelease", (320, 360));
    assert_eq!(rig.count_of("ButtonPress"), "1");
    assert_eq!(rig.count_of("ButtonRelease"), "1");
}

#[test]
fn a_mouse_moves_the_clients_pointer() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.plug_in("mouse");
    rig.stream_events(VGA);
    // The client's pointer starts in the middle of the display.
    rig.report("mouse", &[step(X, -160), step(Y, -120)]);
    rig.expect_event("MotionNotify", (160, 120));
    rig.report("mouse", &[step(X, 10), key(BTN_LEFT, 1)]);
    rig.expect_event("ButtonPress", (170, 120));
    rig.report("mouse", &[key(BTN_LEFT, 0)]);
    rig.expect_event("ButtonRelease", (170, 120));
    // The pointer stays on the display.
    rig.report("mouse", &[step(X, -4000), step(Y, 4000)]);
    rig.expect_event("MotionNotify", (0, 479));
    rig.report("mouse", &[step(WHEEL, -1)]);
    rig.machine
        .wait_for("grep -A3 '^ButtonPress event' /tmp/events | grep -q 'button 5,'")
        .unwrap();
}

#[test]
fn a_grabbed_mouse_moves_the_hosts_pointer_by_steps() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.client_options = "--grab";
    rig.plug_in("mouse");
    rig.stream_events(VGA);
    // The X server's pointer starts in the middle.
    rig.report("mouse", &[step(X, 40), step(Y, 20)]);
    rig.expect_event("MotionNotify", (360, 260));
    for _ in 0..3 {
        rig.report("mouse", &[step(X, -10)]);
    }
    rig.expect_event("MotionNotify", (330, 260));
    rig.report("mouse", &[key(BTN_LEFT, 1), key(BTN_LEFT, 0)]);
    rig.expect_event("ButtonPress", (330, 260));
    // The shortcut ends the grab. Ctrl is the last of its keys to be released.
    rig.machine.press(&["ctrl", "alt", "shift", "g"]).unwrap();
    rig.machine
        .wait_for("grep -A3 '^KeyRelease event' /tmp/events | grep -q Control_L")
        .unwrap();
    // The client's pointer is still in the middle of its display.
    rig.report("mouse", &[step(X, -160), step(Y, -120)]);
    rig.expect_event("MotionNotify", (160, 120));
}
