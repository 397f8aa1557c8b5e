"""Streams a Panda3D application to a thin client, and receives its input.

    from openuvr.panda3d import Stream

    Stream(base)                        # after ShowBase()

The player's keys and mouse reach the application like those of the window: as events ("space", "mouse1-up",
"wheel_up"), through `base.mouseWatcherNode`, and in DirectGUI. With a window, local input works at the same time.
Without a window (`window-type offscreen`), the stream creates `base.mouseWatcherNode` and `base.buttonThrowers`;
typed text then reaches only the keystroke event of the first button thrower.

Each frame states which input it shows: the input that Panda3D has distributed before it draws the frame.

Limits: the scene must be drawn in the main thread (the default of `threading-model`). On X11, `win.getPointer`
returns the local pointer: use `base.mouseWatcherNode`. Letters follow the player's keyboard layout; all other keys
have the names of the keys at the same positions on a US keyboard. Tested with Panda3D 1.10.16.
"""

from direct.directnotify.DirectNotifyGlobal import directNotify
from panda3d.core import (
    ButtonRegistry,
    ButtonThrower,
    GraphicsOutput,
    GraphicsWindow,
    KeyboardButton,
    ModifierButtons,
    MouseWatcher,
    PGMouseWatcherBackground,
    Point3,
    Quat,
    Texture,
    VirtualMouse,
    WindowProperties,
)

from ._context import Error
from ._host import Host
from ._library import ErrorCode, InputKind, LogLevel, PixelFormat, key_of

# The sort values of the plug-in's tasks. In each frame, Panda3D distributes input at -50 (dataLoop), calls handlers of
# events at 0 (eventManager), and draws at 50 (igLoop).
_RECEIVE, _BEGIN, _SEND = -60, 49, 51

# The formats of textures by their number of components. Panda3D stores blue first.
_FORMATS = {3: PixelFormat.BGR, 4: PixelFormat.BGRX}

# Panda3D's names for mouse buttons and for keys that are not named after the character that they type, by the names in
# linux/input-event-codes.h.
_NAMED = {
    "KEY_BACKSPACE": "backspace",
    "KEY_CAPSLOCK": "caps_lock",
    "KEY_COMPOSE": "menu",
    "KEY_DELETE": "delete",
    "KEY_DOWN": "arrow_down",
    "KEY_END": "end",
    "KEY_ENTER": "enter",
    "KEY_ESC": "escape",
    "KEY_HELP": "help",
    "KEY_HOME": "home",
    "KEY_INSERT": "insert",
    "KEY_KPENTER": "enter",
    "KEY_LEFT": "arrow_left",
    "KEY_LEFTALT": "lalt",
    "KEY_LEFTCTRL": "lcontrol",
    "KEY_LEFTMETA": "lmeta",
    "KEY_LEFTSHIFT": "lshift",
    "KEY_NUMLOCK": "num_lock",
    "KEY_PAGEDOWN": "page_down",
    "KEY_PAGEUP": "page_up",
    "KEY_PAUSE": "pause",
    "KEY_RIGHT": "arrow_right",
    "KEY_RIGHTALT": "ralt",
    "KEY_RIGHTCTRL": "rcontrol",
    "KEY_RIGHTMETA": "rmeta",
    "KEY_RIGHTSHIFT": "rshift",
    "KEY_SCROLLLOCK": "scroll_lock",
    "KEY_SPACE": "space",
    "KEY_SYSRQ": "print_screen",
    "KEY_TAB": "tab",
    "KEY_UP": "arrow_up",
    **{f"KEY_F{number}": f"f{number}" for number in range(1, 17)},
    "BTN_LEFT": "mouse1",
    "BTN_MIDDLE": "mouse2",
    "BTN_RIGHT": "mouse3",
    "BTN_SIDE": "mouse4",
    "BTN_EXTRA": "mouse5",
}

# A window reports each of these keys under two names: with its side, such as `lshift`, and without it.
_WITHOUT_SIDE = {
    f"{side}{name}": name for side in "lr" for name in ("alt", "control", "meta", "shift")
}

_NOTCH = 120


