//! Congestion control of a browser's connection by Google Congestion Control.

use std::time::Duration;

use openuvr_gateway::RateControl;
use openuvr_proto::control_event::{ControlEvent, RateChange};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_runtime::host::Notice;

use super::caller::Caller;
use super::remote::Remote;
use super::support::Rig;

const SIZE: Size = Size::new(640, 384);

/// The rates that the host has set from estimates since the last call.
fn estimates(rig: &Rig) -> Vec<Bitrate> {
    let notices = std::iter::from_fn(|| rig.notices.next(Duration::ZERO));
    let rates = notices.filter_map(|notice| match notice {
        Notice::ControlEvent {
            event: ControlEvent::Rate(RateChange::Estimate { to }),
            ..
        } => Some(to),
        _ => None,
    });
    rates.collect()
}

fn metrics(caller: &Caller) -> String {
    caller.request("GET /metrics", &[], "").body
}

#[test]
fn the_estimates_of_gcc_limit_the_rate() {
    let (start, max) = (Bitrate::from_mbps(3), Bitrate::from_mbps(12));
    let rig = Rig::controlled("gcc", SIZE, RateControl::Gcc { start, max }, |config| {
        config.bitrate = Some(max);
    });
    let caller = Caller::known(&rig);
    let mut remote = Remote::connected(&caller, "");
    let mut rates = Vec::new();
    // The link has spare capacity, so feedback raises the estimate.
    remote.wait("an estimate above the initial one", |_| {
        rates.extend(estimates(&rig));
        rates.iter().any(|rate| *rate > start).then_some(())
    });
    assert!(rates.iter().all(|rate| *rate <= max), "{rates:?}");
    let metrics = metrics(&caller);
    let controller = "openuvr_web_rate_control{controller=\"gcc\"} 1";
    assert!(metrics.lines().any(|line| line == controller), "{metrics}");
    let estimate = "openuvr_web_estimate_bits_per_second ";
    assert!(metrics.lines().any(|line| line.starts_with(estimate)));
}

#[test]
fn without_gcc_there_are_no_estimates() {
    let rig = Rig::new("no-gcc", SIZE);
    let caller = Caller::known(&rig);
    let mut remote = Remote::connected(&caller, "");
    let mut packets = 0;
    remote.wait("packets", |_| {
        packets += 1;
        (packets == 300).then_some(())
    });
    assert_eq!(estimates(&rig), []);
    let metrics = metrics(&caller);
    let controller = "openuvr_web_rate_control{controller=\"reports\"} 1";
    assert!(metrics.lines().any(|line| line == controller), "{metrics}");
    assert!(!metrics.contains("openuvr_web_estimate_bits_per_second"));
}
