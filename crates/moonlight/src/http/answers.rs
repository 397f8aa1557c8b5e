//! Answers to requests. A stranger gets the host's description and may pair. All other requests require a paired
//! client.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openuvr_proto::printable::printable;
use openuvr_runtime::lock::lock;

use super::request::Request;
use super::response::Response;
use crate::admission::AdmissionSlot;
use crate::applications::LaunchRefused;
use crate::door::{Door, PairedClient, unix_time};
use crate::hex::{from_hex, to_hex};
use crate::pairing::{
    Begun, ClientCertificate, Exchange, ExchangeError, HostRandom, OfferedPin, PairingEnd, PinFile,
};
use crate::query::Query;
use crate::session::{Launch, Mode, Owner, Session, random};

/// Version of the protocol. Clients choose their behaviour by it. A negative last number identifies a host with the
/// extensions of Sunshine (`IS_SUNSHINE` of moonlight-common-c).
const VERSION: &str = "7.1.431.-1";

/// Version of GeForce Experience, from which the protocol comes. Clients require a version.
const PROGRAM_VERSION: &str = "3.23.0.74";

/// Offered codecs: H.264 (`SCM_H264` of moonlight-common-c).
const CODECS: u32 = 1;

/// Interval at which the host checks for an entered PIN.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Answers a request over HTTP.
pub(super) fn answer_stranger(
    door: &Door,
    request: &Request,
    slot: &mut AdmissionSlot,
    here: IpAddr,
) -> Response {
    let query = Query::parse(&request.query);
    let from = slot.from();
    match request.path.as_str() {
        "serverinfo" => description(door, None, here),
        "pair" => pair(door, &query, slot),
        "unpair" => {
            // The client gives up pairing, for example because the PIN was different. This request ends only the
            // pairing of its own address and changes no stored device.
            let how = match door.desk.offered(from) {
                Some((id, _)) => {
                    let outcome = format!("pairing failed: {}", ExchangeError::WrongPin);
                    finish(door, &id, false, &outcome);
                    PairingEnd::Failed
                }
                None => PairingEnd::GivenUp,
            };
            door.desk.end(Instant::now(), from, how);
            Response::ok()
        }
        _ => Response::refused(404, "Not found"),
    }
}

/// Answers a request of a paired client over HTTPS.
pub(super) fn answer_paired(
    door: &Door,
    request: &Request,
    client: &PairedClient,
    from: IpAddr,
    here: IpAddr,
) -> Response {
    let query = Query::parse(&request.query);
    match request.path.as_str() {
        "serverinfo" => description(door, Some(client), here),
        // The last step of pairing. If this answer arrives, both client and host are paired.
        "pair" => Response::ok().with("paired", 1),
        "unpair" => {
            door.unpair(client);
            Response::ok()
        }
        "applist" => applications(door),
        "appasset" => art(door, &query),
        "launch" => match Launch::from_launch(&query) {
            Ok(launch) => launch_session(door, client, launch, (from, here), "gamesession"),
            Err(why) => Response::refused(400, why).with("gamesession", 0),
        },
        "resume" => match Launch::from_resume(&query) {
            Ok(launch) => launch_session(door, client, launch, (from, here), "resume"),
            Err(why) => Response::refused(400, why).with("resume", 0),
        },
        "cancel" => {
            if let Some(session) = door.sessions.of_device(&client.device) {
                door.end(&session);
            }
            match door.quit(client) {
                true => Response::ok().with("cancel", 1),
                // Clients translate the message of this status.
                false => {
                    Response::refused(599, "Another client is playing: quit the application there")
                        .with("cancel", 0)
                }
            }
        }
        _ => Response::refused(404, "Not found"),
    }
}

/// The host's description: names, ports, and the running application that this client can resume.
fn description(door: &Door, client: Option<&PairedClient>, here: IpAddr) -> Response {
    // An application started by the launcher is available to all clients. Without a launcher, a client sees only the
    // application of its own session.
    let running = client.and_then(|client| match &door.launcher {
        Some(_) => door.running(),
        None => {
            let session = door.sessions.of_device(&client.device);
            session.map(|session| session.application)
        }
    });
    let state = match running {
        Some(_) => "OPENUVR_SERVER_BUSY",
        None => "OPENUVR_SERVER_FREE",
    };
    Response::ok()
        .with("hostname", &door.name)
        .with("appversion", VERSION)
        .with("GfeVersion", PROGRAM_VERSION)
        .with("uniqueid", &door.identity.number)
        .with("HttpsPort", door.addresses.https.port())
        .with("ExternalPort", door.addresses.http.port())
        .with("MaxLumaPixelsHEVC", 0)
        // The hardware address is not reported, because a stranger has no use for it.
        .with("mac", "00:00:00:00:00:00")
        .with("LocalIP", here)
        .with("ServerCodecModeSupport", CODECS)
        .with("PairStatus", u8::from(client.is_some()))
        .with("currentgame", running.unwrap_or(0))
        .with("state", state)
}