class Stream:
    """Streams the pictures of `output`, by default `base.win`, from the next frame on.

    `head`, such as `base.camera`, is a node that follows the head of a player with a headset: 1 unit is 1 m, and the
    node's parent is the room. `settings` are those of `Host`. The log, with the address and the PIN, goes to the
    notify category `openuvr`, unless `settings` contain `log`. When the stream ends, the application continues; `end`
    is then the reason.
    """

    def __init__(self, base, *, output=None, head=None, **settings):
        self._notify = directNotify.newCategory("openuvr")
        # Panda3D shows only warnings by default. The address and the PIN are information.
        self._notify.setInfo(True)
        self._output = base.win if output is None else output
        if self._output is None:
            raise ValueError("there is nothing to stream: open a window or an offscreen buffer first")
        if not base.graphicsEngine.getThreadingModel().isSingleThreaded():
            raise ValueError("the stream requires drawing in the main thread: leave threading-model empty")
        size = {"width": self._output.getXSize(), "height": self._output.getYSize()}
        #: The `Host`, for its statistics and other methods.
        self.host = Host(**{**size, **settings})
        self._has_callback = "log" in settings
        #: Why the stream has ended; None while it runs.
        self.end = None
        self._head = head
        self._texture = Texture("openuvr")
        self._output.addRenderTexture(self._texture, GraphicsOutput.RTM_triggered_copy_ram)
        # The requested copy of a picture; None if no copy was requested since the last picture was sent.
        self._copy = None
        self._relative = False
        window = isinstance(self._output, GraphicsWindow) and self._output.getNumInputDevices() > 0
        devices = _Window(self._output) if window else _NoWindow(base, self._output)
        self._player = _Player(devices)
        self._tasks = [
            base.taskMgr.add(self._receive, "openuvr-receive", sort=_RECEIVE),
            base.taskMgr.add(self._begin, "openuvr-begin", sort=_BEGIN),
            base.taskMgr.add(self._send, "openuvr-send", sort=_SEND),
        ]
        self._show_log()

    def close(self):
        """Ends the stream. A second call does nothing."""
        if self.end is None:
            self._ended("closed by the application")

    def _ended(self, why):
        self.end = why
        self._player.release_all()
        for task in self._tasks:
            task.remove()
        self.host.close()

    def _guarded(self, step, task):
        """Ends the stream, but not the application, if `step` fails."""
        try:
            step()
        except Error as error:
            self._notify.warning(f"the stream has ended: {error}")
            self._ended(str(error))
            return task.done
        return task.cont

    def _receive(self, task):
        return self._guarded(self._take_input, task)

    def _take_input(self):
        self._show_log()
        size = self._output.getXSize(), self._output.getYSize()
        for event in self.host.inputs():
            self._player.take(event, size)

    def _begin(self, task):
        return self._guarded(self._begin_frame, task)

    def _begin_frame(self):
        pose = None if self._head is None else self.host.pose()
        if pose is not None:
            self._head.setPosQuat(*_placed(pose["position"], pose["orientation"]))
        relative = self._player.is_relative()
        if relative != self._relative:
            self._relative = relative
            self.host.set_pointer(relative=relative)
        self.host.begin_frame()
        if self._copy is None and self.host.wants():
            self._copy = self._output.triggerCopy()

    def _send(self, task):
        return self._guarded(self._send_picture, task)

    def _send_picture(self):
        # No copy is requested if the host needs no picture. While the window is not visible, Panda3D does not draw it,
        # so a requested copy is not done.
        if self._copy is None or not self._copy.done():
            return
        self._copy = None
        texture = self._texture
        if not texture.hasRamImage():
            return
        channels = texture.getNumComponents()
        if texture.getComponentWidth() != 1 or channels not in _FORMATS:
            why = "the framebuffer must have 8 bits per component: see FrameBufferProperties"
            raise Error(ErrorCode.ERROR_ARGUMENT, why)
        rows = [texture.getYSize(), texture.getXSize(), channels]
        # A view of Panda3D's own memory. `send` copies the picture before Panda3D writes the next one.
        picture = memoryview(texture.getRamImage()).cast("B", rows)
        self.host.send(picture, format=_FORMATS[channels], bottom_up=True)

    def _show_log(self):
        if self._has_callback:
            return
        for level, text in self.host.log_lines():
            if level <= LogLevel.WARNING:
                self._notify.warning(text)
            elif level == LogLevel.INFO:
                self._notify.info(text)
            else:
                self._notify.debug(text)


