//! Invalid input, and all ways in which the programs end. Each error is one line, and afterwards the network is as
//! before.

use super::{COUNTRY, Radios};

impl Radios {
    /// Runs a command in a radio's namespace. The command must fail. Returns its error message, which is the last line
    /// of its output.
    pub(super) fn refused(&mut self, radio: usize, command: &str) -> String {
        let command = format!("ip netns exec r{radio} {command}");
        let output = self.rig.machine.run(&command).unwrap();
        assert_eq!(output.status, 1, "{command}: {}", output.text);
        let last = output.text.lines().last().unwrap_or_default();
        assert!(last.starts_with("openuvr: "), "{}", output.text);
        last.to_owned()
    }
}

#[test]
fn a_killed_access_point_is_undone_by_the_next_start() {
    let Some(mut radios) = Radios::start(2) else {
        return;
    };
    let before = radios.state(0);
    radios.start_access_point(&format!("--country {COUNTRY}"));
    radios.client_command();
    radios.end("ap", "KILL");
    // Nothing stays on the air: hostapd and dnsmasq end with their parent.
    radios
        .rig
        .machine
        .wait_for("! pidof hostapd && ! pidof dnsmasq")
        .unwrap();
    assert_ne!(radios.state(0), before);
    let text = radios.at(0, "openuvr ap --clean-up 2>&1");
    assert!(text.contains("wlan0"), "{text}");
    radios.expect_state(0, &before);
    let text = radios.at(0, "openuvr ap --clean-up 2>&1");
    assert!(text.contains("nothing to undo"), "{text}");
    // The next start also cleans up, and then runs as usual.
    radios.start_access_point(&format!("--country {COUNTRY}"));
    radios.client_command();
    radios.end("ap", "KILL");
    radios.start_access_point(&format!("--country {COUNTRY}"));
    radios.client_command();
    radios.end("ap", "HUP");
    radios.expect_state(0, &before);
}

#[test]
fn an_access_point_that_loses_hostapd_ends() {
    let Some(mut radios) = Radios::start(1) else {
        return;
    };
    let before = radios.state(0);
    radios.start_access_point("--band 2.4");
    radios.client_command();
    radios.rig.machine.succeed("kill $(pidof hostapd)").unwrap();
    radios.wait_for("ap", "the access point has ended");
    let machine = &mut radios.rig.machine;
    machine
        .wait_for("! test -d /proc/$(cat /tmp/ap.pid)")
        .unwrap();
    radios.expect_state(0, &before);
}

#[test]
fn bad_input_gets_one_line_and_changes_nothing() {
    let Some(mut radios) = Radios::start(3) else {
        return;
    };
    let before = radios.state(0);
    let ap = "openuvr ap --key-file /tmp/key";
    radios.rig.machine.succeed("rfkill block wifi").unwrap();
    let why = radios.refused(0, ap);
    assert!(why.contains("rfkill unblock wifi"), "{why}");
    radios.rig.machine.succeed("rfkill unblock wifi").unwrap();
    for (options, remedy) in [
        ("--interface wlan7", "wlan7 is not a wireless interface"),
        ("--country ZZ", "does not accept the country ZZ"),
        // Without a country, the kernel's rules for the whole world apply, which permit no access point at 5 GHz.
        ("--band 5", "--country"),
        (
            "--band 2.4 --channel 14",
            "channel 14 is not possible with this card",
        ),
    ] {
        let why = radios.refused(0, &format!("{ap} {options}"));
        assert!(why.contains(remedy), "{why}");
        radios.expect_state(0, &before);
    }
    let machine = &mut radios.rig.machine;
    machine
        .succeed("mv /usr/sbin/hostapd /usr/sbin/hostapd.away")
        .unwrap();
    let why = radios.refused(0, ap);
    assert!(why.contains("apt install hostapd"), "{why}");
    let machine = &mut radios.rig.machine;
    machine
        .succeed("mv /usr/sbin/hostapd.away /usr/sbin/hostapd")
        .unwrap();
    // The user has no privileges.
    machine
        .succeed("mkdir -m 700 /tmp/session && chown guest /tmp/session")
        .unwrap();
    let user = format!(
        "perl -e '$( = 1000; $) = \"1000 1000\"; $< = $> = 1000; $ENV{{XDG_RUNTIME_DIR}} = \"/tmp/session\"; exec @ARGV' {ap}"
    );
    let why = radios.refused(0, &user);
    assert!(why.contains("this requires root"), "{why}");
    radios.expect_state(0, &before);
    // Another program uses the interface.
    let network = "interface=wlan0\\ndriver=nl80211\\nssid=a\\nchannel=1\\nhw_mode=g\\n";
    let machine = &mut radios.rig.machine;
    machine
        .succeed(&format!("printf '{network}' >/tmp/a.conf"))
        .unwrap();
    radios.spawn(0, "stranger", "hostapd /tmp/a.conf");
    radios.wait_for("stranger", "AP-ENABLED");
    let why = radios.refused(0, &format!("{ap} --interface wlan0"));
    assert!(why.contains("is already the access point"), "{why}");
    radios.end("stranger", "TERM");
}

#[test]
fn a_client_without_its_access_point_changes_nothing() {
    let Some(mut radios) = Radios::start(2) else {
        return;
    };
    let before = radios.state(1);
    radios.start_access_point("--band 2.4");
    let right = radios.client_command();
    let options = "--present null --config-dir /tmp/c --pin 135790";
    let wrong = "openuvr client --via-ap 'WIFI:T:WPA;S:the desk;P:a wrong key;;'";
    let why = radios.refused(1, &format!("{wrong} {options}"));
    assert!(why.contains("key"), "{why}");
    radios.expect_state(1, &before);
    // No host can be reached through the access point.
    let why = radios.refused(1, &format!("{right} {options}"));
    assert!(why.contains("no host found at the access point"), "{why}");
    radios.expect_state(1, &before);
    radios.end("ap", "TERM");
    let why = radios.refused(1, &format!("{right} {options}"));
    assert!(why.contains("was not found"), "{why}");
    radios.expect_state(1, &before);
    // The client is killed while it is connected. Its next start undoes its changes.
    radios.start_access_point("--band 2.4");
    radios.client_command();
    radios.spawn(1, "client", &format!("{right} {options}"));
    radios.wait_for("client", "joined the access point");
    radios.end("client", "KILL");
    radios
        .rig
        .machine
        .wait_for("! pidof wpa_supplicant")
        .unwrap();
    radios.at(1, "openuvr ap --clean-up");
    radios.expect_state(1, &before);
}
