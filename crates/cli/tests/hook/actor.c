/* A program that uses OpenGL like games, including rare cases. It performs the acts named on its
 * command line in order, and exits with the code 7.
 *
 * It opens libraries in the same way as SDL (dlopen, dlsym, glXGetProcAddressARB), so that building it needs no headers
 * or libraries. Each window has one colour above and another below, which identify the window and its orientation. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long XID;

struct visual_info {
    void *visual;
    unsigned long id;
    int screen, depth, class;
    unsigned long masks[3];
    int size, bits;
};

struct attributes {
    unsigned long background_pixmap, background, border_pixmap, border;
    int bit_gravity, win_gravity, backing_store;
    unsigned long backing_planes, backing_pixel;
    int save_under;
    long events, not_propagated;
    int override_redirect;
    XID colormap, cursor;
};

/* The parts of Xlib.h, glx.h and gl.h that this program uses. */
enum { BACK_PIXEL = 1 << 1, BORDER_PIXEL = 1 << 3, OVERRIDE_REDIRECT = 1 << 9, COLORMAP = 1 << 13 };
enum { ALLOC_NONE = 0, INPUT_OUTPUT = 1 };
enum { GLX_RGBA = 4, GLX_DOUBLEBUFFER = 5, GLX_RGBA_TYPE = 0x8014 };
enum { COLOUR_BUFFER_BIT = 0x4000, SCISSOR_TEST = 0x0C11 };

static void *(*open_display)(const char *);
static int (*close_display)(void *);
static XID (*root_window)(void *, int);
static XID (*create_colormap)(void *, XID, void *, int);
static XID (*create_window)(void *, XID, int, int, unsigned, unsigned, unsigned, int, unsigned, void *,
                            unsigned long, struct attributes *);
static int (*map_window)(void *, XID);
static int (*resize_window)(void *, XID, unsigned, unsigned);
static int (*destroy_window)(void *, XID);
static int (*sync_display)(void *, int);
static int (*store_name)(void *, XID, const char *);
static void *(*get_proc)(const char *);
static struct visual_info *(*choose_visual)(void *, int, int *);
static void *(*create_context)(void *, struct visual_info *, void *, int);
static int (*make_current)(void *, XID, void *);
static void (*destroy_context)(void *, void *);
static void (*swap)(void *, XID);
static void (*clear_colour)(float, float, float, float);
static void (*clear)(unsigned);
static void (*scissor)(int, int, int, int);
static void (*enable)(unsigned);
static void (*disable)(unsigned);

static void *found(void *address, const char *name)
{
    if (!address) {
        fprintf(stderr, "actor: there is no %s\n", name);
        exit(99);
    }
    return address;
}

static void open_libraries(void)
{
    void *x = found(dlopen("libX11.so.6", RTLD_NOW), "libX11");
    void *gl = found(dlopen("libGL.so.1", RTLD_NOW), "libGL");
    open_display = found(dlsym(x, "XOpenDisplay"), "XOpenDisplay");
    close_display = found(dlsym(x, "XCloseDisplay"), "XCloseDisplay");
    root_window = found(dlsym(x, "XRootWindow"), "XRootWindow");
    create_colormap = found(dlsym(x, "XCreateColormap"), "XCreateColormap");
    create_window = found(dlsym(x, "XCreateWindow"), "XCreateWindow");
    map_window = found(dlsym(x, "XMapWindow"), "XMapWindow");
    resize_window = found(dlsym(x, "XResizeWindow"), "XResizeWindow");
    destroy_window = found(dlsym(x, "XDestroyWindow"), "XDestroyWindow");
    sync_display = found(dlsym(x, "XSync"), "XSync");
    store_name = found(dlsym(x, "XStoreName"), "XStoreName");
    get_proc = found(dlsym(gl, "glXGetProcAddressARB"), "glXGetProcAddressARB");
    choose_visual = found(get_proc("glXChooseVisual"), "glXChooseVisual");
    create_context = found(get_proc("glXCreateContext"), "glXCreateContext");
    make_current = found(get_proc("glXMakeCurrent"), "glXMakeCurrent");
    destroy_context = found(get_proc("glXDestroyContext"), "glXDestroyContext");
    /* Under the hook, both lookups must return the same function. */
    swap = found(dlsym(gl, "glXSwapBuffers"), "glXSwapBuffers");
    if (getenv("OPENUVR_RUN") && (void *)swap != get_proc("glXSwapBuffers"))
        exit(98);
    clear_colour = found(get_proc("glClearColor"), "glClearColor");
    clear = found(get_proc("glClear"), "glClear");
    scissor = found(get_proc("glScissor"), "glScissor");
    enable = found(get_proc("glEnable"), "glEnable");
    disable = found(get_proc("glDisable"), "glDisable");
    int (*init_threads)(void) = found(dlsym(x, "XInitThreads"), "XInitThreads");
    init_threads();
}

