//! Radio links: `openuvr ap` and `openuvr client --via-ap`, with hostapd, wpa_supplicant and dnsmasq. The kernel
//! simulates the radios (mac80211_hwsim), each in its own network namespace.

mod channels;
mod clean;
mod manager;
mod unfinished;

use std::time::{Duration, Instant};

use openuvr_access_point::{Credentials, Passphrase, Security, Ssid, hostapd};

use super::VGA;
use super::rig::Rig;

/// The country of the tests. Its rules have two blocks of 80 MHz that radars do not use.
pub(crate) const COUNTRY: &str = "US";

/// The maximum duration of a step on an emulated processor.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A machine with the radios `wlan0`, `wlan1` and so on, each in its own namespace: `r0`, `r1` and so on.
pub(crate) struct Radios {
    pub(crate) rig: Rig,
}

impl Radios {
    /// `None` if the test is skipped.
    pub(crate) fn start(count: usize) -> Option<Radios> {
        let mut rig = Rig::start()?;
        let commands = [
            "for module in ccm cmac ctr gcm; do modprobe $module || exit 1; done".to_owned(),
            format!("modprobe mac80211_hwsim radios={count}"),
            "mkdir -p /run/netns".to_owned(),
        ];
        for command in commands {
            rig.machine.succeed(&command).unwrap();
        }
        for n in 0..count {
            let commands = [
                format!("ip netns add r{n}"),
                format!("ip netns exec r{n} ip link set lo up"),
                format!("iw phy $(cat /sys/class/net/wlan{n}/phy80211/name) set netns name r{n}"),
            ];
            for command in commands {
                rig.machine.succeed(&command).unwrap();
            }
        }
        Some(Radios { rig })
    }

    /// Runs a command in a radio's namespace.
    pub(crate) fn at(&mut self, radio: usize, command: &str) -> String {
        self.rig
            .machine
            .succeed(&format!("ip netns exec r{radio} {command}"))
            .unwrap()
    }

    /// Starts a program in a radio's namespace. Its process id is in `/tmp/NAME.pid`, and its output is in
    /// `/tmp/NAME.log`.
    pub(crate) fn spawn(&mut self, radio: usize, name: &str, command: &str) {
        let script = format!("echo $$ >/tmp/{name}.pid\nexec {command}\n");
        // The files of an earlier run are removed.
        let write = format!(
            "rm -f /tmp/{name}.log /tmp/{name}.pid; cat >/tmp/{name}.sh <<'END'\n{script}END"
        );
        self.rig.machine.succeed(&write).unwrap();
        let start = format!(
            "ip netns exec r{radio} setsid sh /tmp/{name}.sh >/tmp/{name}.log 2>&1 </dev/null &"
        );
        self.rig.machine.succeed(&start).unwrap();
    }

    /// Waits for a text in the output of a program.
    pub(crate) fn wait_for(&mut self, name: &str, text: &str) {
        let end = Instant::now() + TIMEOUT;
        loop {
            let log = self.log(name);
            if log.contains(text) {
                return;
            }
            let ended = format!("! test -d /proc/$(cat /tmp/{name}.pid)");
            let ended = self.rig.machine.run(&ended).unwrap().status == 0;
            if (ended && !self.log(name).contains(text)) || Instant::now() >= end {
                let state = self.rig.machine.run("ps; dmesg | tail -n 20").unwrap().text;
                panic!("no {text:?} of {name} (ended: {ended}):\n{log}\n{state}");
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    pub(crate) fn log(&mut self, name: &str) -> String {
        self.rig
            .machine
            .run(&format!("cat /tmp/{name}.log"))
            .unwrap()
            .text
    }

    /// Ends a program by a signal, and waits for it.
    pub(crate) fn end(&mut self, name: &str, signal: &str) {
        let kill = format!("kill -{signal} $(cat /tmp/{name}.pid)");
        if let Err(why) = self.rig.machine.succeed(&kill) {
            panic!("{why:#}\n{}", self.log(name));
        }
        self.rig
            .machine
            .wait_for(&format!("! test -d /proc/$(cat /tmp/{name}.pid)"))
            .unwrap();
    }

    /// Starts `openuvr ap` at radio 0.
    pub(crate) fn start_access_point(&mut self, options: &str) {
        let command = format!("openuvr ap --key-file /tmp/key --ssid 'the desk' {options}");
        self.spawn(0, "ap", &command);
    }

    /// The client command that the access point prints.
    pub(crate) fn client_command(&mut self) -> String {
        self.wait_for("ap", "is an access point");
        let log = self.log("ap");
        let line = log.lines().find_map(|line| line.strip_prefix("Client"));
        line.unwrap_or_else(|| panic!("no command:\n{log}"))
            .trim()
            .to_owned()
    }

    /// All state of a radio that a program may have changed: mode, state and addresses, the country, files, processes.
    pub(crate) fn state(&mut self, radio: usize) -> String {
        let write = format!("cat >/tmp/state.sh <<'END'\n{STATE}END");
        self.rig.machine.succeed(&write).unwrap();
        self.at(radio, &format!("sh /tmp/state.sh wlan{radio}"))
    }

    /// Waits until the state of a radio is as before. The wait is needed, because the kernel changes the country only
    /// after it has reported the change.
    #[track_caller]
    pub(crate) fn expect_state(&mut self, radio: usize, before: &str) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.state(radio) != before && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(500));
        }
        assert_eq!(self.state(radio), before);
    }
}

