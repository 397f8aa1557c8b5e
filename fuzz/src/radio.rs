//! Texts about radio networks: output of `iw` and `nmcli` (with network names chosen by strangers), logs of hostapd and
//! wpa_supplicant, and QR codes.

use openuvr_access_point::channel::{Band, Width};
use openuvr_access_point::choice::{Air, Selection, rank};
use openuvr_access_point::{Credentials, hostapd, iw, nmcli, wpa_supplicant};
use openuvr_proto::printable::is_printable;

/// Splits the input at zero bytes into arbitrary texts.
fn texts<const N: usize>(bytes: &[u8]) -> [String; N] {
    let mut parts = bytes.split(|byte| *byte == 0);
    std::array::from_fn(|_| {
        let part = parts.next().unwrap_or_default();
        String::from_utf8_lossy(part).into_owned()
    })
}

/// The output of a scan. Network names contain no control characters, and each network is within a band.
pub fn radio_scan(bytes: &[u8]) {
    let [iw, nmcli] = texts(bytes);
    for network in iw::scan::parse(&iw)
        .into_iter()
        .chain(nmcli::networks(&nmcli))
    {
        assert!(network.frequency.band().is_some());
        assert!(network.edges.0 < network.edges.1);
        let name = network.ssid.map(|ssid| ssid.to_string());
        assert!(name.unwrap_or_default().chars().all(is_printable));
    }
    let _ = nmcli::owns(&nmcli, "wlan0");
}

/// All data from which a channel is chosen. The first choice is the least busy channel, and all choices are permitted.
pub fn radio_choice(bytes: &[u8]) {
    let [scan, survey, channels, phy, regulatory, interfaces] = texts(bytes);
    let (networks, survey) = (iw::scan::parse(&scan), iw::survey::parse(&survey));
    let (channels, phy) = (iw::channels::parse(&channels), iw::phy::parse(&phy));
    let selection = Selection {
        bands: vec![Band::Ghz5, Band::Ghz6, Band::Ghz2_4],
        channel: None,
        widest: Width::Mhz80,
        radar: true,
    };
    let air = Air {
        networks: &networks,
        survey: &survey,
    };
    if let Ok(ranked) = rank(&channels, &phy, &selection, air) {
        assert!(!ranked.is_empty());
        assert!(ranked.is_sorted_by(|a, b| a.interference.busy <= b.interference.busy));
        let permitted = |frequency| {
            let found = channels
                .iter()
                .find(|channel| channel.frequency == frequency);
            found.is_some_and(|channel| channel.permits_access_points)
        };
        for one in ranked {
            assert!(one.block.channels().all(permitted));
            assert!((0.0..=1.0).contains(&one.interference.busy));
        }
    }
    let domains = iw::regulatory::parse(&regulatory);
    let _ = iw::regulatory::of_card(&domains, 0).map(|domain| domain.is_indoors((5170, 5250)));
    for interface in iw::interfaces::parse(&interfaces) {
        assert!(iw::interfaces::is_name(&interface.name));
    }
}

/// The text of a QR code, and lines of logs. Credentials parsed from a QR code are the same after they are written and
/// parsed again.
pub fn radio_texts(bytes: &[u8]) {
    let [code, log] = texts(bytes);
    if let Ok(credentials) = code.parse::<Credentials>() {
        assert_eq!(credentials.to_string().parse(), Ok(credentials.clone()));
        let lines = wpa_supplicant::configuration(&credentials).lines().count();
        assert_eq!(lines, 11);
    }
    for line in log.lines() {
        let _ = (
            hostapd::event("wlan0", line),
            hostapd::is_cause(line),
            wpa_supplicant::event("wlan0", line),
        );
    }
}
