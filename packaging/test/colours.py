"""Succeeds if a folder has PNG pictures, and the last three have many colours: neither black nor a single colour.

The first pictures may be older than the application's first frame.

The pictures have 8 bits per channel, without interlacing. Only the standard library is used.
"""

import pathlib
import struct
import sys
import zlib

FEWEST = 100


def colours(path):
    """The number of different pixel values in the rows, without undoing PNG's filters: a plain picture has few."""
    data = path.read_bytes()
    width, _height, depth, kind = struct.unpack(">IIBB", data[16:26])
    channels = {2: 3, 6: 4}[kind]
    assert depth == 8, depth
    at, packed = 8, b""
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        if name == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += length + 12
    rows, row = zlib.decompress(packed), 1 + width * channels
    pixels = set()
    for start in range(0, len(rows), row):
        line = rows[start + 1 : start + row]
        pixels.update(line[i : i + channels] for i in range(0, len(line), channels))
    return len(pixels)


found = sorted(pathlib.Path(sys.argv[1]).glob("*.png"))
counts = [colours(path) for path in found]
print(f"  {len(found)} pictures; colours: {counts}")
sys.exit(len(counts) < 3 or min(counts[-3:]) < FEWEST)
