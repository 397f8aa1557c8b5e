/* A program that destroys its OpenGL contexts in each order that GLX or EGL allows, built with the address
 * sanitizer. Its arguments are "glx" or "egl", followed by acts. In each act it shows a picture until the test
 * has seen it (a file SEEN.n appears), destroys its context, reports that, and renders nothing until a later
 * client has seen the same picture (a file KEPT.n).
 *
 * It opens libraries in the same way as SDL, so that building it needs no headers or libraries. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long XID;

enum { WIDTH = 320, HEIGHT = 240 };

/* The parts of Xlib.h, glx.h, egl.h and gl.h that this program uses. */
enum { COLOUR_BUFFER_BIT = 0x4000, SCISSOR_TEST = 0x0C11 };
enum { GLX_RGBA = 4, GLX_DOUBLEBUFFER = 5 };
enum { EGL_SURFACE_TYPE = 0x3033, EGL_WINDOW_BIT = 4, EGL_RENDERABLE_TYPE = 0x3040, EGL_OPENGL_BIT = 8,
       EGL_NONE = 0x3038, EGL_OPENGL_API = 0x30A2 };

static void *x, *gl, *egl;

static void *found(void *address, const char *name)
{
    if (!address) {
        fprintf(stderr, "context_order: there is no %s\n", name);
        exit(99);
    }
    return address;
}