struct stage {
    void *display, *context;
    struct visual_info *visual;
    XID window;
    int width, height;
};

static void *new_context(struct stage *s)
{
    return found(create_context(s->display, s->visual, NULL, 1), "context");
}

static XID new_window(struct stage *s, int x, const char *name)
{
    XID root = root_window(s->display, 0);
    struct attributes attributes = { 0 };
    attributes.colormap = create_colormap(s->display, root, s->visual->visual, ALLOC_NONE);
    XID window = create_window(s->display, root, x, 0, s->width, s->height, 0, s->visual->depth,
                               INPUT_OUTPUT, s->visual->visual, BORDER_PIXEL | COLORMAP, &attributes);
    store_name(s->display, window, name);
    return window;
}

static struct stage set_up(int x, int width, int height, const char *name)
{
    int attributes[] = { GLX_RGBA, GLX_DOUBLEBUFFER, 0 };
    struct stage s = { .width = width, .height = height };
    s.display = found(open_display(NULL), "display");
    s.visual = found(choose_visual(s.display, 0, attributes), "visual");
    s.window = new_window(&s, x, name);
    s.context = new_context(&s);
    make_current(s.display, s.window, s.context);
    /* The window is mapped only now: loading the driver may take seconds, and `openuvr run` would stream a window
     * that is visible for seconds without a picture. */
    map_window(s.display, s.window);
    return s;
}

/* Paints the upper half in one colour and the lower half in another: a bit each for red, green and blue. */
static void paint(struct stage *s, int above, int below)
{
    disable(SCISSOR_TEST);
    clear_colour(below >> 2 & 1, below >> 1 & 1, below & 1, 1);
    clear(COLOUR_BUFFER_BIT);
    enable(SCISSOR_TEST);
    scissor(0, s->height / 2, s->width, s->height - s->height / 2);
    clear_colour(above >> 2 & 1, above >> 1 & 1, above & 1, 1);
    clear(COLOUR_BUFFER_BIT);
}

static void show(struct stage *s, int above, int below, int pictures)
{
    while (pictures--) {
        paint(s, above, below);
        swap(s->display, s->window);
        usleep(4000);
    }
}

static void clear_away(struct stage *s)
{
    make_current(s->display, 0, NULL);
    destroy_context(s->display, s->context);
    destroy_window(s->display, s->window);
    close_display(s->display);
}

static const char *mark(const char *name)
{
    static char path[4096];
    /* The folder no longer exists: the test is over. */
    if (access(getenv("MARKS"), F_OK))
        _exit(94);
    snprintf(path, sizeof path, "%s/%s", getenv("MARKS"), name);
    return path;
}

static void wait_until(const char *seen)
{
    while (access(mark(seen), F_OK))
        usleep(4000);
}

/* Shows pictures until the test has seen them and created a file with the act's name. */
static void show_until(struct stage *s, int above, int below, const char *seen)
{
    do
        show(s, above, below, 1);
    while (access(mark(seen), F_OK));
}

enum { BLUE = 1, GREEN = 2, RED = 4, YELLOW = 6, WHITE = 7 };

/* Forks a child that exits at once, and then one that renders in its own window. Both skip exit handlers:
 * those of Mesa wait for threads that exist only in the parent. */
static void forks(struct stage *s)
{
    for (int draws = 0; draws < 2; draws++) {
        pid_t child = fork();
        if (child == 0) {
            if (!draws)
                _exit(3);
            struct stage own = set_up(0, 600, 400, "child");
            show(&own, BLUE, BLUE, 20);
            clear_away(&own);
            _exit(3);
        }
        int status = 0;
        show(s, RED, GREEN, 10);
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 3) {
            fprintf(stderr, "actor: a child ended with %#x\n", status);
            exit(97);
        }
    }
}

static void *draws_small(void *colour)
{
    struct stage s = set_up(400, 100, 80, "small");
    show(&s, *(int *)colour, *(int *)colour, 60);
    clear_away(&s);
    return NULL;
}

static void threads(struct stage *s)
{
    static int colours[] = { BLUE, YELLOW, WHITE };
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, draws_small, &colours[i]);
    show(s, RED, GREEN, 60);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}

static void contexts(struct stage *s)
{
    for (int i = 0; i < 20; i++) {
        void *next = new_context(s);
        if (i % 2) {
            /* Destroys the old context while it is current. */
            destroy_context(s->display, s->context);
            make_current(s->display, s->window, next);
        } else {
            make_current(s->display, s->window, next);
            destroy_context(s->display, s->context);
        }
        s->context = next;
        show(s, RED, GREEN, 4);
    }
}

