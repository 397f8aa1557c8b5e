"""The host: gives pictures, takes input."""

import dataclasses

from ._context import Context
from ._library import InputKind, PixelFormat, ffi, lib, plain, structure

# The format of a picture by its bytes a pixel, unless told otherwise: as numpy, PIL and imageio
# have it.
_USUAL = {3: PixelFormat.RGB, 4: PixelFormat.RGBX}


@dataclasses.dataclass(frozen=True)
class Input:
    """Something that a person did: `struct openuvr_input`, where each field is explained."""

    kind: InputKind
    code: int
    value: int
    x: int
    y: int
    text: str
    device: int
    session: int
    received_ns: int


class Host(Context):
    """Streams pictures to clients.

    `settings` are the fields of `struct openuvr_config`, by name: `Host(width=640, height=480,
    pin="123456", bind="[::]:4710")`. `log(level, text)` is told what happens, on a thread of the
    library; without it nothing is printed, also not the PIN: see `pin`.

    Raises `Error` if this machine can't do what the settings ask for.
    """

    _config = "openuvr_config"
    _defaults = "openuvr_config_default"
    _open = "openuvr_open"
    _start = "openuvr_init_thread"
    _close = "openuvr_close"
    _message = "openuvr_last_error"
    _statistics = "openuvr_statistics"

    def send(self, picture, *, format=None, bottom_up=False, wait=False):
        """Sends a picture: rows x columns x 3 or 4 bytes (`uint8`), such as a numpy array.

        `format` is a `PixelFormat`; RGB or RGBX unless given. The pixels of a row must follow each
        other; rows may have gaps between them (a part of a larger array). With `wait` it returns
        when the picture is encoded and sent, else when it is copied. Returns whether somebody wanted
        it. Raises `Error` if the stream has ended, `ValueError` if it is no picture.
        """
        address, (height, width, channels), stride = _memory(picture)
        given = structure("openuvr_picture")
        given.width, given.height, given.stride = width, height, stride
        given.format = _USUAL[channels] if format is None else format
        given.data = address
        given.bottom_up = bottom_up
        return self._call(lib.openuvr_send_picture, given, wait) == 1

    def begin_frame(self):
        """Drawing begins: the input that was taken until now is in the next picture."""
        self._call(lib.openuvr_begin_frame)

    def inputs(self):
        """The input that was not taken yet, oldest first."""
        event = structure("openuvr_input")
        while self._call(lib.openuvr_next_input, event) == 1:
            fields = plain(event)
            text = fields.pop("text")
            kind = InputKind(fields.pop("kind"))
            yield Input(kind=kind, text=chr(text) if text else "", **fields)

    def pose(self):
        """Where the player's head was last, the fields of `struct openuvr_pose`; None if unknown."""
        pose = structure("openuvr_pose")
        if self._call(lib.openuvr_last_pose, pose) == 0:
            return None
        fields = plain(pose)
        for name in ("position", "orientation", "linear", "angular"):
            fields[name] = tuple(fields[name])
        return fields

    def controllers(self):
        """What the player holds, a dictionary for the left and one for the right hand; None if unknown.

        A hand's is None where it holds nothing; `grip` and `aim` in it are None where they are not tracked.
        """
        held = structure("openuvr_controllers")
        if self._call(lib.openuvr_last_controllers, held) == 0:
            return None
        return tuple(
            _controller(held.hands[hand]) if held.held & 1 << hand else None for hand in (0, 1)
        )

    def send_haptic(self, hand, amplitude, *, frequency=0, seconds=0.0):
        """Lets a hand of the player's (0 left, 1 right) feel something: 0 to 1, in Hz, for so long."""
        haptic = structure("openuvr_haptic")
        haptic.hand, haptic.amplitude, haptic.frequency = hand, amplitude, frequency
        haptic.duration_ns = round(seconds * 1e9)
        self._call(lib.openuvr_send_haptic, haptic)

    @property
    def pin(self):
        """The PIN with which a new device may pair; empty if none may."""
        return self._text(lib.openuvr_pin)

    @property
    def place(self):
        """Where clients reach this host, in words."""
        return self._text(lib.openuvr_listen_address)

    def open_pairing(self, pin, seconds=120):
        """Lets in a new device that knows `pin`, 4 to 12 digits."""
        self._call(lib.openuvr_open_pairing, pin.encode(), seconds)


def _controller(state):
    """One controller's fields."""
    fields = {name: getattr(state, name) for name in ("buttons", "trigger", "squeeze")}
    fields["thumbstick"] = tuple(state.thumbstick)
    for name in ("grip", "aim"):
        placed = getattr(state, name)
        fields[name] = {"position": tuple(placed.position), "orientation": tuple(placed.orientation)}
        for velocity in ("linear", "angular"):
            known = getattr(placed, f"has_{velocity}")
            fields[name][velocity] = tuple(getattr(placed, velocity)) if known else None
        if not placed.tracked:
            fields[name] = None
    return fields


def _memory(picture):
    """Where the picture lies: its address, its shape, and the bytes from row to row."""
    view = memoryview(picture)
    if view.ndim != 3 or view.itemsize != 1 or view.shape[2] not in _USUAL:
        raise ValueError(
            "a picture is rows x columns x 3 or 4 bytes (uint8); this one is "
            f"{' x '.join(map(str, view.shape))} of format {view.format!r}"
        )
    channels = view.shape[2]
    if view.strides[2] != 1 or view.strides[1] != channels or view.strides[0] < 0:
        raise ValueError("a row's pixels must follow each other: numpy.ascontiguousarray makes it so")
    if view.c_contiguous:
        return ffi.from_buffer(view), view.shape, view.strides[0]
    try:
        address = picture.__array_interface__["data"][0]
    except AttributeError:
        raise ValueError("rows with gaps between them are taken from numpy arrays only") from None
    return ffi.cast("void *", address), view.shape, view.strides[0]
