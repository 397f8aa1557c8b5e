"""A host and a client in one Python program: pictures and input arrive unchanged."""

import dataclasses
import os
import pathlib
import re
import threading
import time

import numpy
import openuvr

LEFT, RIGHT = (200, 30, 40), (10, 60, 220)


def wait_for(what, condition):
    """Calls `condition` until its result is true, and returns the result."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
    raise AssertionError(f"not within a minute: {what}")


def raises(error, call):
    try:
        call()
    except error as raised:
        return str(raised)
    raise AssertionError(f"no {error.__name__}")


def documented():
    """Reads the README's table of input: for each kind its fields with their types, and all fields."""
    readme = pathlib.Path(openuvr.__file__).parent.parent / "README.md"
    text = readme.read_text(encoding="utf-8")
    types = {"int": int, "str": str, "InputKind": openuvr.InputKind}
    of_kind = {kind.name: {} for kind in openuvr.InputKind}
    fields = {}
    for names, types_text, kinds in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*) \| (.*) \|$", text, re.M):
        declared = types[re.match(r"`(\w+)`", types_text)[1]]
        for name in re.findall(r"`(\w+)`", names):
            assert fields.setdefault(name, declared) is declared, f"{name} has two types"
            for kind in of_kind if kinds == "all" else re.findall(r"`(\w+)`", kinds):
                of_kind[kind][name] = declared
    return of_kind, fields


def key_frames(csv, distance):
    """Counts the key frames in a host's CSV that follow another one after `distance` frames."""
    with open(csv, encoding="utf-8") as file:
        # The last line may be incomplete.
        rows = file.read().splitlines()[:-1]
    if not rows:
        return 0
    names = rows[0].split(",")
    frame, key = names.index("frame"), names.index("key_frame")
    fields = (row.split(",") for row in rows[1:])
    keys = sorted({int(row[frame]) for row in fields if row[key] == "1"})
    return sum(later - earlier == distance for earlier, later in zip(keys, keys[1:]))


def check_documented(event, of_kind, fields):
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        assert type(value) is field.type is fields[field.name], (field, value)
        if field.name not in of_kind[event.kind.name]:
            assert value in (0, ""), (field.name, event)
    assert event.session > 0 and event.received_ns > 0, event


