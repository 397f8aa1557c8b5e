use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::iw::{channels, scan, survey};

/// A card with all bands and widths.
fn phy() -> Phy {
    let all = Abilities {
        ht: true,
        vht: true,
        he: true,
        ..Abilities::default()
    };
    let bands = [Band::Ghz2_4, Band::Ghz5, Band::Ghz6].map(|band| (band, all));
    Phy {
        access_point: true,
        protects_management: true,
        radar_widths: Width::ALL.to_vec(),
        bands: BTreeMap::from(bands),
    }
}

/// The channels of a card in Germany, without 6 GHz.
fn german() -> Vec<Channel> {
    let mut text = String::from("Band 1:\n");
    for n in 1..=13 {
        text += &format!(
            "\t* {} MHz [{n}] \n\t  Channel widths: 20MHz\n",
            2407 + 5 * n
        );
    }
    text += "Band 2:\n";
    for n in (36..=64).chain(100..=140).step_by(4) {
        text += &format!("\t* {} MHz [{n}] \n", 5000 + 5 * n);
        if n >= 52 {
            text += "\t  Radar detection\n";
        }
        let pair = if n / 4 % 2 == 1 { "HT40+" } else { "HT40-" };
        text += &format!("\t  Channel widths: 20MHz {pair} VHT80\n");
        if n >= 52 {
            text += "\t  DFS CAC time: 60000 ms\n";
        }
    }
    channels::parse(&text)
}

fn selection() -> Selection {
    Selection {
        bands: vec![Band::Ghz5, Band::Ghz6, Band::Ghz2_4],
        channel: None,
        widest: Width::Mhz80,
        radar: false,
    }
}

fn network(mhz: u32, signal: i32) -> Network {
    Network::new(Frequency(mhz), signal, None)
}

/// The ranked primary channels.
fn ranked(selection: &Selection, networks: &[Network], survey: &[Survey]) -> Vec<u32> {
    let air = Air { networks, survey };
    let ranked = rank(&german(), &phy(), selection, air).unwrap();
    ranked.iter().map(|one| one.block.number()).collect()
}

#[test]
fn the_widest_block_of_the_first_band_is_used() {
    assert_eq!(ranked(&selection(), &[], &[]), [36, 40, 44, 48]);
    let narrow = Selection {
        widest: Width::Mhz40,
        ..selection()
    };
    assert_eq!(ranked(&narrow, &[], &[]), [36, 40, 44, 48]);
    let low = Selection {
        bands: vec![Band::Ghz6, Band::Ghz2_4],
        ..selection()
    };
    assert_eq!(ranked(&low, &[], &[]), [1, 6, 11]);
}

#[test]
fn radar_channels_need_permission_and_an_able_card() {
    let radar = Selection {
        radar: true,
        ..selection()
    };
    // With a network on channel 36, another primary channel is better, and a radar channel is better still.
    let busy = [network(5180, -50)];
    assert_eq!(ranked(&selection(), &busy, &[])[0], 40);
    assert_eq!(ranked(&radar, &busy, &[])[0], 52);
    let deaf = Phy {
        radar_widths: vec![Width::Mhz20],
        ..phy()
    };
    let air = Air {
        networks: &busy,
        survey: &[],
    };
    let ranked = rank(&german(), &deaf, &radar, air).unwrap();
    assert!(ranked.iter().all(|one| one.radar_check.is_none()));
    assert_eq!(ranked[0].block.number(), 40);
}

#[test]
fn the_block_with_the_least_interference_is_used() {
    let low = Selection {
        bands: vec![Band::Ghz2_4],
        ..selection()
    };
    // One strong network on channel 1, two networks on channel 6, a weak network on channel 11.
    let networks = [
        network(2412, -40),
        network(2437, -60),
        network(2437, -70),
        network(2462, -90),
    ];
    assert_eq!(ranked(&low, &networks, &[]), [11, 1, 6]);
    // A network between two channels disturbs both.
    let between = [network(2422, -50)];
    assert_eq!(ranked(&low, &between, &[])[0], 11);
    // If several blocks are equally busy, the block with the weakest signals is used.
    let equal = [network(2412, -40), network(2437, -60), network(2462, -50)];
    assert_eq!(ranked(&low, &equal, &[]), [6, 11, 1]);
}

#[test]
fn measurements_count_more_than_a_network() {
    let low = Selection {
        bands: vec![Band::Ghz2_4],
        ..selection()
    };
    let survey = survey::parse(
        "Survey data from wlan0\n\tfrequency: 2412 MHz\n\tchannel active time: 100 ms\n\tchannel busy time: 60 ms\n\
         Survey data from wlan0\n\tfrequency: 2462 MHz\n\tchannel active time: 100 ms\n\tchannel busy time: 5 ms\n",
    );
    let networks = [network(2437, -50), network(2437, -50)];
    assert_eq!(ranked(&low, &networks, &survey), [11, 6, 1]);
    // An access point may report a use that a short scan misses.
    let mut reporting = network(2462, -50);
    reporting.utilisation = Some(200);
    assert_eq!(ranked(&low, &[reporting], &survey), [6, 1, 11]);
}