class _Player:
    """Converts the player's events to those of Panda3D."""

    def __init__(self, devices):
        self._devices = devices
        # The names of the pressed keys and buttons by their codes.
        self._pressed = {}
        self._x = self._y = 0
        # Rotation of the wheel since its last whole notch, in 1/120 of a notch: horizontal, vertical.
        self._wheel = [0, 0]

    def take(self, event, size):
        """Passes an event on; `size` is that of the picture in pixels."""
        if event.kind == InputKind.KEY and event.value == 1:
            # As on X11, the text precedes the press of its key.
            if event.text:
                self._devices.type_text(event.text)
            self._press(event.code, _name_of(event.code, event.text))
        elif event.kind == InputKind.BUTTON and event.value == 1:
            self._press(event.code, _name_of(event.code, ""))
        elif event.kind in (InputKind.KEY, InputKind.BUTTON):
            self._release(event.code)
        elif event.kind == InputKind.POINTER:
            self._x, self._y = (at * (side - 1) / 65535 for at, side in zip((event.x, event.y), size))
            self._devices.point(self._x, self._y)
        elif event.kind == InputKind.MOTION:
            self._x, self._y = self._x + event.x, self._y + event.y
            self._devices.point(self._x, self._y)
        elif event.kind == InputKind.WHEEL:
            self._turn(0, event.x, "wheel_right", "wheel_left")
            self._turn(1, event.y, "wheel_up", "wheel_down")
        elif event.kind == InputKind.RELEASE_ALL:
            self.release_all()

    def release_all(self):
        for code in list(self._pressed):
            self._release(code)

    def is_relative(self):
        """Whether the application reads the motion of the mouse, not its position."""
        return self._devices.is_relative()

    def _press(self, code, name):
        if name is None or code in self._pressed:
            return
        self._pressed[code] = name
        for button in _with_general(name):
            self._devices.press(button)

    def _release(self, code):
        name = self._pressed.pop(code, None)
        if name is None:
            return
        general = _WITHOUT_SIDE.get(name)
        if general is not None and general in map(_WITHOUT_SIDE.get, self._pressed.values()):
            # The modifier's key on the other side is still pressed. Panda3D ends the modifier when either key is
            # released, so the modifier is pressed again.
            self._devices.release(_button(name))
            self._devices.press(_button(general))
            return
        for button in _with_general(name):
            self._devices.release(button)

    def _turn(self, axis, by, positive, negative):
        turned = self._wheel[axis] + by
        notches = int(turned / _NOTCH)
        self._wheel[axis] = turned - notches * _NOTCH
        button = _button(positive if notches > 0 else negative)
        for _ in range(abs(notches)):
            self._devices.press(button)
            self._devices.release(button)


class _Window:
    """The keyboard and mouse of a window: the player's events join the local ones."""

    def __init__(self, window):
        self._window = window
        self._device = window.getInputDevice(0)

    def press(self, button):
        self._device.buttonDown(button)

    def release(self, button):
        self._device.buttonUp(button)

    def type_text(self, text):
        self._device.keystroke(ord(text))

    def point(self, x, y):
        self._device.setPointerInWindow(x, y)

    def is_relative(self):
        return self._window.getProperties().getMouseMode() == WindowProperties.M_relative


class _NoWindow:
    """A keyboard and a mouse for an offscreen buffer, with the nodes that ShowBase creates for a window."""

    def __init__(self, base, output):
        self._output = output
        self._messenger = base.messenger
        self._mouse = VirtualMouse("openuvr")
        watcher = MouseWatcher("openuvr")
        parent = base.dataRoot.attachNewNode(self._mouse).attachNewNode(watcher)
        thrower = ButtonThrower("openuvr")
        watcher.setModifierButtons(_modifiers())
        thrower.setModifierButtons(_modifiers())
        self._thrower = parent.attachNewNode(thrower)
        # An application with its own nodes, for example for a second window, keeps them.
        if base.mouseWatcherNode is None:
            base.mouseWatcher, base.mouseWatcherNode = parent, watcher
            base.buttonThrowers, base.pointerWatcherNodes = [self._thrower], [watcher]
            behind = [base.aspect2dp, base.pixel2dp] if base.wantRender2dp else []
            for node in (base.aspect2d, base.pixel2d, *behind):
                node.node().setMouseWatcher(watcher)
            watcher.addRegion(PGMouseWatcherBackground())

    def press(self, button):
        self._mouse.pressButton(button)

    def release(self, button):
        self._mouse.releaseButton(button)

    def type_text(self, text):
        event = self._thrower.node().getKeystrokeEvent()
        if event:
            self._messenger.send(event, [text])

    def point(self, x, y):
        self._mouse.setWindowSize(self._output.getXSize(), self._output.getYSize())
        self._mouse.setMousePos(round(x), round(y))
        self._mouse.setMouseOn(True)

    def is_relative(self):
        return False


def _modifiers():
    modifiers = ModifierButtons()
    for button in (
        KeyboardButton.shift(),
        KeyboardButton.control(),
        KeyboardButton.alt(),
        KeyboardButton.meta(),
    ):
        modifiers.addButton(button)
    return modifiers


def _name_of(code, text):
    """Returns Panda3D's name of the key or mouse button `code`; None if Panda3D has no name for it."""
    if len(text) == 1 and text.isascii() and text.isalpha():
        return text.lower()
    key = key_of(code)
    if key is None:
        return None
    # A key of the keypad has no name of its own. Its name is the character that it types.
    character = key["us_text"] or text
    typed = character if character.isascii() and character.isprintable() else ""
    return _NAMED.get(key["name"]) or typed or None


def _with_general(name):
    """Returns the buttons that a window reports for this name. For a modifier, the button without a side is first."""
    names = [_WITHOUT_SIDE.get(name), name]
    return [_button(name) for name in names if name is not None]


def _button(name):
    return ButtonRegistry.ptr().getButton(name)


def _placed(position, orientation):
    """Converts a pose to Panda3D's axes: x to the right, y forward, z up; the pose has y up and -z forward."""
    (x, y, z), (i, j, k, r) = position, orientation
    return Point3(x, -z, y), Quat(r, i, -k, j)
