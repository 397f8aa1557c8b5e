/*
 * A host that changes its OpenGL context during the stream. MUDs show the pictures of the last context, even
 * if they join after that context has been destroyed. Exits with 0 if all pictures are shown. The argument is
 * a folder for keys.
 */
#include "gl.h"
#include <pthread.h>

enum { WIDTH = 320, HEIGHT = 180, MANY = 3 };

static void *close_on_other_thread(void *host)
{
    openuvr_close(host);
    return NULL;
}

int main(int argc, char **argv)
{
    static const int colours[MANY][3] = { { 200, 0, 0 }, { 0, 200, 0 }, { 0, 0, 200 } };
    const char *folder = argc > 1 ? argv[1] : ".";
    struct openuvr_config config;
    struct openuvr_context *host;
    struct openuvr_mud_context *watching, *joins;
    GLXContext context, other;
    GLuint name = 0;
    char own[300], why[200] = "";
    pthread_t thread;

    open_window(64, 64);
    host_config(&config, folder, own, sizeof own);
    config.width = WIDTH;
    config.height = HEIGHT;
    config.pixel_buffer = &name;
    check(openuvr_open(&config, &host, why, sizeof why) == 0, why);
    check(openuvr_init_thread(host) == 0, "the host does not start");
    check(openuvr_release_buffer(host) == 0, "a release without a buffer fails");
    watching = mud_of(host, folder, 0);
    for (int i = 0; i < MANY; i++) {
        const int *is = colours[i];
        context = new_context();
        name = filled_buffer(WIDTH, HEIGHT, is[0], is[1], is[2]);
        wait_until_shown(watching, WIDTH, HEIGHT, is, i == 1 ? openuvr_send_frame : openuvr_frame_ready, host);
        if (i == MANY - 1)
            break;
        check(openuvr_release_buffer(host) == 0, "cannot release the buffer");
        glXMakeCurrent(display, None, NULL);
        glXDestroyContext(display, context);
        /* The last picture is encoded again for the new MUD. */
        joins = mud_of(host, folder, i + 1);
        wait_until_shown(joins, WIDTH, HEIGHT, is, NULL, NULL);
        openuvr_close_mud(&joins);
    }
    /* In another context, the same name is a different buffer. */
    other = new_context();
    for (int tries = 0, got = 0; got != OPENUVR_ERROR_THREAD; tries++) {
        check(tries < 1000, "another context is not detected");
        got = openuvr_frame_ready(host);
        usleep(5000);
    }
    openuvr_last_error(host, why, sizeof why);
    check(strstr(why, "openuvr_release_buffer") != NULL, why);
    /* Closes the host on a thread without a current context, before the context is destroyed. */
    check(pthread_create(&thread, NULL, close_on_other_thread, &host) == 0, "cannot create a thread");
    pthread_join(thread, NULL);
    check(host == NULL, "the host is not closed");
    openuvr_close_mud(&watching);
    glXMakeCurrent(display, None, NULL);
    glXDestroyContext(display, other);
    glXDestroyContext(display, context);
    XFree(visual);
    XCloseDisplay(display);
    return 0;
}