static void resizes(struct stage *s)
{
    s->width = 400, s->height = 200;
    resize_window(s->display, s->window, s->width, s->height);
    sync_display(s->display, 0);
    show_until(s, YELLOW, BLUE, "resized");
}

/* Opens and closes a larger window. */
static void hands_over(struct stage *s)
{
    struct stage large = set_up(0, 480, 320, "large");
    show_until(&large, WHITE, RED, "large");
    clear_away(&large);
    make_current(s->display, s->window, s->context);
    show_until(s, YELLOW, GREEN, "small");
}

static void closes(struct stage *s)
{
    /* The context is destroyed with the display. */
    make_current(s->display, 0, NULL);
    close_display(s->display);
    *s = set_up(0, 320, 240, "again");
    show_until(s, BLUE, YELLOW, "again");
}

/* Renders two pictures in immediate succession, and then nothing until the second one has been seen. */
static void rests(struct stage *s)
{
    paint(s, RED, RED);
    swap(s->display, s->window);
    paint(s, WHITE, GREEN);
    swap(s->display, s->window);
    wait_until("rested");
}

struct button_event {
    int type;
    unsigned long serial;
    int sent;
    void *display;
    XID window;
    /* Makes this structure as large as an XEvent. */
    long rest[19];
};

/* A plain X window over the middle of the picture: white until it is clicked, then blue, and closed by a
 * second click. From the first click on, the picture below stands still. */
static void opens_a_dialog(struct stage *s)
{
    void *x = found(dlopen("libX11.so.6", RTLD_NOW), "libX11");
    XID (*create)(void *, XID, int, int, unsigned, unsigned, unsigned, unsigned long, unsigned long) =
        found(dlsym(x, "XCreateSimpleWindow"), "XCreateSimpleWindow");
    int (*select)(void *, XID, long) = found(dlsym(x, "XSelectInput"), "XSelectInput");
    int (*background)(void *, XID, unsigned long) =
        found(dlsym(x, "XSetWindowBackground"), "XSetWindowBackground");
    int (*clear_window)(void *, XID) = found(dlsym(x, "XClearWindow"), "XClearWindow");
    int (*pending)(void *) = found(dlsym(x, "XPending"), "XPending");
    int (*next)(void *, void *) = found(dlsym(x, "XNextEvent"), "XNextEvent");
    enum { BUTTON_PRESS = 4, BUTTON_PRESS_MASK = 1 << 2 };
    /* A separate connection, like that of a toolkit in a game. */
    void *display = found(open_display(NULL), "display");
    XID dialog = create(display, root_window(display, 0), 40 + 80, 60, 160, 120, 0, 0, 0xffffff);
    select(display, dialog, BUTTON_PRESS_MASK);
    map_window(display, dialog);
    sync_display(display, 0);
    for (int clicks = 0; clicks < 2;) {
        struct button_event event = { 0 };
        if (!clicks)
            show(s, RED, GREEN, 1);
        usleep(4000);
        while (pending(display)) {
            next(display, &event);
            if (event.type != BUTTON_PRESS)
                continue;
            fprintf(stderr, "actor: the dialog was clicked\n");
            if (!clicks++) {
                background(display, dialog, 0x0000ff);
                clear_window(display, dialog);
            } else
                destroy_window(display, dialog);
            sync_display(display, 0);
        }
    }
    close_display(display);
    show_until(s, YELLOW, RED, "closed");
}

/* A plain X window, like that of a launcher. It is white, and a click closes it. */
static void welcomes(void)
{
    void *x = found(dlopen("libX11.so.6", RTLD_NOW), "libX11");
    XID (*create)(void *, XID, int, int, unsigned, unsigned, unsigned, unsigned long, unsigned long) =
        found(dlsym(x, "XCreateSimpleWindow"), "XCreateSimpleWindow");
    int (*select)(void *, XID, long) = found(dlsym(x, "XSelectInput"), "XSelectInput");
    int (*next)(void *, void *) = found(dlsym(x, "XNextEvent"), "XNextEvent");
    enum { BUTTON_PRESS = 4, BUTTON_PRESS_MASK = 1 << 2 };
    void *display = found(open_display(NULL), "display");
    XID window = create(display, root_window(display, 0), 40, 0, 320, 240, 0, 0, 0xffffff);
    select(display, window, BUTTON_PRESS_MASK);
    map_window(display, window);
    struct button_event event = { 0 };
    while (event.type != BUTTON_PRESS)
        next(display, &event);
    fprintf(stderr, "actor: the welcome was clicked\n");
    destroy_window(display, window);
    close_display(display);
}

