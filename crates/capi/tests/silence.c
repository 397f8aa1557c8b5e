/*
 * An application that gives its pictures wrongly, or when nobody wants them: each call says why, and the
 * log says it when it begins and when it returns. Then the same with its window and with another size. Ends
 * with 0 if all was told. The word is a folder to keep keys in.
 */
#include "gl.h"

enum { WIDTH = 320, HEIGHT = 180 };

/* Calls until the answer is this one and the message has this part. */
static void answers(struct openuvr_context *host, int (*give)(struct openuvr_context *), int wanted,
                    const char *part)
{
    char why[400] = "";
    int got = 0;

    for (int tries = 0; tries < 2000; tries++) {
        got = give(host);
        openuvr_last_error(host, why, sizeof why);
        check(got == 1 || why[0] != 0, "silence");
        if (got == wanted && strstr(why, part) != NULL)
            return;
        usleep(2000);
    }
    fprintf(stderr, "it answers %d: %s; not %d: %s\n", got, why, wanted, part);
    exit(1);
}

/* Lines of the log until now that have this part. */
static int lines(struct openuvr_context *host, const char *part)
{
    static char kept[500][200];
    static int count;
    char line[400];
    uint32_t level;
    int found = 0;

    while (openuvr_next_log(host, &level, line, sizeof line) == 1) {
        check(level >= OPENUVR_LOG_ERROR && level <= OPENUVR_LOG_DEBUG, "a level of no kind");
        if (count < 500 && level < OPENUVR_LOG_DEBUG)
            snprintf(kept[count++], sizeof kept[0], "%.199s", line);
    }
    for (int i = 0; i < count; i++)
        found += strstr(kept[i], part) != NULL;
    return found;
}

/* Waits for an event of this kind; its role. */
static uint32_t happens(struct openuvr_context *host, uint32_t kind)
{
    struct openuvr_event event = { .size = sizeof event };

    for (int tries = 0; tries < 2000; tries++) {
        while (openuvr_next_event(host, &event) == 1)
            if (event.kind == kind) {
                check(event.session != 0 && event.name[0] != 0, "an event of nobody");
                check(event.max_width == 4000 && event.max_height == 3000 && event.max_bitrate == 9000000,
                      "what it wants is not said");
                return event.role;
            }
        usleep(5000);
    }
    check(0, "an event does not come");
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
    config.pixel_buffer = &name; /* its width and height are forgotten */
    config.fps = 240;
    check(openuvr_open(&config, &host, why, sizeof why) == 0, why);
    check(openuvr_wants(host) == OPENUVR_ERROR_STATE, "it is not started yet");
    check(openuvr_init_thread(host) == 0, "the host does not start");
    check(lines(host, "MUDs reach this host by") == 1, "where it is reached is not in the log");

    /* Nobody watches: one picture a second is wanted, and the others have a reason. */
    for (int i = 0; i < 3; i++)
        check(openuvr_wants(host) == 1, "what is promised is promised until a picture is given");
    check(openuvr_frame_ready(host) == OPENUVR_ERROR_FAILED, "there is no buffer");
    answers(host, openuvr_wants, 0, "nobody watches");
    answers(host, openuvr_frame_ready, 0, "nobody watches");
    check(lines(host, "nobody watches") == 1, "that nobody watches is said once");
    mud = mud_of(host, folder, 0);
    check(happens(host, OPENUVR_EVENT_JOINED) == OPENUVR_ROLE_PLAYER, "it does not play");

    answers(host, openuvr_frame_ready, OPENUVR_ERROR_FAILED, "no such pixel buffer");
    good = filled(WIDTH, HEIGHT, red[0], red[1], red[2]);
    name = good;
    answers(host, openuvr_frame_ready, OPENUVR_ERROR_FAILED, "OPENUVR_FEATURE_WIDTH");
    check(openuvr_set_feature(host, OPENUVR_FEATURE_WIDTH, WIDTH) == 0, "no new width");
    check(openuvr_set_feature(host, OPENUVR_FEATURE_HEIGHT, HEIGHT) == 0, "no new height");
    check(lines(host, "no such pixel buffer") == 1, "a missing buffer is said once");
    shows(mud, WIDTH, HEIGHT, red, openuvr_frame_ready, host);

    /* A mapped buffer; and again, when it was not for a while. */
    for (int times = 0; times < 2; times++) {
        glMapBuffer(GL_PIXEL_PACK_BUFFER, GL_READ_ONLY);
        for (int tries = 0; lines(host, "is mapped") <= times; tries++) {
            check(tries < 2000, "a mapped buffer is not said when it returns");
            answers(host, openuvr_frame_ready, OPENUVR_ERROR_FAILED, "unmap it first");
            usleep(2000);
        }
        glUnmapBuffer(GL_PIXEL_PACK_BUFFER);
        answers(host, openuvr_frame_ready, 1, "");
    }

    /* Another size and format while it runs. */
    other = filled(400, 300, green[0], green[1], green[2]);
    name = other;
    check(openuvr_set_feature(host, OPENUVR_FEATURE_WIDTH, 400) == 0, "no new width");
    check(openuvr_set_feature(host, OPENUVR_FEATURE_HEIGHT, 300) == 0, "no new height");
    shows(mud, 400, 300, green, openuvr_frame_ready, host);
    check(openuvr_set_feature(host, OPENUVR_FEATURE_FORMAT, OPENUVR_PIXEL_FORMAT_BGR) == 0, "no format");
    name = filled(400, 300, blue[2], blue[1], blue[0]);
    shows(mud, 400, 300, blue, openuvr_frame_ready, host);

    /* As fast as it can: some are too many. */
    answers(host, openuvr_frame_ready, 0, "OPENUVR_FEATURE_TARGET_FPS");
    /* What is wanted is taken, however late. */
    for (int i = 0; i < 20; i++) {
        answers(host, openuvr_wants, 1, "");
        check(openuvr_frame_ready(host) == 1, "it was wanted");
    }

    /* What is drawn in the window, without a pixel buffer. */
    glBindBuffer(GL_PIXEL_PACK_BUFFER, 0);
    glClearColor(0.78f, 0, 0, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    shows(mud, 200, 120, red, whole_window, host);
    glClearColor(0, 0.78f, 0, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    shows(mud, 200, 120, green, whole_window_sent, host);
    check(openuvr_capture_gl(host, 0, 5, 0) == OPENUVR_ERROR_ARGUMENT, "a size of half a kind");
    check(glGetError() == GL_NO_ERROR, "the application's OpenGL has an error");

    openuvr_close_mud(&mud);
    happens(host, OPENUVR_EVENT_LEFT);
    answers(host, whole_window, 0, "nobody watches");
    openuvr_close(&host);
    glXMakeCurrent(display, None, NULL);
    glXDestroyContext(display, context);
    XFree(visual);
    XCloseDisplay(display);
    return 0;
}
