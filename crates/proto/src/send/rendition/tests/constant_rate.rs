//! The repetition of a still picture for a constant frame rate.

use super::*;

fn constant(mut settings: Settings) -> Rendition<Recorder> {
    settings.constant_rate = true;
    let mut rendition = Rendition::new(settings);
    join(&mut rendition, PLAYER, Role::Player);
    rendition
}

#[test]
fn a_still_picture_keeps_the_frame_rate() {
    let settings = rendition().settings;
    let mut rendition = constant(settings);
    assert!(code(&mut rendition, at(0)));
    let coded = stands_still(&mut rendition, at(0) + MS * 1000);
    assert_eq!(coded.len(), 59, "one second");
    let interval = settings.policy.interval();
    let mut gaps = coded.windows(2).map(|two| two[1].since(two[0]));
    assert!(gaps.all(|gap| gap == interval), "{coded:?}");
    let all = ends(&mut rendition);
    let frames: Vec<u32> = all.iter().map(|end| end.frame.0).collect();
    assert_eq!(frames, (1..=60).collect::<Vec<_>>(), "one outcome each");
    let repeats = |end: &FrameOutcome| end.end.map(|cost| cost.repeats);
    assert_eq!(repeats(&all[0]), Ok(false));
    assert!(all[1..].iter().all(|end| repeats(end) == Ok(true)));
    // A new picture is sent at once and is not a repetition.
    let now = at(60) + MS * 3;
    assert!(!code(&mut rendition, now));
    let all = ends(&mut rendition);
    assert_eq!(all.iter().map(repeats).collect::<Vec<_>>(), [Ok(false)]);
    // Without subscribers, nothing is repeated.
    drop(rendition.unsubscribe(PLAYER));
    assert_eq!(rendition.next_deadline(), None);
}

#[test]
fn a_repetition_shows_no_newer_input_than_its_picture() {
    let mut rendition = constant(rendition().settings);
    let input = |seq| AppliedInput {
        from: PLAYER,
        seq: InputSeq(seq),
        kind: EchoKind::Injected,
        received: Instant(5),
        applied: Instant(6),
    };
    for (frame, fresh, seq) in [(1, true, 1), (2, false, 2), (3, true, 2), (4, false, 3)] {
        assert!(rendition.captured(at(frame), fresh));
        assert_eq!(rendition.repeats(), !fresh);
        rendition.applied(&input(seq));
        start_frame(&mut rendition, at(frame));
        assert_eq!(rendition.end(at(frame)), None);
    }
    let echoes = calls(&mut rendition, PLAYER);
    let echoes: Vec<u32> = echoes
        .iter()
        .filter_map(|call| match call {
            Call::Begin(_, echo) => Some(echo.seq.0),
            _ => None,
        })
        .collect();
    assert_eq!(echoes, [1, 1, 2, 2]);
    let stamped = ends(&mut rendition);
    let stamped = stamped
        .iter()
        .map(|end| end.stamps.at(Stage::InputInjected));
    let first = Some(Instant(6));
    assert_eq!(stamped.collect::<Vec<_>>(), [first, None, first, None]);
}

#[test]
fn repetitions_do_not_delay_static_refinement() {
    let mut settings = rendition().settings;
    settings.static_refinement = true;
    let mut rendition = constant(settings);
    let encoder = OpenedEncoder {
        size: SIZE,
        codec: 1,
        colour: 1,
        slices: 2,
        depth: 8,
        codes_parts: true,
        macroblocks: 20 * 12,
    };
    let changed = |_: usize| false;
    let mut improved = 0;
    assert!(rendition.captured(at(0), true));
    rendition.encoder_opened(encoder);
    let (plan, _) = rendition.start_frame(at(0), None).expect("an encoder");
    assert!(plan.is_key() && plan.part.is_none());
    assert_eq!(rendition.end(at(0)), None);
    let mut frames = 0;
    while let Some(due) = rendition.next_deadline().filter(|due| *due < at(300)) {
        frames += 1;
        assert!(frames < 1000, "due again at once: {due:?}");
        if !rendition.captured(due, false) {
            continue;
        }
        let (plan, _) = rendition.start_frame(due, Some(&changed)).expect("open");
        improved += u32::from(plan.part.is_some());
        assert_eq!(rendition.end(due), None);
    }
    assert!(improved >= 2, "{improved}");
    assert_eq!(
        rendition.static_refinement.due(rendition.target()),
        None,
        "the picture is nearly exact"
    );
    // Five seconds at 60 frames/s: refinements count as frames of the stream.
    assert!((298..=304).contains(&frames), "{frames}");
}