def main():
    home = os.environ["HOME"]
    large = numpy.zeros((400, 800, 3), numpy.uint8)
    # A part of a larger picture, with gaps between its rows.
    picture = large[20:380, 60:700]
    picture[:, :320] = LEFT
    picture[:, 320:] = RIGHT
    log_lines, refused = [], []

    def log(_level, text):
        log_lines.append(text)
        if "joins" in text:
            refused.append(raises(openuvr.Error, host.close))

    common = {"pin": "123456", "realtime": 0}
    csv = f"{home}/frames.csv"
    host = openuvr.Host(
        log,
        width=640,
        height=360,
        bind="127.0.0.1:0",
        config_dir=f"{home}/host",
        csv=csv,
        **common,
    )
    with host:
        # The host gets its size from the first picture.
        wait_for("a picture that is not accepted", lambda: not host.send(picture))
        assert host.pin == "123456"
        port = host.place.split(",")[0].rsplit(":", 1)[1]
        address = f"127.0.0.1:{port}"
        with openuvr.Client(host=address, config_dir=f"{home}/client", **common) as client:

            def arrives():
                host.send(picture)
                return client.frame(timeout=0.02)

            frame = wait_for("a picture", arrives)
            assert (frame.width, frame.height) == (640, 360)
            pixels = numpy.asarray(frame.pixels)[..., 2::-1].astype(int)
            for column, colour in ((100, LEFT), (500, RIGHT)):
                assert abs(pixels[180, column] - colour).max() < 25, pixels[180, column]
            wait_for("the role", lambda: client.state == openuvr.MudState.PLAYING)
            # Once `wants` has returned true, the host accepts the next picture, whenever it is sent.
            wait_for("a wanted picture", host.wants)
            assert host.send(picture)
            host.set_pointer(relative=True)
            host.set_pointer()

            client.send_input(openuvr.InputKind.KEY, code=30, value=1, text="ä")
            key = wait_for("a key", lambda: next(host.inputs(), None))
            assert (key.kind, key.code, key.value, key.text) == (
                openuvr.InputKind.KEY,
                30,
                1,
                "ä",
            ), key

            of_kind, fields = documented()
            assert set(fields) == {field.name for field in dataclasses.fields(openuvr.Input)}, fields
            check_documented(key, of_kind, fields)
            sent = {
                "BUTTON": {"code": 272, "value": 1},
                "POINTER": {"x": 65535, "y": 1},
                "MOTION": {"x": -3, "y": 4},
                "WHEEL": {"x": -120, "y": 240},
                # An axis event (`EV_ABS`). Its fields are passed unchanged.
                "DEVICE": {"code": 2, "value": -7, "x": 3},
                "RELEASE_ALL": {},
            }
            assert set(sent) | {"KEY"} == set(of_kind), "a kind is not tested"
            for name, values in sent.items():
                client.send_input(openuvr.InputKind[name], **values)
                event = wait_for(name, lambda: next(host.inputs(), None))
                assert event.kind is openuvr.InputKind[name], event
                assert {field: getattr(event, field) for field in values} == values, event
                assert set(values) <= set(of_kind[name]), name
                check_documented(event, of_kind, fields)

            assert host.pose() is None
            client.send_pose((1, 2, 3), (0, 0, 0, 1), angular=(0, 1, 0))
            pose = wait_for("a pose", host.pose)
            assert pose["position"] == (1, 2, 3) and pose["has_angular"], pose
            assert pose["has_linear"] == 0, pose

            assert host.controllers() is None
            grip = {"tracked": 1, "position": [1, 0, 0], "orientation": [0, 0, 0, 1]}
            client.send_controllers(right={"grip": grip, "buttons": 1, "trigger": 1})
            left, right = wait_for("controllers", host.controllers)
            assert left is None and right["aim"] is None, (left, right)
            assert right["grip"]["position"] == (1, 0, 0) and right["trigger"] == 1, right
            host.send_haptic(1, 1, seconds=0.02)
            felt = wait_for("a vibration", lambda: next(client.haptics(), None))
            assert (felt["hand"], felt["duration_ns"]) == (1, 20_000_000), felt

            host.set_feature(openuvr.Feature.GOP, 10)
            assert "100000" in raises(openuvr.Error, lambda: host.set_feature(openuvr.Feature.GOP, -1))
            wait_for("a GOP of ten frames", lambda: (arrives(), key_frames(csv, 10) >= 3)[1])
            assert "before" in raises(openuvr.Error, lambda: host.set_feature(openuvr.Feature.PORT, 1))

            counted = wait_for("statistics", lambda: (arrives(), host.statistics())[1])
            assert counted["players"] == 1

            # Closing the client ends another thread's wait for a picture.
            ended = []

            def receive():
                while True:
                    client.frame(timeout=3600)

            receiving = threading.Thread(target=lambda: ended.append(raises(openuvr.Error, receive)))
            receiving.start()
            wait_for("a call", lambda: client._calls > 0)

            # The context is closed only after the calls of all other threads have returned.
            closing = threading.Thread(target=client.close)
            with client._opened():
                closing.start()
                wait_for("the start of the close", lambda: client._closed)
                assert client._closing.alive
            closing.join()
            assert not client._closing.alive
            receiving.join()
            assert "closed" in ended[0], ended
            assert "closed" in raises(openuvr.Error, client.frame)
        wait_for("a goodbye", lambda: host.statistics()["players"] == 0)
        assert any("joins" in line for line in log_lines), log_lines
        assert "cannot close" in refused[0], refused
        assert "callback" in raises(openuvr.Error, lambda: next(host.log_lines()))

        repeated = numpy.broadcast_to(large[0], large.shape)
        for invalid in (picture[:, :, ::-1], large[:, :, :2], large.astype(float), large[0], repeated):
            raises(ValueError, lambda: host.send(invalid))
    assert "closed" in raises(openuvr.Error, lambda: host.send(picture))
    assert "no setting 'widht'" in raises(TypeError, lambda: openuvr.Host(widht=640))
    assert "address with a port" in raises(openuvr.Error, lambda: openuvr.Host(bind="here:there:1"))
    key = openuvr.key_of(30)
    assert (key["name"], key["xkb_name"], key["us_text"], key["xkb"]) == ("KEY_A", "AC01", "a", 38), key
    assert openuvr.key_of(0x2FF) is None
    print("host and client agree")


main()