fn applications(door: &Door) -> Response {
    let elements = door.applications.iter().map(|application| {
        let title = super::response::escaped(&application.title);
        let number = application.number;
        format!(
            "<App><IsHdrSupported>0</IsHdrSupported><AppTitle>{title}</AppTitle><ID>{number}</ID></App>"
        )
    });
    Response::ok().with_elements(&elements.collect::<String>())
}

fn art(door: &Door, query: &Query<'_>) -> Response {
    let number = query.number("appid");
    let mut all = door.applications.iter();
    let application = all.find(|application| Some(application.number) == number);
    match application.and_then(|application| application.art()) {
        Some(picture) => Response::Picture(picture),
        None => Response::refused(404, "No such application"),
    }
}

/// Begins a session. It replaces the client's earlier session.
fn launch_session(
    door: &Door,
    client: &PairedClient,
    launch: Launch,
    (from, here): (IpAddr, IpAddr),
    element: &str,
) -> Response {
    let refused = |status, why: &str| Response::refused(status, why).with(element, 0);
    if !door.host.is_available() {
        return refused(
            503,
            "The application shows no picture yet: try again in a moment",
        );
    }
    let started = match launch.application {
        Some(number) => start_application(door, client, number, &launch),
        None => continue_running(door, client, &launch),
    };
    let picture = match started {
        Ok(picture) => picture,
        Err((status, why)) => return refused(status, &why),
    };
    let owner = Owner {
        device: client.device,
        title: client.title.clone(),
        address: from,
    };
    let seals_rtsp = launch.seals_rtsp;
    let session = Session::new(owner, launch, picture, door.media_sockets());
    let Ok(session) = session else {
        return refused(500, "The host's system provides no random numbers");
    };
    match door.sessions.add(Arc::new(session)) {
        Ok(before) => {
            if let Some(before) = before {
                door.end(&before);
            }
        }
        Err(_) => return refused(503, "Too many clients watch this host"),
    }
    door.seen(client);
    let scheme = if seals_rtsp { "rtspenc" } else { "rtsp" };
    // This type displays an IPv6 address with brackets.
    let place = SocketAddr::new(here, door.addresses.rtsp.port());
    Response::ok()
        .with("sessionUrl0", format!("{scheme}://{place}"))
        .with(element, 1)
}

/// A refusal: the status and its reason.
type Refusal = (u16, String);

/// Starts the application `number`. Returns the number and the mode of the session.
fn start_application(
    door: &Door,
    client: &PairedClient,
    number: u32,
    launch: &Launch,
) -> Result<(u32, Mode), Refusal> {
    let mut all = door.applications.iter();
    let place = all.position(|application| application.number == number);
    let (Some(place), Some(mode)) = (place, launch.mode) else {
        let why = "This host does not have that application";
        return Err((404, why.to_owned()));
    };
    let Some(launcher) = &door.launcher else {
        return Ok((number, mode));
    };
    let ran = launcher.running().is_some();
    match launcher.launch(place, mode) {
        Ok(()) => {
            if !ran {
                *lock(&door.launched_by) = Some(client.device);
            }
            Ok((number, mode))
        }
        Err(LaunchRefused::Busy(other)) => {
            let title = door.applications.get(other).map(|other| &other.title);
            let title = title.map_or("An application", String::as_str);
            let why = format!("{title} already runs on this host: resume it, or quit it first");
            Err((400, why))
        }
        Err(LaunchRefused::Failed(why)) => {
            let title = &door.applications[place].title;
            (door.announce)(&format!("{title} did not start: {why}"));
            Err((503, format!("{title} did not start: {why}")))
        }
    }
}

/// Continues with the running application. Returns the number and the mode of the session.
fn continue_running(
    door: &Door,
    client: &PairedClient,
    launch: &Launch,
) -> Result<(u32, Mode), Refusal> {
    let before = door.sessions.of_device(&client.device);
    let number = match &door.launcher {
        Some(_) => door.running(),
        None => before.as_ref().map(|before| before.application),
    };
    let nothing = || {
        let why = "No application is running: start one instead of resuming";
        (503, why.to_owned())
    };
    let number = number.ok_or_else(nothing)?;
    let mode = launch.mode.or(before.map(|before| before.mode));
    // ANNOUNCE will contain the mode.
    Ok((number, mode.unwrap_or(Mode::USUAL)))
}

