"""Sends or shows a WebRTC stream of a display with GStreamer's webrtcbin, which needs signalling that gst-launch lacks.

    webrtc.py send SIGNALLING MEDIA DISPLAY WIDTH HEIGHT FPS KBPS BUFFER_MS
    webrtc.py show SIGNALLING MEDIA DISPLAY

The sender listens on the TCP port SIGNALLING of the loopback device; over this connection, offer and answer are
exchanged, each as a line of JSON. MEDIA is a UDP port: the sender sends to its MEDIA, and the receiver listens on its
MEDIA. A relay may be between the two ports. Therefore the offer has no candidates (the receiver learns a peer-reflexive
candidate), and the sender replaces the port of the answer's only candidate with its own MEDIA.
"""

import json
import re
import socket
import sys
import threading

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstSdp", "1.0")
gi.require_version("GstWebRTC", "1.0")
from gi.repository import GLib, Gst, GstSdp, GstWebRTC  # noqa: E402

HERE = "127.0.0.1"
# Size of the jitter buffer in ms, to wait for retransmissions: several round trips of a local network. Packets wait
# only if an earlier packet is missing.
REPAIRED_WITHIN = 30


def sender(display, width, height, fps, kbps, buffer_ms):
    """The stream of `gstreamer` in this bench, but with key frames on request."""
    return (
        f"ximagesrc display-name={display} use-damage=false show-pointer=false ! "
        f"video/x-raw,framerate={fps}/1,width={width},height={height} ! videoconvert ! "
        f"x264enc tune=zerolatency speed-preset=ultrafast bitrate={kbps} vbv-buf-capacity={buffer_ms} "
        "key-int-max=3600 option-string=slice-max-size=1100 ! video/x-h264,profile=constrained-baseline ! "
        "rtph264pay mtu=1200 config-interval=-1 aggregate-mode=zero-latency ! "
        "application/x-rtp,media=video,encoding-name=H264,payload=96 ! "
        f"webrtcbin name=end bundle-policy=max-bundle latency={REPAIRED_WITHIN}"
    )


def show(pipeline, display, pad):
    """Shows the received stream on the display."""
    parts = (
        "rtph264depay ! avdec_h264 thread-type=slice output-corrupt=true ! videoconvert ! "
        f"ximagesink display={display} sync=false"
    )
    chain = Gst.parse_bin_from_description(parts, True)
    pipeline.add(chain)
    chain.sync_state_with_parent()
    pad.link(chain.get_static_pad("sink"))


def description(kind, text):
    _, message = GstSdp.SDPMessage.new_from_text(text)
    return GstWebRTC.WebRTCSessionDescription.new(kind, message)


def create(end, what):
    """Has webrtcbin create an offer or an answer, and sets it as the local description."""
    promise = Gst.Promise.new()
    end.emit(f"create-{what}", None, promise)
    promise.wait()
    # Keep `reply` alive, because it owns the description that `get_value` returns.
    reply = promise.get_reply()
    set_description(end, "local", reply.get_value(what))


def set_description(end, side, description):
    promise = Gst.Promise.new()
    end.emit(f"set-{side}-description", description, promise)
    promise.wait()


def wait_for_candidates(end):
    """Waits until all candidates are gathered. Returns the local description with them."""
    state = "ice-gathering-state"
    done = threading.Event()
    end.connect(f"notify::{state}", lambda *_: done.set())
    while end.get_property(state) != GstWebRTC.WebRTCICEGatheringState.COMPLETE:
        done.wait(0.05)
    return end.get_property("local-description").sdp.as_text()


def without_candidates(text):
    return re.sub(r"a=candidate:.*\r\n", "", text)


def towards(port, text):
    """The description `text` with only its UDP candidate, whose port is replaced by `port`."""
    lines = [line for line in text.split("\r\n") if not line.startswith("a=candidate") or " UDP " in line]
    text = "\r\n".join(lines)
    return re.sub(rf"(a=candidate:\S+ \d UDP \d+ {HERE}) \d+ ", rf"\1 {port} ", text)


def offer(end, lines, media):
    end.emit("get-transceiver", 0).set_property("do-nack", True)
    create(end, "offer")
    print(json.dumps(without_candidates(wait_for_candidates(end))), file=lines, flush=True)
    answer = towards(media, json.loads(lines.readline()))
    set_description(end, "remote", description(GstWebRTC.WebRTCSDPType.ANSWER, answer))


def answer(end, lines, media):
    agent = end.get_property("ice-agent")
    agent.set_property("min-rtp-port", media)
    agent.set_property("max-rtp-port", media)
    offered = description(GstWebRTC.WebRTCSDPType.OFFER, json.loads(lines.readline()))
    end.connect("on-new-transceiver", lambda _, each: each.set_property("do-nack", True))
    set_description(end, "remote", offered)
    create(end, "answer")
    print(json.dumps(wait_for_candidates(end)), file=lines, flush=True)


def main(role, signalling, media, display, *stream):
    Gst.init(None)
    if role == "send":
        with socket.create_server((HERE, int(signalling))) as server:
            connection, _ = server.accept()
        pipeline = Gst.parse_launch(sender(display, *stream))
    else:
        connection = socket.create_connection((HERE, int(signalling)))
        pipeline = Gst.Pipeline.new()
        end = Gst.ElementFactory.make("webrtcbin", "end")
        end.set_property("bundle-policy", GstWebRTC.WebRTCBundlePolicy.MAX_BUNDLE)
        end.set_property("latency", REPAIRED_WITHIN)
        pipeline.add(end)
    end = pipeline.get_by_name("end")
    agent = end.get_property("ice-agent")
    agent.set_property("ice-tcp", False)
    agent.emit("add-local-ip-address", HERE)
    lines = connection.makefile("rw")
    ended = GLib.MainLoop()
    bus = pipeline.get_bus()
    bus.add_signal_watch()

    def failed(_, message):
        error, more = message.parse_error()
        print(f"webrtc.py {role}: {error.message}: {more}", file=sys.stderr)
        ended.quit()

    bus.connect("message::error", failed)
    if role == "send":
        # Negotiation needs the caps, which are known after the first picture.
        begun = threading.Event()
        end.connect("on-negotiation-needed", lambda _: begun.set())
        agree = lambda: begun.wait() and offer(end, lines, int(media))  # noqa: E731
    else:
        end.connect("pad-added", lambda _, pad: show(pipeline, display, pad))
        agree = lambda: answer(end, lines, int(media))  # noqa: E731
    pipeline.set_state(Gst.State.PLAYING)
    threading.Thread(target=agree, daemon=True).start()
    ended.run()
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
