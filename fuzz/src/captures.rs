//! Untrusted captures: arbitrary files, and valid files that contain arbitrary datagrams.

use std::io::{Cursor, Read};

use openuvr_lab::capture::write::CaptureWriter;
use openuvr_lab::traffic::reader::Window;
use openuvr_lab::traffic::{analyse, join};

use crate::Draw;

/// The input is a capture file, or it describes datagrams with their times and lengths, some of them coalesced. Each
/// datagram that the analysis counts belongs to a stream that it reports, or is counted as beyond the limit of streams.
pub fn captures(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    let file = match which % 4 {
        0 => bytes.to_vec(),
        1 => [&[0x0a, 0x0d, 0x0d, 0x0a], bytes].concat(),
        2 => [&[0xd4, 0xc3, 0xb2, 0xa1], bytes].concat(),
        _ => datagrams(bytes),
    };
    let mut open = || Ok(Box::new(Cursor::new(file.clone())) as Box<dyn Read>);
    let Ok(analysis) = analyse(&mut open, Window::default()) else {
        return;
    };
    let of_streams = analysis
        .streams
        .iter()
        .map(|found| found.stream.sizes.count());
    let counted = of_streams.sum::<u64>() + analysis.beyond;
    assert_eq!(counted, analysis.account.datagrams);
    for found in &analysis.streams {
        if let Some(account) = found.stream.account(found.key.kind) {
            assert!(account.lost <= account.due, "{account:?}");
        }
    }
    let mut again = || Ok(Box::new(Cursor::new(file.clone())) as Box<dyn Read>);
    let joined = join::join(
        (&mut open, &analysis),
        (&mut again, &analysis),
        Window::default(),
    );
    if let Ok(joined) = joined {
        assert!(joined.down.arrived <= joined.down.sent);
    }
}

fn datagrams(bytes: &[u8]) -> Vec<u8> {
    let mut draw = Draw(bytes);
    let ends = ["10.0.0.1:5004", "10.0.0.2:5004"].map(|end| end.parse().expect("an address"));
    let mut writer = CaptureWriter::new(Vec::new(), "fuzz").expect("in memory");
    let mut at = 0;
    while !draw.is_empty() {
        at += draw.u64(3);
        let length = usize::from(draw.u16()) % 4000;
        let mut payload = {
            let length = usize::from(draw.u8());
            draw.take(length).to_vec()
        };
        // Repeat the content: the datagram then looks like several datagrams coalesced by an offload.
        while payload.len() < length && !payload.is_empty() {
            payload.extend_from_within(..payload.len().min(length - payload.len()));
        }
        let ends = match draw.u8() % 2 {
            0 => (ends[0], ends[1]),
            _ => (ends[1], ends[0]),
        };
        writer.udp(at, ends, &payload).expect("in memory");
    }
    writer.finish().expect("in memory")
}