/// Handles a step of pairing over HTTP.
fn pair(door: &Door, query: &Query<'_>, slot: &mut AdmissionSlot) -> Response {
    let from = slot.from();
    let bytes = |name: &str| query.text(name).and_then(from_hex);
    let answered = if query.text("phrase") == Some("getservercert") {
        return start_pairing(door, query, slot);
    } else if let Some(challenge) = bytes("clientchallenge") {
        let signature = &door.identity.signature;
        step(door, from, |exchange| {
            exchange.challenge(&challenge, signature)
        })
        .map(|answer| Response::ok().with("challengeresponse", to_hex(&answer)))
    } else if let Some(commitment) = bytes("serverchallengeresp") {
        step(door, from, |exchange| exchange.commit(&commitment)).and_then(|secret| {
            let signature = door.identity.sign(&secret).ok_or(ExchangeError::Library)?;
            let secret = [&secret[..], &signature].concat();
            Ok(Response::ok().with("pairingsecret", to_hex(&secret)))
        })
    } else if let Some(secret) = bytes("clientpairingsecret") {
        step(door, from, |exchange| {
            exchange
                .finish(&secret)
                .map(|()| exchange.certificate().clone())
        })
        .map(|certificate| store(door, &certificate, from))
    } else {
        return Response::refused(400, "The request is not a pairing step").with("paired", 0);
    };
    match answered {
        Ok(response) => response.with("paired", 1),
        Err(why) => {
            if let Some((id, _)) = door.desk.offered(from) {
                finish(door, &id, false, &format!("pairing failed: {why}"));
            }
            // A stranger without a pairing may send this request, too. Then nothing has failed.
            if door.desk.end(Instant::now(), from, PairingEnd::Failed) {
                (door.announce)(&format!("pairing with the client at {from} failed: {why}"));
            }
            // Clients expect this answer after a wrong PIN, not an error.
            Response::ok().with("paired", 0)
        }
    }
}

fn step<T>(
    door: &Door,
    from: IpAddr,
    step: impl FnOnce(&mut Exchange) -> Result<T, ExchangeError>,
) -> Result<T, ExchangeError> {
    let done = door.desk.step(Instant::now(), from, step);
    done.unwrap_or(Err(ExchangeError::Order))
}

/// Handles the first step: waits until the user enters the client's PIN.
fn start_pairing(door: &Door, query: &Query<'_>, slot: &mut AdmissionSlot) -> Response {
    let from = slot.from();
    let refused =
        |status, why: &dyn ToString| Response::refused(status, why.to_string()).with("paired", 0);
    let salt = query.text("salt").and_then(from_hex);
    let salt: Option<[u8; 16]> = salt.and_then(|salt| salt.try_into().ok());
    let certificate = query.text("clientcert").and_then(from_hex);
    let certificate = certificate.and_then(|pem| ClientCertificate::from_pem(&pem).ok());
    let (Some(salt), Some(certificate)) = (salt, certificate) else {
        return refused(400, &"The salt or the certificate is missing or invalid");
    };
    if door.is_forbidden(&certificate.der) {
        return refused(403, &"This host forbids the client");
    }
    let number = match door.desk.start(Instant::now(), from) {
        Ok(number) => number,
        Err(why) => return refused(503, &why),
    };
    slot.waits_for_pin();
    (door.announce)(&format!(
        "a Moonlight client at {from} wants to pair: run `openuvr devices pair --moonlight PIN` \
         with the PIN that the client shows"
    ));
    let begun = Begun { salt, certificate };
    let file = PinFile::new(&door.folder);
    while door.desk.waits(Instant::now(), number) && !door.is_closing() {
        match file.take(unix_time()) {
            Ok(Some(offered)) => {
                door.admission.pairs(Instant::now(), from);
                return entered(door, number, begun, &offered);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!("cannot read the PIN for a Moonlight client: {error}");
                door.desk.give_up(number);
                return refused(
                    500,
                    &"The host cannot read the PIN: see its messages, then start over",
                );
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    door.desk.give_up(number);
    refused(408, &"No PIN was entered at the host")
}

fn entered(door: &Door, number: u64, begun: Begun, offered: &OfferedPin) -> Response {
    let (Ok(secret), Ok(challenge)) = (random(), random()) else {
        return Response::refused(500, "The host's system provides no random numbers")
            .with("paired", 0);
    };
    let random = HostRandom { secret, challenge };
    let exchange = Exchange::start(&begun.salt, &offered.pin, begun.certificate, random);
    let name = offered.name.as_deref().map(printable);
    let offer = (offered.id.clone(), name);
    if !door.desk.entered(Instant::now(), number, exchange, offer) {
        let outcome = "pairing failed: another pairing has started; start over in Moonlight";
        finish(door, &offered.id, false, outcome);
        return Response::refused(503, "Another pairing has started").with("paired", 0);
    }
    let certificate = to_hex(door.identity.pem.as_bytes());
    Response::ok()
        .with("plaincert", certificate)
        .with("paired", 1)
}

/// Stores a client that has paired.
fn store(door: &Door, certificate: &ClientCertificate, from: IpAddr) -> Response {
    let offered = door.desk.offered(from);
    let name = offered.as_ref().and_then(|(_, name)| name.clone());
    let stored = door.pair(&certificate.der, from, name.as_deref());
    let outcome = match &stored {
        Ok(title) => format!("paired with {title}"),
        Err(error) => format!("the device cannot be stored: {error}"),
    };
    door.desk.end(Instant::now(), from, PairingEnd::Paired);
    if let Some((id, _)) = offered {
        finish(door, &id, stored.is_ok(), &outcome);
    }
    match stored {
        Ok(_) => Response::ok(),
        Err(_) => Response::refused(500, "The host cannot store the device"),
    }
}

/// Reports the outcome to the user who entered the PIN.
fn finish(door: &Door, id: &str, paired: bool, outcome: &str) {
    let finished = PinFile::new(&door.folder).finish(id, paired, outcome);
    if let Err(error) = finished {
        tracing::warn!("cannot report the outcome of pairing: {error}");
    }
}
