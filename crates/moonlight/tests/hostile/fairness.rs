//! Strangers with many addresses do not delay a paired client.

use std::io::{ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustix::process::{Resource, getrlimit, setrlimit};
use rusty_enet::{Event, Host, HostSettings};

use super::peer::{Peer, Streams, element, get, play};
use super::support::{Rig, TIMEOUT};
use super::{application, paired};

/// Number of strangers in the flood, each with its own address.
const STRANGERS: usize = 1100;

/// Number of strangers that only hold connections, each with its own address.
const HOLDERS: usize = 200;

/// Number of video packets that the client must receive.
const PACKETS: usize = 300;

/// Pause between two checks of all strangers. Together, they reconnect about two thousand times a second.
const PAUSE: Duration = Duration::from_millis(400);

/// A stranger that sends nothing, holds its connection, and reconnects when the connection is closed.
struct Stranger {
    from: Ipv4Addr,
    to: SocketAddr,
    stream: Option<TcpStream>,
    came: bool,
}

impl Stranger {
    fn new(number: usize, to: SocketAddr) -> Stranger {
        let [.., high, low] = number.to_be_bytes();
        Stranger {
            from: Ipv4Addr::new(127, 1, high, low),
            to,
            stream: None,
            came: false,
        }
    }

    fn come(&mut self) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        bind(&socket, &SocketAddr::from((self.from, 0))).unwrap();
        // The socket does not block, so `connect` returns before the connection is established.
        let _ = connect(&socket, &self.to);
        self.stream = Some(TcpStream::from(socket));
    }

    /// Reconnects if the connection was closed.
    fn look(&mut self) {
        let Some(stream) = &mut self.stream else {
            return self.come();
        };
        match stream.read(&mut [0; 16]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.came |= stream.peer_addr().is_ok();
            }
            // The host closed the connection, or a full queue refused it.
            _ => {
                self.came = true;
                self.come();
            }
        }
    }
}

/// Lets `strangers` hold their slots until `stop`. `came` counts the strangers that have had a connection.
fn hold(mut strangers: Vec<Stranger>, stop: &AtomicBool, came: &AtomicUsize) {
    while !stop.load(Ordering::Relaxed) {
        strangers.iter_mut().for_each(Stranger::look);
        let all = strangers.iter().filter(|stranger| stranger.came).count();
        came.store(all, Ordering::Relaxed);
        std::thread::sleep(PAUSE);
    }
}

fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Polls until there is a value.
pub(super) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Opens the client's control connection, and waits until it is established.
pub(super) fn control(rig: &Rig, streams: &Streams) -> Host<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut enet = Host::new(socket, HostSettings::default()).unwrap();
    let to = rig.door.addresses().control;
    enet.connect(to, 0x30, streams.connect_data).unwrap();
    eventually("the control connection", || match enet.service().unwrap() {
        Some(Event::Connect { .. }) => Some(()),
        Some(Event::Disconnect { .. }) => panic!("refused"),
        _ => None,
    });
    enet
}

/// Takes all steps of a client, from the list of hosts to the picture.
fn plays(rig: &Rig, client: &Peer) {
    let addresses = *rig.door.addresses();
    let description = get(addresses.http, "serverinfo");
    assert_eq!(element(&description, "hostname"), "the &lt;test&gt;");
    let description = client.get_protected(addresses.https, "serverinfo");
    assert_eq!(element(&description, "PairStatus"), "1");
    let launch = Peer::launch(&application(rig, client), "");
    let launched = client.get_protected(addresses.https, &launch);
    assert_eq!(element(&launched, "gamesession"), "1", "{launched}");
    let streams = play(addresses.rtsp, 1, (640, 384, 60)).unwrap();
    let mut enet = control(rig, &streams);
    for _ in 0..PACKETS {
        eventually("video", || {
            // The host ends the session of a client whose control connection is silent for some seconds.
            enet.service().unwrap();
            streams.packet()
        });
    }
    assert_eq!(
        element(&client.get_protected(addresses.https, "cancel"), "cancel"),
        "1"
    );
}

#[test]
fn a_thousand_addresses_hold_up_no_paired_client() {
    allow_many_files();
    let rig = Rig::new("moonlight-fairness");
    let addresses = *rig.door.addresses();
    let client = paired(&rig);
    let ports = [
        addresses.http,
        addresses.https,
        addresses.http,
        addresses.https,
        addresses.rtsp,
    ];
    let (stop, came) = (AtomicBool::new(false), AtomicUsize::new(0));
    let strangers = (0..STRANGERS).map(|number| Stranger::new(number, ports[number % 5]));
    let strangers: Vec<Stranger> = strangers.collect();
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| hold(strangers, &stop, &came));
        // The thread must end, even after a failure.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("all strangers", || {
                (came.load(Ordering::Relaxed) == STRANGERS).then_some(())
            });
            plays(&rig, &client);
            plays(&rig, &client);
        }));
        stop.store(true, Ordering::Relaxed);
        flood.join().unwrap();
        if let Err(failure) = outcome {
            std::panic::resume_unwind(failure);
        }
    });
}

#[test]
fn a_client_whose_address_is_new_gets_a_place_and_keeps_it() {
    let rig = Rig::new("moonlight-new-address");
    let addresses = *rig.door.addresses();
    let client = paired(&rig);
    let mut strangers: Vec<Stranger> = (0..HOLDERS)
        .map(|number| Stranger::new(number, addresses.https))
        .collect();
    let come = |strangers: &mut Vec<Stranger>| {
        eventually("strangers", || {
            strangers
                .iter_mut()
                .filter(|stranger| !stranger.came)
                .for_each(Stranger::look);
            strangers.iter().all(|stranger| stranger.came).then_some(())
        });
    };
    come(&mut strangers);
    let new: IpAddr = [127, 2, 0, 1].into();
    // A flood comes between the handshake and the request of this connection.
    let mut connection = client.handshake_from(new, addresses.https);
    let mut more: Vec<Stranger> = (HOLDERS..2 * HOLDERS)
        .map(|number| Stranger::new(number, addresses.https))
        .collect();
    come(&mut more);
    let list = connection.get("applist");
    assert!(list.contains("Pattern &amp; tone"), "{list}");
}

#[test]
fn control_connections_need_the_number_of_a_session() {
    let rig = Rig::new("moonlight-enet-places");
    let addresses = *rig.door.addresses();
    let client = paired(&rig);
    let launch = Peer::launch(&application(&rig, &client), "");
    client.get_protected(addresses.https, &launch);
    let streams = play(addresses.rtsp, 1, (640, 384, 60)).unwrap();
    // Forged connections come from the client's address, as if from behind its router.
    let forged: Vec<Host<UdpSocket>> = (0..64)
        .map(|number| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut enet = Host::new(socket, HostSettings::default()).unwrap();
            enet.connect(addresses.control, 1, streams.connect_data ^ (number + 1))
                .unwrap();
            enet.flush();
            enet
        })
        .collect();
    let _control = control(&rig, &streams);
    for mut enet in forged {
        let answered = enet.service().unwrap();
        assert!(answered.is_none(), "a forged connection was answered");
    }
}