/* Renders to a GLX window, whose id differs from the id of the X window. */
static void makes_a_surface(struct stage *s)
{
    void **(*choose)(void *, int, const int *, int *) = found(get_proc("glXChooseFBConfig"), "config");
    void *(*create)(void *, void *, int, void *, int) = found(get_proc("glXCreateNewContext"), "new");
    XID (*make)(void *, void *, XID, const int *) = found(get_proc("glXCreateWindow"), "surface");
    void (*unmake)(void *, XID) = found(get_proc("glXDestroyWindow"), "surface");
    int attributes[] = { GLX_DOUBLEBUFFER, 1, 0 }, count = 0;
    void **configs = found(choose(s->display, 0, attributes, &count), "configuration");
    make_current(s->display, 0, NULL);
    destroy_context(s->display, s->context);
    XID window = s->window;
    s->context = found(create(s->display, configs[0], GLX_RGBA_TYPE, NULL, 1), "context");
    s->window = make(s->display, configs[0], window, NULL);
    make_current(s->display, s->window, s->context);
    show_until(s, YELLOW, RED, "surface");
    make_current(s->display, 0, NULL);
    unmake(s->display, s->window);
    s->window = window;
}

/* A blue window of this program covers the lower half, like a menu: while the picture below stands still,
 * and while it changes. After it closes, the picture is rendered once more, as after an expose event. */
static void opens_a_menu(struct stage *s)
{
    XID root = root_window(s->display, 0);
    struct attributes attributes = { .background = 0xff, .override_redirect = 1 };
    attributes.colormap = create_colormap(s->display, root, s->visual->visual, ALLOC_NONE);
    show(s, YELLOW, GREEN, 1);
    XID menu = create_window(s->display, root, 40, s->height / 2, s->width, s->height / 2, 0,
                             s->visual->depth, INPUT_OUTPUT, s->visual->visual,
                             BACK_PIXEL | BORDER_PIXEL | OVERRIDE_REDIRECT | COLORMAP, &attributes);
    map_window(s->display, menu);
    sync_display(s->display, 0);
    wait_until("menu");
    show_until(s, RED, GREEN, "below");
    destroy_window(s->display, menu);
    sync_display(s->display, 0);
    show(s, WHITE, GREEN, 1);
    wait_until("closed");
}

/* Starts a child that outlives this program. */
static void leaves_a_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        close(0), close(1), close(2);
        while (access(mark("orphan"), F_OK))
            usleep(4000);
        _exit(0);
    }
}

static void *ends(void *unused)
{
    (void)unused;
    usleep(300000);
    exit(9);
}

int main(int count, char **acts)
{
    open_libraries();
    if (count > 1 && !strcmp(acts[1], "welcome")) {
        welcomes();
        acts++, count--;
    }
    /* The window is not in the corner of the display, to test the pointer's offset. */
    struct stage s = set_up(40, 320, 240, "actor");
    show_until(&s, RED, GREEN, "seen");
    for (int i = 1; i < count; i++) {
        if (!strcmp(acts[i], "fork"))
            forks(&s);
        else if (!strcmp(acts[i], "threads"))
            threads(&s);
        else if (!strcmp(acts[i], "contexts"))
            contexts(&s);
        else if (!strcmp(acts[i], "resize"))
            resizes(&s);
        else if (!strcmp(acts[i], "hand-over"))
            hands_over(&s);
        else if (!strcmp(acts[i], "close"))
            closes(&s);
        else if (!strcmp(acts[i], "go-on"))
            show_until(&s, BLUE, RED, "enough");
        else if (!strcmp(acts[i], "rest"))
            rests(&s);
        else if (!strcmp(acts[i], "surface"))
            makes_a_surface(&s);
        else if (!strcmp(acts[i], "dialog"))
            opens_a_dialog(&s);
        else if (!strcmp(acts[i], "menu"))
            opens_a_menu(&s);
        else if (!strcmp(acts[i], "orphan"))
            leaves_a_child();
        else if (!strcmp(acts[i], "exit")) {
            pthread_t thread;
            show(&s, WHITE, BLUE, 1);
            paint(&s, WHITE, BLUE);
            pthread_create(&thread, NULL, ends, NULL);
            /* This thread stops rendering: otherwise, Mesa's exit handlers sometimes crash, even without the hook. */
            for (;;)
                pause();
        } else if (!strcmp(acts[i], "die")) {
            paint(&s, WHITE, BLUE);
            kill(getpid(), SIGKILL);
        } else
            exit(96);
        fprintf(stderr, "actor: %s was played\n", acts[i]);
    }
    clear_away(&s);
    return 7;
}
