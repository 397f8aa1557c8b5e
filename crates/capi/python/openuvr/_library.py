"""Loads libopenuvr and reads its header, which declares the structures, functions and enums.

This package repeats no declaration of the C API, so the two cannot differ.
"""

import ctypes.util
import enum
import os
import pathlib
import re

import cffi

_HERE = pathlib.Path(__file__).resolve().parent


def _header():
    """Returns the text of the header: the copy in the wheel, or that of the source tree."""
    for path in (_HERE / "openuvr.h", _HERE.parent.parent / "include" / "openuvr.h"):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise ImportError(f"openuvr.h is missing beside {__file__}: reinstall the package")


def _declarations(header):
    """Removes preprocessor lines, C++ parts and the paper's names from `header`, and returns the rest."""
    lines, optional = [], 0
    for line in header.splitlines():
        if re.match(r"#\s*if(def)?\b", line):
            optional += 1
        elif re.match(r"#\s*endif\b", line) and optional:
            optional -= 1
        elif not optional and not line.startswith("#") and not line.endswith("\\"):
            lines.append(line)
    text = "\n".join(lines)
    # The remaining lines of the only macro that has several lines.
    return re.sub(r"^    \(OPENUVR_VERSION_MAJOR.*$", "", text, flags=re.M)


def _open():
    """Loads the library: from OPENUVR_LIBRARY, the wheel, or the system."""
    named = os.environ.get("OPENUVR_LIBRARY")
    own = _HERE / "libopenuvr.so"
    path = named or (str(own) if own.is_file() else ctypes.util.find_library("openuvr"))
    if path is None:
        raise ImportError("libopenuvr is not installed: install it, or set OPENUVR_LIBRARY to its path")
    try:
        return ffi.dlopen(path)
    except OSError as error:
        raise ImportError(f"cannot load libopenuvr: {error}") from error


ffi = cffi.FFI()
ffi.cdef(_declarations(_header()))
lib = _open()


def _enum(name, c_name, prefix):
    """Converts the C enum to a Python enum, and removes `prefix` from the names."""
    constants = ffi.typeof(f"enum {c_name}").relements
    members = {constant[len(prefix) :]: value for constant, value in constants.items()}
    return enum.IntEnum(name, members, module="openuvr")


Device = _enum("Device", "OPENUVR_DEVICE", "OPENUVR_DEVICE_")
Encoder = _enum("Encoder", "OPENUVR_ENCODER_TYPE", "OPENUVR_ENCODER_")
ErrorCode = _enum("ErrorCode", "OPENUVR_ERROR", "OPENUVR_")
Feature = _enum("Feature", "OPENUVR_FEATURE", "OPENUVR_FEATURE_")
InputKind = _enum("InputKind", "OPENUVR_INPUT_KIND", "OPENUVR_INPUT_")
InputTo = _enum("InputTo", "OPENUVR_INPUT_TO", "OPENUVR_INPUT_TO_")
LogLevel = _enum("LogLevel", "OPENUVR_LOG_LEVEL", "OPENUVR_LOG_")
MudState = _enum("MudState", "OPENUVR_MUD_STATE", "OPENUVR_MUD_")
Network = _enum("Network", "OPENUVR_NETWORK_TYPE", "OPENUVR_NETWORK_")
PixelFormat = _enum("PixelFormat", "OPENUVR_PIXEL_FORMAT", "OPENUVR_PIXEL_FORMAT_")
Surface = _enum("Surface", "OPENUVR_SURFACE", "OPENUVR_SURFACE_")


def version():
    """Returns the version of the loaded library: (major, minor, patch)."""
    number = lib.openuvr_version()
    return number >> 16, number >> 8 & 0xFF, number & 0xFF


def text_of(pointer):
    """Converts a C string to `str`."""
    return ffi.string(pointer).decode("utf-8", "replace")


def structure(name):
    """Creates a structure of the header and sets its `size`."""
    created = ffi.new(f"struct {name} *")
    created.size = ffi.sizeof(created[0])
    return created


def plain(value):
    """Returns a structure's fields as a dictionary, without the size and reserved fields."""
    fields = (name for name, _ in ffi.typeof(value[0]).fields)
    return {name: getattr(value, name) for name in fields if name not in ("size", "unused")}


def key_of(code):
    """Returns the fields of `struct openuvr_key` for a key or button: its codes and names. None if `code` is unknown.

    `code` is a number of linux/input-event-codes.h, as in `Input`. `us_text` and `us_text_shift` are characters, or ""
    if the key types none.
    """
    key = structure("openuvr_key")
    if lib.openuvr_key_of(code, key) < 0:
        return None
    fields = plain(key)
    for name in ("name", "xkb_name"):
        fields[name] = text_of(fields[name])
    for name in ("us_text", "us_text_shift"):
        fields[name] = chr(fields[name]) if fields[name] else ""
    return fields
