/*
 * Two hosts and their MUDs in one process, one pair polling and one with callbacks: pictures, input and poses
 * end to end. Exits with 0 if all arrive as sent. The argument is a folder for keys.
 */
#include <openuvr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 320, HEIGHT = 180, KEY_A = 30 };

/* The counters of the callbacks, read with acquire. */
static int lent, released, frames_called, motions_called, errors;

static int count(int *counter)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static void increment(int *counter)
{
    __atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL);
}

static void release(void *user)
{
    increment(user);
}

static int near(int actual, int expected)
{
    return abs(actual - expected) < 40;
}

/* Whether the pixel has approximately this colour. */
static int pixel_is(const struct openuvr_picture *picture, int x, int y, int red, int green, int blue)
{
    const unsigned char *at = picture->data;
    at += y * picture->stride + x * 4;
    return near(at[2], red) && near(at[1], green) && near(at[0], blue);
}

static void on_frame(void *user, const struct openuvr_picture *picture)
{
    if (user != &frames_called || picture->width != WIDTH || picture->height != HEIGHT ||
        !pixel_is(picture, 160, 90, 0, 200, 0))
        increment(&errors);
    increment(&frames_called);
}

static void on_input(void *user, const struct openuvr_input *input)
{
    if (user != &motions_called)
        increment(&errors);
    if (input->kind == OPENUVR_INPUT_MOTION && input->x == 3 && input->y == -4)
        increment(&motions_called);
}

static void log_line(void *user, uint32_t level, const char *text)
{
    (void)user;
    if (level <= OPENUVR_LOG_WARNING)
        fprintf(stderr, "%s\n", text);
}

static struct openuvr_context *host(const char *folder, const char *name, int called)
{
    struct openuvr_config config = { .size = sizeof config };
    struct openuvr_context *context;
    char why[200] = "", own[300];

    snprintf(own, sizeof own, "%s/%s", folder, name);
    openuvr_config_default(&config);
    config.width = WIDTH;
    config.height = HEIGHT;
    config.bind = "127.0.0.1:0";
    config.config_dir = own;
    config.pin = "135790";
    config.realtime = 0;
    config.log = log_line;
    config.on_input = called ? on_input : NULL;
    config.user = called ? &motions_called : NULL;
    if (openuvr_open(&config, &context, why, sizeof why) < 0 || openuvr_init_thread(context) < 0) {
        fprintf(stderr, "cannot start the host: %s\n", why);
        exit(1);
    }
    return context;
}

static struct openuvr_mud_context *mud(struct openuvr_context *host, const char *folder,
                                       const char *name, int called)
{
    struct openuvr_mud_config config = { .size = sizeof config };
    struct openuvr_mud_context *context;
    char why[200] = "", own[300], place[200];
    char *address;

    snprintf(own, sizeof own, "%s/%s", folder, name);
    openuvr_listen_address(host, place, sizeof place);
    address = strstr(place, "127.0.0.1:");
    address[strcspn(address, ",")] = 0;
    openuvr_mud_config_default(&config);
    config.surface = OPENUVR_SURFACE_APPLICATION;
    config.host = address;
    config.pin = "135790";
    config.config_dir = own;
    config.realtime = 0;
    config.reconnect = 0;
    config.log = log_line;
    config.on_frame = called ? on_frame : NULL;
    config.user = called ? &frames_called : NULL;
    if (openuvr_open_mud(&config, &context, why, sizeof why) < 0 ||
        openuvr_init_mud_thread(context) < 0) {
        openuvr_mud_last_error(context, why, sizeof why);
        fprintf(stderr, "cannot start the MUD: %s\n", why);
        exit(1);
    }
    return context;
}

/* Bottom row first: the upper half is red, the lower half blue. */
static unsigned char halves[HEIGHT][WIDTH][3];
static uint32_t green[HEIGHT][WIDTH];

