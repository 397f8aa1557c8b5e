//! Tests that words give the right scenario, and that errors have one line.

use super::*;

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn without_words_it_is_the_papers() {
    assert_eq!(parse("").unwrap(), Scenario::paper());
}

#[test]
fn words_change_what_they_name_in_any_order() {
    let text = "mcs=9 stations=3 per=1% background=20M,down,1000 signal=30,4,20ms far=18 \
                profile=he-su width=160 category=video batches=1 tau=2ms";
    let scenario = parse(text).unwrap();
    let mut words: Vec<&str> = text.split_whitespace().collect();
    words.reverse();
    assert_eq!(parse(&words.join(" ")).unwrap(), scenario);
    assert_eq!(scenario.viewers(), 3);
    assert_eq!(scenario.setup.stations.len(), 4);
    let mean = |n: usize| scenario.setup.stations[n].air.signal.unwrap().mean;
    assert_eq!(
        [mean(0), mean(1), mean(2), mean(3)],
        [30.0, 30.0, 18.0, 30.0]
    );
    assert_eq!(scenario.setup.radio.mcs, 9);
    assert_eq!(scenario.setup.delivery, Delivery::InOrder);
    assert_eq!(scenario.uplink.unwrap().category, Category::Video);
    assert_eq!(scenario.video.batches, Batches::Exactly(1));
    let [stream] = scenario.background[..] else {
        panic!("{:?}", scenario.background)
    };
    assert_eq!(
        (stream.direction, stream.bytes, stream.bitrate),
        (Direction::Down, 1000, 20_000_000)
    );
}

#[test]
fn a_server_at_a_station_follows_the_viewers() {
    let text = "stations=2 streams=1 server-streams=2 background=20M";
    let one = parse(text).unwrap();
    assert_eq!(
        (one.server, one.viewers(), one.others()),
        (Server::Wired(1_000_000_000), 2, 1)
    );
    let two = parse(&format!("{text} hops=2 wire=none")).unwrap();
    assert_eq!(
        (two.server, two.viewers(), two.others()),
        (Server::Station, 2, 2)
    );
    let streams = |scenario: &Scenario| -> Vec<Option<u8>> {
        scenario.setup.stations.iter().map(|s| s.streams).collect()
    };
    assert_eq!(streams(&one), [None; 3]);
    assert_eq!(streams(&two), [None, None, Some(2), None]);
    let background: Vec<usize> = two.background_stations().map(|(n, _)| n).collect();
    assert_eq!(background, [3]);
    assert_eq!(parse("wire=none").unwrap().server, Server::AccessPoint);
}

#[test]
fn invalid_words_are_one_error_line() {
    for (text, says) in [
        ("profile=he-su mcs=12", "no MCS 12 in 802.11ax"),
        ("stations=0", "stations must be at least 1"),
        ("stations=1000", "at most 128"),
        ("width=320", "802.11ax has no channel of 320 MHz"),
        ("profile=n", "expected paper, vht-su, he-su or eht-su"),
        ("profile=vht-su mcs=10", "no MCS 10 in 802.11ac"),
        ("profile=vht-su ofdma=on", "802.11ac has no OFDMA"),
        (
            "speed=9",
            "unknown word speed; the valid words are profile, mcs",
        ),
        ("mcs", "expected NAME=VALUE"),
        ("mcs=-1", "`-1` is not a valid number"),
        ("per=101%", "at most 100%"),
        ("bursts=0ms,5ms", "both states must be longer than 0"),
        ("signal=nan", "the SNR must be a finite number"),
        ("tau=0ms", "tau=0"),
        ("fps=0", "fps=0"),
        ("max-ampdu=0", "max-ampdu=0: must be at least 1"),
        ("ap-buffer=0", "must be at least 1"),
        ("cw-min=2000", "contention window 2000 to 1023"),
        ("uplink=0ms", "longer than 0"),
        ("hops=3", "expected 1 or 2"),
        (
            "hops=2 wire=1G",
            "the server is a station, so it has no wire",
        ),
        ("hops=2 server-streams=9", "streams=9"),
        (
            "profile=he-su ofdma=on hops=2 server-streams=1",
            "all stations",
        ),
        ("bitrate=900G fps=0.001", "packets"),
    ] {
        let message = refused(text);
        assert!(message.contains(says), "{text}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

#[test]
fn the_help_names_every_word() {
    let help = help();
    assert_eq!(help.lines().count(), WORDS.len());
    // Most terminals would wrap longer lines.
    let long = help.lines().find(|line| line.chars().count() > 104);
    assert_eq!(long, None);
}
