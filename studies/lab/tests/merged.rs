//! Tests that the analysis splits datagrams that the kernel passes to a capture as one large packet (segmentation
//! offload).

use std::io;
use std::time::Duration;

use openuvr_lab::traffic::{Window, analyse};
use openuvr_testbed::raw_cables;
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;

#[test]
fn datagrams_merged_by_the_kernel_are_split() {
    raw_cables::with_cables(&[("client", "a")], || {
        raw_cables::run(
            "ip addr add 10.9.0.1/24 dev client
             ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev client",
        );
        let port = raw_cables::open("a").unwrap();
        let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
        // RTP packets with the timestamp of one frame. The last packet is shorter.
        let mut payload = Vec::new();
        for number in 0..8u16 {
            payload.extend([0x80, 96]);
            payload.extend(number.to_be_bytes());
            payload.extend([0, 0, 0, 5, 0, 0, 0, 7]);
            payload.resize(
                usize::from(number + 1) * 1200 - usize::from(number / 7) * 500,
                0xee,
            );
        }
        raw_cables::send_segmented(&socket, "10.9.0.2:4000", &payload, 1200).unwrap();
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ..PcapHeader::default()
        };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        let (mut buffer, mut got) = (vec![0; 1 << 17], 0);
        while got < payload.len() {
            let mut fds = [PollFd::new(&port, PollFlags::IN)];
            let wait = Timespec::try_from(Duration::from_secs(10)).unwrap();
            rustix::event::poll(&mut fds, Some(&wait)).unwrap();
            let (_, len) = rustix::net::recv(&port, &mut *buffer, RecvFlags::TRUNC).unwrap();
            let frame = &buffer[..len];
            let length = u32::try_from(frame.len()).unwrap();
            let packet = PcapPacket::new(Duration::from_secs(9), length, frame);
            writer.write_packet(&packet).unwrap();
            if frame[12..14] == [0x08, 0x00] && frame[23] == 17 {
                got += frame.len() - 42;
            }
        }
        let file = writer.into_writer();
        let mut open = || Ok(Box::new(std::io::Cursor::new(file.clone())) as Box<dyn io::Read>);
        let found = analyse(&mut open, Window::default()).unwrap();
        assert_eq!(
            (found.account.joined, found.account.joined_datagrams),
            (1, 8)
        );
        let rtp = &found.streams[0];
        assert_eq!((rtp.key.id, rtp.stream.sizes.count()), (7, 8));
        assert_eq!(rtp.stream.sizes.quantile(0.0), Some(42 + 700));
        assert_eq!(rtp.stream.account(rtp.key.kind).unwrap().due, 8);
    });
}