static int send(struct openuvr_context *to, int index, int wait)
{
    struct openuvr_picture picture = { .size = sizeof picture };

    picture.width = WIDTH;
    picture.height = HEIGHT;
    if (index == 0) {
        picture.format = OPENUVR_PIXEL_FORMAT_RGB;
        picture.data = halves;
        picture.bottom_up = 1;
    } else {
        picture.format = OPENUVR_PIXEL_FORMAT_BGRX;
        picture.data = green;
        picture.release = release;
        picture.user = &released;
        increment(&lent);
    }
    return openuvr_send_picture(to, &picture, wait);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    struct openuvr_context *hosts[2];
    struct openuvr_mud_context *muds[2];
    struct openuvr_statistics statistics = { .size = sizeof statistics };
    struct openuvr_mud_statistics seen = { .size = sizeof seen };
    struct openuvr_input key = { .size = sizeof key }, motion = { .size = sizeof motion };
    struct openuvr_pose pose = { .size = sizeof pose }, last_pose = { .size = sizeof last_pose };
    struct openuvr_controllers hold = { .size = sizeof hold }, held = { .size = sizeof held };
    struct openuvr_haptic feel = { .size = sizeof feel }, felt = { .size = sizeof felt };
    static const uint32_t arrow[] = { 0xff112233, 0, 0, 0xff445566, 0, 0xff778899 };
    struct openuvr_pointer pointer = { .size = sizeof pointer };
    int shown = 0, keys = 0, poses = 0, hands = 0, feels = 0, waited = 0, pointed = 0, turn;

    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            halves[y][x][y < HEIGHT / 2 ? 2 : 0] = 200;
            green[y][x] = 200 << 8;
        }
    key.kind = OPENUVR_INPUT_KEY;
    key.code = KEY_A;
    motion.kind = OPENUVR_INPUT_MOTION;
    motion.x = 3;
    motion.y = -4;
    pose.position[1] = 1.5f;
    pose.orientation[3] = 1.0f;
    hold.held = 2;
    hold.hands[1].grip.tracked = 1;
    hold.hands[1].grip.position[2] = -0.5f;
    hold.hands[1].grip.orientation[3] = 1.0f;
    hold.hands[1].buttons = OPENUVR_BUTTON_A_X;
    hold.hands[1].trigger = 1;
    hold.hands[1].thumbstick[0] = -1;
    feel.hand = OPENUVR_HAND_RIGHT;
    feel.amplitude = 1;
    feel.duration_ns = 20000000;
    for (int i = 0; i < 2; i++)
        hosts[i] = host(folder, i ? "host-b" : "host-a", i);
    for (int i = 0; i < 2; i++)
        muds[i] = mud(hosts[i], folder, i ? "mud-b" : "mud-a", i);

    pointer.relative = pointer.visible = 1;
    pointer.x = 100;
    pointer.y = 65535;
    pointer.width = 2;
    pointer.height = 3;
    pointer.hot_y = 2;
    pointer.argb = arrow;
    if (openuvr_set_pointer(hosts[0], &pointer) < 0)
        increment(&errors);

    for (turn = 0; turn < 3000; turn++) {
        struct openuvr_picture picture = { .size = sizeof picture };
        struct openuvr_input input = { .size = sizeof input };

        /* From host to MUD. */
        openuvr_begin_frame(hosts[0]);
        waited += send(hosts[0], 0, 1) == 1;
        send(hosts[1], 1, 0);
        while (openuvr_next_frame(muds[0], &picture, 5) == 1)
            shown += pixel_is(&picture, 160, 20, 200, 0, 0) && pixel_is(&picture, 160, 160, 0, 0, 200);
        /* From MUD to host. */
        key.value = !key.value;
        if (openuvr_send_input(muds[0], &key) < 0 || openuvr_send_input(muds[1], &motion) < 0 ||
            openuvr_send_pose(muds[0], &pose) < 0 || openuvr_send_controllers(muds[0], &hold) < 0 ||
            openuvr_send_haptic(hosts[0], &feel) < 0)
            increment(&errors);
        while (openuvr_next_input(hosts[0], &input) == 1)
            keys += input.kind == OPENUVR_INPUT_KEY && input.code == KEY_A;
        if (openuvr_last_pose(hosts[0], &last_pose) == 1)
            poses += last_pose.position[1] == 1.5f && last_pose.id > 0 && last_pose.has_linear == 0;
        if (openuvr_last_controllers(hosts[0], &held) == 1)
            hands += held.held == 2 && held.number > 0 && held.hands[0].grip.tracked == 0 &&
                     held.hands[1].grip.position[2] == -0.5f && held.hands[1].aim.tracked == 0 &&
                     held.hands[1].buttons == OPENUVR_BUTTON_A_X && held.hands[1].trigger == 1 &&
                     held.hands[1].thumbstick[0] == -1;
        while (openuvr_next_haptic(muds[0], &felt) == 1)
            feels += felt.hand == OPENUVR_HAND_RIGHT && felt.amplitude == 1 && felt.duration_ns == 20000000;
        struct openuvr_pointer received = { .size = sizeof received };
        if (openuvr_mud_pointer(muds[0], &received) == 1)
            pointed = received.relative == 1 && received.visible == 1 && received.x == 100 && received.y == 65535 &&
                      received.width == 2 && received.height == 3 && received.hot_x == 0 && received.hot_y == 2 &&
                      memcmp(received.argb, arrow, sizeof arrow) == 0;
        openuvr_statistics(hosts[0], &statistics);
        openuvr_mud_statistics(muds[0], &seen);
        if (shown > 5 && keys > 2 && poses > 2 && hands > 2 && feels > 2 && waited > 5 && pointed && count(&frames_called) > 5 &&
            count(&motions_called) > 2 && statistics.complete > 5 && seen.complete > 5 &&
            seen.state == OPENUVR_MUD_PLAYING && statistics.latency_p50_ns > 0)
            break;
        usleep(5000);
    }
    fprintf(stderr,
            "%d pictures polled, %d by callback, %d keys, %d motions, %d poses, %d controllers, %d vibrations, %d waited for, "
            "pointer %d, %u player, %llu complete, %d errors, %d turns\n",
            shown, count(&frames_called), keys, count(&motions_called), poses, hands, feels, waited, pointed,
            statistics.players, (unsigned long long)statistics.complete, count(&errors), turn);
    if (turn == 3000 || statistics.players != 1)
        increment(&errors);
    /* Closes a host before its MUD, and a MUD before its host. */
    openuvr_close(&hosts[0]);
    /* A wait for a picture without a timeout ends with the stream. */
    struct openuvr_picture picture = { .size = sizeof picture };
    while ((turn = openuvr_next_frame(muds[0], &picture, UINT32_MAX)) > 0)
        ;
    if (turn != OPENUVR_ERROR_ENDED)
        increment(&errors);
    openuvr_close_mud(&muds[0]);
    openuvr_close_mud(&muds[1]);
    openuvr_close(&hosts[1]);
    if (count(&lent) != count(&released)) {
        fprintf(stderr, "%d lent, %d released\n", count(&lent), count(&released));
        increment(&errors);
    }
    return count(&errors) != 0;
}
