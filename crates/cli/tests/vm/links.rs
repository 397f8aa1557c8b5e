//! Compares the emulated link of `openuvr lab hop` with kernel links that have the same parameters: netem for delay,
//! jitter, loss, reordering, duplicates and a short queue; cake and fq_codel for the rate of a full bottleneck.
//!
//! Both links carry the same datagrams at the same time. At the far end of each link, a program returns the datagrams;
//! only the direction to this program is impaired. Counts must agree within the range of a binomial distribution. An
//! emulated processor adds milliseconds to each datagram, so delays are long, and the limits on times are wide.

use openuvr_proto::quantile::at_share;

use super::rig::Rig;
use super::skip::skip;

/// The maximum deviation of a count or of a quantile's rank, in standard deviations. About one in 16 000 correct values
/// deviates more.
const DEVIATIONS: f64 = 4.0;

/// The maximum difference of a quantile that a busy emulated processor causes, in milliseconds (guess).
const LATE: f64 = 8.0;

/// Two network namespaces, joined by a cable. Datagrams for the kernel's link are sent in `a`, and those for the
/// emulated link in `b`. The programs that return the datagrams of both links run in `b`. Neighbour entries are static,
/// because ARP requests would use the links, too. The sockets' buffers are larger than the queues of all links.
const NETWORK: &str = "\
for module in veth sch_netem sch_tbf sch_fq_codel sch_cake; do modprobe $module || exit 1; done
for buffer in rmem_default wmem_default; do echo 8388608 >/proc/sys/net/core/$buffer || exit 1; done
mkdir -p /run/netns
for n in a b; do
  ip netns add $n || exit 1
  ip netns exec $n sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6; ip link set lo up' || exit 1
done
ip link add va netns a address 02:00:00:00:00:0a type veth peer name vb netns b address 02:00:00:00:00:0b || exit 1
ip -n a address add 10.9.0.1/24 dev va && ip -n b address add 10.9.0.2/24 dev vb || exit 1
ip -n a link set va up && ip -n b link set vb up || exit 1
ip -n a neigh add 10.9.0.2 lladdr 02:00:00:00:00:0b dev va nud permanent || exit 1
ip -n b neigh add 10.9.0.1 lladdr 02:00:00:00:00:0a dev vb nud permanent || exit 1
for address in 10.9.0.2:7000 127.0.0.1:7001; do
  ip netns exec b setsid datagrams echo $address >>/tmp/echo 2>&1 </dev/null &
done";

/// A machine with a link of the kernel and an emulated link.
struct Links {
    rig: Rig,
}

/// The datagrams that a link has carried or dropped.
#[derive(Debug)]
struct Carried {
    /// In the order of their return.
    datagrams: Vec<Datagram>,
    /// The number of datagrams that the link has dropped, according to its own counters.
    dropped: usize,
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    number: usize,
    /// Milliseconds from sending to return.
    delay: f64,
    /// Milliseconds from the start to the return.
    returned: f64,
}

impl Links {
    /// `None` if the test is skipped.
    fn start() -> Option<Links> {
        let mut rig = Rig::start()?;
        let copied = "cp /host/examples/datagrams /usr/bin/datagrams";
        if rig.machine.run(copied).unwrap().status != 0 {
            skip("the example datagrams is missing: ./dev test-vm builds it");
            return None;
        }
        rig.machine.succeed(NETWORK).unwrap();
        // The ports 7000 and 7001.
        for port in ["1B58", "1B59"] {
            rig.machine
                .wait_for(&format!("ip netns exec b grep -q :{port} /proc/net/udp"))
                .unwrap();
        }
        Some(Links { rig })
    }

    /// Sends datagrams over a link of the kernel, which consists of these queueing disciplines, and over an emulated
    /// link. Returns the results in this order.
    fn carry(
        &mut self,
        kernel: &[&str],
        emulated: &str,
        count: usize,
        interval: &str,
    ) -> [Carried; 2] {
        let mut script = "ip netns exec a tc qdisc del dev va root 2>/dev/null\n".to_owned();
        for discipline in kernel {
            script += &format!("ip netns exec a tc qdisc add dev va {discipline} || exit 1\n");
        }
        script += &format!(
            "ip netns exec a datagrams send 10.9.0.2:7000 {count} {interval} >/tmp/kernel 2>&1 &\n\
             kernel=$!\n\
             ip netns exec b datagrams send 127.0.0.1:7001 {count} {interval} '{emulated}' >/tmp/emulated 2>&1\n\
             emulated=$?\n\
             wait $kernel && test $emulated = 0 || {{ tail -n 5 /tmp/kernel /tmp/emulated; exit 1; }}"
        );
        let machine = &mut self.rig.machine;
        machine.succeed(&script).unwrap();
        let texts = [
            machine.succeed("cat /tmp/kernel").unwrap(),
            machine.succeed("cat /tmp/emulated").unwrap(),
        ];
        let statistics = machine
            .succeed("ip netns exec a tc -s qdisc show dev va")
            .unwrap();
        let dropped = [
            number_after(&statistics, "(dropped "),
            number_before(&texts[1], " lost") + number_before(&texts[1], " overflowed"),
        ];
        let [kernel, emulated] = texts.each_ref().map(|text| datagrams(text));
        let results = [(kernel, dropped[0]), (emulated, dropped[1])];
        results.map(|(datagrams, dropped)| {
            let carried = Carried { datagrams, dropped };
            assert_eq!(carried.missing(count), dropped, "{statistics}{}", texts[1]);
            carried
        })
    }
}

