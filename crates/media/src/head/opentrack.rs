//! A head tracked by opentrack (with a webcam, a sensor or a telephone). The poses are received from opentrack's output
//! "UDP over network".
//!
//! Each datagram has six little-endian doubles: x, y and z in centimetres, then yaw, pitch and roll
//! in degrees. x is to the right, y up and z backwards. Yaw is to the right, pitch up and roll to
//! the right shoulder; yaw and pitch are as in opentrack's mouse output. Axes that a tracker
//! reverses can be inverted in opentrack (Options, Output).
//!
//! Datagrams are not authenticated. By default, only datagrams of this machine are received.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::Instant;

use super::velocity::{EulerPose, VelocityTracker};
use super::{Backend, HeadPose, HeadPoseError, HeadPoseSource};

/// The table entry.
pub const BACKEND: Backend = Backend {
    name: "opentrack",
    argument: "address:port",
    open: |place| {
        let source = Box::new(Opentrack::listen(place)?);
        Ok(HeadPose {
            source,
            input: None,
        })
    },
};

/// opentrack's default destination.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:4242";

/// Bytes of a datagram.
pub const BYTES: usize = 48;

/// Maximum distance of a head along each axis, in centimetres: 100 m.
const MAX_DISTANCE: f64 = 10_000.0;

/// Receives poses.
pub struct Opentrack {
    socket: UdpSocket,
    moving: VelocityTracker,
}

impl Opentrack {
    /// Listens at `place` (`ADDRESS:PORT`), or at [`DEFAULT_ADDRESS`] if `place` is empty.
    ///
    /// # Errors
    /// [`HeadPoseError`] if the address is invalid or not available.
    pub fn listen(place: &str) -> Result<Opentrack, HeadPoseError> {
        let place = if place.is_empty() {
            DEFAULT_ADDRESS
        } else {
            place
        };
        let address: SocketAddr = place.parse().map_err(|_| {
            HeadPoseError(format!(
                "the opentrack address {place:?} is not of the form ADDRESS:PORT; the default is {DEFAULT_ADDRESS}"
            ))
        })?;
        let socket = UdpSocket::bind(address).map_err(|cause| {
            HeadPoseError(format!(
                "can't receive opentrack packets at {address}: {cause}; another program may use the port"
            ))
        })?;
        Ok(Opentrack {
            socket,
            moving: VelocityTracker::default(),
        })
    }

    /// The local address.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Parses a datagram: position in metres, and yaw to the left, pitch up and roll to the left shoulder in radians.
/// `None` if it is not a datagram of opentrack: wrong length, a number that is not finite, or a head more than 100 m
/// away along an axis.
#[must_use]
pub fn parse(datagram: &[u8]) -> Option<([f32; 3], [f32; 3])> {
    let datagram: &[u8; BYTES] = datagram.try_into().ok()?;
    let mut numbers = [0.0; 6];
    for (number, bytes) in numbers.iter_mut().zip(datagram.chunks_exact(8)) {
        *number = f64::from_le_bytes(bytes.try_into().ok()?);
    }
    if !numbers.iter().all(|number| number.is_finite()) {
        return None;
    }
    let [x, y, z, yaw, pitch, roll] = numbers;
    if [x, y, z]
        .iter()
        .any(|centimetres| centimetres.abs() > MAX_DISTANCE)
    {
        return None;
    }
    #[allow(clippy::cast_possible_truncation, reason = "they are small")]
    let narrow = |number: f64| number as f32;
    let radians = |degrees: f64| narrow((degrees % 360.0).to_radians());
    let at = [x, y, z].map(|centimetres| narrow(centimetres / 100.0));
    Some((at, [radians(-yaw), radians(pitch), radians(-roll)]))
}

impl HeadPoseSource for Opentrack {
    fn next(&mut self, timeout: Duration) -> Result<Option<(Pose, Instant)>, HeadPoseError> {
        let until = clock::now() + timeout;
        let failed = |cause: std::io::Error| {
            HeadPoseError(format!("receiving from opentrack failed: {cause}"))
        };
        // One byte more than a datagram, to detect longer datagrams.
        let mut datagram = [0; BYTES + 1];
        loop {
            let left = until.since(clock::now());
            if left.is_zero() {
                return Ok(None);
            }
            // Some systems treat a timeout of less than a millisecond as zero.
            let left = left.max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(left)).map_err(failed)?;
            let length = match self.socket.recv(&mut datagram) {
                Ok(length) => length,
                Err(e) => match e.kind() {
                    std::io::ErrorKind::WouldBlock
                    | std::io::ErrorKind::TimedOut
                    | std::io::ErrorKind::Interrupted => continue,
                    _ => return Err(failed(e)),
                },
            };
            let now = clock::now();
            let Some((at, [yaw, pitch, roll])) = datagram.get(..length).and_then(parse) else {
                continue;
            };
            let place = EulerPose {
                at,
                yaw,
                pitch,
                roll,
            };
            if let Some(pose) = self.moving.pose(place, now) {
                return Ok(Some((pose, now)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(numbers: [f64; 6]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    #[test]
    fn centimetres_and_degrees_become_a_place() {
        let found = parse(&datagram([10.0, -20.0, 30.0, 90.0, 45.0, 720.0 + 10.0]));
        let (at, [yaw, pitch, roll]) = found.expect("a pose");
        assert_eq!(at, [0.1, -0.2, 0.3]);
        let degrees = [yaw, pitch, roll].map(|angle| angle.to_degrees().round());
        assert_eq!(degrees, [-90.0, 45.0, -10.0]);
    }

    #[test]
    fn non_poses_are_refused() {
        let good = datagram([0.0; 6]);
        assert!(parse(&good).is_some());
        assert!(parse(&good[..47]).is_none());
        assert!(parse(&[&good[..], &[0]].concat()).is_none());
        for bad in [f64::NAN, f64::INFINITY, -1e5] {
            assert!(parse(&datagram([0.0, bad, 0.0, 0.0, 0.0, 0.0])).is_none());
        }
        assert!(parse(&datagram([0.0, 0.0, 0.0, 1e300, 0.0, f64::NAN])).is_none());
        let far = parse(&datagram([0.0, 0.0, 0.0, 1e300, -1e300, 0.0]));
        assert!(far.is_some_and(|(_, angles)| angles.iter().all(|angle| angle.abs() < 6.3)));
    }

    #[test]
    fn poses_are_received_among_garbage() {
        let mut head = Opentrack::listen("127.0.0.1:0").expect("a free port");
        let to = head.address().expect("it has one");
        let from = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        for datagram in [
            b"nonsense".to_vec(),
            datagram([f64::NAN; 6]),
            vec![0; 100],
            datagram([0.0, 0.0, 0.0, -90.0, 0.0, 0.0]),
        ] {
            from.send_to(&datagram, to).expect("it is sent");
        }
        let heard = head.next(Duration::from_secs(20)).expect("it hears");
        let (pose, _) = heard.expect("the last one");
        assert!((pose.orientation()[1] - std::f32::consts::FRAC_1_SQRT_2).abs() < 1e-6);
        assert!(head.next(Duration::ZERO).expect("it hears").is_none());
        let taken = Opentrack::listen(&to.to_string())
            .err()
            .expect("it is taken");
        assert!(taken.to_string().contains("another program"), "{taken}");
        assert!(Opentrack::listen("here").is_err());
    }
}
