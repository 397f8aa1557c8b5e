"""A Moonlight client without input: pairs, plays, and shows the pictures on a display, or decodes them for DISPLAY `none`.

    moonlight.py PORT FOLDER PIN DISPLAY WIDTH HEIGHT FPS KBPS

It prints its progress on standard error.

The protocol code is that of Moonlight's own clients, from PyPI's moonlight-python. Pictures are decoded as in the
software decoders of those clients: with FFmpeg, in slices and without delay. (The decoder of moonlight-python works on
several frames at once, which delays each frame by at least one frame interval.) The pictures are shown by the sink that
the peer `gstreamer` uses.
"""

import sys

import av
import gi
from moonlight_python import MoonlightClient
from moonlight_python.discovery import connect_to_server

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

HERE = "127.0.0.1"
# AV_CODEC_FLAG_LOW_DELAY of FFmpeg.
LOW_DELAY = 1 << 19


def window(display, width, height):
    """Starts a pipeline that shows I420 pictures as they arrive. Returns the pipeline's source element."""
    Gst.init(None)
    pipeline = Gst.parse_launch(
        f"appsrc name=source format=time caps=video/x-raw,format=I420,width={width},height={height},framerate=0/1 ! "
        f"videoconvert ! ximagesink display={display} sync=false"
    )
    pipeline.set_state(Gst.State.PLAYING)
    return pipeline.get_by_name("source")


def packed(picture):
    """The planes of a picture without padding between their rows."""
    for plane in picture.planes:
        rows = memoryview(plane)
        for row in range(plane.height):
            start = row * plane.line_size
            yield rows[start : start + plane.width]


def main():
    port, folder, pin, display, width, height, fps, kbps = sys.argv[1:]
    client = MoonlightClient(folder)
    server = connect_to_server(HERE, client._identity, int(port))
    client._server = server
    print("pairs", file=sys.stderr, flush=True)
    client.pair(server, pin)
    app = client.apps()[0].name
    session, _ = client._setup_stream(
        app, int(width), int(height), int(fps), int(kbps), "h264", "bgr24", record_audio=False
    )
    decoder = av.CodecContext.create("h264", "r")
    decoder.thread_type = "SLICE"
    decoder.flags |= LOW_DELAY
    source = None if display == "none" else window(display, width, height)
    count = 0
    while session.is_connected:
        unit = session.pull_frame()
        if unit is None:
            break
        for picture in decoder.decode(av.Packet(unit.annex_b_data)):
            count += 1
            if count == 1:
                print("plays", file=sys.stderr, flush=True)
            if source:
                source.emit("push-buffer", Gst.Buffer.new_wrapped(b"".join(packed(picture))))


main()
