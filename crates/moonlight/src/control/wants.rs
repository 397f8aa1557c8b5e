//! Selects the datagrams that reach the ENet library. The library has few peer slots, and a CONNECT command takes a
//! slot. The command carries the number that the host has given the client over RTSP.

/// Bits of the first field that contain the peer's number. The other bits contain flags and the session ID
/// (`protocol.h` of ENet 1.3).
const PEER: u16 = 0x0fff;

/// The number field of a peer that has no number yet.
const NO_PEER: u16 = 0x0fff;

/// The flag of a header with a time stamp.
const HAS_TIME: u16 = 0x8000;

/// The flag of a compressed datagram. Clients do not compress datagrams.
const COMPRESSED: u16 = 0x4000;

/// The number of the command CONNECT, and the bits of a command byte that contain the number.
const CONNECT: u8 = 2;
const COMMAND: u8 = 0x0f;

/// Length of the command CONNECT, and the offset of its last field, which is free for the application.
const CONNECT_LENGTH: usize = 48;
const DATA: usize = 44;

/// What a datagram requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wants {
    /// A new connection, with this number in the command.
    Connection(u32),
    /// A message of an existing connection.
    Peer,
    /// Nothing, because the datagram does not belong to the protocol.
    Nothing,
}

impl Wants {
    /// Classifies this datagram.
    #[must_use]
    pub fn of(datagram: &[u8]) -> Wants {
        let Some((first, rest)) = datagram.split_first_chunk::<2>() else {
            return Wants::Nothing;
        };
        let first = u16::from_be_bytes(*first);
        if first & PEER != NO_PEER {
            return Wants::Peer;
        }
        let time = if first & HAS_TIME != 0 { 2 } else { 0 };
        let command = rest.get(time..time + CONNECT_LENGTH);
        let command = command.filter(|command| command[0] & COMMAND == CONNECT);
        match command.and_then(|command| command[DATA..].first_chunk()) {
            Some(number) if first & COMPRESSED == 0 => {
                Wants::Connection(u32::from_be_bytes(*number))
            }
            _ => Wants::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CONNECT with a time stamp, as sent by clients.
    fn connect(flags: u16, number: u32) -> Vec<u8> {
        let mut command = [0; CONNECT_LENGTH];
        // The flag requests an acknowledgement.
        command[0] = 0x80 | CONNECT;
        command[DATA..].copy_from_slice(&number.to_be_bytes());
        let header = (NO_PEER | flags).to_be_bytes();
        let time: &[u8] = if flags & HAS_TIME != 0 { &[1, 2] } else { &[] };
        [&header[..], time, &command].concat()
    }

    #[test]
    fn the_number_of_a_new_connection_is_found() {
        for flags in [0, HAS_TIME, HAS_TIME | 0x3000] {
            let datagram = connect(flags, 0x1234_5678);
            assert_eq!(Wants::of(&datagram), Wants::Connection(0x1234_5678));
            for end in 0..datagram.len() {
                assert_eq!(Wants::of(&datagram[..end]), Wants::Nothing, "{end}");
            }
        }
    }

    #[test]
    fn other_datagrams_are_no_new_connections() {
        assert_eq!(Wants::of(&connect(COMPRESSED, 1)), Wants::Nothing);
        let mut other = connect(0, 1);
        other[2] = 0x80 | 6;
        assert_eq!(Wants::of(&other), Wants::Nothing);
        assert_eq!(Wants::of(&[0x80, 0x01, 0, 0]), Wants::Peer);
    }
}
