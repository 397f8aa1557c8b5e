"""A Moonlight client that plays a game: pairs, turns the view with the left arrow key, shoots, and records the sound.

Usage: game.py ADDRESS PORT FOLDER PIN OUT

OUT gets the pictures before and after the turn as PNG files, and the sound as WAV samples after 44 bytes. Prints one line for
each step.
"""

import ctypes
import struct
import sys
import threading
import time
import zlib

import numpy
from moonlight_python import MoonlightClient
from moonlight_python.discovery import connect_to_server

SIZE = (1280, 720)
# Windows key code of the left arrow key, and the left mouse button.
LEFT, SHOOT = 0x8025, 1
PRESS, RELEASE = (3, 7), (4, 8)
# Mean squared errors: the maximum for the same view, and the minimum for another view (24 and 18 dB PSNR).
SAME, OTHER = 259, 1031
# The first still picture may be the loading screen, which changes without a key.
TURNS = 2
# Time limit of a step on a busy machine, and length of the recorded sound, in seconds.
PATIENCE, SOUND = 60, 8


def png(path, picture):
    """Writes a picture of blue, green and red bytes."""
    rows = b"".join(b"\0" + row.tobytes() for row in picture[:, :, ::-1])

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = picture.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Game:
    def __init__(self, client, out):
        self.client, self.out, self.picture = client, out, None
        threading.Thread(target=self.watch, daemon=True).start()
        threading.Thread(target=self.listen, daemon=True).start()

    def watch(self):
        for frame in self.client.frames():
            self.picture = frame.data

    def listen(self):
        with open(f"{self.out}/heard", "wb") as file:
            file.write(bytes(44))
            for chunk in self.client.audio():
                file.write((chunk.data * 32767).astype("<i2").tobytes())

    def difference(self, other):
        return float(numpy.mean((self.picture.astype(float) - other.astype(float)) ** 2))

    def wait(self, step, holds):
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                sys.exit(f"timeout: {step}")
            time.sleep(0.1)
        print(step, flush=True)

    def stands(self):
        before = self.picture
        if before is None or numpy.mean(before.max(axis=2) > 16) < 0.25:
            return False
        time.sleep(0.3)
        return self.difference(before) < SAME

    def save(self, name):
        with open(f"{self.out}/{name}.png", "wb") as file:
            png(file, self.picture)


def main():
    address, port, folder, pin, out = sys.argv[1:]
    client = MoonlightClient(folder)
    server = connect_to_server(address, client._identity, int(port))
    client._server = server
    print("pairs", flush=True)
    client.pair(server, pin)
    app = client.apps()[0].name
    client.start_stream(app=app, width=SIZE[0], height=SIZE[1], fps=60, bitrate_kbps=10000, black_frame_threshold=0)
    # The package declares few of the library's functions, so this opens the loaded library again.
    maps = open("/proc/self/maps").read().splitlines()
    library = ctypes.CDLL(next(line.split()[-1] for line in maps if "moonlight-common" in line))

    def key(action):
        library.LiSendKeyboardEvent(ctypes.c_short(LEFT - 0x10000), ctypes.c_char(action), ctypes.c_char(0))

    game = Game(client, out)
    for _ in range(TURNS):
        game.wait("the view stands still", game.stands)
        before = game.picture
        game.save("before")
        key(PRESS[0])
        game.wait("the view turns", lambda: game.difference(before) > OTHER)
        key(RELEASE[0])
        game.save("after")
    library.LiSendMouseButtonEvent(ctypes.c_char(PRESS[1]), SHOOT)
    time.sleep(SOUND)
    library.LiSendMouseButtonEvent(ctypes.c_char(RELEASE[1]), SHOOT)
    client.stop_stream()
    client.quit_app()
    print("quit", flush=True)


main()
