//! A host with a gateway: real capture, encoder and sockets, on loopback.

#![allow(dead_code, reason = "each test uses part of it")]
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

#[path = "../../../media/tests/skip/mod.rs"]
pub(crate) mod skip;

#[path = "../../../media/tests/stalls/mod.rs"]
pub(crate) mod stalls;

#[path = "../../../runtime/tests/support/real_time_loops.rs"]
pub(crate) mod real_time_loops;

pub(crate) mod vlc;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use openuvr_gateway::lease::Lease;
use openuvr_gateway::{Certificate, Gateway, PinEntry, PortalListener, RateControl, Setup};
use openuvr_gateway_settings::{IceServer, PublicAddress};
use openuvr_media::application::WindowScope;
use openuvr_media::capture::Capture;
use openuvr_media::capture::pattern::Pattern;
use openuvr_media::convert::Converter;
use openuvr_media::input_sink::{InputError, InputSink};
use openuvr_net::Link as _;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::trace::{DropCause, Outcome, Stage};
use openuvr_proto::units::Size;
use openuvr_runtime::host::config::Config;
use openuvr_runtime::host::{HostRuntime, HostSetup, Input, Notice, Notices};
use openuvr_runtime::sched::Scheduler;
use openuvr_runtime::sound_choice::SoundChoice;
use openuvr_runtime::trust_store::DeviceStore;
use tempfile::TempDir;

/// Timeout, which is longer than any step on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Length of a stall after which a thread may have missed frames: two frames at 60 Hz.
pub(crate) const STALLED: Duration = Duration::from_millis(30);

/// Maximum number of recorded input events: more than any test sends.
const MOST: usize = 65_536;

/// The PIN of the initial pairing window.
pub(crate) const PIN: &str = "314159";

/// The address of the configured reverse proxy.
pub(crate) const PROXY: &str = "127.0.0.77";

/// The origin at which the proxy serves the page.
pub(crate) const ORIGIN: &str = "https://play.example.org";

/// Destination of input. Records each event, and an [`InputEvent::ReleaseAll`] each time that everything is released.
struct Application(SyncSender<InputEvent>);

impl InputSink for Application {
    fn apply(&mut self, event: &InputEvent) -> Result<(), InputError> {
        let _ = self.0.send(*event);
        Ok(())
    }

    fn release_all(&mut self) -> Result<(), InputError> {
        self.apply(&InputEvent::ReleaseAll)
    }

    fn set_viewport(&mut self, _: i32, _: i32, _: Size) {}

    fn set_window(&mut self, _: Option<u32>, _: WindowScope) {}
}

/// The portal's lease, the portal's listener, a service whose clients wait for a PIN, and the congestion control for
/// browsers.
type Access = (
    Option<Arc<Lease>>,
    Option<PortalListener>,
    Option<Arc<dyn PinEntry>>,
    RateControl,
);

/// A host that streams the test pattern and admits browsers. Each constructor starts another host; `Rig::new` starts
/// one with the default settings of these tests.
pub(crate) struct Rig {
    // Declared before the host, to be dropped first: the gateway holds the host.
    pub(crate) gateway: Gateway,
    pub(crate) host: Arc<HostRuntime>,
    pub(crate) notices: Notices,
    /// Address for native clients.
    pub(crate) link: SocketAddr,
    /// Input that the application has received.
    pub(crate) received: Receiver<InputEvent>,
    pub(crate) folder: TempDir,
}

/// Default address of page and media.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn pattern(size: Size) -> Box<dyn Capture> {
    Box::new(Pattern::open(size, 60.0).unwrap())
}

impl Rig {
    pub(crate) fn new(name: &str, size: Size) -> Rig {
        Rig::with(name, size, |_| ())
    }

    pub(crate) fn with(name: &str, size: Size, change: impl FnOnce(&mut Config)) -> Rig {
        Rig::reached_by(name, size, Vec::new(), change)
    }

    /// Like `Rig::with`, with these ICE servers for browsers.
    pub(crate) fn reached_by(
        name: &str,
        size: Size,
        ice_servers: Vec<IceServer>,
        change: impl FnOnce(&mut Config),
    ) -> Rig {
        Rig::made(
            name,
            pattern(size),
            (ice_servers, &[]),
            LOCAL,
            Access::default(),
            change,
        )
    }

    /// Like `Rig::with`, with this congestion control for browsers.
    pub(crate) fn controlled(
        name: &str,
        size: Size,
        rate_control: RateControl,
        change: impl FnOnce(&mut Config),
    ) -> Rig {
        let access = (None, None, None, rate_control);
        let nothing = (Vec::new(), &[][..]);
        Rig::made(name, pattern(size), nothing, LOCAL, access, change)
    }

    /// Like `Rig::reached_by`, with other pictures.
    pub(crate) fn showing(
        name: &str,
        capture: Box<dyn Capture>,
        ice_servers: Vec<IceServer>,
        change: impl FnOnce(&mut Config),
    ) -> Rig {
        Rig::made(
            name,
            capture,
            (ice_servers, &[]),
            LOCAL,
            Access::default(),
            change,
        )
    }

    /// Like `Rig::reached_by`, with page and media at another address of this machine.
    pub(crate) fn at(
        web: IpAddr,
        name: &str,
        size: Size,
        ice_servers: Vec<IceServer>,
        change: impl FnOnce(&mut Config),
    ) -> Rig {
        Rig::made(
            name,
            pattern(size),
            (ice_servers, &[]),
            web,
            Access::default(),
            change,
        )
    }

