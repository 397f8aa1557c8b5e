/*
 * An application that submits its pictures incorrectly, or when none is needed: each call returns the reason,
 * and the log has each reason once, and again when it recurs. Then the application submits the content of its window,
 * in another size. Exits with 0 if all reasons are returned. The argument is a folder for keys.
 */
#include "gl.h"

enum { WIDTH = 320, HEIGHT = 180 };

/* Calls `submit` until it returns `expected` and the message contains `part`. */
static void expect(struct openuvr_context *host, int (*submit)(struct openuvr_context *), int expected,
                   const char *part)
{
    char why[400] = "";
    int got = 0;

    for (int tries = 0; tries < 2000; tries++) {
        got = submit(host);
        openuvr_last_error(host, why, sizeof why);
        check(got == 1 || why[0] != 0, "no reason");
        if (got == expected && strstr(why, part) != NULL)
            return;
        usleep(2000);
    }
    fprintf(stderr, "the result is %d: %s; expected %d: %s\n", got, why, expected, part);
    exit(1);
}

/* Counts the log lines so far that contain `part`. */
static int count_lines(struct openuvr_context *host, const char *part)
{
    static char kept[500][200];
    static int count;
    char line[400];
    uint32_t level;
    int found = 0;

    while (openuvr_next_log(host, &level, line, sizeof line) == 1) {
        check(level >= OPENUVR_LOG_ERROR && level <= OPENUVR_LOG_DEBUG, "an unknown level");
        if (count < 500 && level < OPENUVR_LOG_DEBUG)
            snprintf(kept[count++], sizeof kept[0], "%.199s", line);
    }
    for (int i = 0; i < count; i++)
        found += strstr(kept[i], part) != NULL;
    return found;
}

/* Waits for an event of this kind and returns its role. */
static uint32_t wait_for_event(struct openuvr_context *host, uint32_t kind)
{
    struct openuvr_event event = { .size = sizeof event };

    for (int tries = 0; tries < 2000; tries++) {
        while (openuvr_next_event(host, &event) == 1)
            if (event.kind == kind) {
                check(event.session != 0 && event.name[0] != 0, "an event without a session or name");
                check(event.max_width == 4000 && event.max_height == 3000 && event.max_bitrate == 9000000,
                      "its limits are missing");
                return event.role;
            }
        usleep(5000);
    }
    check(0, "an event does not arrive");
    return 0;
}

static int whole_window(struct openuvr_context *host)
{
    return openuvr_capture_gl(host, 0, 0, 0);
}

static int whole_window_sent(struct openuvr_context *host)
{
    return openuvr_capture_gl(host, 200, 120, 1);
}

