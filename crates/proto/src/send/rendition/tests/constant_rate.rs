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

/// A rendition with static refinement whose encoder has coded a key frame at 0.
fn refined(mut settings: Settings, codes_parts: bool) -> Rendition<Recorder> {
    settings.static_refinement = true;
    let mut rendition = constant(settings);
    assert!(rendition.captured(at(0), true));
    rendition.encoder_opened(OpenedEncoder {
        size: SIZE,
        codec: 1,
        colour: 1,
        slices: 2,
        depth: 8,
        codes_parts,
        macroblocks: 20 * 12,
    });
    let (plan, _) = rendition
        .start_frame(at(0), None, None)
        .expect("an encoder");
    assert!(plan.is_key() && plan.part.is_none());
    assert_eq!(rendition.end(at(0)), None);
    rendition
}

/// Repetitions do not delay refinement, whether the encoder codes parts, all macroblocks because of intra refresh, or
/// all macroblocks because the changed ones are unknown.
#[test]
fn repetitions_do_not_delay_static_refinement() {
    let unchanged = |_: usize| false;
    let unchanged: &dyn Fn(usize) -> bool = &unchanged;
    for (recovery, codes_parts, changed) in [
        (Recovery::ReferenceInvalidation, true, Some(unchanged)),
        (Recovery::ReferenceInvalidation, true, None),
        (Recovery::Refresh, false, Some(unchanged)),
        (Recovery::Refresh, false, None),
    ] {
        let mut settings = rendition().settings;
        settings.policy.recovery = recovery;
        let mut rendition = refined(settings, codes_parts);
        let (mut improved, mut frames) = (0, 0);
        while let Some(due) = rendition.next_deadline().filter(|due| *due < at(300)) {
            frames += 1;
            assert!(frames < 1000, "due again at once: {due:?}");
            if !rendition.captured(due, false) {
                continue;
            }
            rendition.start_frame(due, changed, None).expect("open");
            improved += u32::from(rendition.current.improvement.is_some());
            assert_eq!(rendition.end(due), None);
        }
        let known = changed.is_some();
        assert!(improved >= 2, "{recovery:?} {known}: {improved}");
        assert_eq!(
            rendition.static_refinement.due(rendition.target()),
            None,
            "{recovery:?} {known}: the picture is nearly exact"
        );
        // Five seconds at 60 frames/s: refinements count as frames of the stream.
        assert!(
            (298..=304).contains(&frames),
            "{recovery:?} {known}: {frames}"
        );
    }
}

#[test]
fn an_intra_refresh_delays_static_refinement_until_its_end() {
    let mut settings = rendition().settings;
    settings.policy.recovery = Recovery::Refresh;
    let mut rendition = refined(settings, false);
    let due = |rendition: &Rendition<Recorder>| rendition.static_refinement.due(rendition.target());
    let mut repeat = |frame, clean_after| {
        assert!(rendition.captured(at(frame), false));
        let (_, mut fan_out) = rendition.start_frame(at(frame), None, None).expect("open");
        let place = SlicePlace {
            index: 0,
            count: 2,
            first_mb: 0,
            mbs: 0,
        };
        let bytes = &[0; 100];
        fan_out.slice(
            at(frame),
            &Slice {
                place,
                clean_after,
                bytes,
            },
        );
        assert_eq!(rendition.end(at(frame)), None);
        due(&rendition)
    };
    // The refresh starts in the second repetition. The fourth repetition completes it.
    assert_eq!(repeat(1, None), Some(at(0) + MS * 100));
    assert_eq!(repeat(2, Some(2)), Some(at(2) + MS * 100));
    assert_eq!(repeat(3, None), Some(at(3) + MS * 100));
    assert_eq!(repeat(4, None), Some(at(4) + MS * 100));
    assert_eq!(repeat(5, None), Some(at(4) + MS * 100));
}
