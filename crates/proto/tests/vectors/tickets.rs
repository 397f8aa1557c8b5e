//! A portal's ticket and control token, and both peers' messages of the handshake that starts with a ticket. They are
//! computed independently of the crate from the documentation of `control/ticket.rs` and `control/handshake.rs`, with
//! given ephemeral keys. The crate's host accepts the computed client messages, and its client accepts the computed
//! host messages.

use aws_lc_rs::signature::Ed25519KeyPair;
use aws_lc_rs::{digest, hkdf, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openuvr_proto::control::handshake::{
    ClientHandshake, ClientId, DeviceName, DeviceStatus, HostHandshake, Identity, Paired, Trust,
};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{
    Action, Actions, ControlToken, Holder, KeyHash, SessionUuid, SignedTicket, Ticket, TicketGate,
    TicketSigner, UnixTime,
};
use openuvr_proto::id::PathId;
use openuvr_proto::time::Instant;
use snow::{Builder, HandshakeState};

use super::Vectors;

const TIME: UnixTime = UnixTime(1_800_000_000);
const SESSION: u32 = 0x0a0b_0c0d;
const NAME: &str = "attic";

fn portal() -> TicketSigner {
    TicketSigner::from_seed(&[5; 32]).unwrap()
}

fn uuid() -> SessionUuid {
    SessionUuid(std::array::from_fn(|n| 0x60 + n as u8))
}

fn identities() -> (Identity, Identity) {
    (Identity::from_bytes([9; 32]), Identity::from_bytes([7; 32]))
}

fn ticket(holder: Holder) -> SignedTicket {
    let ticket = Ticket {
        session: uuid(),
        role: Role::Player,
        holder,
        not_after: UnixTime(TIME.0 + 60),
        id: std::array::from_fn(|n| 0x10 + n as u8),
    };
    ticket.sign(&portal())
}

/// The parameters of the handshake.
struct Inputs {
    nonce: [u8; 16],
    cookie: [u8; 20],
    /// The ephemeral keys of the client and of the host.
    ephemeral: [[u8; 32]; 2],
    /// The key that authenticates the Finish message.
    key: [u8; 32],
}

const INPUTS: Inputs = Inputs {
    nonce: [0x22; 16],
    cookie: [0x33; 20],
    ephemeral: [[0x44; 32], [0x55; 32]],
    key: [0x66; 32],
};

/// The Noise state of one peer. It is the host's state if `peer` is `None`.
fn noise(own: &Identity, peer: Option<&Identity>, inputs: &Inputs) -> HandshakeState {
    // The pattern, the nonce, the version ranges of client and host, and the negotiated version.
    let prologue = [
        b"openuvr handshake".as_slice(),
        &[3],
        &inputs.nonce,
        &[1, 1, 1, 1, 1],
    ]
    .concat();
    let secret = own.to_bytes();
    let ephemeral = inputs.ephemeral[usize::from(peer.is_none())];
    let builder = Builder::new("Noise_IK_25519_ChaChaPoly_BLAKE2s".parse().unwrap())
        .prologue(&prologue)
        .unwrap()
        .local_private_key(&*secret)
        .unwrap()
        .fixed_ephemeral_key_for_testing_only(&ephemeral);
    match peer {
        Some(host) => builder
            .remote_public_key(&host.public().0)
            .unwrap()
            .build_initiator(),
        None => builder.build_responder(),
    }
    .unwrap()
}

fn write(noise: &mut HandshakeState, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 1024];
    let length = noise.write_message(payload, &mut message).unwrap();
    message.truncate(length);
    message
}

fn read(noise: &mut HandshakeState, message: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; 1024];
    let length = noise.read_message(message, &mut payload).unwrap();
    payload.truncate(length);
    payload
}

fn head(session: u32, kind: u8, pattern: u8) -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0];
    bytes.extend(session.to_le_bytes());
    bytes.extend([kind, pattern, 0, 0]);
    bytes
}

