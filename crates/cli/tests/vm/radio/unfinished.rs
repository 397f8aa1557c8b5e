//! An access point that does not come up: the card has no access-point mode, or the program ends before the first
//! transmission.

use super::{COUNTRY, Radios};

#[test]
fn a_card_without_the_mode_is_refused_and_unchanged() {
    let Some(mut radios) = Radios::start(1) else {
        return;
    };
    // Each simulated card can be an access point. This `iw` omits the mode, and is otherwise the distribution's own.
    let commands = [
        "mkdir /tmp/first",
        r#"printf '#!/bin/sh\n%s "$@" | sed "/\\* AP\$/d"\n' "$(command -v iw)" >/tmp/first/iw"#,
        "chmod +x /tmp/first/iw",
    ];
    for command in commands {
        radios.rig.machine.succeed(command).unwrap();
    }
    let modes = radios.at(0, "/tmp/first/iw phy");
    assert!(
        modes.contains("* managed\n") && !modes.contains("* AP\n"),
        "{modes}"
    );
    let before = radios.state(0);
    let ap = format!("openuvr ap --key-file /tmp/key --country {COUNTRY}");
    let why = radios.refused(0, &format!("env PATH=/tmp/first:$PATH {ap}"));
    assert!(why.contains("wlan0 can't be an access point"), "{why}");
    assert!(why.contains("use another card (--interface)"), "{why}");
    radios.expect_state(0, &before);
    radios.rig.machine.succeed("test ! -e /tmp/key").unwrap();
}

#[test]
fn an_end_during_the_radar_check_undoes_all_changes() {
    let Some(mut radios) = Radios::start(1) else {
        return;
    };
    let before = radios.state(0);
    for signal in ["INT", "TERM"] {
        radios.start_access_point("--country DE --channel 100 --radar --width 20");
        radios.wait_for("ap", "listening for radar");
        assert_ne!(radios.state(0), before);
        radios.end("ap", signal);
        let log = radios.log("ap");
        assert!(!log.contains("is an access point"), "{signal}: {log}");
        radios.expect_state(0, &before);
    }
}
