"""A Moonlight client: pairs, lists, launches, watches, listens, sends input, quits. Prints one line of JSON per step.

Usage: client.py ADDRESS PORT FOLDER PIN FRAMES [MODE [APPLICATION]]

With a MODE (WIDTHxHEIGHTxRATE), the client only watches. With an empty PIN and without a MODE, it waits for a line
before it connects.
"""

import ctypes
import json
import sys
import time

import numpy
from moonlight_python import MoonlightClient
from moonlight_python.discovery import connect_to_server
from moonlight_python.http_client import NvHTTP

SYNC = [1, 0, 1, 1, 0, 0, 0, 1]


def say(step, **more):
    print(json.dumps({"step": step, **more}), flush=True)


def barcode(picture):
    """The frame number in the bar code of crates/media/src/barcode.rs, or None."""
    cell = picture.shape[1] / 80

    def bit(row, column):
        return int(picture[int((row + 0.5) * cell), int((column + 0.5) * cell), 1] > 127)

    if any(bit(row, column) != SYNC[column] ^ row for row in range(2) for column in range(8)):
        return None
    bits = [bit(row, column) for row in range(2) for column in range(8, 64)]
    body = int("".join(map(str, bits[:96])), 2)
    code = int("".join(map(str, bits[96:])), 2)
    crc = 0xFFFF
    for byte in body.to_bytes(12, "big"):
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return body >> 64 if crc == code else None


def loudest(chunks):
    """The loudest frequency of the sound, in Hz."""
    samples = numpy.concatenate([chunk.data[:, 0] for chunk in chunks])
    spectrum = numpy.abs(numpy.fft.rfft(samples * numpy.hanning(len(samples))))
    return float(numpy.argmax(spectrum) * 48000 / len(samples))


def send_input(library):
    """Sends input of each kind, in the order that the test expects."""
    for key in (0x41, 0x0D, 0xA0, 0x70):
        for action in (3, 4):
            library.LiSendKeyboardEvent(ctypes.c_short(0x8000 - 0x10000 | key), ctypes.c_char(action), ctypes.c_char(0))
    library.LiSendUtf8TextEvent("é".encode(), 2)
    time.sleep(0.1)
    library.LiSendMousePositionEvent(319, 0, 640, 384)
    time.sleep(0.1)
    library.LiSendMouseMoveEvent(7, -5)
    time.sleep(0.1)
    for action in (7, 8):
        library.LiSendMouseButtonEvent(ctypes.c_char(action), 3)
    library.LiSendHighResScrollEvent(120)
    library.LiSendHighResHScrollEvent(-60)
    time.sleep(0.1)
    library.LiSendControllerArrivalEvent(ctypes.c_uint8(0), ctypes.c_uint16(1), ctypes.c_uint8(2), 0xFFFF, ctypes.c_uint16(2))
    library.LiSendMultiControllerEvent(
        ctypes.c_short(0), ctypes.c_short(1), 0x1000, ctypes.c_ubyte(255), ctypes.c_ubyte(0),
        ctypes.c_short(1000), ctypes.c_short(2000), ctypes.c_short(0), ctypes.c_short(0),
    )


def main():
    address, port, folder, pin, wanted, *more = sys.argv[1:]
    width, height, rate = map(int, more[0].split("x")) if more else (640, 384, 60)
    if not pin and not more:
        say("ready")
        sys.stdin.readline()
    client = MoonlightClient(folder)
    server = connect_to_server(address, client._identity, int(port))
    client._server = server
    say("found", name=server.hostname, paired=server.paired, version=server.app_version)
    if pin:
        say("pairs")
        client.pair(server, pin)
        say("paired")
    else:
        # With a server certificate, the client asks over HTTPS whether its application still runs. It does not compare
        # the certificate.
        server.server_cert_pem = b"known"
        client._http = NvHTTP(
            address, client._identity, http_port=int(port), https_port=server.https_port, server_cert_pem=b"known"
        )
    apps = client.apps()
    http = client._get_http()
    info = http.parse_server_info(http.get_server_info(use_https=True))
    say("apps", names=[app.name for app in apps], runs=info.current_game == apps[0].id)
    client.start_stream(
        app=more[1] if more[1:] else apps[0].name,
        width=width, height=height, fps=rate, bitrate_kbps=8000, black_frame_threshold=0,
    )
    say("plays")
    # The package's own library handle declares only a few of the library's functions.
    maps = open("/proc/self/maps").read().splitlines()
    library = ctypes.CDLL(next(line.split()[-1] for line in maps if "moonlight-common" in line))
    seen, unread, latency, keys, shapes = [], 0, [], 0, set()
    for frame in client.frames():
        number = barcode(frame.data)
        unread += number is None
        seen.append([frame.frame_number, number])
        latency.append(frame.host_processing_latency_us)
        keys += frame.is_keyframe
        shapes.add(frame.data.shape)
        if len(seen) == int(wanted):
            break
    say("frames", seen=seen, unread=unread, latency=latency, keys=keys, shape=list(frame.data.shape), shapes=len(shapes))
    if more:
        sys.stdin.readline()
        client.stop_stream()
        client.quit_app()
        say("quit")
        return
    chunks = []
    for chunk in client.audio():
        chunks.append(chunk)
        if len(chunks) == 100:
            break
    say("sound", frequency=loudest(chunks), indices=[chunk.frame_index for chunk in chunks])
    send_input(library)
    say("input")
    # Waits until the test has seen the input.
    sys.stdin.readline()
    library.LiRequestIdrFrame()
    key = next(frame for frame in client.frames() if frame.is_keyframe)
    say("key", number=key.frame_number)
    client.stop_stream()
    client.quit_app()
    say("quit")


main()
