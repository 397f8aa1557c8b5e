//! Concurrent clients: held connections, log-ins, and password guessing. They must not block each other.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::json;

use super::support::skip::skip;
use super::support::{Answer, Installation, PASSWORD, Person, Portal, wait};

/// Opens a connection from this local address, and sends a log-in with an incomplete body.
fn slow_login(portal: &Portal, from: Ipv4Addr) -> Option<TcpStream> {
    let at: SocketAddr = portal.at.parse().unwrap();
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    bind(&stream, &SocketAddr::new(IpAddr::V4(from), 0)).ok()?;
    connect(&stream, &at).ok()?;
    let mut stream = TcpStream::from(stream);
    let request = "POST /api/login HTTP/1.1\r\nhost: portal\r\ncontent-type: application/json\r\n\
                   content-length: 100\r\n\r\n{";
    stream.write_all(request.as_bytes()).ok()?;
    Some(stream)
}

/// Whether the peer holds the connection: it has neither answered nor closed it.
fn is_held(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0; 1024]);
    matches!(read, Err(why) if why.kind() == std::io::ErrorKind::WouldBlock)
}

/// Whether this process may open this many connections.
fn may_open(count: u64) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let enough = maximum.is_none_or(|maximum| maximum >= count);
    if !enough {
        skip(&format!(
            "the limit of descriptors is {maximum:?}, and the test needs {count}"
        ));
    }
    enough
}

#[test]
fn slow_requests_hold_a_share_and_no_more() {
    if !may_open(6000) {
        return;
    }
    let place = Installation::new();
    place.add_user("ada", &[]);
    let portal = place.start();
    let ada = portal.log_in("ada");
    // Three networks open connections: two of them would use all slots, and the third opens only a few.
    let neighbours = [(2, 3000), (3, 1500), (4, 8)].map(|(last, count)| {
        let from = Ipv4Addr::new(127, 0, 0, last);
        let open = (0..count).filter_map(|_| slow_login(&portal, from));
        open.collect::<Vec<_>>()
    });
    for _ in 0..5 {
        assert_eq!(ada.status("GET", "/api/sessions", None), 200);
        assert_eq!(portal.anonymous().status("GET", "/api/login", None), 200);
    }
    let held = |streams: Vec<TcpStream>| {
        let mut streams = streams;
        let held = streams
            .iter_mut()
            .map(|stream| usize::from(is_held(stream)));
        held.sum::<usize>()
    };
    let [first, second, small] = neighbours.map(held);
    // Fewer connections than the limit may still be held, because bodies have a timeout.
    assert!(first <= 512 && second <= 512, "{first} and {second}");
    assert!(small <= 8);
}

#[test]
fn a_body_that_does_not_come_ends_its_connection() {
    let place = Installation::new();
    let portal = place.start();
    let mut stream = slow_login(&portal, Ipv4Addr::LOCALHOST).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let long = json!({"name": "a".repeat(20_000), "password": PASSWORD});
    let refused = portal
        .anonymous()
        .request("POST", "/api/login", Some(&long));
    assert_eq!(refused.unwrap().status, 413);
}

#[test]
fn a_log_in_has_a_few_event_streams() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    let portal = place.start();
    let (ada, again) = (portal.log_in("ada"), portal.log_in("ada"));
    let open = |person: &Person| {
        let mut stream = TcpStream::connect(&person.at).unwrap();
        let cookie = person.cookie.as_deref().unwrap();
        let request = format!("GET /api/events HTTP/1.1\r\nhost: a\r\ncookie: {cookie}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (status.ends_with(b"200"), stream)
    };
    let mut streams: Vec<_> = (0..20).map(|_| open(&ada)).collect();
    let taken = streams.iter().filter(|(taken, _)| *taken).count();
    assert_eq!(taken, 8);
    assert!(open(&again).0, "another log-in has its own");
    streams.clear();
    wait("closed connections", || open(&ada).0);
}

