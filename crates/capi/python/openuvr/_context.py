"""The common parts of host and client: settings, lifetime, errors."""

import contextlib
import threading
import weakref

from ._library import ErrorCode, ffi, lib, plain, structure, text_of

_TEXT = 1024

# Whether a thread is running a log callback, in which the library closes no context.
_callback = threading.local()


class Error(Exception):
    """A call failed. `code` is the `OPENUVR_ERROR` as a number; the text is the reason."""

    def __init__(self, code, text):
        super().__init__(text or text_of(lib.openuvr_error_text(code)))
        self.code = code


class Context:
    """A context of the C API. The subclasses set the names of its functions.

    A `with` statement closes it. It may be used from several threads; `close` waits for their calls.
    """

    # The names in openuvr.h: of the structure with the settings (`_config`), and of the functions.
    _config: str
    _defaults: str
    _open: str
    _start: str
    _close: str
    _message: str
    _statistics: str

    def __init__(self, log=None, **settings):
        # The calls in progress, and whether no more calls may begin.
        self._calls, self._closed = 0, False
        self._changed = threading.Condition()
        config = structure(self._config)
        _check(getattr(lib, self._defaults)(config))
        buffers = _fill(config, settings, self._config)
        if log is not None:
            config.log = self._log = _log_callback(log)
        open_context = getattr(lib, self._open)
        self._handle = ffi.new(ffi.typeof(open_context).args[1])
        why = ffi.new("char[]", _TEXT)
        code = open_context(config, self._handle, why, _TEXT)
        if code < 0:
            raise Error(code, text_of(why))
        del buffers
        # The context is also closed at exit: a thread of the library must not call into an interpreter that has ended.
        close = getattr(lib, self._close)
        self._closing = weakref.finalize(self, close, self._handle)
        try:
            self._call(getattr(lib, self._start))
        except Error:
            self.close()
            raise

    def close(self):
        """Ends the stream, after the calls of other threads have returned. A second call does nothing.

        Raises `Error` in a log callback.
        """
        if getattr(_callback, "runs", False):
            why = "a log callback cannot close a context: close it after the callback has returned"
            raise Error(ErrorCode.ERROR_STATE, why)
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._calls == 0)
        self._closing()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def statistics(self):
        """Returns the fields of the C structure by name; an unknown time is None."""
        filled = structure(self._statistics)
        self._call(getattr(lib, self._statistics), filled)
        return {
            name: None if name.endswith("_ns") and value < 0 else value
            for name, value in plain(filled).items()
        }

    @contextlib.contextmanager
    def _opened(self):
        """Keeps the context open in a `with` statement. Raises `Error` if it is closed."""
        with self._changed:
            if self._closed:
                raise Error(ErrorCode.ERROR_STATE, "the context is already closed")
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def _call(self, function, *arguments):
        """Calls `function` with this context. Raises `Error` if it fails."""
        with self._opened():
            code = function(self._handle[0], *arguments)
            if code < 0:
                raise Error(code, self._read(getattr(lib, self._message)))
            return code

    def _text(self, function):
        """Returns the text that `function` writes for this context."""
        with self._opened():
            return self._read(function)

    def _read(self, function):
        """Like `_text`, for a context that stays open."""
        buffer = ffi.new("char[]", _TEXT)
        function(self._handle[0], buffer, _TEXT)
        return text_of(buffer)


def _check(code):
    if code < 0:
        raise Error(code, "")


def _fill(config, settings, name):
    """Writes `settings` into the structure. Returns buffers that must live until the library has read the structure."""
    fields = dict(ffi.typeof(config[0]).fields)
    buffers = []
    for key, value in settings.items():
        if key in ("size", "user", "unused", "log") or key not in fields:
            known = ", ".join(sorted(set(fields) - {"size", "user", "unused"}))
            raise TypeError(f"struct {name} has no setting {key!r}; its settings are {known}")
        if isinstance(value, str):
            value = ffi.new("char[]", value.encode("utf-8"))
            buffers.append(value)
        elif value is None:
            value = ffi.NULL
        setattr(config, key, value)
    return buffers


def _log_callback(log):
    """Wraps `log(level, text)` as a C callback. Exceptions in it are printed and dropped."""

    @ffi.callback("openuvr_log_callback")
    def on_line(_user, level, text):
        before, _callback.runs = getattr(_callback, "runs", False), True
        try:
            log(level, text_of(text))
        finally:
            _callback.runs = before

    return on_line
