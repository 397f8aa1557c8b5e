/*
 * The paper's host (Fig. 9 a): an application that draws with OpenGL, reads each picture into a pixel
 * buffer and streams it. Comments with "Fig. 9" mark the code of the paper, and explain the changes to it.
 * A wheel turns by itself, and faster with each press of a button; its hub follows the mouse.
 *
 *   cc host.c -o host $(pkg-config --cflags --libs openuvr) -lGL -lX11 -lm && ./host
 *
 *   host [--synchronous] [PORT [PIN]]      with a port: listens on that UDP port, and encodes on the CPU
 *
 * Ends when its standard input ends or its window is closed.
 */
#define GL_GLEXT_PROTOTYPES
#define OPENUVR_PAPER_NAMES
#include <GL/gl.h>
#include <GL/glext.h>
#include <GL/glx.h>
#include <X11/Xlib.h>
#include <fcntl.h>
#include <linux/input.h>
#include <math.h>
#include <openuvr.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 640, HEIGHT = 368 };

static Display *display;
static Window window;
static GLXContext context;

/* The state that input changes. */
static double hub_x = WIDTH / 2.0, hub_y = HEIGHT / 2.0, speed = 1.0;

static int open_window(void)
{
    static int visual_attributes[] = { GLX_RGBA, GLX_DOUBLEBUFFER, GLX_RED_SIZE, 8,
                            GLX_GREEN_SIZE, 8, GLX_BLUE_SIZE, 8, None };
    XVisualInfo *visual;
    XSetWindowAttributes attributes = { 0 };

    display = XOpenDisplay(NULL);
    if (display == NULL)
        return 0;
    visual = glXChooseVisual(display, DefaultScreen(display), visual_attributes);
    if (visual == NULL)
        return 0;
    attributes.colormap = XCreateColormap(display, RootWindow(display, visual->screen),
                                          visual->visual, AllocNone);
    window = XCreateWindow(display, RootWindow(display, visual->screen), 0, 0, WIDTH, HEIGHT, 0,
                           visual->depth, InputOutput, visual->visual, CWColormap, &attributes);
    XStoreName(display, window, "OpenUVR host");
    XMapWindow(display, window);
    context = glXCreateContext(display, visual, NULL, True);
    XFree(visual);
    return context != NULL && glXMakeCurrent(display, window, context);
}

static void close_window(void)
{
    glXMakeCurrent(display, None, NULL);
    glXDestroyContext(display, context);
    XDestroyWindow(display, window);
    XCloseDisplay(display);
}

static void quad(double x, double y, double half)
{
    glBegin(GL_QUADS);
    glVertex2d(x - half, y - half);
    glVertex2d(x + half, y - half);
    glVertex2d(x + half, y + half);
    glVertex2d(x - half, y + half);
    glEnd();
}

static void draw(double angle)
{
    glViewport(0, 0, WIDTH, HEIGHT);
    glClearColor(0.1f, 0.2f, 0.4f, 1.0f);
    glClear(GL_COLOR_BUFFER_BIT);
    glMatrixMode(GL_PROJECTION);
    glLoadIdentity();
    glOrtho(0, WIDTH, HEIGHT, 0, -1, 1);
    glColor3f(1.0f, 1.0f, 1.0f);
    for (int spoke = 0; spoke < 5; spoke++) {
        double turned = angle + spoke * 2 * M_PI / 5;
        quad(WIDTH / 2.0 + 120 * cos(turned), HEIGHT / 2.0 + 120 * sin(turned), 20);
    }
    glColor3f(1.0f, 0.2f, 0.0f);
    quad(hub_x, hub_y, 32);
}

static double clamp(double value, double max)
{
    return value < 0 ? 0 : value > max ? max : value;
}

/* Reads input as events of the library. */
static void read_input(struct openuvr_context *ouvr_ctx)
{
    struct openuvr_input event = { .size = sizeof event };

    while (openuvr_next_input(ouvr_ctx, &event) == 1) {
        if (event.kind == OPENUVR_INPUT_POINTER) {
            hub_x = event.x / 65535.0 * WIDTH;
            hub_y = event.y / 65535.0 * HEIGHT;
        } else if (event.kind == OPENUVR_INPUT_BUTTON && event.value == 1) {
            speed += 1.0;
        }
    }
}

/* Reads the device that is mapped to a descriptor, like any event device. */
static void read_mouse(int mouse)
{
    struct input_event event;

    while (read(mouse, &event, sizeof event) == sizeof event) {
        if (event.type == EV_REL && event.code == REL_X)
            hub_x = clamp(hub_x + event.value, WIDTH);
        else if (event.type == EV_REL && event.code == REL_Y)
            hub_y = clamp(hub_y + event.value, HEIGHT);
        else if (event.type == EV_KEY && event.value == 1)
            speed += 1.0;
    }
}

