"""The client (the paper's MUD): receives pictures, sends input."""

import dataclasses
import threading

from ._context import Context
from ._library import MudState, Surface, ffi, lib, plain, structure

# Longest wait for a picture in one call, in milliseconds. If another thread is in this call, `close` waits until the
# call returns.
_WAIT = 100


@dataclasses.dataclass(frozen=True)
class Frame:
    """A received picture. `pixels` has rows x columns x 4 bytes: blue, green, red, unused."""

    id: int
    width: int
    height: int
    pixels: memoryview


class Client(Context):
    """Receives the stream of a host.

    `settings` are the fields of `struct openuvr_mud_config`, by name: `Client(host="localhost",
    pin="123456")`. `frame` returns the pictures, unless
    `surface=Surface.WINDOW` shows them in a window.
    """

    _config = "openuvr_mud_config"
    _defaults = "openuvr_mud_config_default"
    _open = "openuvr_open_mud"
    _start = "openuvr_init_mud_thread"
    _close = "openuvr_close_mud"
    _message = "openuvr_mud_last_error"
    _statistics = "openuvr_mud_statistics"

    def __init__(self, log=None, **settings):
        # The library lends a picture until the next call.
        self._lent = threading.Lock()
        super().__init__(log, **{"surface": Surface.APPLICATION, **settings})

    def frame(self, timeout=1.0):
        """Returns the newest picture not yet returned. Waits at most `timeout` seconds, then returns None.

        The picture is a copy, which later calls do not change. Raises `Error` when the stream has ended, or when
        another thread closes the client.
        """
        picture = structure("openuvr_picture")
        left = int(timeout * 1000)
        while True:
            wait = min(left, _WAIT)
            with self._lent, self._opened():
                if self._call(lib.openuvr_next_frame, picture, wait) == 1:
                    shape = [picture.height, picture.width, 4]
                    pixels = bytes(ffi.buffer(picture.data, shape[0] * shape[1] * 4))
                    break
            left -= wait
            if left <= 0:
                return None
        view = memoryview(pixels).cast("B", shape)
        return Frame(picture.id, picture.width, picture.height, view)

    def send_input(self, kind, *, code=0, value=0, x=0, y=0, text=""):
        """Sends an input event; the fields are those of `struct openuvr_input`."""
        event = structure("openuvr_input")
        event.kind, event.code, event.value, event.x, event.y = kind, code, value, x, y
        event.text = ord(text) if text else 0
        self._call(lib.openuvr_send_input, event)

    def send_pose(self, position, orientation, *, linear=None, angular=None):
        """Sends the head pose: metres; a quaternion (x, y, z, w); velocities in metres and radians per second."""
        pose = structure("openuvr_pose")
        pose.position, pose.orientation = list(position), list(orientation)
        if linear is not None:
            pose.has_linear, pose.linear = 1, list(linear)
        if angular is not None:
            pose.has_angular, pose.angular = 1, list(angular)
        return self._call(lib.openuvr_send_pose, pose)

    def send_controllers(self, left=None, right=None):
        """Sends the controllers, each a dictionary of `struct openuvr_controller` (defaults 0) or None if absent."""
        held = structure("openuvr_controllers")
        for hand, controller in enumerate((left, right)):
            if controller is not None:
                held.held |= 1 << hand
                held.hands[hand] = controller
        return self._call(lib.openuvr_send_controllers, held)

    def haptics(self):
        """Yields the pending vibrations, oldest first: the fields of `struct openuvr_haptic`."""
        haptic = structure("openuvr_haptic")
        while self._call(lib.openuvr_next_haptic, haptic) == 1:
            yield plain(haptic)

    @property
    def state(self):
        """The state of the connection, a `MudState`."""
        return MudState(self.statistics()["state"])
