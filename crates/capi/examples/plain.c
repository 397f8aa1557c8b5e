/*
 * A host without a graphics library: it draws pictures into plain memory. A square follows the player's
 * pointer; a bar moves by itself. Ends when its standard input ends.
 *
 *   cc plain.c -o plain $(pkg-config --cflags --libs openuvr) && ./plain
 *
 *   plain [PIN [ADDRESS:PORT [SOCKET]]]      with a SOCKET: openuvr gateway SOCKET --web admits browsers
 */
#include <openuvr.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 640, HEIGHT = 368, SIDE = 64 };

static uint32_t pixels[HEIGHT][WIDTH];

static void draw(int bar, int x, int y)
{
    for (int row = 0; row < HEIGHT; row++)
        for (int column = 0; column < WIDTH; column++)
            pixels[row][column] = column / 8 == bar ? 0xffffff : 0x204060;
    for (int row = y; row < y + SIDE && row < HEIGHT; row++)
        for (int column = x; column < x + SIDE && column < WIDTH; column++)
            pixels[row][column] = 0xff2000;
}

static void log_line(void *user, uint32_t level, const char *text)
{
    (void)user;
    if (level <= OPENUVR_LOG_INFO)
        fprintf(stderr, "%s\n", text);
}

int main(int argc, char **argv)
{
    struct openuvr_config config = { .size = sizeof config };
    struct openuvr_context *context;
    char why[256];

    openuvr_config_default(&config);
    config.width = WIDTH;
    config.height = HEIGHT;
    config.log = log_line;
    config.pin = argc > 1 ? argv[1] : NULL;
    config.bind = argc > 2 ? argv[2] : NULL;
    config.gateway = argc > 3 ? argv[3] : NULL;
    if (openuvr_open(&config, &context, why, sizeof why) < 0) {
        fprintf(stderr, "cannot start the stream: %s\n", why);
        return 1;
    }
    if (openuvr_init_thread(context) < 0) {
        openuvr_last_error(context, why, sizeof why);
        fprintf(stderr, "cannot start the stream: %s\n", why);
        openuvr_close(&context);
        return 1;
    }

    int x = 0, y = 0;
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    for (int frame = 0; poll(&input, 1, 16) == 0; frame++) {
        struct openuvr_input event = { .size = sizeof event };
        while (openuvr_next_input(context, &event) == 1) {
            if (event.kind == OPENUVR_INPUT_POINTER) {
                x = event.x * (WIDTH - SIDE) / 65535;
                y = event.y * (HEIGHT - SIDE) / 65535;
            }
        }
        openuvr_begin_frame(context);
        draw(frame % (WIDTH / 8), x, y);

        struct openuvr_picture picture = { .size = sizeof picture };
        picture.width = WIDTH;
        picture.height = HEIGHT;
        picture.format = OPENUVR_PIXEL_FORMAT_BGRX;
        picture.data = pixels;
        int sent = openuvr_send_picture(context, &picture, 0);
        if (sent < 0) {
            fprintf(stderr, "cannot send the picture: %s\n", openuvr_error_text(sent));
            break;
        }
    }
    openuvr_close(&context);
    return 0;
}