/// The supported versions, 1 to 1, followed by two zeros.
const VERSIONS: [u8; 4] = [1, 1, 0, 0];

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, message).as_ref().to_vec()
}

fn tagged(mut message: Vec<u8>, key: &[u8]) -> Vec<u8> {
    let tag = mac(key, &message);
    message.extend(tag);
    message
}

fn hello(inputs: &Inputs) -> Vec<u8> {
    [
        head(0, 3, 0),
        VERSIONS.to_vec(),
        inputs.nonce.to_vec(),
        vec![0; 64],
    ]
    .concat()
}

fn challenge(inputs: &Inputs) -> Vec<u8> {
    let parts = [VERSIONS.as_slice(), &inputs.nonce, &inputs.cookie];
    [head(0, 5, 0), parts.concat()].concat()
}

/// The client's payload for the host before sealing: its name and the ticket, each preceded by its length and padded
/// with zeros.
fn begin_payload(ticket: &SignedTicket) -> Vec<u8> {
    let mut payload = vec![NAME.len() as u8];
    payload.extend(NAME.as_bytes());
    payload.resize(65, 0);
    payload.extend((ticket.as_bytes().len() as u16).to_le_bytes());
    payload.extend(ticket.as_bytes());
    payload.resize(323, 0);
    payload
}

fn begin_message(
    noise: &mut HandshakeState,
    inputs: &Inputs,
    host: &Identity,
    ticket: &SignedTicket,
) -> Vec<u8> {
    let sealed = write(noise, &begin_payload(ticket));
    let parts = [VERSIONS.as_slice(), &inputs.nonce, &inputs.cookie, &sealed];
    let key = mac(&host.public().0, b"openuvr ticket begin");
    tagged([head(0, 6, 3), parts.concat()].concat(), &key)
}

/// The host's payload for the client before sealing: the session, the key of the next tag, and 33 zeros. A pairing has
/// further fields in place of the zeros.
fn answer_payload(inputs: &Inputs) -> Vec<u8> {
    [SESSION.to_le_bytes().as_slice(), &inputs.key, &[0; 33]].concat()
}

fn answer(noise: &mut HandshakeState, inputs: &Inputs) -> Vec<u8> {
    let sealed = write(noise, &answer_payload(inputs));
    let mut bytes = [head(SESSION, 9, 3), inputs.nonce.to_vec(), sealed].concat();
    bytes.resize(193, 0);
    bytes
}

fn finish(session: u32, key: &[u8]) -> Vec<u8> {
    tagged([head(session, 10, 3), vec![0; 129]].concat(), key)
}

/// The session secret, and the key that authenticates the Confirm message.
fn keys(noise: &mut HandshakeState) -> [[u8; 32]; 2] {
    let (first, second) = noise.dangerously_get_raw_split();
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, noise.get_handshake_hash());
    let prk = salt.extract(&[first, second].concat());
    [b"openuvr session secret".as_slice(), b"openuvr confirm"].map(|label| {
        let mut key = [0; 32];
        let info = [label];
        let okm = prk.expand(&info, hkdf::HKDF_SHA256).unwrap();
        okm.fill(&mut key).unwrap();
        key
    })
}

fn confirm(session: u32, key: &[u8]) -> Vec<u8> {
    tagged(head(session, 12, 3), key)
}

/// A signed ticket or control token. The signature also covers `purpose`. `before` precedes the session, and `after`
/// follows the expiry.
fn signed(purpose: &[u8], before: [u8; 4], id: [u8; 16], after: &[u8]) -> Vec<u8> {
    let until = (TIME.0 + 60).to_le_bytes();
    let body = [before.as_slice(), &uuid().0, &id, &until, after].concat();
    let pair = Ed25519KeyPair::from_seed_unchecked(&[5; 32]).unwrap();
    let signature = pair.sign(&[purpose, &body].concat());
    [body.as_slice(), signature.as_ref()].concat()
}