int main(int argc, char **argv)
{
    static const int red[] = { 200, 0, 0 }, green[] = { 0, 200, 0 }, blue[] = { 0, 0, 200 };
    const char *folder = argc > 1 ? argv[1] : ".";
    struct openuvr_config config;
    struct openuvr_context *host;
    struct openuvr_mud_context *mud;
    GLXContext context;
    GLuint name = 0, good, other;
    char own[300], why[200] = "";

    open_window(200, 120);
    context = new_context();
    host_config(&config, folder, own, sizeof own);
    config.pixel_buffer = &name; /* without its width and height */
    config.fps = 20; /* so low that this program is faster, even if it sleeps too long */
    check(openuvr_open(&config, &host, why, sizeof why) == 0, why);
    check(openuvr_wants(host) == OPENUVR_ERROR_STATE, "the host is not started yet");
    check(openuvr_init_thread(host) == 0, "the host does not start");
    check(count_lines(host, "MUDs reach this host by") == 1, "the address is not in the log");

    /* No MUD watches: one picture per second is needed. For every other picture, the calls return a reason. */
    for (int i = 0; i < 3; i++)
        check(openuvr_wants(host) == 1, "it stays needed until a picture is submitted");
    check(openuvr_frame_ready(host) == OPENUVR_ERROR_FAILED, "the buffer does not exist");
    expect(host, openuvr_wants, 0, "no MUD is watching");
    expect(host, openuvr_frame_ready, 0, "no MUD is watching");
    check(count_lines(host, "no MUD is watching") == 1, "the log has the missing MUDs once");
    mud = mud_of(host, folder, 0);
    check(wait_for_event(host, OPENUVR_EVENT_JOINED) == OPENUVR_ROLE_PLAYER, "the MUD is not the player");

    expect(host, openuvr_frame_ready, OPENUVR_ERROR_FAILED, "unknown pixel buffer");
    good = filled_buffer(WIDTH, HEIGHT, red[0], red[1], red[2]);
    name = good;
    expect(host, openuvr_frame_ready, OPENUVR_ERROR_FAILED, "OPENUVR_FEATURE_WIDTH");
    check(openuvr_set_feature(host, OPENUVR_FEATURE_WIDTH, WIDTH) == 0, "cannot set the width");
    check(openuvr_set_feature(host, OPENUVR_FEATURE_HEIGHT, HEIGHT) == 0, "cannot set the height");
    check(count_lines(host, "unknown pixel buffer") == 1, "the log has a missing buffer once");
    wait_until_shown(mud, WIDTH, HEIGHT, red, openuvr_frame_ready, host);

    /* A mapped buffer is logged once, and again if it is mapped again after a picture was accepted. */
    for (int times = 0; times < 2; times++) {
        glMapBuffer(GL_PIXEL_PACK_BUFFER, GL_READ_ONLY);
        for (int tries = 0; count_lines(host, "is mapped") <= times; tries++) {
            check(tries < 2000, "the log has a mapped buffer only once");
            expect(host, openuvr_frame_ready, OPENUVR_ERROR_FAILED, "unmap it first");
            usleep(2000);
        }
        glUnmapBuffer(GL_PIXEL_PACK_BUFFER);
        expect(host, openuvr_frame_ready, 1, "");
    }

    /* Another size and format during the stream. */
    other = filled_buffer(400, 300, green[0], green[1], green[2]);
    name = other;
    check(openuvr_set_feature(host, OPENUVR_FEATURE_WIDTH, 400) == 0, "cannot set the width");
    check(openuvr_set_feature(host, OPENUVR_FEATURE_HEIGHT, 300) == 0, "cannot set the height");
    wait_until_shown(mud, 400, 300, green, openuvr_frame_ready, host);
    check(openuvr_set_feature(host, OPENUVR_FEATURE_FORMAT, OPENUVR_PIXEL_FORMAT_BGR) == 0, "cannot set the format");
    name = filled_buffer(400, 300, blue[2], blue[1], blue[0]);
    wait_until_shown(mud, 400, 300, blue, openuvr_frame_ready, host);

    /* Without a pause: some pictures are skipped. */
    expect(host, openuvr_frame_ready, 0, "OPENUVR_FEATURE_TARGET_FPS");
    /* A needed picture is accepted at any time. Exception: the library's threads are not scheduled, and their pictures
     * occupy all buffers. */
    for (int needed = 0, tries = 0; needed < 20; tries++) {
        expect(host, openuvr_wants, 1, "");
        if (openuvr_frame_ready(host) == 1) {
            needed++;
            continue;
        }
        openuvr_last_error(host, why, sizeof why);
        check(strstr(why, "no buffer is free") != NULL, why);
        check(tries < 2000, "no buffer becomes free");
        usleep(5000);
    }

    /* The content of the window, without a pixel buffer. */
    glBindBuffer(GL_PIXEL_PACK_BUFFER, 0);
    glClearColor(0.78f, 0, 0, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    wait_until_shown(mud, 200, 120, red, whole_window, host);
    glClearColor(0, 0.78f, 0, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    wait_until_shown(mud, 200, 120, green, whole_window_sent, host);
    check(openuvr_capture_gl(host, 0, 5, 0) == OPENUVR_ERROR_ARGUMENT, "a size with one side");
    check(glGetError() == GL_NO_ERROR, "the application has an OpenGL error");

    openuvr_close_mud(&mud);
    wait_for_event(host, OPENUVR_EVENT_LEFT);
    expect(host, whole_window, 0, "no MUD is watching");
    openuvr_close(&host);
    glXMakeCurrent(display, None, NULL);
    glXDestroyContext(display, context);
    XFree(visual);
    XCloseDisplay(display);
    return 0;
}
