//! Event devices without a kernel: a folder with a file for each device and a socket for its events
//! ([`pad`](crate::pad)). Processes with the library `libopenuvr_pads.so` see them in `/dev/input`.
//!
//! A slow reader gets `SYN_DROPPED`, as from the kernel, and then reads the device's current state
//! from the file.
//!
//! Devices may exist before the server ([`seats`](super::seats)). They are also served to processes that have already
//! opened them, and remain after the server has ended.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, listen, recv, send, shutdown, socket_with,
};
use rustix::time::{ClockId, clock_gettime};

use crate::input_event::{BYTES, Event};
use crate::pad::codes::EV_SYN;
use crate::pad::description::Description;
use crate::pad::requests::{LENGTH, Request};
use crate::pad::{DEVICES, FIRST_EVENT, MAX_DEVICES, SOCKETS};
use crate::waker::Waker;

/// Retry interval for a reader when no file descriptor was left (guess).
const ADMIT_RETRY: Duration = Duration::from_millis(100);

/// `SYN_DROPPED`.
const DROPPED: (u16, u16, i32) = (EV_SYN, 3, 0);
const REPORT: (u16, u16, i32) = (EV_SYN, 0, 0);

/// Maximum number of readers of a device. Each open by a process counts as one reader; further opens are refused.
const MAX_READERS: usize = 32;

/// Backlog of processes that open a device before it is served, counting each open. SDL opens a
/// device to check it, closes it, and opens it again.
const WAITING_READERS: i32 = 128;

/// Maximum number of pending requests: far more than motors can follow.
const MAX_PENDING: usize = 256;

/// Maximum number of unread bytes per reader, as counted by the kernel: about 50 reports, similar to the kernel's queue
/// for a pad (128 events).
const WAITING: usize = 32 << 10;

/// An event of a reader: a process that has opened a device. Each open counts as a separate reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReaderEvent {
    /// The process has made a request.
    Request(Request),
    /// The process has closed the device.
    Closed,
}

/// Serves devices in a folder. Any thread may call it; one thread waits for requests.
pub struct PadServer {
    folder: PathBuf,
    state: Mutex<State>,
    waker: Waker,
}

#[derive(Default)]
struct State {
    devices: BTreeMap<u32, Device>,
    readers: u64,
    pending: VecDeque<(u32, u64, ReaderEvent)>,
}

struct Device {
    description: Description,
    file: File,
    listener: Arc<OwnedFd>,
    readers: Vec<Reader>,
    /// Whether the device existed before this server. If so, the server does not remove it.
    seat: bool,
    /// Whether the last reader could not be admitted for lack of file descriptors.
    lacks_descriptors: bool,
}

struct Reader {
    number: u64,
    fd: Arc<OwnedFd>,
    clock: ClockId,
    /// Whether the reader has missed events.
    behind: bool,
    /// The start of an incomplete request.
    rest: Vec<u8>,
}

impl PadServer {
    /// Serves devices in `folder`, which is created if missing and is accessible only to this user.
    /// Leftovers of another process are removed.
    ///
    /// # Errors
    /// Returns an error if the folder can't be written to, or if no file descriptor is left.
    pub fn open(folder: &Path) -> io::Result<PadServer> {
        PadServer::with_seats(folder, Vec::new())
    }

    /// Like [`PadServer::open`], but also serves existing devices, each specified by its listening socket and
    /// description. Their keys start released.
    ///
    /// # Errors
    /// Returns an error as [`PadServer::open`] does, and if an existing device is missing in the folder.
    pub fn with_seats(
        folder: &Path,
        seats: Vec<(Arc<OwnedFd>, Description)>,
    ) -> io::Result<PadServer> {
        clear(folder, seats.len())?;
        let mut state = State::default();
        for (number, (listener, description)) in (0..MAX_DEVICES).zip(seats) {
            let file = reset(folder, number, &description)?;
            let device = Device {
                description,
                file,
                listener,
                readers: Vec::new(),
                seat: true,
                lacks_descriptors: false,
            };
            state.devices.insert(number, device);
        }
        Ok(PadServer {
            folder: folder.to_owned(),
            state: Mutex::new(state),
            waker: Waker::new().map_err(io::Error::other)?,
        })
    }

