//! Releases keys and buttons held by XTEST on a display. They stay down if the program that pressed them is killed. The
//! XTEST devices belong to the server, one pair for all programs.
//!
//! Spec: X Input Extension 2.2 (`XIQueryDevice`, `QueryDeviceState`); the device names are those of
//! X.Org's server (`xtestdev.c`).

use x11rb::errors::ReplyError;
use x11rb::protocol::xinput::{ConnectionExt as _, Device, DeviceType, InputStateData};
use x11rb::protocol::xproto;
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use crate::display;
use crate::input_sink::InputError;

/// Releases every key and button that XTEST holds down on `display` (`None`: the environment variable DISPLAY). Returns
/// their number. Call this only after the program that pressed them has ended, because keys that other programs hold
/// through XTEST are released, too.
///
/// # Errors
/// [`InputError`] if the display can't be reached or lacks XInput 2 or XTEST.
pub fn release_held(display: Option<&str>) -> Result<usize, InputError> {
    let display = display.map_or_else(display::from_environment, str::to_owned);
    let (conn, _) = display::connect(&display).map_err(InputError)?;
    display::ignore_grabs(&conn)
        .map_err(ReplyError::from)
        .and_then(|()| release(&conn))
        .map_err(|e| InputError(format!("display {display}: can't release held keys: {e}")))
}

/// Like [`release_held`], over an existing connection.
pub(super) fn release(conn: &RustConnection) -> Result<usize, ReplyError> {
    conn.xinput_xi_query_version(2, 2)?.reply()?;
    let devices = conn.xinput_xi_query_device(Device::ALL)?.reply()?.infos;
    let mut released = 0;
    for device in devices {
        let slave = [DeviceType::SLAVE_KEYBOARD, DeviceType::SLAVE_POINTER];
        if !slave.contains(&device.type_) || !device.name.starts_with(b"Virtual core XTEST") {
            continue;
        }
        let Ok(id) = u8::try_from(device.deviceid) else {
            continue;
        };
        let state = conn.xinput_query_device_state(id)?.reply()?;
        for class in state.classes {
            let (kind, down) = match class.data {
                InputStateData::Key(state) => (xproto::KEY_RELEASE_EVENT, state.keys),
                InputStateData::Button(state) => (xproto::BUTTON_RELEASE_EVENT, state.buttons),
                _ => continue,
            };
            for number in 0..=u8::MAX {
                if down[usize::from(number / 8)] & 1 << (number % 8) != 0 {
                    let now = x11rb::CURRENT_TIME;
                    conn.xtest_fake_input(kind, number, now, x11rb::NONE, 0, 0, 0)?;
                    released += 1;
                }
            }
        }
    }
    x11rb::wrapper::ConnectionExt::sync(conn)?;
    Ok(released)
}
