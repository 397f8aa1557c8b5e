/*
 * Input to the X display: the pointer moves within the picture's area there, also after the picture's size
 * changes. Exits with 0 if it does. The argument is a folder for keys.
 */
#include "pair.h"
#include <X11/Xlib.h>

static Display *display;

/* Submits pictures and points at their centre until the pointer is at this position of the display. */
static void point_at_centre(struct openuvr_context *host, struct openuvr_mud_context *mud, uint32_t width,
                   uint32_t height, int x, int y)
{
    static uint32_t pixels[180][320];
    struct openuvr_picture picture = { .size = sizeof picture };
    struct openuvr_input input = { .size = sizeof input };
    int at_x = 0, at_y = 0, unused;
    unsigned mask;
    Window none;

    picture.format = OPENUVR_PIXEL_FORMAT_BGRX;
    picture.width = width;
    picture.height = height;
    picture.data = pixels;
    input.kind = OPENUVR_INPUT_POINTER;
    input.x = input.y = 32768;
    for (int tries = 0; tries < 10000; tries++) {
        struct openuvr_picture shown = { .size = sizeof shown };
        check(openuvr_send_picture(host, &picture, 0) >= 0, "cannot submit a picture");
        check(openuvr_send_input(mud, &input) == 0, "cannot send input");
        openuvr_next_frame(mud, &shown, 5);
        XQueryPointer(display, DefaultRootWindow(display), &none, &none, &at_x, &at_y, &unused,
                      &unused, &mask);
        if (at_x == x && at_y == y)
            return;
    }
    fprintf(stderr, "the pointer is at %d, %d, not at %d, %d\n", at_x, at_y, x, y);
    exit(1);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    struct openuvr_config config;
    struct openuvr_context *host;
    struct openuvr_mud_context *mud;
    char own[300], why[200] = "";

    display = XOpenDisplay(NULL);
    check(display != NULL, "cannot open the display");
    host_config(&config, folder, own, sizeof own);
    config.input = OPENUVR_INPUT_TO_DISPLAY;
    check(openuvr_open(&config, &host, why, sizeof why) == 0, why);
    check(openuvr_init_thread(host) == 0, "the host does not start");
    mud = mud_of(host, folder, 0);
    /* By default, the area is in the corner and has the size of the pictures, not that of the configuration. */
    point_at_centre(host, mud, 320, 180, 160, 90);
    check(openuvr_set_viewport(host, 200, 100, 0, 0) == 0, "cannot move the viewport");
    point_at_centre(host, mud, 320, 180, 360, 190);
    point_at_centre(host, mud, 160, 120, 280, 160);
    /* The area is larger than the pictures. */
    check(openuvr_set_viewport(host, 10, 20, 400, 300) == 0, "cannot enlarge the viewport");
    point_at_centre(host, mud, 160, 120, 210, 170);
    point_at_centre(host, mud, 320, 180, 210, 170);
    openuvr_close(&host);
    openuvr_close_mud(&mud);
    XCloseDisplay(display);
    return 0;
}
