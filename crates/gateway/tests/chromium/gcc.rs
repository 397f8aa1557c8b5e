//! A real browser with each congestion control. With GCC, the browser's transport-wide feedback raises the estimate,
//! and the pictures continue.

use std::time::Duration;

use openuvr_gateway::RateControl;
use openuvr_proto::control_event::{ControlEvent, RateChange};
use openuvr_proto::units::Bitrate;
use openuvr_runtime::host::Notice;

use super::support::{Rig, eventually};
use super::{BARCODE, SIZE, log_in, start};

/// The next rate that the host has set from an estimate.
fn estimate(rig: &Rig) -> Option<Bitrate> {
    let mut notices = std::iter::from_fn(|| rig.notices.next(Duration::ZERO));
    notices.find_map(|notice| match notice {
        Notice::ControlEvent {
            event: ControlEvent::Rate(RateChange::Estimate { to }),
            ..
        } => Some(to),
        _ => None,
    })
}

#[test]
fn chromium_feeds_gcc() {
    let (start_rate, max) = (Bitrate::from_mbps(2), Bitrate::from_mbps(12));
    let gcc = RateControl::Gcc {
        start: start_rate,
        max,
    };
    let rig = Rig::controlled("gcc", SIZE, gcc, |config| config.bitrate = Some(max));
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    browser.run(&tab, BARCODE);
    eventually("an estimate above the initial one", || {
        estimate(&rig).filter(|rate| *rate > start_rate)
    });
    let mut last = 0;
    for _ in 0..10 {
        browser.until(&tab, &format!("(readBarcode() ?? 0) > {last}"));
        last = browser.run(&tab, "readBarcode()").as_u64().unwrap_or(last);
    }
}

#[test]
fn chromium_without_gcc_causes_no_estimates() {
    let rig = Rig::new("no-gcc", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    browser.run(&tab, BARCODE);
    browser.until(&tab, "(readBarcode() ?? 0) > 120");
    assert_eq!(estimate(&rig), None);
}
