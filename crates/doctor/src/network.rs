//! Buffers and ports of UDP sockets.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use openuvr_net::udp::Options;
use rustix::net::sockopt;

use super::finding::Finding;
use super::{Role, first_line, setup};

pub(super) fn findings(role: Role, port: u16) -> Vec<Finding> {
    let mut findings = vec![receive_buffer(), send_buffer()];
    if role.hosts() {
        findings.push(host_port(port));
    }
    findings
}

/// The buffer size that the system grants if it is requested in the same way as for the link. With a privilege, this
/// size may exceed the system's limit.
fn granted(wanted: u32, receive: bool) -> rustix::io::Result<u64> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .map_err(|why| rustix::io::Errno::from_io_error(&why).unwrap_or(rustix::io::Errno::IO))?;
    let wanted = wanted as usize;
    let doubled = if receive {
        sockopt::set_socket_recv_buffer_size_force(&socket, wanted)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, wanted))?;
        sockopt::socket_recv_buffer_size(&socket)?
    } else {
        sockopt::set_socket_send_buffer_size_force(&socket, wanted)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, wanted))?;
        sockopt::socket_send_buffer_size(&socket)?
    };
    // The kernel doubles the value for its own accounting (socket(7)).
    Ok(doubled as u64 / 2)
}

fn receive_buffer() -> Finding {
    let limit = first_line("/proc/sys/net/core/rmem_max");
    let wanted = Options::default().receive_buffer;
    judge(
        "receive buffer",
        granted(wanted, true),
        wanted,
        limit,
        "net.core.rmem_max",
    )
}

fn send_buffer() -> Finding {
    let limit = first_line("/proc/sys/net/core/wmem_max");
    let wanted = Options::default().send_buffer;
    judge(
        "send buffer",
        granted(wanted, false),
        wanted,
        limit,
        "net.core.wmem_max",
    )
}

fn judge(
    name: &str,
    got: rustix::io::Result<u64>,
    wanted: u32,
    limit: Option<String>,
    key: &str,
) -> Finding {
    let got = match got {
        Ok(got) => got,
        Err(why) => {
            return Finding::missing(
                name,
                format!("can't open a UDP socket: {why}"),
                "sudo ip link set lo up",
            );
        }
    };
    let limit = limit.map_or_else(String::new, |limit| {
        format!(" (the limit {key} is {limit})")
    });
    let summary = format!(
        "{} KiB of the requested {} KiB{limit}",
        got >> 10,
        wanted >> 10
    );
    match got >= wanted.into() {
        true => Finding::ok(name, summary),
        false => Finding::better(
            name,
            format!("{summary}: datagrams of key frames may be lost"),
            setup("buffers"),
        ),
    }
}

fn host_port(port: u16) -> Finding {
    let name = format!("UDP port {port}");
    let bound = bind((Ipv6Addr::UNSPECIFIED, port).into()).or_else(|why| match why.kind() {
        ErrorKind::AddrInUse | ErrorKind::PermissionDenied => Err(why),
        // The machine may have no IPv6.
        _ => bind((Ipv4Addr::UNSPECIFIED, port).into()),
    });
    // The gateways' default ports follow the host's default port. A port below 1024 may be privileged.
    let other = port
        .checked_add(10)
        .filter(|other| *other > 1023)
        .unwrap_or(4710);
    match bound {
        Ok(_) => Finding::ok(&name, "free for `openuvr host`"),
        Err(why) if why.kind() == ErrorKind::AddrInUse => match listener(port) {
            Some((id, program)) if program == "openuvr" || has_library(id) => {
                Finding::ok(&name, format!("in use by {program} (process {id})"))
            }
            Some((id, program)) => Finding::missing(
                &name,
                format!("in use by {program} (process {id})"),
                format!("end that program, or use openuvr host --bind '[::]:{other}'"),
            ),
            None => Finding::missing(
                &name,
                "in use by another program",
                format!(
                    "end that program, which `sudo ss -ulpn 'sport = :{port}'` shows, or use openuvr host --bind \
                     '[::]:{other}'"
                ),
            ),
        },
        Err(why) => Finding::missing(
            &name,
            format!("can't be opened: {why}"),
            format!("openuvr host --bind '[::]:{other}'"),
        ),
    }
}

fn bind(address: SocketAddr) -> std::io::Result<UdpSocket> {
    UdpSocket::bind(address)
}

/// Whether a process has loaded a library of OpenUVR (the hook, the OpenXR runtime or libopenuvr), which contains a host.
fn has_library(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/maps")).is_ok_and(|maps| maps_library(&maps))
}

/// Whether a process's memory mappings (proc(5), `/proc/PID/maps`) contain a library of OpenUVR.
fn maps_library(maps: &str) -> bool {
    maps.contains("/libopenuvr")
}

/// The process with a UDP socket at `port`, if it is visible to this user.
fn listener(port: u16) -> Option<(u32, String)> {
    let inodes: Vec<String> = ["/proc/net/udp", "/proc/net/udp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| inodes_at(&table, port))
        .collect();
    let processes = std::fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|process| {
        let id: u32 = process.file_name().to_str()?.parse().ok()?;
        let mut files = std::fs::read_dir(process.path().join("fd")).ok()?.flatten();
        let owns = files.any(|file| {
            std::fs::read_link(file.path()).is_ok_and(|target| {
                let target = target.to_string_lossy();
                inodes
                    .iter()
                    .any(|inode| target == format!("socket:[{inode}]"))
            })
        });
        let name = || first_line(&format!("/proc/{id}/comm"));
        owns.then(|| (id, name().unwrap_or_default()))
    })
}

/// The inodes of the sockets at `port` in a table such as `/proc/net/udp`. Its second column is the local address, and its
/// tenth is the inode.
fn inodes_at(table: &str, port: u16) -> Vec<String> {
    let end = format!(":{port:04X}");
    let rows = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let here = fields.get(1)?.ends_with(&end);
        here.then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_small_buffer_comes_with_the_command_that_enlarges_it() {
        let small = judge(
            "b",
            Ok(1 << 16),
            4 << 20,
            Some("65536".into()),
            "net.core.rmem_max",
        );
        assert_eq!(small.level, Level::Better);
        let remedy = small.remedy.unwrap();
        assert!(remedy.ends_with(" setup --only buffers"), "{remedy}");
        assert_eq!(judge("b", Ok(4 << 20), 4 << 20, None, "k").level, Level::Ok);
    }

    #[test]
    fn a_taken_port_is_found_and_its_owner_named() {
        let taken = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))
            .unwrap();
        let port = taken.local_addr().unwrap().port();
        let (id, _) = listener(port).expect("it is ours");
        assert_eq!(id, std::process::id());
        // The port's owner is this test program. Its name begins with the crate's name, but is not `openuvr` alone.
        assert!(host_port(port).summary.contains("in use by"));
        drop(taken);
        assert_eq!(host_port(port).level, Level::Ok);
    }

    #[test]
    fn a_game_with_the_hook_is_told_from_other_programs() {
        let line = |file: &str| format!("7f00-7f10 r-xp 00000000 fe:00 7 {file}\n");
        let game = line("/usr/games/etr") + &line("/usr/lib/openuvr/libopenuvr_hook.so");
        assert!(maps_library(&game));
        assert!(maps_library(&line("/usr/lib/libopenuvr.so.1")));
        assert!(!maps_library(&line("/usr/lib/libopen.so")));
    }
}
