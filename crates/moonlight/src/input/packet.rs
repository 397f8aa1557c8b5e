//! Input packets: length (4 bytes, big-endian), kind (4 bytes, little-endian), fields. Kinds, fields and their byte
//! orders are those of `Input.h` and `InputStream.c` of moonlight-common-c, for hosts of version 7.

/// Kinds.
const KEY_DOWN: u32 = 0x03;
const KEY_UP: u32 = 0x04;
const POINTER_ABSOLUTE: u32 = 0x05;
const POINTER_RELATIVE: u32 = 0x07;
const BUTTON_DOWN: u32 = 0x08;
const BUTTON_UP: u32 = 0x09;
const WHEEL: u32 = 0x0a;
const PAD: u32 = 0x0c;
const TEXT: u32 = 0x17;
const WHEEL_HORIZONTAL: u32 = 0x5500_0001;
const TOUCH: u32 = 0x5500_0002;
const PEN: u32 = 0x5500_0003;
const PAD_ARRIVED: u32 = 0x5500_0004;

/// Longest text of a packet.
const MAX_TEXT: usize = 32;

/// A packet.
#[derive(Clone, PartialEq, Debug)]
pub enum InputPacket {
    /// A key, by its virtual-key code of Windows.
    Key {
        /// The code.
        code: u8,
        /// Pressed or released.
        pressed: bool,
    },
    /// Characters from an on-screen keyboard.
    Text(String),
    /// The pointer moved to a position in a picture whose last pixel is `edge`.
    PointerAbsolute {
        /// Position from the left and the top.
        at: (u16, u16),
        /// The last position to the right and at the bottom.
        edge: (u16, u16),
    },
    /// The pointer moved.
    PointerRelative {
        /// To the right.
        dx: i16,
        /// Downwards.
        dy: i16,
    },
    /// A pointer button. The numbers from 1 on are left, middle, right, back, forward.
    Button {
        /// Its number.
        number: u8,
        /// Pressed or released.
        pressed: bool,
    },
    /// The wheel turned, in 1/120 of a notch.
    Wheel {
        /// To the right.
        dx: i16,
        /// Away from the user.
        dy: i16,
    },
    /// A finger or a pen.
    Touch {
        /// What it did.
        phase: TouchPhase,
        /// Number of the finger; a pen is 0.
        finger: u32,
        /// From the left and the top, 0 to 1.
        at: (f32, f32),
    },
    /// The state of a game pad.
    Pad {
        /// Its number.
        number: u16,
        /// Bit n: pad n is connected.
        connected: u16,
        /// Buttons.
        buttons: u32,
        /// Triggers, 0 to 255.
        triggers: [u8; 2],
        /// Left stick, then right stick: position to the right, then upwards.
        sticks: [i16; 4],
    },
    /// A game pad was connected.
    PadArrived {
        /// Its number.
        number: u8,
        /// Its kind: 1 Xbox, 2 PlayStation, 3 Nintendo.
        kind: u8,
        /// Bit 1: it can rumble.
        abilities: u16,
    },
}

/// What a finger or a pen did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TouchPhase {
    /// It moved above the surface.
    Hovered,
    /// It touched.
    Began,
    /// It moved on the surface.
    Moved,
    /// It left the surface.
    Ended,
    /// All fingers are gone.
    AllEnded,
}

/// The packet is invalid, or is of a kind that this host does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an input packet")]
pub struct InvalidInput;

/// Reads fields in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], InvalidInput> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(InvalidInput)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, InvalidInput> {
        self.take().map(|[byte]| byte)
    }

    fn big(&mut self) -> Result<i16, InvalidInput> {
        self.take().map(i16::from_be_bytes)
    }

    fn big_position(&mut self) -> Result<u16, InvalidInput> {
        // Signed in the protocol. Negative positions are outside the picture.
        Ok(self.big()?.max(0).unsigned_abs())
    }

    fn little(&mut self) -> Result<u16, InvalidInput> {
        self.take().map(u16::from_le_bytes)
    }

    fn signed_little(&mut self) -> Result<i16, InvalidInput> {
        self.take().map(i16::from_le_bytes)
    }

    fn float(&mut self) -> Result<f32, InvalidInput> {
        let value = f32::from_le_bytes(self.take()?);
        value.is_finite().then_some(value).ok_or(InvalidInput)
    }
}