    /// Whether this device existed before this server, and therefore remains after it.
    #[must_use]
    pub fn is_seat(&self, number: u32) -> bool {
        let state = self.lock();
        state.devices.get(&number).is_some_and(|device| device.seat)
    }

    /// Adds a device, `/dev/input/event240` and so on, replacing a device with this number. A seat
    /// can't be replaced.
    ///
    /// # Errors
    /// Returns an error if the number is not below [`MAX_DEVICES`], the device is a seat, or the
    /// folder can't be written to.
    pub fn plug(&self, number: u32, description: Description) -> io::Result<()> {
        if number >= MAX_DEVICES {
            return Err(io::Error::other("device limit reached"));
        }
        let mut state = self.lock();
        if state.devices.get(&number).is_some_and(|device| device.seat) {
            return Err(io::Error::other(
                "the device is present from the start and can't be replaced",
            ));
        }
        self.remove(&mut state, number);
        let listener = listen_at(&self.folder, number)?;
        let file = show(&self.folder, number, &description)?;
        let device = Device {
            description,
            file,
            listener: Arc::new(listener),
            readers: Vec::new(),
            seat: false,
            lacks_descriptors: false,
        };
        state.devices.insert(number, device);
        drop(state);
        self.waker.wake();
        Ok(())
    }

    /// Removes a device. Its readers get `ENODEV`, as from the kernel. A seat stays but is no longer served: processes
    /// that open it wait for the next server.
    pub fn unplug(&self, number: u32) {
        self.remove(&mut self.lock(), number);
        self.waker.wake();
    }

