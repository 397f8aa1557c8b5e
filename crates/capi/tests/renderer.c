/*
 * A renderer that restarts, as a game engine does after a change of the video mode. Each time, a new host opens on the
 * same port with another OpenGL context, and a new MUD shows its pictures. Exits with 0 if each picture is shown, and
 * no descriptor or thread leaks. The argument is a folder for keys.
 */
#include "gl.h"
#include <dirent.h>

enum { TIMES = 12 };

static int whole_window(struct openuvr_context *host)
{
    return openuvr_capture_gl(host, 0, 0, 0);
}

static int count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;

    check(dir != NULL, folder);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
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
            check(0, why); /* the previous host still has the port */
        }
        openuvr_listen_address(host, place, sizeof place);
        snprintf(address, sizeof address, "%.60s", strstr(place, "127.0.0.1:"));
        address[strcspn(address, ",")] = 0;
        mud = mud_of(host, folder, 0);
        wait_until_shown(mud, 200, 120, colour, whole_window, host);
        if (i % 2 == 0)
            openuvr_close_mud(&mud);
        openuvr_close(&host);
        openuvr_close_mud(&mud);
        glXMakeCurrent(display, None, NULL);
        glXDestroyContext(display, context);
        /* The first host loads libraries of codecs and the driver, which stay loaded. */
        if (i == 1) {
            files = count_entries("/proc/self/fd");
            threads = count_entries("/proc/self/task");
        }
    }
    check(count_entries("/proc/self/fd") <= files, "descriptors leak");
    /* A joined thread stays in /proc until the kernel has released it. */
    for (int i = 0; i < 500 && count_entries("/proc/self/task") > threads; i++)
        usleep(10000);
    check(count_entries("/proc/self/task") <= threads, "threads leak");
    XFree(visual);
    XCloseDisplay(display);
    return 0;
}