/// The datagrams in the output of the program.
fn datagrams(text: &str) -> Vec<Datagram> {
    let lines = text.lines().filter(|line| !line.starts_with("link:"));
    lines
        .map(|line| {
            let values: Vec<u32> = line
                .split(' ')
                .map(|word| word.parse().unwrap_or_else(|_| panic!("{line}")))
                .collect();
            let [number, sent, returned] = values[..] else {
                panic!("{line}")
            };
            Datagram {
                number: number as usize,
                delay: f64::from(returned - sent) / 1000.0,
                returned: f64::from(returned) / 1000.0,
            }
        })
        .collect()
}

fn number_after(text: &str, before: &str) -> usize {
    let rest = text.split_once(before).map(|(_, rest)| rest);
    let digits = rest.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("no number after {before}: {text}"))
}

fn number_before(text: &str, after: &str) -> usize {
    let rest = text.rsplit_once(after).map(|(rest, _)| rest);
    let word = rest.and_then(|rest| rest.split_whitespace().last());
    word.and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("no number before {after}: {text}"))
}

impl Carried {
    /// Which of `count` datagrams have returned.
    fn has_returned(&self, count: usize) -> Vec<bool> {
        let mut returned = vec![false; count];
        for datagram in &self.datagrams {
            returned[datagram.number] = true;
        }
        returned
    }

    fn missing(&self, count: usize) -> usize {
        let returned = self.has_returned(count);
        returned.iter().filter(|returned| !**returned).count()
    }

    /// The number of datagrams that returned after a datagram sent later.
    fn overtaken(&self) -> usize {
        let mut newest = 0;
        let overtaken = self.datagrams.iter().filter(|datagram| {
            newest = newest.max(datagram.number);
            datagram.number < newest
        });
        overtaken.count()
    }

    /// The delays, in ascending order.
    fn delays(&self) -> Vec<f64> {
        let mut delays: Vec<f64> = self.datagrams.iter().map(|one| one.delay).collect();
        delays.sort_by(f64::total_cmp);
        delays
    }

    /// The median of the times between two returns, in milliseconds.
    fn spacing(&self) -> f64 {
        let pairs = self.datagrams.windows(2);
        let mut times: Vec<f64> = pairs
            .map(|pair| pair[1].returned - pair[0].returned)
            .collect();
        times.sort_by(f64::total_cmp);
        at_share(&times, 0.5).unwrap()
    }
}

/// Checks that the number of `hits` is plausible for independent trials with this probability.
#[track_caller]
fn expect_share(hits: usize, trials: usize, probability: f64) {
    let mean = trials as f64 * probability;
    let tolerance = DEVIATIONS * (mean * (1.0 - probability)).sqrt();
    assert!(
        (hits as f64 - mean).abs() <= tolerance,
        "{hits} of {trials}, not {mean:.0} ± {tolerance:.0}"
    );
}

/// Checks that two samples of independent delays have the same distribution: each quantile of one sample lies within
/// the range that random deviation permits for the other sample's quantile.
#[track_caller]
fn expect_same_delays(one: &[f64], other: &[f64]) {
    let sizes = 1.0 / one.len() as f64 + 1.0 / other.len() as f64;
    for share in [0.1_f64, 0.5, 0.9] {
        let deviation = DEVIATIONS * (share * (1.0 - share) * sizes).sqrt();
        let value = at_share(one, share).unwrap();
        let least = at_share(other, share - deviation).unwrap() - LATE;
        let most = at_share(other, share + deviation).unwrap() + LATE;
        assert!(
            (least..=most).contains(&value),
            "quantile {share}: {value} ms, not {least} to {most} ms"
        );
    }
}

#[test]
fn delays_and_losses_of_the_hop_are_those_of_netem() {
    let Some(mut links) = Links::start() else {
        return;
    };
    // netem varies the delay up and down, and the hop only increases it. The interval between datagrams equals the
    // largest difference of two delays, so that no datagram waits for an earlier one.
    let count = 400;
    let [kernel, hop] = links.carry(
        &["root netem limit 10000 delay 230ms 30ms loss 20%"],
        "delay=200ms jitter=60ms loss=20%",
        count,
        "60ms",
    );
    for carried in [&kernel, &hop] {
        expect_share(carried.dropped, count, 0.2);
        let delays = carried.delays();
        assert!(delays[0] >= 200.0, "{} ms", delays[0]);
    }
    expect_same_delays(&kernel.delays(), &hop.delays());
}