    /// Writes `events` of a device. The last event must be the event that ends the report. Events of an unknown device
    /// are ignored.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn write(&self, number: u32, events: &[(u16, u16, i32)]) -> io::Result<()> {
        let mut state = self.lock();
        let State {
            devices,
            readers,
            pending,
        } = &mut *state;
        let Some(device) = devices.get_mut(&number) else {
            return Ok(());
        };
        let before = pending.len();
        device.admit(readers);
        device.receive(number, pending);
        for (kind, code, value) in events {
            if let Some(part) = device.description.follow(*kind, *code, *value) {
                let bytes = device.description.part(part);
                device.file.write_all_at(bytes, part.at as u64)?;
            }
        }
        for reader in &mut device.readers {
            reader.notify(events);
        }
        if pending.len() != before {
            self.waker.wake();
        }
        Ok(())
    }

    /// The next event of a reader, with the number of the device, and a number that identifies the reader. A process
    /// that opens the device several times counts as several readers. Waits at most `timeout` (`None`: no limit).
    /// Returns `None` if there is no event, for example on timeout or when woken.
    pub fn next_event(&self, timeout: Option<Duration>) -> Option<(u32, u64, ReaderEvent)> {
        if let Some(event) = self.receive() {
            return Some(event);
        }
        let (fds, timeout) = self.lock().fds(timeout);
        let mut polled: Vec<PollFd<'_>> = fds
            .iter()
            .map(|(fd, flags)| PollFd::new(fd, *flags))
            .chain([PollFd::new(&self.waker.0, PollFlags::IN)])
            .collect();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // If `poll` is interrupted, the descriptors are checked anyway.
        let _ = poll(&mut polled, timeout.as_ref());
        self.waker.lower();
        self.receive()
    }

    fn receive(&self) -> Option<(u32, u64, ReaderEvent)> {
        let mut state = self.lock();
        let State {
            devices,
            readers,
            pending,
        } = &mut *state;
        for (number, device) in devices {
            device.admit(readers);
            device.receive(*number, pending);
            for reader in device.readers.iter_mut().filter(|reader| reader.behind) {
                reader.notify(&[]);
            }
        }
        pending.pop_front()
    }

    /// The waker that makes a waiting [`PadServer::next_event`] return.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The number of readers of this device, counting each open by a process.
    #[must_use]
    pub fn readers(&self, number: u32) -> usize {
        let mut state = self.lock();
        let State {
            devices, readers, ..
        } = &mut *state;
        devices.get_mut(&number).map_or(0, |device| {
            device.admit(readers);
            device.readers.len()
        })
    }

    fn remove(&self, state: &mut State, number: u32) {
        let Some(device) = state.devices.remove(&number) else {
            return;
        };
        for place in [DEVICES, SOCKETS].iter().filter(|_| !device.seat) {
            // A missing file is not an error.
            let _ = fs::remove_file(self.folder.join(place).join(name(number)));
        }
        for reader in &device.readers {
            // The shutdown ends the connection even if a forked child has the descriptor.
            let _ = shutdown(&*reader.fd, Shutdown::Both);
        }
        let left = |reader: &Reader| (number, reader.number, ReaderEvent::Closed);
        state.pending.extend(device.readers.iter().map(left));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PadServer {
    fn drop(&mut self) {
        let mut state = self.lock();
        for number in 0..MAX_DEVICES {
            self.remove(&mut state, number);
        }
    }
}

impl State {
    /// The descriptors to poll and the timeout. If a reader can't be admitted for lack of file descriptors, the
    /// device's listener stays readable. The listener is therefore polled again only after a delay.
    fn fds(&self, timeout: Option<Duration>) -> (Vec<(Arc<OwnedFd>, PollFlags)>, Option<Duration>) {
        let (mut fds, mut timeout) = (Vec::new(), timeout);
        for device in self.devices.values() {
            match device.lacks_descriptors {
                false => fds.push((device.listener.clone(), PollFlags::IN)),
                true => timeout = Some(timeout.map_or(ADMIT_RETRY, |span| span.min(ADMIT_RETRY))),
            }
            for reader in &device.readers {
                let room = match reader.behind {
                    true => PollFlags::OUT,
                    false => PollFlags::empty(),
                };
                fds.push((reader.fd.clone(), PollFlags::IN | room));
            }
        }
        (fds, timeout)
    }
}

impl Device {
    /// Accepts the connections of processes that have opened the device.
    fn admit(&mut self, numbers: &mut u64) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        self.lacks_descriptors = false;
        loop {
            let fd = match accept_with(&self.listener, flags) {
                Ok(fd) => fd,
                Err(why) => {
                    self.lacks_descriptors = matches!(why, Errno::MFILE | Errno::NFILE);
                    return;
                }
            };
            if self.readers.len() == MAX_READERS {
                continue;
            }
            // If this fails, the kernel's default size is sufficient.
            let _ = set_socket_send_buffer_size(&fd, WAITING);
            *numbers += 1;
            self.readers.push(Reader {
                number: *numbers,
                fd: Arc::new(fd),
                clock: ClockId::Realtime,
                behind: false,
                rest: Vec::new(),
            });
        }
    }

    /// Receives requests of the device's readers.
    fn receive(&mut self, number: u32, pending: &mut VecDeque<(u32, u64, ReaderEvent)>) {
        self.readers.retain_mut(|reader| {
            let stays = reader.receive(number, pending);
            if !stays {
                pending.push_back((number, reader.number, ReaderEvent::Closed));
            }
            stays
        });
    }
}

impl Reader {
    /// Receives the reader's requests. Returns whether it still has the device open.
    fn receive(&mut self, number: u32, pending: &mut VecDeque<(u32, u64, ReaderEvent)>) -> bool {
        let mut buffer = [0; 16 * LENGTH];
        // Further requests stay in the socket.
        while pending.len() < MAX_PENDING {
            let read = match recv(&*self.fd, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return false,
                Ok((_, read)) => read,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => continue,
                Err(_) => return false,
            };
            self.rest.extend_from_slice(&buffer[..read]);
            let (requests, rest) = self.rest.as_chunks();
            for request in requests.iter().filter_map(Request::from_bytes) {
                match request {
                    Request::Clock(clock) => {
                        self.clock = match clock {
                            1 => ClockId::Monotonic,
                            7 => ClockId::Boottime,
                            _ => ClockId::Realtime,
                        };
                    }
                    request => {
                        pending.push_back((number, self.number, ReaderEvent::Request(request)))
                    }
                }
            }
            self.rest = rest.to_vec();
        }
        true
    }

