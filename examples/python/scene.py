#!/usr/bin/env python3
"""A Panda3D scene that is streamed: a square follows the player's mouse; the space bar changes the background.

    pip install openuvr-*.whl panda3d      # the wheel: ./dev package, or make -C crates/capi wheel
    python3 scene.py                       # shows a PIN
    openuvr client localhost               # in another terminal

With --offscreen, no window opens. If the player has a headset, the camera follows the player's head.
"""

import argparse

from direct.showbase.ShowBase import ShowBase
from panda3d.core import CardMaker, loadPrcFileData

from openuvr.panda3d import Stream

GROUNDS = ((0.1, 0.2, 0.6), (0.1, 0.6, 0.2))
SQUARE = (1, 0.2, 0.1, 1)


class Scene(ShowBase):
    def __init__(self, offscreen):
        super().__init__(windowType="offscreen" if offscreen else "onscreen")
        self.disableMouse()
        self.ground = 0
        self.setBackgroundColor(*GROUNDS[0])
        maker = CardMaker("square")
        maker.setFrame(-0.1, 0.1, -0.1, 0.1)
        maker.setColor(SQUARE)
        self.square = self.render2d.attachNewNode(maker.generate())
        self.accept("space", self.change)
        # The task runs after Panda3D has called the event handlers (sort 0), and before it draws (sort 50).
        self.taskMgr.add(self.move, "move", sort=10)

    def change(self):
        self.ground = 1 - self.ground
        self.setBackgroundColor(*GROUNDS[self.ground])

    def move(self, task):
        mouse = self.mouseWatcherNode
        if mouse is not None and mouse.hasMouse():
            self.square.setPos(mouse.getMouseX(), 0, mouse.getMouseY())
        return task.cont


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--offscreen", action="store_true", help="draw without a window")
    arguments.add_argument("--size", default="640x360", help="WIDTHxHEIGHT [default: 640x360]")
    arguments.add_argument("--bind", help="address to listen on, ADDRESS:PORT")
    arguments.add_argument("--pin", help="4 to 12 digits [default: random]")
    arguments.add_argument("--csv", help="a file that gets a row for each frame")
    options = arguments.parse_args()
    size = options.size.replace("x", " ")
    # Without sound hardware, the sound library would print an error.
    loadPrcFileData("", f"win-size {size}\nwindow-title OpenUVR\naudio-library-name null")
    base = Scene(options.offscreen)
    Stream(base, head=base.camera, bind=options.bind, pin=options.pin, csv=options.csv)
    base.run()


if __name__ == "__main__":
    main()