#[test]
fn a_wide_network_counts_once_and_its_edges_count() {
    let text = "BSS 02:00:00:00:01:00(on wlan0)\n\tfreq: 5180\n\tsignal: -50.00 dBm\n\tVHT operation:\n\
        \t\t * channel width: 1 (80 MHz)\n\t\t * center freq segment 1: 42\n";
    let wide = scan::parse(text);
    let air = Air {
        networks: &wide,
        survey: &[],
    };
    let block = Block::new(Frequency(5240), Width::Mhz80).unwrap();
    let found = interference(&block, air);
    assert_eq!(found.networks, 1);
    assert!((found.busy - USUAL_SHARE).abs() < 1e-9, "{found:?}");
    assert_eq!(
        found.to_string(),
        "1 other network at -50 dBm, busy time not measured"
    );
    let next = Block::new(Frequency(5260), Width::Mhz80).unwrap();
    assert_eq!(interference(&next, air).networks, 0);
}

#[test]
fn the_reason_of_no_channel_names_the_remedy() {
    let air = Air {
        networks: &[],
        survey: &[],
    };
    let of = |channels: &[Channel], selection: &Selection| {
        rank(channels, &phy(), selection, air).unwrap_err()
    };
    let only = |bands: &[Band]| Selection {
        bands: bands.to_vec(),
        ..selection()
    };
    assert_eq!(
        of(&german(), &only(&[Band::Ghz6])),
        NoChannel::Band("6".to_owned())
    );
    // A card that has the band, but not 802.11ax in it.
    let mut without_he = phy();
    without_he.bands.insert(Band::Ghz6, Abilities::default());
    let permitted = [Channel {
        frequency: Frequency(5975),
        radar_check: None,
        ..german()[0]
    }];
    assert_eq!(
        rank(&permitted, &without_he, &only(&[Band::Ghz6]), air),
        Err(NoChannel::Band("6".to_owned()))
    );
    let radar: Vec<Channel> = german()
        .into_iter()
        .filter(|c| c.radar_check.is_some())
        .collect();
    let why = of(&radar, &only(&[Band::Ghz5]));
    assert!(why.to_string().contains("--radar"), "{why}");
    let mut forbidden = german();
    forbidden
        .iter_mut()
        .for_each(|c| c.permits_access_points = false);
    let why = of(&forbidden, &selection());
    assert!(why.to_string().contains("--country"), "{why}");
    let number = Selection {
        channel: Some(38),
        ..selection()
    };
    assert_eq!(of(&german(), &number), NoChannel::Number(38));
}

#[test]
fn radar_is_the_reason_only_if_it_is_the_obstacle() {
    let air = Air {
        networks: &[],
        survey: &[],
    };
    let radar: Vec<Channel> = german()
        .into_iter()
        .filter(|channel| channel.radar_check.is_some())
        .collect();
    let narrow = |radar| Selection {
        widest: Width::Mhz20,
        radar,
        ..selection()
    };
    // The error names only the bands that have radar channels.
    assert_eq!(
        rank(&radar, &phy(), &narrow(false), air),
        Err(NoChannel::Radar("5".to_owned()))
    );
    // A card that detects radar only at a width that is not permitted.
    let deaf = Phy {
        radar_widths: vec![Width::Mhz40],
        ..phy()
    };
    for permitted in [false, true] {
        let why = rank(&radar, &deaf, &narrow(permitted), air).unwrap_err();
        assert_eq!(why, NoChannel::NoRadarDetection("5".to_owned()));
        assert!(!why.to_string().contains("--radar"), "{why}");
    }
    // Channel 3 permits access points, but is used only by request.
    let third = [german()[2]];
    let low = Selection {
        bands: vec![Band::Ghz2_4],
        ..selection()
    };
    let why = rank(&third, &phy(), &low, air).unwrap_err();
    assert_eq!(why, NoChannel::OnlyManual("2.4".to_owned()));
    let by_hand = Selection {
        channel: Some(3),
        ..low
    };
    assert!(rank(&third, &phy(), &by_hand, air).is_ok());
}

#[test]
fn a_given_channel_is_used_in_the_first_band_that_has_it() {
    let given = |number| Selection {
        channel: Some(number),
        ..selection()
    };
    assert_eq!(ranked(&given(44), &[], &[]), [44]);
    assert_eq!(ranked(&given(3), &[], &[]), [3]);
}

proptest! {
    #[test]
    fn the_first_block_is_free_most_of_the_time(
        networks in prop::collection::vec((0_usize..25, -110..30_i32), 0..40),
        radar: bool,
    ) {
        let channels = german();
        let networks: Vec<Network> = networks.iter()
            .map(|(at, signal)| Network::new(channels[*at].frequency, *signal, None))
            .collect();
        let air = Air { networks: &networks, survey: &[] };
        let selection = Selection { radar, ..selection() };
        let ranked = rank(&channels, &phy(), &selection, air).unwrap();
        prop_assert!(ranked.is_sorted_by(|a, b| a.interference.busy <= b.interference.busy));
        for one in &ranked {
            prop_assert!((0.0..1.0).contains(&one.interference.busy));
            prop_assert!(radar || one.radar_check.is_none());
        }
    }
}
