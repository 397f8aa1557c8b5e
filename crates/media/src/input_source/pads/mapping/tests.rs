use super::*;

fn axis(minimum: i32, maximum: i32, flat: i32) -> Axis {
    Axis {
        minimum,
        maximum,
        flat,
        ..Axis::default()
    }
}

/// A pad as presented by xpad.
fn xbox() -> (Vec<u16>, Vec<(u16, Axis)>) {
    let keys = [
        0x130, 0x131, 0x133, 0x134, 0x136, 0x137, 0x13a, 0x13b, 0x13c, 0x13d, 0x13e,
    ];
    let stick = axis(-32_768, 32_767, 128);
    let axes = [
        (ABS_X, stick),
        (ABS_Y, stick),
        (ABS_Z, axis(0, 255, 0)),
        (ABS_RX, stick),
        (ABS_RY, stick),
        (ABS_RZ, axis(0, 255, 0)),
        (ABS_HAT0X, axis(-1, 1, 0)),
        (ABS_HAT0Y, axis(-1, 1, 0)),
    ];
    (keys.into(), axes.into())
}

const MICROSOFT: [u16; 4] = [3, 0x045e, 0x028e, 0x110];

fn state(mapping: &Mapping, keys: &[u16], axes: &[(u16, i32)]) -> PadState {
    let place = |code| axes.iter().find(|a| a.0 == code).map(|a| a.1);
    let rest = |code| {
        if mapping.axes[&code].minimum == 0 {
            0
        } else {
            place(code).unwrap_or(0)
        }
    };
    mapping.state(
        |code| keys.contains(&code),
        |code| place(code).unwrap_or_else(|| rest(code)),
    )
}

fn mapped(id: [u16; 4], database: &str) -> Mapping {
    let (keys, axes) = xbox();
    let mut known = Database::default();
    let mut complaints = Vec::new();
    known.add(database, "test", &mut complaints);
    assert_eq!(complaints, Vec::<String>::new());
    Mapping::of(&known, id, "Pad", &keys, &axes).unwrap()
}

#[test]
fn a_pad_of_the_kernel_is_known_without_a_database() {
    let mapping = mapped(MICROSOFT, "");
    assert_eq!(mapping.has(), (0x1_ffff, [true; 2]));
    let axes = [
        (ABS_X, -32_768),
        (ABS_Y, 32_767),
        (ABS_RX, 129),
        (ABS_RY, -128),
        (ABS_Z, 128),
        (ABS_RZ, 255),
        (ABS_HAT0X, 1),
        (ABS_HAT0Y, -1),
    ];
    let held = state(&mapping, &[0x130, 0x133, 0x13c], &axes);
    let buttons = [
        PadButton::South,
        PadButton::West,
        PadButton::Guide,
        PadButton::Up,
        PadButton::Right,
    ];
    let buttons = buttons.iter().fold(0, |all, button| all | button.bit());
    assert_eq!(held.buttons, buttons);
    // Values near the centre are the centre; others are unchanged.
    assert_eq!(held.sticks, [-32_768, 32_767, 129, 0]);
    assert_eq!(held.triggers.map(|t| t >> 8), [128, 255]);
    assert_eq!(state(&mapping, &[], &[]), PadState::NEUTRAL);
    let sony = mapped([3, 0x054c, 0x0ce6, 0x111], "");
    assert!(state(&sony, &[0x134], &[]).is_down(PadButton::West));
}

#[test]
fn every_stick_and_trigger_position_round_trips() {
    let mapping = mapped(MICROSOFT, "");
    for x in (-32_768..=32_767).filter(|x: &i32| x.abs() > 128) {
        let held = state(&mapping, &[], &[(ABS_X, x)]);
        assert_eq!(i32::from(held.sticks[0]), x);
    }
    for z in 0..=255 {
        let held = state(&mapping, &[], &[(ABS_Z, z)]);
        assert_eq!(i32::from(held.triggers[0] >> 8), z);
    }
}

