/*
 * A window for drawing with OpenGL, and functions that check the window's pictures at a MUD.
 */
#define GL_GLEXT_PROTOTYPES
#include <GL/gl.h>
#include <GL/glext.h>
#include <GL/glx.h>
#include <X11/Xlib.h>
#include "pair.h"
#include <unistd.h>

static Display *display;
static Window window;
static XVisualInfo *visual;

static void open_window(unsigned width, unsigned height)
{
    static int visual_attributes[] = { GLX_RGBA, GLX_DOUBLEBUFFER, GLX_RED_SIZE, 8, None };
    XSetWindowAttributes attributes = { 0 };
    Window root;

    display = XOpenDisplay(NULL);
    check(display != NULL, "cannot open the display");
    root = DefaultRootWindow(display);
    visual = glXChooseVisual(display, DefaultScreen(display), visual_attributes);
    check(visual != NULL, "no OpenGL visual");
    attributes.colormap = XCreateColormap(display, root, visual->visual, AllocNone);
    window = XCreateWindow(display, root, 0, 0, width, height, 0, visual->depth, InputOutput,
                           visual->visual, CWColormap, &attributes);
    XMapWindow(display, window);
}

/* Creates an OpenGL context and makes it current on this thread. */
static GLXContext new_context(void)
{
    GLXContext context = glXCreateContext(display, visual, NULL, True);

    check(context != NULL && glXMakeCurrent(display, window, context), "cannot create an OpenGL context");
    return context;
}

/* Creates a pixel buffer of one colour in the current context. */
__attribute__((unused)) static GLuint filled_buffer(int width, int height, int red, int green, int blue)
{
    unsigned char *pixels = malloc(width * height * 3);
    GLuint name;

    for (int i = 0; i < width * height; i++) {
        pixels[3 * i] = red;
        pixels[3 * i + 1] = green;
        pixels[3 * i + 2] = blue;
    }
    glGenBuffers(1, &name);
    glBindBuffer(GL_PIXEL_PACK_BUFFER, name);
    glBufferData(GL_PIXEL_PACK_BUFFER, width * height * 3, pixels, GL_DYNAMIC_COPY);
    free(pixels);
    return name;
}

__attribute__((unused)) static int near(int actual, int expected)
{
    return abs(actual - expected) < 40;
}

/* Waits until the MUD has a picture of this size and colour, and calls `submit` meanwhile. */
__attribute__((unused)) static void wait_until_shown(struct openuvr_mud_context *mud, uint32_t width, uint32_t height, const int *colour,
                  int (*submit)(struct openuvr_context *), struct openuvr_context *host)
{
    struct openuvr_picture picture = { .size = sizeof picture };

    for (int tries = 0; tries < 3000; tries++) {
        int result = submit == NULL ? 1 : submit(host);
        /* On a stalled machine, the call may time out. */
        check(result >= 0 || result == OPENUVR_ERROR_TIMEOUT, "cannot submit a picture");
        if (openuvr_next_frame(mud, &picture, 5) == 1) {
            const unsigned char *at = picture.data;
            at += picture.height / 2 * picture.stride + picture.width / 2 * 4;
            if (picture.width == width && picture.height == height && near(at[2], colour[0]) &&
                near(at[1], colour[1]) && near(at[0], colour[2]))
                return;
        }
    }
    check(0, "the picture does not arrive");
}
