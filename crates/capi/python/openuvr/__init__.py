"""Streams the pictures of a Python program to a thin client, and receives its input.

    with openuvr.Host(width=640, height=480) as host:
        while True:
            for event in host.inputs():
                ...
            host.send(picture)          # an array of rows x columns x (3 or 4) bytes

`Host` sends pictures, `Client` receives them. Both take the settings of the C API's structures
`openuvr_config` and `openuvr_mud_config` by name; `openuvr.h`, in the same folder as this file,
describes each of them. The enums of that header are here without the prefix `OPENUVR_`:
`InputKind.KEY` is `OPENUVR_INPUT_KEY`.
"""

from ._client import Client, Frame
from ._context import Error
from ._host import Host, Input
from ._library import (
    Device,
    Encoder,
    Feature,
    InputKind,
    InputTo,
    LogLevel,
    MudState,
    Network,
    PixelFormat,
    Surface,
    key_of,
    version,
)

__all__ = [
    "Client",
    "Device",
    "Encoder",
    "Error",
    "Feature",
    "Frame",
    "Host",
    "Input",
    "InputKind",
    "InputTo",
    "LogLevel",
    "MudState",
    "Network",
    "PixelFormat",
    "Surface",
    "key_of",
    "version",
]