#[test]
fn a_database_defines_the_mapping() {
    let line = "030000005e0400008e02000010010000,Odd,a:b1,b:b0,x:a2,back:h0.1,leftx:a1~,\
        +lefty:b6,-lefty:b7,lefttrigger:+a3,righttrigger:-a3,paddle1:b9,platform:Linux,\n";
    let mapping = mapped(MICROSOFT, line);
    let held = state(
        &mapping,
        &[0x130, 0x13b],
        &[
            (ABS_Y, 32_767),
            (ABS_RX, -32_768),
            (ABS_HAT0Y, -1),
            (ABS_Z, 255),
        ],
    );
    let buttons = PadButton::East.bit() | PadButton::West.bit() | PadButton::Back.bit();
    assert_eq!(held.buttons, buttons);
    assert_eq!(held.sticks, [-32_768, -32_768, 0, 0]);
    assert_eq!(held.triggers, [0, 65_535]);
    let (has, sticks) = mapping.has();
    assert_eq!((has.count_ones(), sticks), (6, [true, false]));
    // The entry also applies to a different version of the same pad, even if the identifier in the entry has a checksum
    // of the name.
    let other = mapped(
        [3, 0x045e, 0x028e, 0x999],
        &line.replace("03000000", "0300abcd"),
    );
    assert!(state(&other, &[0x130], &[]).is_down(PadButton::East));
    let stranger = mapped([3, 0x045e, 0x0001, 0x110], line);
    assert!(state(&stranger, &[0x130], &[]).is_down(PadButton::South));
}

#[test]
fn invalid_lines_are_named_and_skipped() {
    let text = "# pads\n\nnonsense\n\
        030000005e0400008e02000010010000,Mine,a:b1,platform:Linux,\n\
        030000005e0400008e02000010010000,Windows,a:b9,platform:Windows,\n\
        03000000000000000000000000000001\n\
        03000000000000000000000000000002,x,a=b0\n\
        03000000000000000000000000000003,x,a:q7\n\
        03000000000000000000000000000004,x,a:h0.3\n\
        03000000000000000000000000000005,x,platform:Linux\n\
        0300000000000000000000000000000ä,x,a:b0\n\
        03000000000000000000000000000007,x,a:b99999\n";
    let (mut database, mut complaints) = (Database::default(), Vec::new());
    database.add(text, "pads.txt", &mut complaints);
    assert_eq!(database.len(), 1);
    assert_eq!(
        complaints,
        [
            "pads.txt, line 3 skipped: 'nonsense' is not a device GUID: expected 32 hexadecimal digits",
            "pads.txt, line 6 skipped: the name is missing",
            "pads.txt, line 7 skipped: 'a=b0' is not of the form control:source",
            "pads.txt, line 8 skipped: 'q7' is not a button, axis or hat such as b0, a0 or h0.1",
            "pads.txt, line 9 skipped: 'h0.3' is not a button, axis or hat such as b0, a0 or h0.1",
            "pads.txt: 3 more invalid lines skipped",
        ]
    );
}

#[test]
fn a_device_without_a_number_is_known_by_its_name() {
    let name = "A pad with a name";
    let text: String = guid([5, 0, 0, 1], name)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert_eq!(text, "05000000412070616420776974682000");
    let (keys, axes) = xbox();
    let mut database = Database::default();
    database.add(&format!("{text},{name},a:b3"), "x", &mut Vec::new());
    let mapping = Mapping::of(&database, [5, 0, 0, 1], name, &keys, &axes).unwrap();
    assert!(state(&mapping, &[0x134], &[]).is_down(PadButton::South));
    // A mouse is not a pad.
    assert!(Mapping::of(&database, [3, 1, 2, 3], "Mouse", &[0x110], &[]).is_none());
}

proptest::proptest! {
    #[test]
    fn any_line_is_read_or_named(text in "\\PC{0,200}", tail in "[a-z0-9:,.~+-]{0,80}") {
        let (mut database, mut complaints) = (Database::default(), Vec::new());
        database.add(&text, "x", &mut complaints);
        database.add(&format!("030000005e0400008e02000010010000,x,{tail}"), "x", &mut complaints);
        let (keys, axes) = xbox();
        if let Some(mapping) = Mapping::of(&database, MICROSOFT, "x", &keys, &axes) {
            mapping.state(|_| true, |_| i32::MAX);
            mapping.state(|_| false, |_| i32::MIN);
        }
    }
}