/* Looks up a function of a library, with its type. */
#define CALL(library, result, name, ...) \
    ((result (*)())found(dlsym(library, #name), #name))(__VA_ARGS__)

static void *gl_function(const char *name)
{
    return found(CALL(gl, void *, glXGetProcAddressARB, name), name);
}

struct stage {
    int egl;
    void *connection, *display, *config, *context;
    XID window;
    /* The window, or its EGL surface. */
    XID surface;
};

static void *new_context(struct stage *s, void *shared)
{
    if (s->egl)
        return found(CALL(egl, void *, eglCreateContext, s->display, s->config, shared, NULL), "context");
    return found(CALL(gl, void *, glXCreateContext, s->display, s->config, shared, 1), "context");
}

static void make_current(struct stage *s, void *context)
{
    XID surface = context ? s->surface : 0;
    int done = s->egl ? CALL(egl, int, eglMakeCurrent, s->display, surface, surface, context)
                      : CALL(gl, int, glXMakeCurrent, s->display, surface, context);
    if (!done)
        exit(98);
}

static void destroy(struct stage *s, void *context)
{
    if (s->egl)
        CALL(egl, int, eglDestroyContext, s->display, context);
    else
        CALL(gl, int, glXDestroyContext, s->display, context);
}

static void initialise(struct stage *s)
{
    int attributes[] = { EGL_SURFACE_TYPE, EGL_WINDOW_BIT, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_NONE };
    int count = 0;
    s->display = found(CALL(egl, void *, eglGetDisplay, s->connection), "display");
    CALL(egl, int, eglInitialize, s->display, NULL, NULL);
    CALL(egl, int, eglBindAPI, EGL_OPENGL_API);
    CALL(egl, int, eglChooseConfig, s->display, attributes, &s->config, 1, &count);
    s->surface = (XID)found(
        CALL(egl, void *, eglCreateWindowSurface, s->display, s->config, s->window, NULL), "surface");
}

static struct stage set_up(int with_egl)
{
    struct stage s = { .egl = with_egl };
    /* The display in SHOWN_ON; if that is not set, the display in DISPLAY. */
    s.connection = found(CALL(x, void *, XOpenDisplay, getenv("SHOWN_ON")), "display");
    XID root = CALL(x, XID, XDefaultRootWindow, s.connection);
    s.window = CALL(x, XID, XCreateSimpleWindow, s.connection, root, 0, 0, WIDTH, HEIGHT, 0, 0UL, 0UL);
    if (with_egl) {
        initialise(&s);
    } else {
        int attributes[] = { GLX_RGBA, GLX_DOUBLEBUFFER, 0 };
        s.display = s.connection;
        s.config = found(CALL(gl, void *, glXChooseVisual, s.display, 0, attributes), "visual");
        s.surface = s.window;
    }
    s.context = new_context(&s, NULL);
    make_current(&s, s.context);
    /* The window is mapped only now: loading the driver may take seconds, and `openuvr run` would stream a window
     * that is visible for seconds without a picture. */
    CALL(x, int, XMapWindow, s.connection, s.window);
    CALL(x, int, XSync, s.connection, 0);
    return s;
}

/* Shows a picture. Returns whether the driver accepted it, because Mesa's EGL rejects swaps of a destroyed
 * context. */
static int show(struct stage *s, int above, int below)
{
    int done = 1;
    void (*clear_colour)(float, float, float, float) = gl_function("glClearColor");
    void (*clear)(unsigned) = gl_function("glClear");
    void (*scissor)(int, int, int, int) = gl_function("glScissor");
    void (*enable)(unsigned) = gl_function("glEnable");
    void (*disable)(unsigned) = gl_function("glDisable");
    disable(SCISSOR_TEST);
    clear_colour(below >> 2 & 1, below >> 1 & 1, below & 1, 1);
    clear(COLOUR_BUFFER_BIT);
    enable(SCISSOR_TEST);
    scissor(0, HEIGHT / 2, WIDTH, HEIGHT - HEIGHT / 2);
    clear_colour(above >> 2 & 1, above >> 1 & 1, above & 1, 1);
    clear(COLOUR_BUFFER_BIT);
    if (s->egl)
        done = CALL(egl, int, eglSwapBuffers, s->display, s->surface);
    else
        CALL(gl, void, glXSwapBuffers, s->display, s->surface);
    usleep(4000);
    return done;
}

static int is_marked(const char *what, int act)
{
    char path[4096];
    /* The test is over. */
    if (access(getenv("MARKS"), F_OK))
        _exit(94);
    snprintf(path, sizeof path, "%s/%s.%d", getenv("MARKS"), what, act);
    return !access(path, F_OK);
}

/* The colours of an act in the upper and the lower half of the picture. Consecutive acts differ. */
static int above(int act)
{
    return 1 + act % 7;
}

static int below(int act)
{
    return 1 + (act + 3) % 7;
}

static void show_until_seen(struct stage *s, int act)
{
    do
        show(s, above(act), below(act));
    while (!is_marked("SEEN", act));
}

static void wait_until_kept(const char *name, int act)
{
    fprintf(stderr, "context_order: %s is over\n", name);
    while (!is_marked("KEPT", act))
        usleep(4000);
}

struct errand {
    struct stage *stage;
    int act, unmakes;
};

/* A thread that shows pictures while another thread destroys the context. It then releases the context, or
 * ends without releasing it. */
static void *draws(void *argument)
{
    struct errand *errand = argument;
    struct stage *s = errand->stage;
    if (s->egl)
        CALL(egl, int, eglBindAPI, EGL_OPENGL_API);
    make_current(s, s->context);
    show_until_seen(s, errand->act);
    if (errand->unmakes)
        make_current(s, NULL);
    return NULL;
}

static void elsewhere(struct stage *s, int act, int unmakes)
{
    struct errand errand = { s, act, unmakes };
    pthread_t thread;
    show(s, above(act), below(act));
    make_current(s, NULL);
    pthread_create(&thread, NULL, draws, &errand);
    /* The thread may show its first picture before or after the context is destroyed. */
    usleep(200000);
    destroy(s, s->context);
    pthread_join(thread, NULL);
}

/* Destroys the current context in the order of the act's name. Afterwards the context of `s` is current, or NULL. */
static void end(struct stage *s, const char *name, int act)
{
    void *old = s->context;
    s->context = NULL;
    /* If the driver shows nothing of a destroyed context, the window keeps this picture. */
    if (!strncmp(name, "destroy,show", strlen("destroy,show")))
        show(s, above(act), below(act));
    if (!strcmp(name, "destroy,show,unmake")) {
        destroy(s, old);
        show_until_seen(s, act);
        make_current(s, NULL);
    } else if (!strcmp(name, "destroy,show,replace")) {
        destroy(s, old);
        show_until_seen(s, act);
        s->context = new_context(s, NULL);
        make_current(s, s->context);
    } else if (!strcmp(name, "show,destroy,unmake")) {
        show_until_seen(s, act);
        destroy(s, old);
        make_current(s, NULL);
    } else if (!strcmp(name, "show,unmake,destroy")) {
        show_until_seen(s, act);
        make_current(s, NULL);
        destroy(s, old);
    } else if (!strcmp(name, "shared")) {
        /* Shows pictures with two contexts that share their objects, and destroys both. */
        s->context = new_context(s, old);
        show(s, above(act), below(act));
        destroy(s, old);
        show(s, above(act), below(act));
        make_current(s, s->context);
        old = s->context;
        destroy(s, old);
        show_until_seen(s, act);
        s->context = NULL;
        make_current(s, NULL);
    } else if (!strcmp(name, "elsewhere,unmake") || !strcmp(name, "elsewhere,end")) {
        s->context = old;
        elsewhere(s, act, !strcmp(name, "elsewhere,unmake"));
        s->context = NULL;
    } else if (!strcmp(name, "close")) {
        /* The context is destroyed with the connection. */
        show_until_seen(s, act);
        make_current(s, NULL);
        if (s->egl)
            CALL(egl, int, eglTerminate, s->display);
        CALL(x, int, XCloseDisplay, s->connection);
        wait_until_kept(name, act);
        *s = set_up(s->egl);
    } else if (!strcmp(name, "close,unclean")) {
        /* Closes the connection while the context is current. This must be the last act, because the
         * connection is then unusable. */
        show_until_seen(s, act);
        CALL(x, int, XCloseDisplay, s->connection);
    } else if (!strcmp(name, "terminate,show")) {
        CALL(egl, int, eglTerminate, s->display);
        for (int i = 0; i < 20; i++)
            show(s, 0, 0);
        make_current(s, NULL);
        initialise(s);
        s->context = new_context(s, NULL);
        make_current(s, s->context);
        show_until_seen(s, act);
    } else if (!strcmp(name, "show,terminate")) {
        show_until_seen(s, act);
        CALL(egl, int, eglTerminate, s->display);
        CALL(egl, int, eglReleaseThread);
        wait_until_kept(name, act);
        CALL(egl, int, eglBindAPI, EGL_OPENGL_API);
        initialise(s);
    } else if (!strcmp(name, "refused")) {
        show_until_seen(s, act);
        destroy(s, old);
        /* The pause is long enough that the host does not drop the next picture. */
        usleep(200000);
        if (show(s, 0, 0))
            show(s, above(act), below(act));
        make_current(s, NULL);
    } else if (!strcmp(name, "destroy,show,release")) {
        destroy(s, old);
        show_until_seen(s, act);
        CALL(egl, int, eglReleaseThread);
        CALL(egl, int, eglBindAPI, EGL_OPENGL_API);
    } else
        exit(96);
}

int main(int count, char **arguments)
{
    x = found(dlopen("libX11.so.6", RTLD_NOW), "libX11");
    gl = found(dlopen("libGL.so.1", RTLD_NOW), "libGL");
    egl = found(dlopen("libEGL.so.1", RTLD_NOW), "libEGL");
    CALL(x, int, XInitThreads);
    struct stage s = set_up(!strcmp(arguments[1], "egl"));
    for (int act = 0; act + 2 < count; act++) {
        const char *name = arguments[act + 2];
        end(&s, name, act);
        wait_until_kept(name, act);
        /* After the last act, exits without the driver's exit handlers. */
        if (act + 3 == count)
            _exit(7);
        if (!s.context) {
            s.context = new_context(&s, NULL);
            make_current(&s, s.context);
        }
    }
    return 95;
}
