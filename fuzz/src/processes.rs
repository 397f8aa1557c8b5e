//! The messages between OpenUVR's processes: an application's host, its launcher, and its gateways.

use openuvr_ipc::frame::{Assembler, Message, encode};
use openuvr_ipc::gateway_message::GatewayMessage;
use openuvr_ipc::hello;
use openuvr_ipc::host_message::HostMessage;
use openuvr_ipc::launch_report::LaunchReport;
use openuvr_runtime::launch_protocol::LaunchSettings;

/// Greetings, and the messages between an application's host and its launcher.
pub fn launch_messages(bytes: &[u8]) {
    if hello::check(bytes).is_ok() {
        assert_eq!(bytes, hello::hello());
    }
    received::<LaunchReport>(bytes);
    received::<LaunchSettings>(bytes);
}

/// The messages between an application's host and its gateways.
pub fn gateway_messages(bytes: &[u8]) {
    received::<GatewayMessage>(bytes);
    received::<HostMessage>(bytes);
}

/// A sequence of datagrams, each preceded by a byte. If the byte is 128 or more, it is the datagram's length. If it is
/// less, the datagram is the rest of the input. A received message is within the limits, and stays the same if it is
/// encoded and decoded again.
fn received<M: Message>(mut bytes: &[u8]) {
    let mut assembler = Assembler::default();
    while let Some((length, rest)) = bytes.split_first() {
        // In many inputs, one datagram is then a whole frame.
        let length = if *length < 128 {
            rest.len()
        } else {
            usize::from(*length)
        };
        let (datagram, rest) = rest.split_at(length.min(rest.len()));
        bytes = rest;
        if let Ok(Some((message, payload))) = assembler.add::<M>(datagram) {
            check(&message, &payload);
        }
    }
}

fn check<M: Message>(message: &M, payload: &[u8]) {
    assert!(payload.len() <= message.max_payload());
    let mut sent = Vec::new();
    encode(&mut sent, message, payload.len()).expect("a received message is within the limits");
    let head = sent.len();
    sent.extend_from_slice(payload);
    let again = Assembler::default()
        .add::<M>(&sent)
        .expect("sent messages are valid");
    let (again, same) = again.expect("one datagram is a whole frame");
    assert_eq!(payload, same);
    let mut twice = Vec::new();
    encode(&mut twice, &again, payload.len()).expect("the frame was encoded before");
    assert_eq!(twice, sent[..head]);
}
