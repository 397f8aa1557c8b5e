"""Checks a player's input in Panda3D: events, mouse watcher and head pose, with a window or an offscreen buffer."""

import os
import sys
import time

import openuvr
from direct.showbase.ShowBase import ShowBase
from openuvr import InputKind
from openuvr.panda3d import Stream
from panda3d.core import KeyboardButton, MouseButton, loadPrcFileData

KEY_SPACE, KEY_Y, KEY_A, KEY_LEFTSHIFT, KEY_RIGHTSHIFT, KEY_F5, KEY_LEFT = 57, 21, 30, 42, 54, 63, 105
BTN_RIGHT = 0x111
NAMES = (
    "space space-up z z-up lshift shift lshift-up shift-up rshift rshift-up shift-a a-up f5 arrow_left "
    "mouse3 shift-mouse3 mouse3-up wheel_up wheel_down"
).split()


def main():
    home = os.environ["HOME"]
    loadPrcFileData("", "win-size 640 360\naudio-library-name null")
    base = ShowBase(windowType=sys.argv[1])
    common = {"pin": "123456", "realtime": 0}
    head = base.render.attachNewNode("head")
    stream = Stream(base, head=head, bind="127.0.0.1:0", config_dir=f"{home}/host", **common)
    watcher = base.mouseWatcherNode
    events, typed = [], []
    for name in NAMES:
        base.accept(name, events.append, [name])
    base.buttonThrowers[0].node().setKeystrokeEvent("typed")
    base.accept("typed", typed.append)

    def wait_for(what, condition):
        """Draws frames until the result of `condition` is true."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            base.taskMgr.step()
            assert stream.end is None, stream.end
            if condition():
                return
        raise AssertionError(f"not within a minute: {what}; {events}")

    port = stream.host.place.split(",")[0].rsplit(":", 1)[1]
    with openuvr.Client(host=f"127.0.0.1:{port}", config_dir=f"{home}/client", **common) as client:
        wait_for("a player", lambda: client.state == openuvr.MudState.PLAYING)
        # The client receives pictures of the window's size.
        wait_for("a picture", lambda: getattr(client.frame(timeout=0), "width", None) == 640)

        def press(code, value, text=""):
            kind = InputKind.BUTTON if code == BTN_RIGHT else InputKind.KEY
            client.send_input(kind, code=code, value=value, text=text)

        def expect(*names):
            wait_for(names, lambda: len(events) >= len(names))
            assert events == list(names), events
            events.clear()

        press(KEY_SPACE, 1, " ")
        press(KEY_SPACE, 0)
        expect("space", "space-up")
        # A German keyboard: the key in the place of the American Y types a z.
        press(KEY_Y, 1, "z")
        expect("z")
        assert watcher.isButtonDown(KeyboardButton.asciiKey("z"))
        press(KEY_Y, 0)
        expect("z-up")
        wait_for("text", lambda: typed == [" ", "z"])
        press(KEY_LEFTSHIFT, 1)
        press(KEY_A, 1, "A")
        press(KEY_A, 0)
        expect("shift", "lshift", "shift-a", "a-up")
        # The left key still holds the modifier.
        press(KEY_RIGHTSHIFT, 1)
        press(KEY_RIGHTSHIFT, 0)
        expect("rshift", "rshift-up")
        assert watcher.isButtonDown(KeyboardButton.shift())
        press(BTN_RIGHT, 1)
        expect("shift-mouse3")
        assert watcher.isButtonDown(MouseButton.three())
        client.send_input(InputKind.RELEASE_ALL)
        expect("shift-up", "lshift-up", "mouse3-up")
        press(KEY_F5, 1)
        press(KEY_LEFT, 1)
        expect("f5", "arrow_left")
        for part in (60, 60, -120):
            client.send_input(InputKind.WHEEL, y=part)
        expect("wheel_up", "wheel_down")
        client.send_input(InputKind.POINTER, x=65535, y=0)
        wait_for("the mouse", lambda: watcher.hasMouse() and watcher.getMouseX() > 0.99)
        assert watcher.getMouseY() > 0.99, watcher.getMouseY()
        client.send_input(InputKind.MOTION, x=-320, y=180)
        wait_for("the middle", lambda: abs(watcher.getMouseX()) < 0.01)
        assert abs(watcher.getMouseY()) < 0.01, watcher.getMouseY()
        # The pose has y up and -z forward, Panda3D has y forward. A quarter turn to the left.
        client.send_pose((1, 2, 3), (0, 0.7071068, 0, 0.7071068))
        wait_for("the head", lambda: abs(head.getX() - 1) < 1e-4)
        assert abs(head.getY() + 3) < 1e-4 and abs(head.getZ() - 2) < 1e-4, head.getPos()
        assert abs(head.getH() - 90) < 0.01, head.getHpr()
    stream.close()
    stream.close()
    assert stream.end == "closed by the application", stream.end
    base.taskMgr.step()
    print("the events agree")


main()
