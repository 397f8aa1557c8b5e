/*
 * A renderer that ends and begins again, as an engine's does with each new video mode: a host at the same
 * port with another OpenGL context each time, and a MUD that sees it. Ends with 0 if each was seen, nothing
 * that is open is left behind, and no thread. The word is a folder to keep keys in.
 */
#include "gl.h"
#include <dirent.h>

enum { TIMES = 12 };

static int whole_window(struct openuvr_context *host)
{
    return openuvr_capture_gl(host, 0, 0, 0);
}

static int entries(const char *folder)
{
    DIR *open = opendir(folder);
    int count = 0;

    check(open != NULL, folder);
    while (readdir(open) != NULL)
        count++;
    closedir(open);
    return count;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    char own[300], place[200], address[64] = "127.0.0.1:0", why[200] = "";
    int files = 0, threads = 0;

    open_window(200, 120);
    for (int i = 0; i < TIMES; i++) {
        int colour[3] = { i % 3 == 0 ? 200 : 0, i % 3 == 1 ? 200 : 0, i % 3 == 2 ? 200 : 0 };
        GLXContext context = new_context();
        struct openuvr_config config;
        struct openuvr_context *host;
        struct openuvr_mud_context *mud;

        glClearColor(colour[0] / 255.0f, colour[1] / 255.0f, colour[2] / 255.0f, 1);
        glClear(GL_COLOR_BUFFER_BIT);
        host_config(&config, folder, own, sizeof own);
        config.bind = address;
        check(openuvr_open(&config, &host, why, sizeof why) == 0, why);
        if (openuvr_init_thread(host) != 0) {
            openuvr_last_error(host, why, sizeof why);
            check(0, why); /* the port of the host before is not free */
        }
        openuvr_listen_address(host, place, sizeof place);
        snprintf(address, sizeof address, "%.60s", strstr(place, "127.0.0.1:"));
        address[strcspn(address, ",")] = 0;
        mud = mud_of(host, folder, 0);
        shows(mud, 200, 120, colour, whole_window, host);
        if (i % 2 == 0)
            openuvr_close_mud(&mud);
        openuvr_close(&host);
        openuvr_close_mud(&mud);
        glXMakeCurrent(display, None, NULL);
        glXDestroyContext(display, context);
        /* The first one loads what stays: the codecs' and the driver's libraries. */
        if (i == 1) {
            files = entries("/proc/self/fd");
            threads = entries("/proc/self/task");
        }
    }
    check(entries("/proc/self/fd") <= files, "files stay open");
    check(entries("/proc/self/task") <= threads, "threads stay");
    XFree(visual);
    XCloseDisplay(display);
    return 0;
}
