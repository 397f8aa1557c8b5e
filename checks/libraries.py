"""The program needs only the C library; x264, libavcodec and GL are opened at run time."""

import re

import repository

ALLOWED = re.compile(r"(linux-vdso|linux-gate|libc|libm|libgcc_s|(\S*/)?ld-linux\S*)\.so\.\d+$")


def check():
    program = repository.program()
    for line in repository.run("ldd", str(program)).stdout.splitlines():
        library = line.split()[0]
        if not ALLOWED.match(library):
            yield f"{program.name} needs {library} at start"