    /// Writes events, preceded by `SYN_DROPPED` if events were missed.
    fn notify(&mut self, events: &[(u16, u16, i32)]) {
        let ended = events.last() == Some(&REPORT);
        let missed = self.behind.then_some(&DROPPED);
        let end = (self.behind && !ended).then_some(&REPORT);
        let now = clock_gettime(self.clock);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let time = Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0));
        let all = missed.into_iter().chain(events).chain(end);
        let bytes = all.flat_map(|&(kind, code, value)| -> [u8; BYTES] {
            let event = Event {
                time,
                kind,
                code,
                value,
            };
            event.to_bytes()
        });
        let bytes: Vec<u8> = bytes.collect();
        if bytes.is_empty() {
            return;
        }
        // A write of this length is atomic. A closed reader is detected when receiving.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        self.behind = send(&*self.fd, &bytes, flags).is_err();
    }
}

fn name(number: u32) -> String {
    format!("event{}", FIRST_EVENT + number)
}

/// Creates the folders, accessible only to this user. Removes leftover devices, except for the first `kept` devices.
pub(super) fn clear(folder: &Path, kept: usize) -> io::Result<()> {
    for place in [DEVICES, SOCKETS] {
        let place = folder.join(place);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&place)?;
        for number in (0..MAX_DEVICES).skip(kept) {
            // Usually there is no such file.
            let _ = fs::remove_file(place.join(name(number)));
        }
    }
    Ok(())
}

/// Creates the listening socket of a device's readers.
pub(super) fn listen_at(folder: &Path, number: u32) -> io::Result<OwnedFd> {
    let socket = folder.join(SOCKETS).join(name(number));
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&listener, &SocketAddrUnix::new(&socket)?)?;
    listen(&listener, WAITING_READERS)?;
    Ok(listener)
}

/// Creates a device in the folder; returns the file with its description and state.
pub(super) fn show(folder: &Path, number: u32, description: &Description) -> io::Result<File> {
    // The file must be complete before it is visible, because watchers of the folder open it immediately.
    let new = folder.join("new");
    let _ = fs::remove_file(&new);
    let file = File::options().write(true).create_new(true).open(&new)?;
    file.write_all_at(description.bytes(), 0)?;
    // The device is created by a link, so that watchers get the same event as for device nodes. A rename would cause a
    // different event.
    let shown = folder.join(DEVICES).join(name(number));
    fs::hard_link(&new, &shown).and_then(|()| fs::remove_file(&new))?;
    Ok(file)
}

