#!/usr/bin/env python3
"""A host that streams numpy pictures: a plasma, and a square that follows the client's pointer.

    pip install openuvr-*.whl numpy        # the wheel: ./dev package, or make -C crates/capi wheel
    python3 picture.py                     # shows a PIN
    openuvr client localhost               # in another terminal

Ends with Ctrl-C.
"""

import argparse
import sys
import time

import numpy
import openuvr


def plasma(height, width):
    """Returns a function that draws the picture at a time in seconds: rows x columns x RGB."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float32) / height
    rings = numpy.hypot(x - width / height / 2, y - 0.5)
    picture = numpy.empty((height, width, 3), numpy.uint8)

    def at(t):
        wave = numpy.sin(9 * x + t) + numpy.sin(7 * y - 1.3 * t) + numpy.sin(20 * rings - 2 * t)
        for channel, phase in enumerate((0.0, 2.1, 4.2)):
            picture[..., channel] = 127 + 127 * numpy.sin(wave + phase)
        return picture

    return at


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--width", type=int, default=640)
    arguments.add_argument("--height", type=int, default=360)
    arguments.add_argument("--fps", type=float, default=30.0)
    arguments.add_argument("--bind", help="address to listen on, ADDRESS:PORT")
    arguments.add_argument("--pin", help="4 to 12 digits [default: random]")
    options = arguments.parse_args()
    side = 48
    draw = plasma(options.height, options.width)
    settings = {
        "width": options.width,
        "height": options.height,
        "fps": options.fps,
        "bind": options.bind,
        "pin": options.pin,
    }

    def log(level, text):
        if level <= openuvr.LogLevel.INFO:
            print(text, file=sys.stderr, flush=True)

    with openuvr.Host(log=log, **settings) as host:
        left = top = 0
        started = time.monotonic()
        frame = 0
        while True:
            for event in host.inputs():
                if event.kind == openuvr.InputKind.POINTER:
                    left = event.x * (options.width - side) // 65535
                    top = event.y * (options.height - side) // 65535
            host.begin_frame()
            picture = draw(frame / options.fps)
            picture[top : top + side, left : left + side] = (255, 32, 0)
            host.send(picture)
            frame += 1
            # The deadlines are absolute, so a late frame does not delay the frames after it.
            time.sleep(max(0.0, started + frame / options.fps - time.monotonic()))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except openuvr.Error as error:
        sys.exit(f"no stream: {error}")
