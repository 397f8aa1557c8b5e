"""The host: sends pictures, receives input."""

import dataclasses

from ._context import Context
from ._library import InputKind, LogLevel, PixelFormat, ffi, lib, plain, structure, text_of

# The default format of a picture by its bytes per pixel: the formats of numpy, PIL and imageio.
_DEFAULT_FORMATS = {3: PixelFormat.RGB, 4: PixelFormat.RGBX}


@dataclasses.dataclass(frozen=True)
class Input:
    """An input event; `struct openuvr_input` in `openuvr.h` describes each field."""

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
    pin="123456", bind="[::]:4710")`. `log(level, text)` is called for each log line, on a
    thread of the library or on the calling thread. Without `log`, nothing is printed, not even the PIN (see `pin`).

    Raises `Error` if the settings are not supported on this machine.
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

        `format` is a `PixelFormat`; the default is RGB or RGBX. The pixels of a row must be contiguous;
        rows may have gaps between them (a part of a larger array). With `wait` it returns when the
        picture is encoded and sent, else when it is copied. Returns whether the picture was
        accepted. Raises `Error` if the stream has ended or `wait` times out, `ValueError` if `picture`
        is not a picture.
        """
        address, (height, width, channels), stride = _memory(picture)
        frame = structure("openuvr_picture")
        frame.width, frame.height, frame.stride = width, height, stride
        frame.format = _DEFAULT_FORMATS[channels] if format is None else format
        frame.data = address
        frame.bottom_up = bottom_up
        return self._call(lib.openuvr_send_picture, frame, wait) == 1

    def wants(self):
        """Returns whether a picture is needed now. If so, the host accepts the next picture, whenever it is sent.

        With this check, a program does not read back pictures that the host would refuse. `send` makes the same check.
        """
        return self._call(lib.openuvr_wants) == 1

    def set_feature(self, feature, value):
        """Changes a `Feature` while the host streams: `Feature.GOP` in frames (0: key frames only on request), or
        `Feature.BITRATE` in kbit/s. The change applies from the next picture.

        Raises `Error` for a value out of its range, and for a feature that cannot change while the host streams.
        """
        self._call(lib.openuvr_set_feature, feature, value)

    def begin_frame(self):
        """Marks the start of drawing: the next picture reflects the input retrieved so far."""
        self._call(lib.openuvr_begin_frame)

    def inputs(self):
        """Yields the pending input events, oldest first."""
        event = structure("openuvr_input")
        while self._call(lib.openuvr_next_input, event) == 1:
            fields = plain(event)
            text = fields.pop("text")
            kind = InputKind(fields.pop("kind"))
            yield Input(kind=kind, text=chr(text) if text else "", **fields)

    def pose(self):
        """Returns the last pose of the player's head, as the fields of `struct openuvr_pose`; None if unknown."""
        pose = structure("openuvr_pose")
        if self._call(lib.openuvr_last_pose, pose) == 0:
            return None
        fields = plain(pose)
        for name in ("position", "orientation", "linear", "angular"):
            fields[name] = tuple(fields[name])
        return fields

    def controllers(self):
        """Returns the player's controllers, a dictionary each for the left and the right hand; None if unknown.

        A hand without a controller is None; `grip` and `aim` are None while they are not tracked.
        """
        held = structure("openuvr_controllers")
        if self._call(lib.openuvr_last_controllers, held) == 0:
            return None
        return tuple(
            _controller(held.hands[hand]) if held.held & 1 << hand else None for hand in (0, 1)
        )

    def send_haptic(self, hand, amplitude, *, frequency=0, seconds=0.0):
        """Vibrates a controller of the player (hand 0 left, 1 right): amplitude 0 to 1, frequency in Hz."""
        haptic = structure("openuvr_haptic")
        haptic.hand, haptic.amplitude, haptic.frequency = hand, amplitude, frequency
        haptic.duration_ns = round(seconds * 1e9)
        self._call(lib.openuvr_send_haptic, haptic)

    def set_pointer(self, *, relative=False, visible=True):
        """Sets the mouse mode of the clients. With `relative`, they hide their pointer and send `MOTION` events;
        otherwise, `visible` states whether they show their pointer.
        """
        pointer = structure("openuvr_pointer")
        pointer.relative, pointer.visible = relative, visible and not relative
        self._call(lib.openuvr_set_pointer, pointer)

    def log_lines(self):
        """Yields the level and the text of each pending log line, oldest first.

        Raises `Error` if the host was created with the argument `log`.
        """
        level, buffer = ffi.new("uint32_t *"), ffi.new("char[]", 1024)
        while self._call(lib.openuvr_next_log, level, buffer, 1024) == 1:
            yield LogLevel(level[0]), text_of(buffer)

    @property
    def pin(self):
        """The PIN of the pairing that was open at the start; empty if pairing was closed then."""
        return self._text(lib.openuvr_pin)

    @property
    def place(self):
        """The address and the transport of this host, as text."""
        return self._text(lib.openuvr_listen_address)

    def open_pairing(self, pin, seconds=120):
        """Opens pairing for new devices with `pin`, 4 to 12 digits, for `seconds`."""
        self._call(lib.openuvr_open_pairing, pin.encode(), seconds)


def _controller(state):
    """Returns the fields of one controller."""
    fields = {name: getattr(state, name) for name in ("buttons", "trigger", "squeeze")}
    fields["thumbstick"] = tuple(state.thumbstick)
    for name in ("grip", "aim"):
        pose = getattr(state, name)
        fields[name] = {"position": tuple(pose.position), "orientation": tuple(pose.orientation)}
        for velocity in ("linear", "angular"):
            known = getattr(pose, f"has_{velocity}")
            fields[name][velocity] = tuple(getattr(pose, velocity)) if known else None
        if not pose.tracked:
            fields[name] = None
    return fields


def _memory(picture):
    """Returns the address of the picture, its shape, and its stride in bytes."""
    view = memoryview(picture)
    if view.ndim != 3 or view.itemsize != 1 or view.shape[2] not in _DEFAULT_FORMATS:
        raise ValueError(
            "a picture must be rows x columns x 3 or 4 bytes (uint8), not "
            f"{' x '.join(map(str, view.shape))} of format {view.format!r}"
        )
    channels = view.shape[2]
    if view.strides[2] != 1 or view.strides[1] != channels or view.strides[0] < 0:
        raise ValueError("the pixels of a row must be contiguous: use numpy.ascontiguousarray")
    if view.strides[0] < view.shape[1] * channels and view.shape[0] > 1:
        raise ValueError("the rows overlap in memory: use numpy.ascontiguousarray")
    if view.c_contiguous:
        return ffi.from_buffer(view), view.shape, view.strides[0]
    try:
        address = picture.__array_interface__["data"][0]
    except AttributeError:
        raise ValueError("rows with gaps between them require a numpy array") from None
    return ffi.cast("void *", address), view.shape, view.strides[0]