/// Prints the state of the interface `$1`.
const STATE: &str = r#"
iw dev | grep -E 'Interface|type|ssid|channel'
ip -o link show $1 | cut -d ' ' -f 2,3
ip -o address show dev $1 | grep -v fe80
iw reg get | grep country
ls /run/openuvr-radio 2>/dev/null | grep $1 | grep -v lock
for file in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$file; echo; done 2>/dev/null |
  grep $1 | grep -E '^[^ ]*(hostapd|dnsmasq|supplicant|dhclient) '
true
"#;

#[test]
fn a_stream_goes_over_the_access_point() {
    let Some(mut radios) = Radios::start(2) else {
        return;
    };
    let before = [radios.state(0), radios.state(1)];
    let host = format!(
        "openuvr host --source pattern --size {VGA} --fps 3 --encoder jpeg --sound off --pin 135790 --config-dir /tmp/h"
    );
    radios.spawn(0, "host", &host);
    radios.start_access_point(&format!("--country {COUNTRY}"));
    let client = radios.client_command();
    let air = radios.at(0, "iw dev wlan0 info");
    assert!(
        air.contains("type AP") && air.contains("width: 80 MHz"),
        "{air}"
    );
    let options = "--present kms --sound off --pin 135790 --config-dir /tmp/c";
    radios.spawn(1, "client", &format!("{client} {options}"));
    radios.wait_for("client", "showing");
    let frames = radios.rig.frames(5);
    assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
    let link = radios.at(1, "iw dev wlan1 info");
    assert!(
        link.contains("ssid the desk") && link.contains("width: 80 MHz"),
        "{link}"
    );
    let address = radios.at(1, "ip -4 -o address show dev wlan1");
    assert!(address.contains("inet 192.168.71."), "{address}");
    // There is no route except that of the link itself.
    let routes = radios.at(1, "ip -4 route");
    assert_eq!(routes.lines().count(), 1, "{routes}");
    assert!(radios.log("ap").contains("has joined"));
    assert!(radios.log("client").contains("found the host"));
    radios.end("client", "TERM");
    radios.end("ap", "INT");
    radios.expect_state(0, &before[0]);
    radios.expect_state(1, &before[1]);
}

#[test]
fn clients_with_wpa3_alone_and_wpa2_join() {
    let Some(mut radios) = Radios::start(2) else {
        return;
    };
    for (options, methods) in [("--wpa3", "SAE"), ("", "WPA-PSK")] {
        radios.start_access_point(&format!("--band 2.4 {options}"));
        let client = radios.client_command();
        assert_eq!(client.contains("T:SAE"), methods == "SAE", "{client}");
        let key = radios.rig.machine.succeed("cat /tmp/key").unwrap();
        // The client is another program, wpa_supplicant.
        let network = format!(
            "network={{\nssid=\"the desk\"\nkey_mgmt={methods}\nieee80211w={}\npsk=\"{key}\"\n}}",
            if methods == "SAE" { 2 } else { 0 }
        );
        let write = format!("cat >/tmp/network <<'END'\n{network}\nEND");
        radios.rig.machine.succeed(&write).unwrap();
        radios.spawn(
            1,
            "other",
            "wpa_supplicant -D nl80211 -i wlan1 -c /tmp/network",
        );
        radios.wait_for("other", "CTRL-EVENT-CONNECTED");
        radios.wait_for("ap", "has joined");
        radios.end("other", "TERM");
        radios.end("ap", "TERM");
    }
}

/// Checks all configurations with hostapd's own parser.
#[test]
fn each_configuration_is_accepted_by_hostapd() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    let credentials = Credentials {
        ssid: Ssid::new("a \"name\" #1\\").unwrap(),
        key: Passphrase::new(" a|mac=\"key\" #1\\ ").unwrap(),
        security: Security::Mixed,
    };
    let samples = hostapd::samples("nosuch0", &credentials);
    assert!(samples.len() > 20);
    for sample in samples {
        rig.machine
            .succeed(&format!("cat >/tmp/hostapd.conf <<'END'\n{sample}END"))
            .unwrap();
        let output = rig
            .machine
            .run("timeout 60 hostapd /tmp/hostapd.conf")
            .unwrap();
        assert!(output.text.contains("nosuch0"), "{sample}\n{}", output.text);
        for refusal in ["Line ", "rrors found", "nvalid", "nknown"] {
            assert!(!output.text.contains(refusal), "{sample}\n{}", output.text);
        }
    }
}