/// Writes the section about tickets to the published file.
pub(crate) fn tickets(v: &mut Vectors) {
    let (client, host) = identities();
    v.title(&format!(
        "A portal's tickets and control token, signed with the key of the seed 05 (32 times). They expire at {}",
        TIME.0 + 60
    ));
    v.bytes("portal's public key", &portal().public().0);
    let open = ticket(Holder::FirstUse);
    let own = ticket(Holder::Key(KeyHash::of(&client.public())));
    for (name, ticket) in [("first_to_come", &open), ("of_one_key", &own)] {
        v.bytes(name, ticket.as_bytes());
        v.field(&format!("{name} text"), &ticket.to_string());
        v.seed("tickets", name, ticket.as_bytes());
    }
    let token = ControlToken {
        session: uuid(),
        actions: Actions::of(&[Action::Status, Action::Renew]),
        not_after: UnixTime(TIME.0 + 60),
        id: [0x77; 16],
    };
    let token = token.sign(&portal());
    let hash = digest::digest(
        &digest::SHA256,
        &[b"openuvr ticket holder", client.public().0.as_slice()].concat(),
    );
    let purpose = b"openuvr ticket";
    let id = std::array::from_fn(|n| 0x10 + n as u8);
    assert_eq!(
        open.as_bytes().as_slice(),
        signed(purpose, [1, 1, 1, 0], id, &[0; 32])
    );
    assert_eq!(
        own.as_bytes().as_slice(),
        signed(purpose, [1, 1, 1, 1], id, hash.as_ref())
    );
    let bytes = signed(b"openuvr control token", [1, 2, 3, 0], [0x77; 16], &[]);
    assert_eq!(token, URL_SAFE_NO_PAD.encode(&bytes));
    v.bytes("control_token", &bytes);
    v.field("control_token text", &token);
    v.seed("tickets", "control_token", token.as_bytes());

    v.title("A handshake with the ticket of_one_key, Noise_IK_25519_ChaChaPoly_BLAKE2s");
    for (name, identity) in [("client", &client), ("host", &host)] {
        v.bytes(&format!("{name}'s secret key"), &*identity.to_bytes());
        v.bytes(&format!("{name}'s public key"), &identity.public().0);
    }
    let [of_client, of_host] = &INPUTS.ephemeral;
    v.bytes("client's ephemeral secret", of_client);
    v.bytes("host's ephemeral secret", of_host);
    let mut at_client = noise(&client, Some(&host), &INPUTS);
    let mut at_host = noise(&host, None, &INPUTS);
    v.bytes("hello", &hello(&INPUTS));
    v.bytes("challenge", &challenge(&INPUTS));
    v.bytes("begin payload", &begin_payload(&own));
    let begin = begin_message(&mut at_client, &INPUTS, &host, &own);
    v.bytes("begin", &begin);
    let sealed = &begin[52..begin.len() - 32];
    assert_eq!(read(&mut at_host, sealed), begin_payload(&own));
    assert_eq!(at_host.get_remote_static().unwrap(), client.public().0);
    v.bytes("answer payload", &answer_payload(&INPUTS));
    let answer = answer(&mut at_host, &INPUTS);
    v.bytes("answer", &answer);
    assert_eq!(
        read(&mut at_client, &answer[28..145]),
        answer_payload(&INPUTS)
    );
    v.bytes("finish", &finish(SESSION, &INPUTS.key));
    let [secret, tag] = keys(&mut at_host);
    assert_eq!(keys(&mut at_client), [secret, tag]);
    v.bytes("ticket session secret", &secret);
    v.bytes("confirm key", &tag);
    v.bytes("confirm", &confirm(SESSION, &tag));
}