impl InputPacket {
    /// Parses a packet.
    ///
    /// # Errors
    /// [`InvalidInput`] if the packet is invalid or of an unknown kind.
    pub fn parse(bytes: &[u8]) -> Result<InputPacket, InvalidInput> {
        let mut fields = Fields(bytes);
        let length = u32::from_be_bytes(fields.take()?);
        let length = usize::try_from(length).map_err(|_| InvalidInput)?;
        fields.0 = fields.0.get(..length).ok_or(InvalidInput)?;
        let kind = u32::from_le_bytes(fields.take()?);
        match kind {
            KEY_DOWN | KEY_UP => {
                let _flags = fields.byte()?;
                // The high byte is a mark that clients add.
                let [code, _] = fields.little()?.to_le_bytes();
                let pressed = kind == KEY_DOWN;
                Ok(InputPacket::Key { code, pressed })
            }
            TEXT => {
                let text = std::str::from_utf8(fields.0).map_err(|_| InvalidInput)?;
                let text = text.trim_end_matches('\0');
                let fits = text.len() <= MAX_TEXT;
                fits.then(|| InputPacket::Text(text.to_owned()))
                    .ok_or(InvalidInput)
            }
            POINTER_ABSOLUTE => {
                let at = (fields.big_position()?, fields.big_position()?);
                let _unused = fields.big()?;
                let edge = (fields.big_position()?, fields.big_position()?);
                Ok(InputPacket::PointerAbsolute { at, edge })
            }
            POINTER_RELATIVE => Ok(InputPacket::PointerRelative {
                dx: fields.big()?,
                dy: fields.big()?,
            }),
            BUTTON_DOWN | BUTTON_UP => Ok(InputPacket::Button {
                number: fields.byte()?,
                pressed: kind == BUTTON_DOWN,
            }),
            WHEEL => Ok(InputPacket::Wheel {
                dx: 0,
                dy: fields.big()?,
            }),
            WHEEL_HORIZONTAL => Ok(InputPacket::Wheel {
                dx: fields.big()?,
                dy: 0,
            }),
            TOUCH => touch(&mut fields),
            PEN => pen(&mut fields),
            PAD => pad(&mut fields),
            PAD_ARRIVED => Ok(InputPacket::PadArrived {
                number: fields.byte()?,
                kind: fields.byte()?,
                abilities: fields.little()?,
            }),
            _ => Err(InvalidInput),
        }
    }
}

fn touch(fields: &mut Fields<'_>) -> Result<InputPacket, InvalidInput> {
    let phase = phase(fields.byte()?)?;
    let _reserved = fields.byte()?;
    let _rotation = fields.little()?;
    let finger = u32::from_le_bytes(fields.take()?);
    let at = (fields.float()?, fields.float()?);
    Ok(InputPacket::Touch { phase, finger, at })
}

fn pen(fields: &mut Fields<'_>) -> Result<InputPacket, InvalidInput> {
    let phase = phase(fields.byte()?)?;
    // The tool, its buttons, and a reserved byte.
    let _tool: [u8; 3] = fields.take()?;
    let at = (fields.float()?, fields.float()?);
    Ok(InputPacket::Touch {
        phase,
        finger: 0,
        at,
    })
}

fn phase(number: u8) -> Result<TouchPhase, InvalidInput> {
    match number {
        0 => Ok(TouchPhase::Hovered),
        1 => Ok(TouchPhase::Began),
        3 => Ok(TouchPhase::Moved),
        // A cancelled touch counts as ended, because its button must not stay pressed.
        2 | 4 | 6 => Ok(TouchPhase::Ended),
        7 => Ok(TouchPhase::AllEnded),
        _ => Err(InvalidInput),
    }
}