/// Sends a log-in, from the forwarded address `from` if there is one. Returns the response.
fn log_in_from(portal: &Portal, from: Option<&str>, name: &str, password: &str) -> Answer {
    let body = json!({"name": name, "password": password});
    let forwarded: Vec<_> = from.iter().map(|from| ("x-forwarded-for", *from)).collect();
    let anonymous = portal.anonymous();
    let answer = anonymous.request_with("POST", "/api/login", Some(&body), &forwarded);
    answer.unwrap()
}

#[test]
fn a_class_behind_one_address_logs_in_at_once() {
    let place = Installation::new();
    let names: Vec<String> = (0..45).map(|n| format!("pupil{n}")).collect();
    for name in &names {
        place.add_user(name, &[]);
    }
    place.add_user("teacher", &[]);
    let portal = place.start();
    let teacher = vec!["teacher".to_owned(); 8];
    let right = AtomicUsize::new(0);
    thread::scope(|scope| {
        for name in names.iter().chain(&teacher) {
            let (portal, right) = (&portal, &right);
            scope.spawn(move || {
                let answer = log_in_from(portal, None, name, PASSWORD);
                assert_eq!(answer.status, 200, "{name}: {}", answer.text());
                right.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(right.into_inner(), 53);
}

#[test]
fn guessing_locks_out_no_known_browser() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    let config = std::fs::read_to_string(place.path("portal.toml")).unwrap();
    place.write("portal.toml", &format!("behind_proxy = true\n{config}"));
    let portal = place.start();
    let home = log_in_from(&portal, Some("192.0.2.1"), "ada", PASSWORD);
    assert_eq!(home.status, 200);
    let cookies = home.headers.iter().filter(|(name, _)| name == "set-cookie");
    let device = cookies.filter_map(|(_, cookie)| cookie.split(';').next());
    let mut device = device;
    let device = device.find(|cookie| cookie.contains("openuvr-device="));
    let device = device.unwrap().to_owned();

    // All addresses of one /64 count as one unknown client, which has five guesses.
    let guess = |from: &str| log_in_from(&portal, Some(from), "ada", "wrong password").status;
    let one_64: Vec<u16> = (0..52)
        .map(|n| guess(&format!("2001:db8:0:1::{n:x}")))
        .collect();
    assert_eq!(one_64.iter().filter(|status| **status == 401).count(), 5);
    assert_eq!(one_64[51], 429);
    let stranger = log_in_from(&portal, Some("203.0.113.9"), "ada", PASSWORD);
    assert_eq!(stranger.status, 200, "from elsewhere she gets in");

    // Guesses from many networks together use up the account's limit for unknown clients.
    let many = (0..12).flat_map(|n| (0..5).map(move |_| format!("2001:db8:1:{n:x}::1")));
    let many: Vec<u16> = many.map(|from| guess(&from)).collect();
    assert_eq!(many[59], 429);
    let away = log_in_from(&portal, Some("198.51.100.7"), "ada", PASSWORD);
    assert_eq!(away.status, 429, "an unknown client waits");
    let home = log_in_from(&portal, Some("192.0.2.1"), "ada", PASSWORD);
    assert_eq!(home.status, 200, "the network is known");
    let away = Person {
        cookie: Some(device),
        ..portal.anonymous()
    };
    let body = json!({"name": "ada", "password": PASSWORD});
    let from = [("x-forwarded-for", "198.51.100.7")];
    let away = away.request_with("POST", "/api/login", Some(&body), &from);
    assert_eq!(away.unwrap().status, 200, "the browser is known");
}

/// Resident memory of a process in bytes.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() * 1024
}

#[test]
fn memory_stays_after_a_thousand_log_ins() {
    let place = Installation::new();
    place.add_user("ada", &[]);
    let portal = place.start();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(log_in_from(&portal, None, "ada", PASSWORD).status, 200);
                }
            });
        }
    });
    let memory = memory(portal.id());
    assert!(memory <= 150_000_000, "{memory} bytes");
}