/// Resets the description and the state of an existing device, so that no key is held. Returns the device's file.
pub(super) fn reset(folder: &Path, number: u32, description: &Description) -> io::Result<File> {
    let shown = folder.join(DEVICES).join(name(number));
    let file = File::options().write(true).open(shown)?;
    file.write_all_at(description.bytes(), 0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use tempfile::TempDir;

    use super::*;
    use crate::pad::codes::{BTN_SOUTH, EV_KEY};
    use crate::pad::description::KEYS_DOWN;
    use crate::pad::requests::Effect;

    fn open(folder: &TempDir) -> UnixStream {
        let stream = UnixStream::connect(folder.path().join("socket/event240")).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    }

    fn device() -> Description {
        Description::new("Pad", [3, 1, 2, 3]).with_key(BTN_SOUTH)
    }

    fn read(stream: &mut UnixStream) -> Vec<(u16, u16, i32)> {
        let mut bytes = vec![0; 1 << 20];
        let n = stream.read(&mut bytes).unwrap_or(0);
        let (events, rest) = bytes[..n].as_chunks::<BYTES>();
        assert!(rest.is_empty());
        let event = |bytes| {
            let event = Event::from_bytes(bytes);
            (event.kind, event.code, event.value)
        };
        events.iter().map(event).collect()
    }

    fn press(value: i32) -> [(u16, u16, i32); 2] {
        [(EV_KEY, BTN_SOUTH, value), REPORT]
    }

    #[test]
    fn each_reader_gets_all_events_and_can_make_requests() {
        let folder = tempfile::tempdir().unwrap();
        let served = PadServer::open(folder.path()).unwrap();
        served.plug(0, device()).unwrap();
        let (mut a, mut b) = (open(&folder), open(&folder));
        served.write(0, &press(1)).unwrap();
        assert_eq!(served.readers(0), 2);
        assert_eq!(
            (read(&mut a), read(&mut b)),
            (press(1).into(), press(1).into())
        );
        let file = fs::read(folder.path().join("dev/event240")).unwrap();
        assert_eq!(file[KEYS_DOWN.at + 0x26], 1, "the current state");
        let upload = Request::Upload(0, Effect::default());
        let bytes = [upload.to_bytes(), Request::Play(0, 1).to_bytes()].concat();
        a.write_all(&bytes[..30]).unwrap();
        a.write_all(&bytes[30..]).unwrap();
        let second = Some(Duration::from_secs(5));
        assert_eq!(
            served.next_event(second),
            Some((0, 1, ReaderEvent::Request(upload)))
        );
        let play = ReaderEvent::Request(Request::Play(0, 1));
        assert_eq!(served.next_event(second), Some((0, 1, play)));
        drop(b);
        assert_eq!(served.next_event(second), Some((0, 2, ReaderEvent::Closed)));
        assert_eq!(served.next_event(Some(Duration::ZERO)), None);
        served.unplug(0);
        assert_eq!(served.next_event(second), Some((0, 1, ReaderEvent::Closed)));
        assert_eq!(a.read(&mut [0; 8]).unwrap(), 0, "end of file");
        assert!(!folder.path().join("dev/event240").exists());
    }

    /// The test runs in a separate process, because the limit on file descriptors applies to all threads of a process.
    #[test]
    fn a_reader_without_a_descriptor_is_admitted_later() {
        const ALONE: &str = "OPENUVR_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let (_, module) = module_path!().split_once("::").unwrap();
            let name = format!("{module}::a_reader_without_a_descriptor_is_admitted_later");
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", &name, "--nocapture"]);
            let out = command.env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&out.stdout);
            let error = String::from_utf8_lossy(&out.stderr);
            let passed = out.status.success() && said.contains("1 passed");
            assert!(passed, "{said}{error}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let served = PadServer::open(folder.path()).unwrap();
        served.plug(0, device()).unwrap();
        let mut reader = open(&folder);
        let waits = || {
            let state = served.lock();
            let listener = state.devices[&0].listener.clone();
            let (fds, timeout) = state.fds(None);
            let of_it = fds.iter().filter(|(fd, _)| Arc::ptr_eq(fd, &listener));
            (of_it.count(), timeout)
        };
        assert_eq!(waits(), (1, None));
        let before = getrlimit(Resource::Nofile);
        let free = File::open("/dev/null").unwrap().as_raw_fd();
        let none = Rlimit {
            current: Some(u64::try_from(free).unwrap()),
            ..before
        };
        setrlimit(Resource::Nofile, none).unwrap();
        served.write(0, &press(1)).unwrap();
        assert_eq!(served.readers(0), 0);
        // The device's listener stays readable, but is not polled.
        assert_eq!(waits(), (0, Some(ADMIT_RETRY)));
        setrlimit(Resource::Nofile, before).unwrap();
        served.write(0, &press(0)).unwrap();
        assert_eq!(served.readers(0), 1);
        assert_eq!(waits(), (1, None));
        assert_eq!(read(&mut reader), press(0));
    }

    #[test]
    fn a_reader_that_missed_events_gets_syn_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let served = PadServer::open(folder.path()).unwrap();
        served.plug(0, device()).unwrap();
        let mut slow = open(&folder);
        for n in 0..5000 {
            served.write(0, &press(n % 2)).unwrap();
        }
        let got = read(&mut slow);
        assert!(
            got.len() < 2000 && got.len().is_multiple_of(2),
            "{}",
            got.len()
        );
        assert_eq!(served.next_event(Some(Duration::ZERO)), None);
        assert_eq!(read(&mut slow), [DROPPED, REPORT]);
        served.write(0, &press(0)).unwrap();
        assert_eq!(read(&mut slow), press(0));
    }

    #[test]
    fn leftovers_of_another_process_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let first = PadServer::open(folder.path()).unwrap();
        first.plug(0, device()).unwrap();
        std::mem::forget(first);
        let second = PadServer::open(folder.path()).unwrap();
        assert!(!folder.path().join("dev/event240").exists());
        second.plug(0, device()).unwrap();
        assert!(second.plug(MAX_DEVICES, device()).is_err());
        assert_eq!(second.write(3, &press(1)).ok(), Some(()), "ignored");
    }
}