fn pad(fields: &mut Fields<'_>) -> Result<InputPacket, InvalidInput> {
    let _header = fields.little()?;
    let number = fields.little()?;
    let connected = fields.little()?;
    let _middle = fields.little()?;
    let low = fields.little()?;
    let triggers = fields.take()?;
    let sticks = [
        fields.signed_little()?,
        fields.signed_little()?,
        fields.signed_little()?,
        fields.signed_little()?,
    ];
    let _tail = fields.little()?;
    // Buttons that only some pads have. Packets of older clients end here.
    let high = fields.little().unwrap_or(0);
    Ok(InputPacket::Pad {
        number,
        connected,
        buttons: u32::from(high) << 16 | u32::from(low),
        triggers,
        sticks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: u32, fields: &[u8]) -> Vec<u8> {
        let length = u32::try_from(4 + fields.len()).unwrap();
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(kind.to_le_bytes());
        bytes.extend_from_slice(fields);
        bytes
    }

    fn parsed(kind: u32, fields: &[u8]) -> InputPacket {
        InputPacket::parse(&packet(kind, fields)).unwrap()
    }

    #[test]
    fn keys_text_and_pointer_are_parsed() {
        let key = InputPacket::Key {
            code: 0x41,
            pressed: true,
        };
        assert_eq!(parsed(KEY_DOWN, &[0, 0x41, 0x80, 0, 0, 0]), key);
        let text = InputPacket::Text("né".to_owned());
        assert_eq!(parsed(TEXT, "né\0".as_bytes()), text);
        let absolute = InputPacket::PointerAbsolute {
            at: (0x102, 0),
            edge: (1279, 719),
        };
        let fields = [1, 2, 0xff, 0xff, 0, 0, 4, 0xff, 2, 0xcf];
        assert_eq!(parsed(POINTER_ABSOLUTE, &fields), absolute);
        let relative = InputPacket::PointerRelative { dx: -2, dy: 258 };
        assert_eq!(parsed(POINTER_RELATIVE, &[0xff, 0xfe, 1, 2]), relative);
        let wheel = InputPacket::Wheel { dx: 0, dy: 120 };
        assert_eq!(parsed(WHEEL, &[0, 120, 0, 120, 0, 0]), wheel);
    }

    #[test]
    fn touches_and_pads_are_parsed() {
        let mut fields = vec![1, 0, 0, 0, 9, 0, 0, 0];
        for value in [0.25_f32, 0.5, 1.0, 0.0, 0.0] {
            fields.extend(value.to_le_bytes());
        }
        let touch = InputPacket::Touch {
            phase: TouchPhase::Began,
            finger: 9,
            at: (0.25, 0.5),
        };
        assert_eq!(parsed(TOUCH, &fields), touch);
        fields[8..12].copy_from_slice(&f32::NAN.to_le_bytes());
        assert_eq!(
            InputPacket::parse(&packet(TOUCH, &fields)),
            Err(InvalidInput)
        );
        let mut fields = vec![0x1a, 0, 1, 0, 3, 0, 0x14, 0, 0x00, 0x10, 255, 7];
        for stick in [1_i16, -1, i16::MAX, i16::MIN] {
            fields.extend(stick.to_le_bytes());
        }
        fields.extend([0x9c, 0, 0x10, 0, 0x55, 0]);
        let pad = InputPacket::Pad {
            number: 1,
            connected: 3,
            buttons: 0x10_1000,
            triggers: [255, 7],
            sticks: [1, -1, i16::MAX, i16::MIN],
        };
        assert_eq!(parsed(PAD, &fields), pad);
    }

    #[test]
    fn truncated_and_unknown_packets_are_refused() {
        let whole = packet(POINTER_RELATIVE, &[0, 1, 0, 2]);
        for end in 0..whole.len() {
            assert_eq!(InputPacket::parse(&whole[..end]), Err(InvalidInput));
        }
        assert_eq!(InputPacket::parse(&packet(0x1234, &[])), Err(InvalidInput));
        let long = "a".repeat(MAX_TEXT + 1);
        let long = packet(TEXT, long.as_bytes());
        assert_eq!(InputPacket::parse(&long), Err(InvalidInput));
        assert_eq!(
            InputPacket::parse(&packet(TEXT, &[0xff])),
            Err(InvalidInput)
        );
    }
}
