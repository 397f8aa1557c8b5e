//! Transport probes: an exchange that tests whether a transport ([`TransportKind`]) carries a stream.
//!
//! The client requests a burst of full datagrams over a transport, and the host answers over the same path. Only a
//! received burst counts, because neither an open socket nor the arrival of small datagrams proves that a frame would
//! arrive. Neither the request nor the answer moves the session; the first datagram of another kind over the new path
//! does.
//!
//! The module does not select transports (crate `runtime` does), and knows no addresses.

use std::time::Duration;

use crate::id::PathId;
use crate::time::Instant;
pub use crate::transport::TransportKind;

/// Number of datagrams in an answer: about one or two slices at 20 Mb/s.
pub const BURST: u8 = 8;

/// Number of received datagrams that suffice. On a link that loses a tenth of the datagrams, fewer than one in 2000
/// answers arrives with fewer datagrams than this.
const SUFFICIENT: u32 = 4;

/// Number of requests.
const TRIES: u8 = 4;

/// Time from a request to the next one, and from the last request to the end of the probe. It is far more than a round
/// trip on a local network, so that a busy machine does not count as a bad link (guess). If the round trip to a distant
/// host is longer, the answer to an earlier request arrives after the next request.
const TIMEOUT: Duration = Duration::from_millis(150);

/// A path to probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeTarget {
    /// The path.
    pub path: PathId,
    /// Whether the host may use segmentation offload for the burst.
    pub segmented: bool,
}

/// The result of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeResult {
    /// The probed path.
    pub target: ProbeTarget,
    /// The host's transport; `None` without an answer, `Some(None)` for a number that this program does not recognise.
    pub answer: Option<Option<TransportKind>>,
}

/// The client's side of one exchange.
pub(crate) struct Probe {
    target: ProbeTarget,
    token: u32,
    tries: u8,
    ask_at: Instant,
    /// Received datagrams of the answer to each request, one bit each.
    pieces: [u32; TRIES as usize],
}

impl Probe {
    /// Starts a probe; `token` must differ from the previous probe's by at least [`TRIES`].
    pub(crate) fn new(now: Instant, target: ProbeTarget, token: u32) -> Probe {
        Probe {
            target,
            token,
            tries: 0,
            ask_at: now,
            pieces: [0; TRIES as usize],
        }
    }

    /// The next deadline.
    pub(crate) fn next_timeout(&self) -> Instant {
        self.ask_at
    }

    /// The token and target of a request that is due, or the final result after the last timeout.
    pub(crate) fn poll(&mut self, now: Instant) -> Result<Option<(u32, ProbeTarget)>, ProbeResult> {
        if now < self.ask_at {
            return Ok(None);
        }
        if self.tries == TRIES {
            return Err(ProbeResult {
                target: self.target,
                answer: None,
            });
        }
        self.tries += 1;
        self.token = self.token.wrapping_add(1);
        self.ask_at = now + TIMEOUT;
        Ok(Some((self.token, self.target)))
    }

    /// Handles a datagram of an answer.
    pub(crate) fn answered(
        &mut self,
        token: u32,
        piece: u8,
        transport: Option<TransportKind>,
    ) -> Option<ProbeResult> {
        if piece >= BURST {
            return None;
        }
        // The newest request has the token `self.token`, and each earlier request has the preceding token.
        let before = usize::try_from(self.token.wrapping_sub(token)).ok()?;
        let asked = self.pieces.iter_mut().take(usize::from(self.tries));
        let pieces = asked.rev().nth(before)?;
        *pieces |= 1 << piece;
        (pieces.count_ones() >= SUFFICIENT).then_some(ProbeResult {
            target: self.target,
            answer: Some(transport),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{BURST, Probe, ProbeResult, ProbeTarget, TIMEOUT, TRIES, TransportKind};
    use crate::id::PathId;
    use crate::time::Instant;

    const TARGET: ProbeTarget = ProbeTarget {
        path: PathId([7; PathId::LEN]),
        segmented: true,
    };

    #[test]
    fn half_a_burst_of_one_answer_is_enough_and_less_is_not() {
        let mut probe = Probe::new(Instant(0), TARGET, 9);
        assert_eq!(probe.answered(9, 0, None), None, "no request was sent yet");
        let (first, _) = probe.poll(Instant(0)).unwrap().unwrap();
        for piece in [0, 2, 2, 2, BURST, 255] {
            assert_eq!(probe.answered(first, piece, Some(TransportKind::Raw)), None);
        }
        let later = Instant(0) + TIMEOUT;
        assert_eq!(
            probe.poll(later - std::time::Duration::from_nanos(1)),
            Ok(None)
        );
        let (second, target) = probe.poll(later).unwrap().unwrap();
        assert_eq!(target, TARGET);
        // Late datagrams of the first answer do not count towards the second.
        for (token, piece) in [
            (first - 1, 1),
            (first, 3),
            (second, 0),
            (second, 0),
            (second + 1, 1),
        ] {
            assert_eq!(probe.answered(token, piece, None), None);
        }
        assert_eq!(probe.answered(second, 5, Some(TransportKind::Raw)), None);
        assert_eq!(probe.answered(second, 6, Some(TransportKind::Raw)), None);
        let result = ProbeResult {
            target: TARGET,
            answer: Some(Some(TransportKind::Raw)),
        };
        assert_eq!(
            probe.answered(second, 7, Some(TransportKind::Raw)),
            Some(result)
        );
    }

    #[test]
    fn an_answer_may_arrive_after_the_next_requests() {
        // The tokens wrap around between the requests.
        let mut probe = Probe::new(Instant(0), TARGET, u32::MAX - 2);
        let mut asked = [0; TRIES as usize];
        for token in &mut asked {
            (*token, _) = probe.poll(probe.next_timeout()).unwrap().unwrap();
        }
        let mut answer = [0, 1, 2, 3].map(|piece| probe.answered(asked[0], piece, None));
        let result = answer[3].take().expect("four datagrams are sufficient");
        assert_eq!((result.answer, answer), (Some(None), [None; 4]));
    }

    #[test]
    fn a_path_without_responses_is_abandoned() {
        let mut probe = Probe::new(Instant(0), TARGET, u32::MAX);
        let mut asked = 0;
        let result = loop {
            match probe.poll(probe.next_timeout()) {
                Ok(question) => asked += u8::from(question.is_some()),
                Err(result) => break result,
            }
        };
        assert_eq!((asked, result.answer), (TRIES, None));
        assert_eq!(
            probe.next_timeout(),
            Instant(0) + TIMEOUT * u32::from(TRIES)
        );
    }
}
