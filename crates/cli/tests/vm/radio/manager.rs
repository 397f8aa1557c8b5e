//! Cards that NetworkManager owns.

use super::{COUNTRY, Radios, VGA};

impl Radios {
    /// Starts NetworkManager in a radio's namespace, with its own bus and its own wpa_supplicant.
    fn start_manager(&mut self, radio: usize) {
        let folder = format!("/tmp/manager{radio}");
        let bus = format!(
            "<busconfig><type>system</type><listen>unix:path={folder}/bus</listen><auth>EXTERNAL</auth>\
             <policy context=\"default\"><allow user=\"*\"/><allow own=\"*\"/><allow send_destination=\"*\"/>\
             <allow eavesdrop=\"true\"/></policy></busconfig>"
        );
        let config = "[main]\nplugins=keyfile\nauth-polkit=false\ndhcp=internal\n\
                      [keyfile]\nunmanaged-devices=except:type:wifi\n[device]\nwifi.scan-rand-mac-address=no\n";
        // There is no udev. NetworkManager runs without udev if /sys is read-only. The mounts separate the state of
        // this NetworkManager from the states of the NetworkManagers for other radios.
        let script = format!(
            "mkdir -p {folder}/run {folder}/lib {folder}/etc /run/NetworkManager /var/lib/NetworkManager /etc/NetworkManager\n\
             mount --bind {folder}/run /run/NetworkManager\n\
             mount --bind {folder}/lib /var/lib/NetworkManager\n\
             mount -o remount,ro /sys\n\
             export DBUS_SYSTEM_BUS_ADDRESS=unix:path={folder}/bus\n\
             dbus-daemon --config-file={folder}/bus.conf --fork --nopidfile\n\
             wpa_supplicant -u -B\n\
             exec NetworkManager --no-daemon --config={folder}/manager.conf --pid-file={folder}/pid\n"
        );
        let commands = [
            format!("mkdir -p {folder}"),
            format!("cat >{folder}/bus.conf <<'END'\n{bus}\nEND"),
            format!("cat >{folder}/manager.conf <<'END'\n{config}END"),
            format!("cat >{folder}/start <<'END'\n{script}END"),
        ];
        for command in commands {
            self.rig.machine.succeed(&command).unwrap();
        }
        let name = format!("manager{radio}");
        self.spawn(radio, &name, &format!("sh {folder}/start"));
        let nmcli = format!("ip netns exec r{radio} {} nmcli", bus_of(radio));
        let ready =
            format!("{nmcli} -t -f DEVICE,STATE device | grep -q 'wlan{radio}:disconnected'");
        if let Err(why) = self.rig.machine.wait_for(&ready) {
            panic!("{why:#}\n{}", self.log(&name));
        }
    }
}

/// The prefix of commands that use the bus of a radio.
fn bus_of(radio: usize) -> String {
    format!("env DBUS_SYSTEM_BUS_ADDRESS=unix:path=/tmp/manager{radio}/bus")
}

#[test]
fn managed_cards_become_access_point_and_client() {
    let Some(mut radios) = Radios::start(2) else {
        return;
    };
    radios.at(0, &format!("iw reg set {COUNTRY}"));
    radios.start_manager(0);
    radios.start_manager(1);
    let profiles = |radios: &mut Radios, radio| {
        let command = format!("{} nmcli -t -f NAME connection", bus_of(radio));
        radios.at(radio, &command)
    };
    let before = [profiles(&mut radios, 0), profiles(&mut radios, 1)];
    let host = format!(
        "openuvr host --source pattern --size {VGA} --fps 3 --encoder jpeg --sound off --pin 135790 --config-dir /tmp/h"
    );
    radios.spawn(0, "host", &host);
    let ap = "openuvr ap --key-file /tmp/key --ssid 'the desk' --channel 44";
    radios.spawn(0, "ap", &format!("{} {ap}", bus_of(0)));
    let client = radios.client_command();
    let air = radios.at(0, "iw dev wlan0 info");
    assert!(
        air.contains("type AP") && air.contains("channel 44"),
        "{air}"
    );
    assert!(profiles(&mut radios, 0).contains("openuvr-ap-wlan0"));
    let options = "--present kms --sound off --pin 135790 --config-dir /tmp/c";
    radios.spawn(1, "client", &format!("{} {client} {options}", bus_of(1)));
    radios.wait_for("client", "showing");
    let frames = radios.rig.frames(3);
    assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
    assert!(radios.log("client").contains("through NetworkManager"));
    radios.end("client", "TERM");
    radios.end("ap", "TERM");
    assert_eq!([profiles(&mut radios, 0), profiles(&mut radios, 1)], before);
    let air = radios.at(0, "iw dev wlan0 info");
    assert!(air.contains("type managed"), "{air}");
}
