use super::*;

#[test]
fn the_default_is_in_range_and_survives_a_round_trip() {
    let config = Config::default();
    let encodings = config.encodings().unwrap();
    assert_eq!(
        encodings[0].rendition.policy.range.max,
        Bitrate::from_mbps(20)
    );
    let text = toml::to_string(&config).unwrap();
    assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
}

#[test]
fn the_udp_address_is_read_from_the_endpoint() {
    let link =
        TransportSelector::host("127.0.0.1:0".parse().unwrap(), Some(TransportKind::Udp)).unwrap();
    let own = link.local_addr();
    assert!(own.is_some());
    assert_eq!(udp_address(&endpoint(&link, Some(TransportKind::Udp))), own);
    assert_eq!(
        udp_address("UDP [::]:4710, udp-gso and raw Ethernet on eth0")
            .unwrap()
            .port(),
        4710
    );
    assert_eq!(
        udp_address("raw Ethernet, port 4710, 52:54:00:12:34:56 (eth0)"),
        None
    );
}

#[test]
fn only_an_address_of_one_machine_can_be_bound() {
    for (bind, what) in [
        ("224.0.0.1:4710", "224.0.0.1 is a multicast address"),
        ("[ff02::1]:4710", "ff02::1 is a multicast address"),
        ("255.255.255.255:1", "255.255.255.255 is a broadcast"),
        ("127.255.255.255:1", "127.255.255.255 is a broadcast"),
        ("[fe80::1]:4710", "as in [fe80::1%2]:4710"),
    ] {
        let config = Config {
            bind: bind.parse().unwrap(),
            ..Config::default()
        };
        let why = config.check().unwrap_err();
        assert!(why.contains(what), "{why}");
        assert_eq!(config.open().err(), Some(why));
    }
    for bind in ["[::]:4710", "0.0.0.0:0", "127.0.0.2:0", "[fe80::1%2]:1"] {
        let config = Config {
            bind: bind.parse().unwrap(),
            ..Config::default()
        };
        assert_eq!(config.check(), Ok(()), "{bind}");
    }
}

#[test]
fn an_invalid_value_is_named_with_the_valid_ones() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        let policy = config.policy().err();
        policy.or(config.encodings().err()).unwrap()
    };
    assert!(refused(&|c| c.encoders = vec![EncoderName("vhs")]).contains("x264, jpeg"));
    assert!(refused(&|c| c.slices = 0).contains("slices: must be 1 to 64, not 0"));
    assert!(refused(&|c| c.fps = f64::NAN).contains("fps"));
    assert!(refused(&|c| c.bitrate = Some(Bitrate(1))).contains("bitrate: must be 100000"));
    assert!(refused(&|c| c.min_bitrate = Some(Bitrate(30_000_000))).contains("min_bitrate"));
    assert!(refused(&|c| c.refresh_interval = Some(30)).contains("requires recovery ="));
    let both = |names: &[&'static str]| {
        let encoders: Vec<_> = names.iter().map(|name| EncoderName(name)).collect();
        refused(&|c: &mut Config| c.encoders.clone_from(&encoders))
    };
    assert!(
        both(&["x264", "openh264"]).contains("both encode H.264, so openh264 would never be used")
    );
    assert!(both(&["jpeg", "jpeg"]).contains("jpeg is listed twice"));
    assert!(both(&[]).contains("expected at least one"));
    let jpeg_refreshed = |c: &mut Config| {
        c.recovery = Recovery::Refresh;
        c.encoders = vec![EncoderName("jpeg")];
    };
    assert!(refused(&jpeg_refreshed).contains("jpeg does not support intra refresh"));
    assert!(refused(&|c| c.name = "x".repeat(65)).contains("longer than 64"));
}

/// If such a backend were accepted here, the application of `openuvr run` would start and then run without a stream.
#[test]
fn an_unknown_sound_backend_is_refused_before_the_start() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        config.check().unwrap_err()
    };
    let kazoo = || SoundChoice::parse("kazoo:1");
    assert!(refused(&|c| c.sound = kazoo()).contains("choose one of auto, off, pulse"));
    assert!(refused(&|c| c.microphone = kazoo()).contains("microphone: unknown sound backend"));
    assert!(refused(&|c| c.microphone = SoundChoice::Auto).contains("auto is not supported"));
    assert_eq!(Config::default().check(), Ok(()));
}

#[test]
fn an_unknown_word_of_a_file_is_named_with_the_valid_ones() {
    let refused = |text: &str| {
        let why = toml::from_str::<Config>(text).unwrap_err();
        why.message().to_owned()
    };
    assert!(refused("link = \"post\"").contains("`udp`, `udp-gso`, `raw`"));
    assert!(refused("second_player = \"\"").contains("`refuse`, `observe`"));
    assert!(refused("recovery = \"hope\"").contains("`intra-refresh`"));
    assert!(refused("encoders = [\"vhs\"]").contains("x264, jpeg"));
    assert!(refused("pixels = \"nv12\"").contains("`420`"));
    assert!(refused("pin = \"12\"").contains("4 to 12 digits"));
}

#[test]
fn encoder_options_go_to_the_encoder_that_takes_them() {
    let options: EncoderOptions = "preset=faster\nme=dia".parse().unwrap();
    let encodings = |names: &[&'static str]| {
        let config = Config {
            encoders: names.iter().map(|name| EncoderName(name)).collect(),
            encoder_options: options.clone(),
            ..Config::default()
        };
        config.encodings()
    };
    let both = encodings(&["x264", "jpeg"]).unwrap();
    let given: Vec<bool> = both.iter().map(|one| one.options == options).collect();
    assert_eq!(given, [true, false]);
    assert!(both[1].options.is_empty());
    for names in [&["jpeg"][..], &["x264", "libx265"]] {
        let why = encodings(names).unwrap_err();
        assert!(why.contains("list exactly one encoder"), "{why}");
    }
    let sent = toml::to_string(&Config {
        encoder_options: options.clone(),
        ..Config::default()
    });
    let received: Config = toml::from_str(&sent.unwrap()).unwrap();
    assert_eq!(received.encoder_options, options);
}
