"""Our programs and libraries link only the C library and libgcc_s; programs with a host also link libxkbcommon.

The Wayland display of a host uses libxkbcommon. x264, libavcodec and GL are opened at run time. The hook exports only
the functions that it interposes and the entry point of its Vulkan layer; the game pad library, only the functions that
it interposes; the OpenXR runtime, only its entry point; and libopenuvr, only the functions of its header.
"""

import re

import repository

ALLOWED = re.compile(r"(linux-vdso|linux-gate|libc|libm|libgcc_s|(\S*/)?ld-linux\S*)\.so\.\d+$")

# The programs that contain the Wayland display, which links libxkbcommon.
WITH_DISPLAY = {"openuvr", "openuvr-bench"}
XKB = re.compile(r"libxkbcommon\.so\.\d+$")

# The exports of `libopenuvr_hook.so`: interposed functions of GLX, EGL, X11 and the dynamic linker, and the entry point
# of its Vulkan layer. Any other symbol could conflict with a game's own.
HOOK = {
    "dlsym",
    "dlvsym",
    "eglCreateContext",
    "eglCreatePlatformWindowSurface",
    "eglCreatePlatformWindowSurfaceEXT",
    "eglCreateWindowSurface",
    "eglDestroyContext",
    "eglDestroySurface",
    "eglGetDisplay",
    "eglGetPlatformDisplay",
    "eglGetPlatformDisplayEXT",
    "eglGetProcAddress",
    "eglSwapBuffers",
    "eglSwapBuffersWithDamageEXT",
    "eglSwapBuffersWithDamageKHR",
    "eglTerminate",
    "glXCreateContext",
    "glXCreateContextAttribsARB",
    "glXCreateNewContext",
    "glXCreateWindow",
    "glXDestroyContext",
    "glXDestroyWindow",
    "glXFreeContextEXT",
    "glXGetProcAddress",
    "glXGetProcAddressARB",
    "glXSwapBuffers",
    "glXSwapBuffersMscOML",
    "vkNegotiateLoaderLayerInterfaceVersion",
    "XCloseDisplay",
    "XOpenDisplay",
}

# The exports of `libopenuvr_pads.so`: interposed functions for access to /dev/input.
PADS = {
    "__fxstat",
    "__fxstat64",
    "__lxstat",
    "__lxstat64",
    "__open64_2",
    "__open_2",
    "__openat64_2",
    "__openat_2",
    "__read_chk",
    "__xstat",
    "__xstat64",
    "access",
    "eaccess",
    "euidaccess",
    "faccessat",
    "fstat",
    "fstat64",
    "fstatat",
    "fstatat64",
    "inotify_add_watch",
    "ioctl",
    "lstat",
    "lstat64",
    "open",
    "open64",
    "openat",
    "openat64",
    "opendir",
    "read",
    "scandir",
    "scandir64",
    "stat",
    "stat64",
    "statx",
    "write",
}

# The only entry point of the OpenXR runtime.
XR = {"xrNegotiateLoaderRuntimeInterface"}


def check():
    hook = repository.library("openuvr_hook")
    capi = repository.library("openuvr")
    pads = repository.library("openuvr_pads")
    runtime = repository.library("openuvr_xr")
    ours = (hook, pads, capi, runtime)
    for binary in (repository.program(), repository.program("openuvr-bench"), *ours):
        for line in repository.run("ldd", str(binary)).stdout.splitlines():
            library = line.split()[0]
            has_display = binary.name in WITH_DISPLAY and XKB.match(library)
            if not ALLOWED.match(library) and not has_display:
                yield f"{binary.name} needs {library} at start"
    yield from exports(hook, HOOK, "which may conflict with games")
    yield from exports(pads, PADS, "which may conflict with programs")
    yield from exports(runtime, XR, "which OpenXR loaders do not use")
    header = repository.text(repository.pathlib.Path("crates/capi/include/openuvr.h"))
    declared = set(re.findall(r"^[a-z][^(\n]*\b(openuvr_\w+)\(", header, re.M))
    yield from exports(capi, declared, "which openuvr.h does not declare")


def exports(binary, wanted, why):
    """Checks that the library exports exactly these functions."""
    seen = {
        line.split()[-1].split("@")[0]
        for line in repository.run("nm", "-D", "--defined-only", str(binary)).stdout.splitlines()
    }
    for name in sorted(seen - wanted):
        yield f"{binary.name} exports {name}, {why}"
    for name in sorted(wanted - seen):
        yield f"{binary.name} does not export {name}"
