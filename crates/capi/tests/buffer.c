/*
 * A host whose OpenGL contexts come and go while the stream goes on: pictures of the last one are shown,
 * also to MUDs that join when it is destroyed. Ends with 0 if all were. The word is a folder to keep
 * keys in.
 */
#define GL_GLEXT_PROTOTYPES
#include <GL/gl.h>
#include <GL/glext.h>
#include <GL/glx.h>
#include <X11/Xlib.h>
#include "pair.h"
#include <pthread.h>
#include <unistd.h>

enum { WIDTH = 320, HEIGHT = 180, MANY = 3 };

static Display *display;
static Window window;
static XVisualInfo *visual;

static void open_window(void)
{
    static int wanted[] = { GLX_RGBA, GLX_RED_SIZE, 8, None };
    XSetWindowAttributes attributes = { 0 };
    Window root;

    display = XOpenDisplay(NULL);
    check(display != NULL, "no display");
    root = DefaultRootWindow(display);
    visual = glXChooseVisual(display, DefaultScreen(display), wanted);
    check(visual != NULL, "no OpenGL");
    attributes.colormap = XCreateColormap(display, root, visual->visual, AllocNone);
    window = XCreateWindow(display, root, 0, 0, 64, 64, 0, visual->depth, InputOutput,
                           visual->visual, CWColormap, &attributes);
}

/* A pixel buffer in the current context, all of one colour. */
static GLuint filled(int red, int green, int blue)
{
    static unsigned char pixels[HEIGHT][WIDTH][3];
    GLuint name;

    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            pixels[y][x][0] = red;
            pixels[y][x][1] = green;
            pixels[y][x][2] = blue;
        }
    glGenBuffers(1, &name);
    glBindBuffer(GL_PIXEL_PACK_BUFFER, name);
    glBufferData(GL_PIXEL_PACK_BUFFER, sizeof pixels, pixels, GL_DYNAMIC_COPY);
    return name;
}

static int near(int seen, int meant)
{
    return abs(seen - meant) < 40;
}

/* Waits until the MUD has a picture of this colour; meanwhile `give` is called. */
static void shows(struct openuvr_mud_context *mud, int red, int green, int blue,
                  int (*give)(struct openuvr_context *), struct openuvr_context *host)
{
    struct openuvr_picture picture = { .size = sizeof picture };

    for (int tries = 0; tries < 3000; tries++) {
        check(give == NULL || give(host) >= 0, "no picture can be given");
        if (openuvr_next_frame(mud, &picture, 5) == 1) {
            const unsigned char *at = picture.data;
            at += 90 * picture.stride + 160 * 4;
            if (near(at[2], red) && near(at[1], green) && near(at[0], blue))
                return;
        }
    }
    check(0, "the picture does not come");
}

static void *close_elsewhere(void *host)
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

    open_window();
    host_config(&config, folder, own, sizeof own);
    config.width = WIDTH;
    config.height = HEIGHT;
    config.pixel_buffer = &name;
    check(openuvr_open(&config, &host, why, sizeof why) == 0, why);
    check(openuvr_init_thread(host) == 0, "the host does not start");
    check(openuvr_release_buffer(host) == 0, "there is nothing to release yet");
    watching = mud_of(host, folder, 0);
    for (int i = 0; i < MANY; i++) {
        const int *is = colours[i];
        context = glXCreateContext(display, visual, NULL, True);
        check(context != NULL && glXMakeCurrent(display, window, context), "no context");
        name = filled(is[0], is[1], is[2]);
        shows(watching, is[0], is[1], is[2],
              i == 1 ? openuvr_send_frame : openuvr_frame_ready, host);
        if (i == MANY - 1)
            break;
        check(openuvr_release_buffer(host) == 0, "it can't be released");
        glXMakeCurrent(display, None, NULL);
        glXDestroyContext(display, context);
        /* For it the last picture is encoded anew. */
        joins = mud_of(host, folder, i + 1);
        shows(joins, is[0], is[1], is[2], NULL, NULL);
        openuvr_close_mud(&joins);
    }
    /* In another context the buffer is not the same. */
    other = glXCreateContext(display, visual, NULL, True);
    check(glXMakeCurrent(display, window, other), "no context");
    for (int tries = 0, got = 0; got != OPENUVR_ERROR_THREAD; tries++) {
        check(tries < 1000, "another context is not recognised");
        got = openuvr_frame_ready(host);
        usleep(5000);
    }
    openuvr_message(host, why, sizeof why);
    check(strstr(why, "openuvr_release_buffer") != NULL, why);
    /* It is closed where no context is current, but before it is destroyed. */
    check(pthread_create(&thread, NULL, close_elsewhere, &host) == 0, "no thread");
    pthread_join(thread, NULL);
    check(host == NULL, "it is not closed");
    openuvr_close_mud(&watching);
    glXMakeCurrent(display, None, NULL);
    glXDestroyContext(display, other);
    glXDestroyContext(display, context);
    XFree(visual);
    XCloseDisplay(display);
    return 0;
}
