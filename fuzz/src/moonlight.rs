//! Messages from Moonlight clients: RTSP, control stream, input, pairing.

use openuvr_moonlight::Query;
use openuvr_moonlight::control::{Message, Wants};
use openuvr_moonlight::http;
use openuvr_moonlight::input::{InputPacket, Translator};
use openuvr_moonlight::pairing::{ClientCertificate, Exchange, HostRandom};
use openuvr_moonlight::rtsp::{Request, SealedRequest, parameters};
use openuvr_moonlight::session::{Launch, Mode};

/// The body of a request is shorter than the input, and accepted parameters are within their limits.
pub fn rtsp(bytes: &[u8]) {
    if let Ok(Some(request)) = Request::parse(bytes) {
        assert!(request.body.len() < bytes.len());
        announced(&request.body);
    }
    if let Ok(Some(_)) = SealedRequest::parse(bytes) {
        assert!(SealedRequest::is_begun(bytes));
    }
    announced(bytes);
}

fn announced(body: &[u8]) {
    if let Ok(parameters) = parameters(body) {
        let Mode { size, rate } = parameters.mode;
        assert_eq!(
            Mode::new(size.width, size.height, rate),
            Ok(parameters.mode)
        );
        assert!(parameters.least_parity <= 16);
    }
}

/// Decrypted messages of the control stream, and the events of their input.
pub fn control(bytes: &[u8]) {
    let _ = Wants::of(bytes);
    if let Ok(Message::Input(packet)) = Message::parse(bytes) {
        events(&packet, &mut Translator::default());
    }
}

/// A sequence of input packets. Each packet produces few events.
pub fn input(bytes: &[u8]) {
    let mut translator = Translator::default();
    for packet in bytes.chunks(40) {
        if let Ok(packet) = InputPacket::parse(packet) {
            events(&packet, &mut translator);
        }
    }
}

fn events(packet: &InputPacket, translator: &mut Translator) {
    let mut count = 0;
    translator.events(packet, |_| count += 1);
    // The longest packet is a text of 32 bytes: each character is pressed and released.
    assert!(count <= 64, "{packet:?}");
}

/// HTTP requests and their queries, certificates, and pairing steps in any order.
pub fn pairing(bytes: &[u8]) {
    if let Ok(Some(request)) = http::Request::parse(bytes) {
        let query = Query::parse(&request.query);
        // Refusals have a reason.
        if let Err(why) = Launch::from_launch(&query) {
            assert!(!why.to_string().is_empty());
        }
    }
    let _ = ClientCertificate::from_pem(bytes);
    let Ok(certificate) = ClientCertificate::from_der(bytes) else {
        return;
    };
    let random = HostRandom {
        secret: [1; 16],
        challenge: [2; 16],
    };
    let mut exchange = Exchange::start(&[3; 16], "1234", certificate, random);
    for step in bytes.chunks(48) {
        let _ = match step.len() % 3 {
            0 => exchange
                .challenge(&step[..16.min(step.len())], &[4; 256])
                .map(drop),
            1 => exchange.commit(&step[..32.min(step.len())]).map(drop),
            // A client without the key must not be accepted.
            _ => exchange.finish(step).map(|()| panic!("paired")),
        };
    }
}
