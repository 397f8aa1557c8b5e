//! Encoders and the options of their libraries.

use openuvr_media::encode::EncoderOptions;

use super::*;

#[test]
fn an_unknown_encoder_is_refused_with_the_known_ones() {
    for text in ["vhs", "x264,", ""] {
        let error = host(&["--encoder", text]).unwrap_err().to_string();
        let names = "--encoder must be auto, one of x264, jpeg, openh264, h264_nvenc, ";
        assert!(error.starts_with(names), "{error}");
        let ends = "or several separated by commas, not `";
        assert!(error.contains(ends), "{error}");
    }
}

#[test]
fn any_encoder_of_libavcodec_can_be_asked_for() {
    // Not in the table: libx264 for RGB input, which Debian's libavcodec has.
    let config = host(&["--encoder", "libx264rgb"]).unwrap();
    assert_eq!(config.encoders[0].0, "libx264rgb");
    assert!(host(&["--encoder", "libvorbis"]).is_err(), "for sound");
}

#[test]
fn auto_becomes_the_encoder_that_works() {
    let config = host(&["--encoder", "auto"]).unwrap();
    let chosen = openuvr_media::encode::automatic::choice().backend.name;
    assert_eq!(config.encoders, [EncoderName(chosen)]);
}

fn options(config: &HostConfig) -> Vec<(String, String)> {
    config.encoder_options.clone().into()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn encoder_options_are_repeated_flags_or_a_table() {
    let flags = [
        "--encoder-option",
        "preset=faster",
        "--encoder-option=me=dia",
    ];
    let wanted = [pair("preset", "faster"), pair("me", "dia")];
    assert_eq!(options(&host(&flags).unwrap()), wanted);
    let tables = [
        "encoder-option = { preset = \"faster\", ref = 1 }",
        "[encoder-option]\npreset = \"faster\"\nref = 1",
    ];
    for text in tables {
        let config = host_file("options", text, &[]).unwrap();
        let mut found = options(&config);
        found.sort();
        assert_eq!(found, [pair("preset", "faster"), pair("ref", "1")]);
        // The flags replace the table.
        let config = host_file("options", text, &flags).unwrap();
        assert_eq!(options(&config), wanted);
        let config = host_file("options", text, &["--encoder-option", ""]).unwrap();
        assert_eq!(config.encoder_options, EncoderOptions::NONE);
    }
    let printed: Effective<HostConfig> = effective(
        &[&flags[..], &["--print-config"]].concat(),
        &environment(Path::new("/nonexistent")),
    )
    .unwrap();
    let line = "encoder-option = { preset = \"faster\", me = \"dia\" } # flag";
    let printed = printed.printed.unwrap();
    assert!(printed.lines().any(|other| other == line), "{printed}");
}

#[test]
fn an_entry_of_a_table_is_one_option_with_its_value() {
    let table = "encoder-option = { merange = 0x10 }";
    let config = host_file("options", table, &[]).unwrap();
    assert_eq!(options(&config), [pair("merange", "16")]);
    let two = "encoder-option = { preset = \"faster\\nme=dia\" }";
    assert!(host_file("options", two, &[]).is_err());
}

#[test]
fn a_wrong_encoder_option_is_an_error_that_names_it() {
    let refused = |args: &[&str]| host(args).unwrap_err().to_string();
    let malformed = refused(&["--encoder-option", "preset"]);
    assert!(
        malformed.starts_with("--encoder-option must be NAME=VALUE"),
        "{malformed}"
    );
    let unknown = refused(&["--encoder-option", "prest=faster"]);
    assert!(
        unknown.contains("option prest is refused: libx264 has no such option"),
        "{unknown}"
    );
    let delays = refused(&["--encoder-option", "bframes=3"]);
    assert!(delays.contains("option bframes is refused"), "{delays}");
    let none = refused(&["--encoder", "jpeg", "--encoder-option", "quality=3"]);
    assert!(none.contains("requires exactly one encoder"), "{none}");
    // Saved settings may be for another machine.
    let folder = tempfile::tempdir().unwrap();
    let around = environment(folder.path());
    let words = ["--encoder-option", "prest=faster", "--save"];
    assert!(effective::<HostConfig>(&words, &around).is_ok());
}

#[test]
fn video_players_need_an_encoder_of_h264() {
    for server in ["--rtsp", "--moonlight"] {
        for encoder in ["jpeg", "raw"] {
            let why = host(&["--encoder", encoder, server]).unwrap_err();
            assert!(why.to_string().contains("add x264"), "{why}");
        }
        assert!(host(&["--encoder", "jpeg,x264", server]).is_ok());
        assert!(host(&[server]).is_ok());
    }
    // Native clients can play a portal's session, which always has the option --web.
    assert!(host(&["--encoder", "jpeg", "--web"]).is_ok());
}
