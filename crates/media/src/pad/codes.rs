//! Codes of `linux/input-event-codes.h` that game pads use, with the names used there.
#![allow(missing_docs, reason = "the names of the kernel's header")]

pub const EV_SYN: u16 = 0x00;
pub const EV_KEY: u16 = 0x01;
pub const EV_ABS: u16 = 0x03;
pub const EV_FF: u16 = 0x15;

/// For each kind of code, one more than the highest code.
pub const EV_CNT: usize = 0x20;
pub const KEY_CNT: usize = 0x300;
pub const ABS_CNT: usize = 0x40;
pub const FF_CNT: usize = 0x80;

pub const BTN_JOYSTICK: u16 = 0x120;
/// Also named `BTN_GAMEPAD` and `BTN_A`.
pub const BTN_SOUTH: u16 = 0x130;
/// Also named `BTN_B`.
pub const BTN_EAST: u16 = 0x131;
/// Also named `BTN_X`, which on pads like Microsoft's is the west button.
pub const BTN_NORTH: u16 = 0x133;
/// Also named `BTN_Y`, which on pads like Microsoft's is the north button.
pub const BTN_WEST: u16 = 0x134;
pub const BTN_TL: u16 = 0x136;
pub const BTN_TR: u16 = 0x137;
pub const BTN_TL2: u16 = 0x138;
pub const BTN_TR2: u16 = 0x139;
pub const BTN_SELECT: u16 = 0x13a;
pub const BTN_START: u16 = 0x13b;
pub const BTN_MODE: u16 = 0x13c;
pub const BTN_THUMBL: u16 = 0x13d;
pub const BTN_THUMBR: u16 = 0x13e;
pub const BTN_DPAD_UP: u16 = 0x220;
pub const BTN_DPAD_DOWN: u16 = 0x221;
pub const BTN_DPAD_LEFT: u16 = 0x222;
pub const BTN_DPAD_RIGHT: u16 = 0x223;

pub const ABS_X: u16 = 0x00;
pub const ABS_Y: u16 = 0x01;
pub const ABS_Z: u16 = 0x02;
pub const ABS_RX: u16 = 0x03;
pub const ABS_RY: u16 = 0x04;
pub const ABS_RZ: u16 = 0x05;
pub const ABS_GAS: u16 = 0x09;
pub const ABS_BRAKE: u16 = 0x0a;
pub const ABS_HAT0X: u16 = 0x10;
pub const ABS_HAT0Y: u16 = 0x11;
pub const ABS_HAT2X: u16 = 0x14;
pub const ABS_HAT2Y: u16 = 0x15;
pub const ABS_HAT3Y: u16 = 0x17;

pub const FF_RUMBLE: u16 = 0x50;
pub const FF_GAIN: u16 = 0x60;

pub const BUS_USB: u16 = 0x03;