static void fail(struct openuvr_context *ouvr_ctx, const char *what)
{
    char why[256] = "";

    openuvr_last_error(ouvr_ctx, why, sizeof why);
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

int main(int argc, char **argv)
{
    int synchronous = argc > 1 && strcmp(argv[1], "--synchronous") == 0;
    const char *port = argc > 1 + synchronous ? argv[1 + synchronous] : NULL;
    const char *pin = argc > 2 + synchronous ? argv[2 + synchronous] : NULL;
    struct openuvr_context *ouvr_ctx;
    char text[256];

    if (!open_window()) {
        fprintf(stderr, "cannot open a window with OpenGL: is DISPLAY set?\n");
        return 1;
    }

    /* Fig. 9: */
    GLuint pbo;
    /* generate an OpenGL buffer */
    glGenBuffers(1, &pbo);
    /* bind the created OpenGL buffer as a target to store generated content */
    glBindBuffer(GL_PIXEL_PACK_BUFFER, pbo);
    /* initializes the buffer object's data store */
    glBufferData(GL_PIXEL_PACK_BUFFER, WIDTH * HEIGHT * 4, 0, GL_DYNAMIC_COPY);
    /* The block of pixels is read from the frame buffer below, after drawing. */

    /* initialize the OpenUVR context. The paper's encoder and network need an NVIDIA GPU and the
     * permission to send Ethernet frames. Without them, this program uses x264 and any network. */
    uint32_t encoder = OPENUVR_ENCODER_H264_CUDA, network = OPENUVR_NETWORK_RAW;
    if (port != NULL || openuvr_check_support(encoder, network, text, sizeof text) < 0) {
        if (port == NULL)
            fprintf(stderr, "CUDA with raw Ethernet is not available: %s\n", text);
        encoder = OPENUVR_ENCODER_H264;
        network = OPENUVR_NETWORK_ANY;
    }
    ouvr_ctx = openuvr_alloc_context(encoder, network, &pbo);
    if (ouvr_ctx == NULL) {
        fprintf(stderr, "couldn't allocate openuvr context\n");
        exit(1);
    }
    /* set the target FPS for OpenUVR */
    openuvr_set_feature(ouvr_ctx, TARGET_FPS, 60);
    /* and the layout of the pixel buffer, which is 1920 x 1080 in the listing */
    openuvr_set_feature(ouvr_ctx, OPENUVR_FEATURE_WIDTH, WIDTH);
    openuvr_set_feature(ouvr_ctx, OPENUVR_FEATURE_HEIGHT, HEIGHT);
    openuvr_set_feature(ouvr_ctx, OPENUVR_FEATURE_FORMAT, OPENUVR_PIXEL_FORMAT_RGB);
    if (port != NULL)
        openuvr_set_feature(ouvr_ctx, OPENUVR_FEATURE_PORT, atoi(port));

    /* map an OpenUVR MUD input to the OpenUVR context. The listing opens /dev/input/mice for reading;
     * the library writes the events of a MUD's mouse, so this is the write end of a pipe. */
    int mouse[2];
    if (pipe(mouse) != 0 || fcntl(mouse[0], F_SETFL, O_NONBLOCK) != 0)
        return 1;
    if (openuvr_map_device(ouvr_ctx, SYS_MOUSE, mouse[1]) < 0)
        fail(ouvr_ctx, "cannot map the mouse");

    /* create an OpenUVR thread to send VR content and receive user inputs */
    if (openuvr_init_thread(ouvr_ctx) < 0)
        fail(ouvr_ctx, "cannot start the stream");
    /* End of Fig. 9. */

    openuvr_listen_address(ouvr_ctx, text, sizeof text);
    fprintf(stderr, "MUDs reach this host by %s\n", text);
    if (pin != NULL) {
        openuvr_open_pairing(ouvr_ctx, pin, 120);
    } else {
        openuvr_pin(ouvr_ctx, text, sizeof text);
        fprintf(stderr, "the PIN is %s\n", text[0] ? text : "not needed: a MUD is paired");
    }

    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    double angle = 0;
    while (poll(&input, 1, 16) == 0) {
        read_input(ouvr_ctx);
        read_mouse(mouse[0]);
        openuvr_begin_frame(ouvr_ctx);
        draw(angle += 0.02 * speed);
        /* Fig. 9: read a block of pixels from the frame buffer */
        glReadPixels(0, 0, WIDTH, HEIGHT, GL_RGB, GL_UNSIGNED_BYTE, 0);
        /* This line is not in the listing: only the application knows that the picture is complete. */
        int sent = synchronous ? openuvr_send_frame(ouvr_ctx) : openuvr_frame_ready(ouvr_ctx);
        /* After a timeout, the host may still send the picture, so the program continues. */
        if (sent < 0 && sent != OPENUVR_ERROR_TIMEOUT)
            fail(ouvr_ctx, "cannot send the picture");
        glXSwapBuffers(display, window);
    }

    openuvr_close(&ouvr_ctx);
    glDeleteBuffers(1, &pbo);
    close(mouse[0]);
    close(mouse[1]);
    close_window();
    return 0;
}