/// The crate's host accepts the computed handshake. Fixed values replace its random values.
#[test]
fn a_host_takes_the_client_of_the_vectors() {
    let (client, host) = identities();
    let own = ticket(Holder::Key(KeyHash::of(&client.public())));
    let mut real = HostHandshake::new(&host).unwrap();
    real.take_tickets(TicketGate::new(portal().public(), uuid()));
    real.time_of_day(TIME);
    let now = Instant(1_000_000_000);
    let mut says = |datagram: &[u8]| {
        let unknown = |_: &ClientId| DeviceStatus::Unknown;
        real.handle_datagram(now, PathId([1; PathId::LEN]), datagram, &unknown)
    };
    let challenged = says(&hello(&INPUTS)).reply.unwrap();
    let mut inputs = INPUTS;
    inputs.cookie.copy_from_slice(&challenged[32..52]);
    assert_eq!(challenged, challenge(&inputs));
    let mut at_client = noise(&client, Some(&host), &inputs);
    let begin = begin_message(&mut at_client, &inputs, &host, &own);
    let answered = says(&begin).reply.unwrap();
    assert_eq!(answered[..4], [1, 0, 0, 0]);
    assert_eq!((answered.len(), &answered[8..12]), (193, &[9, 3, 0, 0][..]));
    let payload = read(&mut at_client, &answered[28..145]);
    assert_eq!((payload.len(), &payload[36..]), (69, &[0; 33][..]));
    assert_eq!(payload[..4], answered[4..8]);
    let session = u32::from_le_bytes(payload[..4].try_into().unwrap());
    let ended = says(&finish(session, &payload[4..36]));
    let [secret, tag] = keys(&mut at_client);
    assert_eq!(ended.reply.unwrap(), confirm(session, &tag));
    let (_, established, paired) = ended.established.unwrap();
    assert_eq!(
        (established.session.0, established.secret.0),
        (session, secret)
    );
    let (name, role) = (DeviceName::new(NAME), Role::Player);
    assert_eq!(paired, Paired::Ticket { name, role });
}

/// The crate's client accepts the computed messages of the host.
#[test]
fn a_client_takes_the_host_of_the_vectors() {
    let (client, host) = identities();
    let own = ticket(Holder::Key(KeyHash::of(&client.public())));
    let now = Instant(1_000_000_000);
    let trust = Trust::Ticket {
        host: host.public(),
        ticket: own,
    };
    let mut real = ClientHandshake::new(now, &client, DeviceName::new(NAME), trust).unwrap();
    let mut inputs = INPUTS;
    let greeted = real.poll_transmit(now).unwrap();
    inputs.nonce.copy_from_slice(&greeted[16..32]);
    assert_eq!(greeted, hello(&inputs));
    let none = real.handle_datagram(now, &challenge(&inputs)).unwrap();
    assert!(none.is_none());
    let begun = real.poll_transmit(now).unwrap();
    let (body, tag) = begun.split_at(begun.len() - 32);
    assert_eq!(
        tag,
        mac(&mac(&host.public().0, b"openuvr ticket begin"), body)
    );
    let before = [
        head(0, 6, 3),
        VERSIONS.to_vec(),
        inputs.nonce.to_vec(),
        inputs.cookie.to_vec(),
    ];
    assert_eq!(body[..52], before.concat());
    let mut at_host = noise(&host, None, &inputs);
    assert_eq!(read(&mut at_host, &body[52..]), begin_payload(&own));
    let none = real
        .handle_datagram(now, &answer(&mut at_host, &inputs))
        .unwrap();
    assert!(none.is_none());
    assert_eq!(
        real.poll_transmit(now).unwrap(),
        finish(SESSION, &inputs.key)
    );
    let [secret, tag] = keys(&mut at_host);
    let established = real
        .handle_datagram(now, &confirm(SESSION, &tag))
        .unwrap()
        .unwrap();
    assert_eq!(
        (established.session.0, established.secret.0),
        (SESSION, secret)
    );
    assert_eq!(established.peer, host.public());
}
