//! The kernel's messages about graphics cards (`NETLINK_KOBJECT_UEVENT`).

use std::os::fd::OwnedFd;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// The group of the kernel's own messages; udev sends its messages in a different group.
const KERNEL: u32 = 1;

/// Buffer size for a message: the kernel's buffer has 2 kB (lib/kobject_uevent.c).
const MESSAGE: usize = 4096;

/// Receives the messages of this machine.
#[derive(Debug)]
pub(crate) struct Uevents(pub(crate) OwnedFd);

impl Uevents {
    /// `None` if the kernel refuses, as in some containers. In that case, connectors are checked from time to time.
    pub(crate) fn open() -> Option<Uevents> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(netlink::KOBJECT_UEVENT);
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol).ok()?;
        bind(&socket, &SocketAddrNetlink::new(0, KERNEL)).ok()?;
        Some(Uevents(socket))
    }

    /// Reads all messages. Returns whether one of them is about a card.
    pub(crate) fn drain(&self) -> bool {
        let (mut about_card, mut message) = (false, [0; MESSAGE]);
        loop {
            match recv(&self.0, &mut message[..], RecvFlags::empty()) {
                Ok((read, _)) => about_card |= is_about_card(message.get(..read).unwrap_or(&[])),
                // Messages were lost.
                Err(rustix::io::Errno::NOBUFS) => about_card = true,
                Err(_) => return about_card,
            }
        }
    }
}

/// Whether a message is about a card. A message is a header and `NAME=VALUE` entries, separated by zero bytes.
fn is_about_card(message: &[u8]) -> bool {
    message
        .split(|byte| *byte == 0)
        .any(|field| field == b"SUBSYSTEM=drm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_cards_are_told_from_others() {
        let card = b"change@/devices/pci0000:00/0000:00:02.0/drm/card0\0ACTION=change\0\
                     DEVPATH=/devices/pci0000:00/0000:00:02.0/drm/card0\0SUBSYSTEM=drm\0HOTPLUG=1\0";
        assert!(is_about_card(card));
        assert!(!is_about_card(
            b"add@/devices/usb\0ACTION=add\0SUBSYSTEM=usb\0"
        ));
        assert!(!is_about_card(b""));
    }
}
