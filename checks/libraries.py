"""The program and what is loaded into others need only the C library; x264, libavcodec and GL are
opened at run time. Of the hook nobody sees more than the functions that it stands in front of."""

import re

import repository

ALLOWED = re.compile(r"(linux-vdso|linux-gate|libc|libm|libgcc_s|(\S*/)?ld-linux\S*)\.so\.\d+$")

# What `libopenuvr_hook.so` exports: in front of GLX, EGL, X11 and the dynamic linker, and the door
# of its Vulkan layer. Anything else would get in the way of a game's own.
HOOK = {
    "dlsym",
    "dlvsym",
    "eglCreatePlatformWindowSurface",
    "eglCreatePlatformWindowSurfaceEXT",
    "eglCreateWindowSurface",
    "eglDestroyContext",
    "eglDestroySurface",
    "eglGetProcAddress",
    "eglSwapBuffers",
    "eglSwapBuffersWithDamageEXT",
    "eglSwapBuffersWithDamageKHR",
    "eglTerminate",
    "glXDestroyContext",
    "glXGetProcAddress",
    "glXGetProcAddressARB",
    "glXSwapBuffers",
    "glXSwapBuffersMscOML",
    "vkNegotiateLoaderLayerInterfaceVersion",
    "XCloseDisplay",
}


def check():
    hook = repository.library("hook")
    for binary in (repository.program(), hook):
        for line in repository.run("ldd", str(binary)).stdout.splitlines():
            library = line.split()[0]
            if not ALLOWED.match(library):
                yield f"{binary.name} needs {library} at start"
    seen = {
        line.split()[-1].split("@")[0]
        for line in repository.run("nm", "-D", "--defined-only", str(hook)).stdout.splitlines()
    }
    for name in sorted(seen - HOOK):
        yield f"{hook.name} exports {name}, which games may have, too"
    for name in sorted(HOOK - seen):
        yield f"{hook.name} does not export {name}"
