//! The text console: the client restores it after any end, and the user can switch consoles.

use openuvr_proto::units::Size;

use super::VGA;
use super::rig::Rig;

#[test]
fn a_killed_client_gives_the_console_back() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    let text = rig.machine.picture().unwrap();
    rig.stream_pattern(VGA);
    rig.frames(2);
    let own = rig.foreground();
    assert_ne!(own, 1, "a free console");
    assert_eq!(rig.display_mode(own), "1", "KD_GRAPHICS");
    rig.machine
        .succeed("kill -9 $(cat /tmp/client.pid)")
        .unwrap();
    rig.expect_text_console();
    assert_eq!(rig.display_mode(own), "0", "KD_TEXT");
    rig.wait_for_picture(&text);
}

#[test]
fn a_console_in_use_is_taken_and_given_back_as_found() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    // The client is started as if by a login on the second console.
    rig.start_host_of_pattern(VGA);
    rig.start_client("setsid -c", "</dev/tty2 >/dev/tty2 2>/tmp/client.log");
    rig.frames(2);
    assert_eq!(rig.foreground(), 2);
    let keyboard = "perl -e 'open F,\"<\",\"/dev/tty2\"; $m=pack(\"i\",-1); ioctl(F,0x4b44,$m); print unpack(\"i\",$m)'";
    assert_eq!(rig.machine.succeed(keyboard).unwrap(), "4", "K_OFF");
    rig.end_client();
    assert_eq!(rig.display_mode(2), "0");
    assert_ne!(rig.machine.succeed(keyboard).unwrap(), "4");
    assert_eq!(rig.foreground(), 2);
}

#[test]
fn a_user_switches_to_another_console_and_back() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    let text = rig.machine.picture().unwrap();
    rig.stream_pattern(VGA);
    rig.frames(2);
    let own = rig.foreground();
    rig.machine.press(&["ctrl", "alt", "f1"]).unwrap();
    rig.machine
        .wait_for("test $(cat /sys/class/tty/tty0/active) = tty1")
        .unwrap();
    rig.wait_for_picture(&text);
    rig.machine.press(&["alt", &format!("f{own}")]).unwrap();
    rig.machine
        .wait_for(&format!(
            "test $(cat /sys/class/tty/tty0/active) = tty{own}"
        ))
        .unwrap();
    let frames = rig.frames(3);
    assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
}

#[test]
fn an_unplugged_display_returns_without_a_new_session() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.stream_pattern(VGA);
    rig.frames(2);
    let connector = "/sys/class/drm/card0-Virtual-1/status";
    rig.machine
        .succeed(&format!("echo off >{connector}"))
        .unwrap();
    rig.wait_for_client("Virtual-1 is unplugged");
    rig.machine
        .succeed(&format!("echo detect >{connector}"))
        .unwrap();
    let frames = rig.frames(3);
    assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
    let sessions = rig
        .machine
        .succeed("grep -c 'player at' /tmp/client.log")
        .unwrap();
    assert_eq!(sessions, "1");
}

#[test]
fn other_cards_and_used_ones_are_refused_in_one_line() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    let mut refused = |present: &str, config: &str| {
        let command = format!(
            "timeout 60 openuvr client 127.0.0.1 --pin 135790 --present {present} --sound off \
             --config-dir {config} --duration 20s"
        );
        let output = rig.machine.run(&command).unwrap();
        assert_eq!(output.status, 1, "{}", output.text);
        output.text.lines().last().unwrap_or_default().to_owned()
    };
    let why = refused("kms:card7", "/tmp/c7");
    assert!(
        why.contains("/dev/dri/card7") && why.contains("ls /dev/dri"),
        "{why}"
    );
    let why = refused("kms:card0/HDMI-A-1", "/tmp/c7");
    assert!(
        why.contains("HDMI-A-1") && why.contains("Virtual-1"),
        "{why}"
    );
    // The first process that opens a card controls its display.
    let holder = "open F, \"+<\", \"/dev/dri/card0\" or die; sleep 1000";
    (rig.machine
        .succeed(&format!("setsid perl -e '{holder}' >/dev/null 2>&1 &")))
    .unwrap();
    rig.start_host_of_pattern(VGA);
    rig.start_client("setsid", ">/tmp/client.log 2>&1");
    rig.wait_for_client("is used by another session");
    rig.expect_text_console();
}

#[test]
fn the_console_of_a_second_client_hides_the_first() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.stream_pattern(VGA);
    rig.frames(1);
    let own = rig.foreground();
    let host = "openuvr host --source pattern --size 800x600 --fps 1 --encoder raw --sound off \
                --pin 135790 --bind 127.0.0.1:4711 --config-dir /tmp/h8";
    let client = "openuvr client 127.0.0.1:4711 --present kms --sound off --pin 135790 \
                  --config-dir /tmp/c8";
    for (name, command) in [("second-host", host), ("second-client", client)] {
        let started = format!(
            "setsid sh -c 'echo $$ >/tmp/{name}.pid; exec {command}' >/tmp/{name}.log 2>&1 &"
        );
        rig.machine.succeed(&started).unwrap();
    }
    rig.machine
        .wait_for("grep -q 'showing 800x600' /tmp/second-client.log")
        .unwrap();
    assert_ne!(rig.foreground(), own);
    assert_eq!(rig.machine.picture().unwrap().size, Size::new(800, 600));
    rig.machine
        .succeed("kill $(cat /tmp/second-client.pid)")
        .unwrap();
    let back = format!("test $(cat /sys/class/tty/tty0/active) = tty{own}");
    rig.machine.wait_for(&back).unwrap();
    let frames = rig.frames(3);
    assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
}