    /// Like `Rig::new`, with a service whose clients wait for a PIN.
    pub(crate) fn with_pin_entry(name: &str, size: Size, entry: Arc<dyn PinEntry>) -> Rig {
        let access = (None, None, Some(entry), RateControl::Reports);
        Rig::made(
            name,
            pattern(size),
            (Vec::new(), &[]),
            LOCAL,
            access,
            |_| (),
        )
    }

    /// Like `Rig::new`, but controlled by a portal.
    pub(crate) fn leased(name: &str, size: Size, lease: Lease) -> Rig {
        let lease = (Some(Arc::new(lease)), None, None, RateControl::Reports);
        Rig::made(name, pattern(size), (Vec::new(), &[]), LOCAL, lease, |_| ())
    }

    /// Like `Rig::leased`, but `change` can make the host accept tickets.
    pub(crate) fn with_tickets(
        name: &str,
        size: Size,
        lease: Lease,
        change: impl FnOnce(&mut Config),
    ) -> Rig {
        let lease = (Some(Arc::new(lease)), None, None, RateControl::Reports);
        let nothing = (Vec::new(), &[][..]);
        Rig::made(name, pattern(size), nothing, LOCAL, lease, change)
    }

    /// Like `Rig::with_tickets`, but the gateway answers only the portal.
    pub(crate) fn for_portal(
        name: &str,
        size: Size,
        (lease, listener): (Lease, PortalListener),
        change: impl FnOnce(&mut Config),
    ) -> Rig {
        let lease = (
            Some(Arc::new(lease)),
            Some(listener),
            None,
            RateControl::Reports,
        );
        let nothing = (Vec::new(), &[][..]);
        Rig::made(name, pattern(size), nothing, LOCAL, lease, change)
    }

    /// Like `Rig::at`, with these public addresses of the host.
    pub(crate) fn known_at(
        web: IpAddr,
        name: &str,
        ice_servers: Vec<IceServer>,
        addresses: &[PublicAddress],
    ) -> Rig {
        let capture = pattern(Size::new(320, 192));
        Rig::made(
            name,
            capture,
            (ice_servers, addresses),
            web,
            Access::default(),
            |_| (),
        )
    }

    fn made(
        name: &str,
        capture: Box<dyn Capture>,
        (ice_servers, addresses): (Vec<IceServer>, &[PublicAddress]),
        web: IpAddr,
        (lease, portal, pin_entry, rate_control): Access,
        change: impl FnOnce(&mut Config),
    ) -> Rig {
        let folder = TempDir::with_prefix(name).unwrap();
        let dir = folder.path().join("host");
        let mut config = Config {
            sound: SoundChoice::Off,
            bind: ([127, 0, 0, 1], 0).into(),
            config_dir: Some(dir.clone()),
            realtime: false,
            pin: Some(PIN.parse().unwrap()),
            second_player: SecondPlayer::TakeOver,
            ..Config::default()
        };
        change(&mut config);
        let opened = config.open().unwrap();
        let link = opened.link.local_addr().unwrap();
        let (application, received) = sync_channel(MOST);
        let scheduler = config.scheduler();
        let host = HostRuntime::start(HostSetup {
            policy: opened.policy,
            identity: opened.identity,
            devices: opened.devices,
            pairing: opened.pairing,
            tickets: opened.tickets,
            link: opened.link,
            capture,
            viewport: None,
            cursor: None,
            input: Input::Sink(Box::new(Application(application))),
            converter: Converter::new(),
            encodings: opened.encodings,
            audio: opened.sounds.audio,
            microphone: None,
            pads: None,
            clipboard: None,
            scheduler: scheduler.clone(),
        });
        let host = Arc::new(host.unwrap());
        let notices = host.notices();
        let setup = Setup {
            ice_servers,
            lease,
            addresses: addresses.to_vec(),
            bind: (web, 0).into(),
            devices: DeviceStore::open(&dir).unwrap(),
            certificate: Certificate::Own(dir),
            portal,
            name: "the test".to_owned(),
            origins: vec![ORIGIN.parse().unwrap()],
            proxies: vec![PROXY.parse().unwrap()],
            pin_entry,
            encoders: config.encoders.clone(),
            rate_control,
        };
        let gateway = Gateway::start(setup, host.clone(), &scheduler).unwrap();
        Rig {
            gateway,
            host,
            notices,
            link,
            received,
            folder,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// The scheduler, as for the host's threads.
    pub(crate) fn scheduler(&self) -> Scheduler {
        Config {
            realtime: false,
            ..Config::default()
        }
        .scheduler()
    }

    /// The number of encoded frames that the newest subscriber was too slow to take. Reads all notices so far.
    pub(crate) fn missed_frames(&self) -> usize {
        let (mut newest, mut missed) = (None, 0);
        for notice in std::iter::from_fn(|| self.notices.next(Duration::ZERO)) {
            match notice {
                Notice::Subscribed { subscriber, .. } => (newest, missed) = (Some(subscriber), 0),
                Notice::Record(record) if Some(record.subscriber) == newest => {
                    let slow = Outcome::Dropped {
                        stage: Stage::FirstSent,
                        why: DropCause::SendBufferFull,
                    };
                    missed += usize::from(record.outcome == slow);
                }
                _ => {}
            }
        }
        missed
    }

    /// The next input event of the application.
    pub(crate) fn input(&self) -> InputEvent {
        self.received.recv_timeout(TIMEOUT).expect("input")
    }
}

/// A connection from this address of the loopback network.
pub(crate) fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

/// Polls until there is a value.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
