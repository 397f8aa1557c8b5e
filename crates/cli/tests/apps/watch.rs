//! Records the input that arrives at a display.

use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xinput::{self, ConnectionExt as _, XIEventMask};
use x11rb::wrapper::ConnectionExt as _;

use crate::support::Display;
use crate::xtest::XTest;

/// Receives all keys, buttons and motion of a display.
pub(crate) struct Watch(XTest);

impl Watch {
    pub(crate) fn open(display: &Display) -> Watch {
        let xtest = XTest::open(display);
        let version = xtest.conn.xinput_xi_query_version(2, 2).expect("sent");
        version.reply().expect("XInput 2");
        let raw = xinput::EventMask {
            deviceid: u16::from(xinput::Device::ALL_MASTER),
            mask: vec![
                XIEventMask::RAW_MOTION
                    | XIEventMask::RAW_KEY_PRESS
                    | XIEventMask::RAW_BUTTON_PRESS,
            ],
        };
        xtest
            .conn
            .xinput_xi_select_events(xtest.root, &[raw])
            .expect("sent");
        xtest.conn.sync().expect("a running X server");
        Watch(xtest)
    }

    fn events(&self) -> Vec<Event> {
        std::iter::from_fn(|| self.0.conn.poll_for_event().expect("a running X server")).collect()
    }

    pub(crate) fn keys(&self) -> Vec<u32> {
        self.keys_and(&mut |_| ())
    }

    /// The keys that have been pressed since the last call. Each motion since then is passed to `moved`.
    pub(crate) fn keys_and(&self, moved: &mut dyn FnMut((i64, i64))) -> Vec<u32> {
        let mut keys = Vec::new();
        for event in self.events() {
            match event {
                Event::XinputRawKeyPress(event) => keys.push(event.detail),
                Event::XinputRawMotion(event) => moved(distance(&event)),
                _ => {}
            }
        }
        keys
    }

    pub(crate) fn buttons(&self) -> Vec<u32> {
        let pressed = |event| match event {
            Event::XinputRawButtonPress(event) => Some(event.detail),
            _ => None,
        };
        self.events().into_iter().filter_map(pressed).collect()
    }

    pub(crate) fn motion(&self) -> (i64, i64) {
        let mut sum = (0, 0);
        let _ = self.keys_and(&mut |(dx, dy)| sum = (sum.0 + dx, sum.1 + dy));
        sum
    }
}

fn distance(event: &xinput::RawMotionEvent) -> (i64, i64) {
    let mask = event.valuator_mask.first().copied().unwrap_or(0);
    let mut values = event.axisvalues_raw.iter().map(|v| i64::from(v.integral));
    let mut axis = |bit: u32| match mask & bit {
        0 => 0,
        _ => values.next().unwrap_or(0),
    };
    (axis(1), axis(2))
}
