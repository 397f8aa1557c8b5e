//! After start-up, the whole path of a datagram does not allocate: fragmentation, sealing, FEC encoding, opening,
//! reassembly and repair.
#![allow(
    clippy::cast_possible_truncation,
    reason = "test values are known to fit"
)]

mod figures;
mod rendition;
#[path = "../support/mod.rs"]
mod support;
mod sys;
mod timed;

use openuvr_proto::id::{ConfigEpoch, FrameId};
use openuvr_proto::recv::plane::MediaReceiver;
use openuvr_proto::recv::reassemble::VideoOutput;
use openuvr_proto::send::fec::{FecLevel, FecPlan};
use openuvr_proto::send::loss::Loss;
use openuvr_proto::send::packetize::{Protection, SendBuf};
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::Fidelity;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::{Configuration, Extensions, FrameHeader, InputEcho, SlicePlace};
use support::established;

/// Number of frames until all buffers have reached their final size. Retransmission data is kept for 100 ms, and the
/// largest frame must have been sent.
const START_UP: u32 = 60;
const FRAMES: u32 = 600;
const SLICES: u8 = 8;

#[test]
fn a_datagram_costs_no_allocation() {
    sys::count();
    drop(vec![0_u8; 100]);
    assert_eq!(sys::counted(), 1, "it counts");
    let mut sender = MediaSender::new(&established()).video();
    let loss = Loss {
        rate: 0.05,
        run: 2.0,
    };
    sender.protect(&Protection {
        parity: FecPlan::of(loss, FecLevel::Standard),
        resend: true,
    });
    let mut receiver = MediaReceiver::new(&established());
    let mut out = SendBuf::default();
    let bytes: Vec<u8> = (0..60_000_u32).map(|i| (i * 7) as u8).collect();
    let (mut sent, mut lost, mut repaired, mut whole) = (0, 0, 0, 0);
    for frame in 1..=START_UP + FRAMES {
        if frame == START_UP {
            sys::count();
        }
        let now = Instant(i64::from(frame) * 16_666_667);
        // Every 50th frame is a key frame. During start-up, one large frame has more than one FEC block.
        let key = frame % 50 == 1;
        let length = match frame {
            5 => 40_000,
            _ => 500 + (frame as usize * 977) % 4000,
        };
        let header = FrameHeader {
            frame: FrameId(frame),
            reference: FrameId(if key { 0 } else { frame - 1 }),
            epoch: ConfigEpoch(1),
            stream: 0,
            view: 0,
            captured: now.0,
            clock_epoch: 0,
            echo: InputEcho::default(),
        };
        let configuration = key.then_some(Configuration {
            size: Size::new(640, 128),
            codec: 1,
            colour: 1,
            fps: 60,
        });
        let extensions = Extensions {
            configuration,
            ..Extensions::default()
        };
        for index in 0..=SLICES {
            if index == SLICES {
                sender.parity(now, &mut out);
            } else {
                let place = SlicePlace {
                    index,
                    count: SLICES,
                    first_mb: u16::from(index) * 40,
                    mbs: 40,
                };
                let bytes = &bytes[..length];
                sender.slice(now, &header, extensions, place, bytes, &mut out);
            }
            for (bytes, each) in out.runs() {
                for datagram in bytes.chunks(each) {
                    sent += 1;
                    if sent % 29 == 0 {
                        lost += 1;
                    } else {
                        receiver.handle_datagram(now, datagram).unwrap();
                    }
                }
            }
            while let Some(step) = receiver.first().poll(now) {
                if let VideoOutput::End(end) = step {
                    repaired += u32::from(end.repaired);
                    whole += u32::from(end.fidelity == Fidelity::Complete);
                }
            }
        }
    }
    let counted = sys::counted();
    assert_eq!(whole, START_UP + FRAMES, "all frames are complete");
    assert!(
        lost > 300 && repaired > 200,
        "{lost} lost, {repaired} repaired"
    );
    assert_eq!(counted, 0, "allocations for {sent} datagrams");
}
