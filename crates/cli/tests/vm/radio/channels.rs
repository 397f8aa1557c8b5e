//! The choice of the channel, from real scans of simulated networks.

use super::{COUNTRY, Radios};

/// The hostapd configuration of a neighbour's network.
fn network(radio: usize, number: u32, wide: bool) -> String {
    let mode = if number > 14 { "a" } else { "g" };
    let mut lines = vec![
        format!("interface=wlan{radio}"),
        "driver=nl80211".to_owned(),
        // The name is hostile to terminals and parsers.
        "ssid2=1b5b324a0a42535320".to_owned(),
        format!("country_code={COUNTRY}"),
        format!("hw_mode={mode}"),
        format!("channel={number}"),
        "wmm_enabled=1".to_owned(),
        "ieee80211n=1".to_owned(),
    ];
    if wide {
        let centre = number + 6;
        lines.extend([
            "ht_capab=[HT40+]".to_owned(),
            "ieee80211ac=1".to_owned(),
            "vht_oper_chwidth=1".to_owned(),
            format!("vht_oper_centr_freq_seg0_idx={centre}"),
        ]);
    }
    lines.join("\n")
}

impl Radios {
    /// Starts networks of neighbours, the first of them on radio 1.
    fn occupy(&mut self, numbers: &[(u32, bool)]) {
        self.at(0, &format!("iw reg set {COUNTRY}"));
        self.rig
            .machine
            .wait_for(&format!("iw reg get | grep -q 'country {COUNTRY}'"))
            .unwrap();
        for (radio, (number, wide)) in (1..).zip(numbers) {
            let text = network(radio, *number, *wide);
            let write = format!("cat >/tmp/stranger{radio}.conf <<'END'\n{text}\nEND");
            self.rig.machine.succeed(&write).unwrap();
            let name = format!("stranger{radio}");
            self.spawn(radio, &name, &format!("hostapd /tmp/stranger{radio}.conf"));
            self.wait_for(&name, "AP-ENABLED");
        }
    }

    /// The channels that `openuvr ap --list-channels` prints, in this order.
    fn listed(&mut self, options: &str) -> Vec<u32> {
        let text = self.at(0, &format!("openuvr ap --list-channels {options}"));
        let rows = text
            .lines()
            .skip_while(|line| !line.starts_with("CHANNEL"))
            .skip(1);
        let first = rows.filter_map(|row| row.split_whitespace().next()?.parse().ok());
        first.collect()
    }
}

#[test]
fn the_block_without_networks_is_used() {
    let Some(mut radios) = Radios::start(4) else {
        return;
    };
    // The lower block has one wide network, and the upper block has two narrow ones.
    radios.occupy(&[(36, true), (149, false), (161, false)]);
    let order = radios.listed("--width 80");
    assert_eq!(order.len(), 8, "{order:?}");
    assert!(order[..4].iter().all(|number| *number < 149), "{order:?}");
    // In the upper block, both pairs of channels are equally busy. In the lower block, the wide network uses all
    // channels.
    let narrow = radios.listed("--width 20");
    assert!([153, 157, 165].contains(&narrow[0]), "{narrow:?}");
    radios.end("stranger1", "TERM");
    radios.start_access_point("--width 80");
    radios.client_command();
    let log = radios.log("ap");
    assert!(
        log.contains("at channel 36 (5180 MHz, 80 MHz wide)"),
        "{log}"
    );
    // The terminal gets no control sequence of the hostile name.
    assert!(!log.contains("\u{1b}[2J"), "{log:?}");
    radios.end("ap", "TERM");
}

#[test]
fn the_channel_of_2_4_ghz_between_networks_is_used() {
    let Some(mut radios) = Radios::start(4) else {
        return;
    };
    radios.occupy(&[(1, false), (3, false), (11, false)]);
    // The network on channel 3 disturbs channels 1 and 6. The network on channel 11 disturbs no other channel.
    let order = radios.listed("--band 2.4");
    assert_eq!((order.len(), order[2]), (3, 1), "{order:?}");
    // hostapd itself surveys the permitted channels.
    radios.start_access_point("--band 2.4 --channel survey");
    radios.client_command();
    let log = radios.log("ap");
    assert!(log.contains("hostapd surveys 3 channels"), "{log}");
    radios.end("ap", "TERM");
    // A channel given by its number is used unchanged.
    radios.start_access_point("--band 2.4 --channel 9");
    radios.client_command();
    assert!(
        radios
            .log("ap")
            .contains("at channel 9 (2452 MHz, 20 MHz wide)")
    );
    radios.end("ap", "TERM");
}

#[test]
fn a_radar_channel_is_checked_before_its_use() {
    let Some(mut radios) = Radios::start(1) else {
        return;
    };
    let refused = "openuvr ap --country DE --channel 100 --list-channels";
    let output = radios
        .rig
        .machine
        .run(&format!("ip netns exec r0 {refused}"))
        .unwrap();
    assert_eq!(output.status, 1, "{}", output.text);
    assert!(
        output
            .text
            .contains("channel 100 is not possible with this card"),
        "{}",
        output.text
    );
    radios.start_access_point("--country DE --channel 100 --radar --width 20");
    radios.wait_for("ap", "listening for radar");
    radios.client_command();
    assert!(radios.log("ap").contains("at channel 100 (5500 MHz"));
    radios.end("ap", "TERM");
}
