use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Example {
    Text(String),
    Numbers(Vec<u32>),
    Picture,
}

impl Message for Example {
    const MAX_LEN: usize = 100;

    const MAX_PAYLOAD: usize = 1 << 20;

    fn max_payload(&self) -> usize {
        match self {
            Example::Picture => 1 << 20,
            _ => 0,
        }
    }
}

fn frame(message: &Example, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, message, payload.len()).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn a_frame_is_assembled_from_any_datagrams() {
    let payload: Vec<u8> = (0..100_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let bytes = frame(&Example::Picture, &payload);
    for size in [PREFIX, PREFIX + 1, 1000, bytes.len()] {
        let mut assembler = Assembler::default();
        let mut done = Vec::new();
        for datagram in bytes.chunks(size) {
            done.extend(assembler.add::<Example>(datagram).unwrap());
        }
        assert_eq!(done, [(Example::Picture, payload.clone())]);
        // The next frame follows.
        let text = Example::Text("a".to_owned());
        let next = assembler.add(&frame(&text, &[])).unwrap();
        assert_eq!(next, Some((text, Vec::new())));
    }
}

#[test]
fn limits_are_those_of_the_kind() {
    let text = |length: usize| Example::Text("x".repeat(length));
    // The kind and the length take one byte each.
    assert_eq!(from_bytes(&to_bytes(&text(98)).unwrap()), Ok(text(98)));
    assert_eq!(to_bytes(&text(99)), Err(FrameError::TooLong));
    let mut buffer = Vec::new();
    assert_eq!(encode(&mut buffer, &text(1), 1), Err(FrameError::TooLong));
    assert_eq!(
        encode(&mut buffer, &Example::Picture, (1 << 20) + 1),
        Err(FrameError::TooLong)
    );
    // Frames of a peer without these limits.
    let mut assembler = Assembler::default();
    for (message, payload) in [
        (101, 0),
        (usize::MAX, 0),
        (1, (1 << 20) + 1),
        (0, usize::MAX),
    ] {
        let refused = assembler.add::<Example>(&prefix(message, payload));
        assert_eq!(refused, Err(FrameError::TooLong), "{message} {payload}");
    }
    let mut foreign = frame(&text(1), &[]);
    foreign[..PREFIX].copy_from_slice(&prefix(3, 1));
    foreign.push(0);
    assert_eq!(assembler.add::<Example>(&foreign), Err(FrameError::TooLong));
}

#[test]
fn memory_is_reserved_for_bytes_that_arrived() {
    let mut assembler = Assembler::default();
    assert_eq!(assembler.add::<Example>(&prefix(1, 1 << 20)), Ok(None));
    assert!(assembler.payload.capacity() <= RESERVED);
    // The length of a list exceeds its bytes.
    let lie = [&prefix(6, 0)[..], &[1, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    assert_eq!(from_bytes::<Example>(&lie), Err(FrameError::Invalid));
}

#[test]
fn truncated_and_overlong_frames_are_refused() {
    let bytes = frame(&Example::Numbers(vec![1, 2, 300]), &[]);
    for length in 0..bytes.len() {
        assert!(from_bytes::<Example>(&bytes[..length]).is_err(), "{length}");
        // The same bytes with a correct prefix.
        if length >= PREFIX {
            let mut short = bytes[..length].to_vec();
            short[..PREFIX].copy_from_slice(&prefix(length - PREFIX, 0));
            assert_eq!(from_bytes::<Example>(&short), Err(FrameError::Invalid));
        }
    }
    let long = [&bytes[..], &[0]].concat();
    assert_eq!(from_bytes::<Example>(&long), Err(FrameError::Trailing));
    let mut inside = long;
    let length = inside.len() - PREFIX;
    inside[..PREFIX].copy_from_slice(&prefix(length, 0));
    assert_eq!(from_bytes::<Example>(&inside), Err(FrameError::Trailing));
    // A datagram without bytes ends no frame.
    let mut assembler = Assembler::default();
    assert_eq!(assembler.add::<Example>(&bytes[..PREFIX]), Ok(None));
    assert_eq!(assembler.add::<Example>(&[]), Err(FrameError::Truncated));
}

proptest! {
    #[test]
    fn any_message_survives_a_round_trip(
        numbers in proptest::collection::vec(any::<u32>(), 0..20),
        payload in proptest::collection::vec(any::<u8>(), 0..3000),
        size in PREFIX..4000_usize,
    ) {
        let list = Example::Numbers(numbers);
        prop_assume!(to_bytes(&list).is_ok());
        prop_assert_eq!(from_bytes(&to_bytes(&list).unwrap()), Ok(list));
        let mut assembler = Assembler::default();
        let mut done = None;
        for datagram in frame(&Example::Picture, &payload).chunks(size) {
            done = assembler.add::<Example>(datagram).unwrap();
        }
        prop_assert_eq!(done, Some((Example::Picture, payload)));
    }

    #[test]
    fn random_datagrams_never_panic(
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..8),
        message in 0..120_usize,
        payload in 0..300_usize,
    ) {
        let mut assembler = Assembler::default();
        let _ = assembler.add::<Example>(&prefix(message, payload));
        for datagram in &datagrams {
            let _ = assembler.add::<Example>(datagram);
            prop_assert!(assembler.message.len() <= Example::MAX_LEN);
            prop_assert!(assembler.payload.capacity() <= RESERVED);
        }
    }
}
