/* Preloaded in front of libXxf86vm for programs that use the window code of the OpenXR SDK (hello_xr, the conformance
 * suite). That code divides by values of the display's video mode, which a virtual X server does not report. One mode
 * is enough. */
#include <stdlib.h>

struct mode {
    unsigned clock; /* kHz */
    unsigned short width, sync[2], whole_width, skew, height, more_sync[2], whole_height;
    unsigned flags;
    int size;
    int *more;
};

int XF86VidModeGetAllModeLines(void *display, int screen, int *count, struct mode ***all) {
    struct mode *mode = calloc(1, sizeof *mode);
    (void)display;
    (void)screen;
    *all = malloc(sizeof **all);
    if (!mode || !*all) {
        abort();
    }
    mode->clock = 61440; /* 60 Hz */
    mode->width = mode->whole_width = 1280;
    mode->height = mode->whole_height = 800;
    **all = mode;
    *count = 1;
    return 1;
}