#[test]
fn jitter_of_the_hop_keeps_the_order_as_netem_with_a_rate() {
    let Some(mut links) = Links::start() else {
        return;
    };
    // With a rate, netem keeps the order. This rate has no other effect.
    let results = links.carry(
        &["root netem limit 10000 delay 150ms 100ms rate 1gbit"],
        "delay=50ms jitter=200ms",
        500,
        "10ms",
    );
    for carried in &results {
        assert_eq!((carried.dropped, carried.overtaken()), (0, 0));
        // A datagram waits for earlier ones, so the median is above the middle of the range, 150 ms. Simulated: 205 ms,
        // with a standard deviation of 3 ms.
        let median = at_share(&carried.delays(), 0.5).unwrap();
        assert!((190.0..=220.0 + LATE).contains(&median), "{median} ms");
    }
}

#[test]
fn late_datagrams_of_the_hop_are_overtaken_as_with_netem() {
    let Some(mut links) = Links::start() else {
        return;
    };
    // netem sends 75 % of the datagrams at once and delays the others.
    let count = 400;
    let results = links.carry(
        &["root netem limit 10000 delay 400ms reorder 75%"],
        "reorder=25% reorder-by=400ms",
        count,
        "10ms",
    );
    for carried in &results {
        assert_eq!(carried.dropped, 0);
        let delays = carried.delays();
        let late = delays.iter().filter(|delay| **delay >= 400.0).count();
        expect_share(late, count, 0.25);
        // No datagram follows the last ones, so nothing can overtake them.
        let overtaken = carried.overtaken();
        assert!(
            (late * 3 / 4..=late).contains(&overtaken),
            "{overtaken} of {late}"
        );
    }
}

#[test]
fn copies_and_bursts_of_losses_of_the_hop_are_those_of_netem() {
    let Some(mut links) = Links::start() else {
        return;
    };
    let count = 400;
    let results = links.carry(
        &["root netem limit 10000 delay 20ms duplicate 10%"],
        "delay=20ms duplicate=10%",
        count,
        "10ms",
    );
    for carried in &results {
        assert_eq!(carried.dropped, 0);
        expect_share(carried.datagrams.len() - count, count, 0.1);
    }
    // After a delivered datagram, a loss burst begins with a probability of 10 %. After a lost datagram, the burst ends
    // with a probability of 30 %.
    let count = 1000;
    let results = links.carry(
        &["root netem limit 10000 delay 20ms loss gemodel 10% 30%"],
        "delay=20ms burst-loss=10%,30%",
        count,
        "10ms",
    );
    for carried in &results {
        let returned = carried.has_returned(count);
        let pairs = |one: bool, next: bool| {
            let pairs = returned.windows(2);
            pairs.filter(|pair| **pair == [one, next]).count()
        };
        let (begins, stays) = (pairs(true, false), pairs(true, true));
        expect_share(begins, begins + stays, 0.1);
        let (ends, goes_on) = (pairs(false, true), pairs(false, false));
        expect_share(ends, ends + goes_on, 0.3);
    }
}

#[test]
fn a_short_queue_of_the_hop_drops_what_netem_drops() {
    let Some(mut links) = Links::start() else {
        return;
    };
    // Each queue holds ten frames of 1250 bytes. netem counts frames; the hop counts the bytes of the datagrams, 1208
    // for each datagram.
    let results = links.carry(
        &["root netem rate 20kbit limit 10"],
        "rate=19328 queue=12080",
        40,
        "0s",
    );
    for carried in &results {
        let numbers: Vec<usize> = carried.datagrams.iter().map(|one| one.number).collect();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        // Each frame takes 500 ms.
        let start = carried.datagrams[0].returned - carried.datagrams[0].delay;
        for (frames, datagram) in (1_u32..).zip(&carried.datagrams) {
            let late = datagram.returned - start - 500.0 * f64::from(frames);
            assert!((-1.0..200.0).contains(&late), "{late} ms: {carried:?}");
        }
    }
}

#[test]
fn a_full_bottleneck_of_the_hop_has_the_rate_of_cake() {
    let Some(mut links) = Links::start() else {
        return;
    };
    let cake = ["root cake bandwidth 1mbit besteffort raw"];
    let fq_codel = [
        "root handle 1: tbf rate 1mbit burst 2500 limit 125000",
        "parent 1:1 fq_codel limit 50",
    ];
    for kernel in [&cake[..], &fq_codel[..]] {
        // The programs send at twice the rate of the links, for 3 s.
        let results = links.carry(kernel, "rate=966400 queue=100ms", 600, "5ms");
        for carried in &results {
            assert!(carried.dropped > 0, "{kernel:?}");
            // A frame takes 10 ms.
            let spacing = carried.spacing();
            assert!((9.0..=11.0).contains(&spacing), "{kernel:?}: {spacing} ms");
        }
    }
}
