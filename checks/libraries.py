"""The programs and what is loaded into others need only the C library; x264, libavcodec and GL are
opened at run time. Of the hook nobody sees more than the functions that it stands in front of, and
of libopenuvr those of its header."""

import re

import repository

ALLOWED = re.compile(r"(linux-vdso|linux-gate|libc|libm|libgcc_s|(\S*/)?ld-linux\S*)\.so\.\d+$")

# What `libopenuvr_hook.so` exports: in front of GLX, EGL, X11 and the dynamic linker, and the door
# of its Vulkan layer. Anything else would get in the way of a game's own.
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

# What `libopenuvr_pads.so` exports: in front of what programs ask /dev/input with.
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

# The one door of the OpenXR runtime.
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
            if not ALLOWED.match(library):
                yield f"{binary.name} needs {library} at start"
    yield from exports(hook, HOOK, "which games may have, too")
    yield from exports(pads, PADS, "which programs may have, too")
    yield from exports(runtime, XR, "which its loader does not ask for")
    header = repository.text(repository.pathlib.Path("crates/capi/include/openuvr.h"))
    declared = set(re.findall(r"^[a-z][^(\n]*\b(openuvr_\w+)\(", header, re.M))
    yield from exports(capi, declared, "which its header has not")


def exports(binary, wanted, why):
    """That the library exports these functions and no other."""
    seen = {
        line.split()[-1].split("@")[0]
        for line in repository.run("nm", "-D", "--defined-only", str(binary)).stdout.splitlines()
    }
    for name in sorted(seen - wanted):
        yield f"{binary.name} exports {name}, {why}"
    for name in sorted(wanted - seen):
        yield f"{binary.name} does not export {name}"
