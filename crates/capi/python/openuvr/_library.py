"""Opens libopenuvr and reads its header: structures, functions and enums are what the header says.

Nothing of the C API is written down a second time here, so nothing can disagree with it.
"""

import ctypes.util
import enum
import os
import pathlib
import re

import cffi

_HERE = pathlib.Path(__file__).resolve().parent


def _header():
    """The header's text: the wheel's own copy, or that of the source tree."""
    for path in (_HERE / "openuvr.h", _HERE.parent.parent / "include" / "openuvr.h"):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise ImportError(f"openuvr.h is not beside {__file__}: install the package again")


def _declarations(header):
    """`header` without the preprocessor's lines, and without what only C++ or the paper's names need."""
    lines, optional = [], 0
    for line in header.splitlines():
        if re.match(r"#\s*if(def)?\b", line):
            optional += 1
        elif re.match(r"#\s*endif\b", line) and optional:
            optional -= 1
        elif not optional and not line.startswith("#") and not line.endswith("\\"):
            lines.append(line)
    text = "\n".join(lines)
    # What is left of the one macro that takes three lines.
    return re.sub(r"^    \(OPENUVR_VERSION_MAJOR.*$", "", text, flags=re.M)


def _open():
    """The library: OPENUVR_LIBRARY, the wheel's own, or the one that is installed."""
    named = os.environ.get("OPENUVR_LIBRARY")
    own = _HERE / "libopenuvr.so"
    path = named or (str(own) if own.is_file() else ctypes.util.find_library("openuvr"))
    if path is None:
        raise ImportError("libopenuvr is not installed; OPENUVR_LIBRARY may name its file")
    try:
        return ffi.dlopen(path)
    except OSError as error:
        raise ImportError(f"libopenuvr can't be opened: {error}") from error


ffi = cffi.FFI()
ffi.cdef(_declarations(_header()))
lib = _open()


def _enum(name, c_name, prefix):
    """The C enum as a Python one, its words without `prefix`."""
    words = ffi.typeof(f"enum {c_name}").relements
    members = {word[len(prefix) :]: value for word, value in words.items()}
    return enum.IntEnum(name, members, module="openuvr")


Device = _enum("Device", "OPENUVR_DEVICE", "OPENUVR_DEVICE_")
Encoder = _enum("Encoder", "OPENUVR_ENCODER_TYPE", "OPENUVR_ENCODER_")
ErrorCode = _enum("ErrorCode", "OPENUVR_ERROR", "OPENUVR_")
InputKind = _enum("InputKind", "OPENUVR_INPUT_KIND", "OPENUVR_INPUT_")
InputTo = _enum("InputTo", "OPENUVR_INPUT_TO", "OPENUVR_INPUT_TO_")
LogLevel = _enum("LogLevel", "OPENUVR_LOG_LEVEL", "OPENUVR_LOG_")
MudState = _enum("MudState", "OPENUVR_MUD_STATE", "OPENUVR_MUD_")
Network = _enum("Network", "OPENUVR_NETWORK_TYPE", "OPENUVR_NETWORK_")
PixelFormat = _enum("PixelFormat", "OPENUVR_PIXEL_FORMAT", "OPENUVR_PIXEL_FORMAT_")
Surface = _enum("Surface", "OPENUVR_SURFACE", "OPENUVR_SURFACE_")


def version():
    """The version of the library that is loaded: (major, minor, patch)."""
    number = lib.openuvr_version()
    return number >> 16, number >> 8 & 0xFF, number & 0xFF


def text_of(pointer):
    """A C text as `str`."""
    return ffi.string(pointer).decode("utf-8", "replace")


def structure(name):
    """A new structure of the header, its `size` set."""
    made = ffi.new(f"struct {name} *")
    made.size = ffi.sizeof(made[0])
    return made


def plain(value):
    """A structure's fields as a dictionary, without its size and what is reserved."""
    fields = (name for name, _ in ffi.typeof(value[0]).fields)
    return {name: getattr(value, name) for name in fields if name not in ("size", "unused")}
