/*
 * Incorrect calls: each must return its error and leave the context unchanged. Exits with 0 if all do;
 * otherwise, prints the failed calls on standard error.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <openuvr.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define EXPECT(call, wanted)                                                                       \
    do {                                                                                           \
        int is_ = (call);                                                                          \
        if (is_ != (wanted)) {                                                                     \
            fprintf(stderr, "%d: %s is %d (%s), not %d\n", __LINE__, #call, is_,                   \
                    openuvr_error_text(is_), (wanted));                                            \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static struct openuvr_config valid_config(void)
{
    struct openuvr_config config = { .size = sizeof config };
    EXPECT(openuvr_config_default(&config), OPENUVR_OK);
    config.width = 64;
    config.height = 64;
    config.bind = "127.0.0.1:0";
    config.pin = "135790";
    return config;
}

/* Opens a host with a configuration that has one error; the reason must contain `part`. */
static int refused(const struct openuvr_config *config, const char *part)
{
    struct openuvr_context *context = (void *)1;
    char why[200] = "";
    int got = openuvr_open(config, &context, why, sizeof why);
    if (context != NULL || strstr(why, part) == NULL) {
        fprintf(stderr, "context %p; the reason does not have \"%s\": %s\n", (void *)context, part, why);
        failures++;
    }
    openuvr_close(&context);
    return got;
}

static void configurations(void)
{
    struct openuvr_config config = valid_config();
    struct openuvr_context *context;

    EXPECT(openuvr_config_default(NULL), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_mud_config_default(NULL), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_open(&config, NULL, NULL, 0), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_open(NULL, &context, NULL, 0), OPENUVR_ERROR_NULL);
    config.size = 0;
    EXPECT(refused(&config, "size"), OPENUVR_ERROR_SIZE);
    config.size = 1 << 20;
    EXPECT(refused(&config, "size"), OPENUVR_ERROR_SIZE);
    config = valid_config(), config.encoder = 99;
    EXPECT(refused(&config, "OPENUVR_ENCODER_TYPE"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.network = 99;
    EXPECT(refused(&config, "OPENUVR_NETWORK_TYPE"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.network = OPENUVR_NETWORK_TCP;
    EXPECT(refused(&config, "OPENUVR_NETWORK_UDP"), OPENUVR_ERROR_UNAVAILABLE);
    config = valid_config(), config.encoder = OPENUVR_ENCODER_H264_VAAPI;
    EXPECT(refused(&config, "; use OPENUVR_ENCODER_"), OPENUVR_ERROR_UNAVAILABLE);
    config = valid_config(), config.format = 17;
    EXPECT(refused(&config, "OPENUVR_PIXEL_FORMAT"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.input = 17;
    EXPECT(refused(&config, "OPENUVR_INPUT_TO"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.second_player = 3;
    EXPECT(refused(&config, "second_player"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.width = 0;
    EXPECT(refused(&config, "each side"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.stride = 63;
    EXPECT(refused(&config, "bytes"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.fps = 0.0 / 0.0;
    EXPECT(refused(&config, "fps"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.bitrate = 7;
    EXPECT(refused(&config, "bitrate"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.slices = 300;
    EXPECT(refused(&config, "slices"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.bind = "everywhere";
    EXPECT(refused(&config, "everywhere"), OPENUVR_ERROR_ARGUMENT);
    /* An interface may have a name, as on the command line. */
    config = valid_config(), config.bind = "[fe80::1%lo]:4710";
    EXPECT(openuvr_open(&config, &context, NULL, 0), OPENUVR_OK);
    openuvr_close(&context);
    config = valid_config(), config.pin = "12";
    EXPECT(refused(&config, "pin"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.pair_seconds = 0;
    EXPECT(refused(&config, "pair_seconds"), OPENUVR_ERROR_ARGUMENT);
    config = valid_config(), config.name = "\xff";
    EXPECT(refused(&config, "UTF-8"), OPENUVR_ERROR_ARGUMENT);

    /* A structure of a newer header is accepted if its new fields are zero. */
    struct {
        struct openuvr_config config;
        unsigned char more[16];
    } newer = { .config = valid_config() };
    newer.config.size = sizeof newer;
    EXPECT(openuvr_open(&newer.config, &context, NULL, 0), OPENUVR_OK);
    openuvr_close(&context);
    newer.more[15] = 1;
    EXPECT(refused(&newer.config, "newer than this library"), OPENUVR_ERROR_SIZE);
    /* The size must not end within a pointer. */
    config = valid_config();
    config.size = offsetof(struct openuvr_config, name) + 4;
    EXPECT(refused(&config, "size"), OPENUVR_ERROR_SIZE);
    /* A structure of an older header ends early. */
    config = valid_config();
    config.size = offsetof(struct openuvr_config, name);
    EXPECT(openuvr_open(&config, &context, NULL, 0), OPENUVR_OK);
    openuvr_close(&context);
}

static void null_and_wrong_contexts(void)
{
    struct openuvr_context *none = NULL;
    struct openuvr_mud_context *no_mud = NULL;
    struct openuvr_input input = { .size = sizeof input };
    struct openuvr_pose pose = { .size = sizeof pose };
    struct openuvr_controllers held = { .size = sizeof held };
    struct openuvr_haptic haptic = { .size = sizeof haptic };
    struct openuvr_picture picture = { .size = sizeof picture };
    struct openuvr_statistics statistics = { .size = sizeof statistics };
    struct openuvr_mud_statistics seen = { .size = sizeof seen };
    struct openuvr_event event = { .size = sizeof event };
    struct openuvr_pointer pointer = { .size = sizeof pointer };
    struct openuvr_key key = { .size = sizeof key };
    char text[8];

    EXPECT(openuvr_set_feature(none, OPENUVR_FEATURE_PORT, 0), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_init_thread(none), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_map_input_device(none, 1, 1), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_unmap_input_device(none, 1), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_wants(none), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_capture_gl(none, 0, 0, 0), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_next_log(none, NULL, text, sizeof text), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_next_event(none, &event), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_set_pointer(none, &pointer), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_mud_pointer(no_mud, &pointer), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_mud_next_log(no_mud, NULL, text, sizeof text), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_key_of(30, NULL), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_key_of(767, &key), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_key_of(30, &key), OPENUVR_OK);
    EXPECT(strcmp(key.name, "KEY_A"), 0);
    EXPECT(strcmp(key.xkb_name, "AC01"), 0);
    EXPECT((int)key.sdl, 4);
    EXPECT(openuvr_begin_frame(none), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_frame_ready(none), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_send_frame(none), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_release_buffer(none), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_set_viewport(none, 0, 0, 0, 0), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_send_picture(none, &picture, 0), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_next_input(none, &input), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_last_pose(none, &pose), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_last_controllers(none, &held), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_send_haptic(none, &haptic), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_last_error(none, text, sizeof text), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_pin(none, text, sizeof text), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_listen_address(none, text, sizeof text), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_open_pairing(none, "1234", 1), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_statistics(none, &statistics), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_set_host(no_mud, "desk", NULL), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_init_mud_thread(no_mud), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_register_input_device(no_mud, 1, 0), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_next_frame(no_mud, &picture, 0), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_send_input(no_mud, &input), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_send_pose(no_mud, &pose), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_send_controllers(no_mud, &held), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_next_haptic(no_mud, &haptic), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_mud_last_error(no_mud, text, sizeof text), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_mud_statistics(no_mud, &seen), OPENUVR_ERROR_NULL);
    openuvr_close(NULL);
    openuvr_close(&none);
    openuvr_close_mud(NULL);
    openuvr_close_mud(&no_mud);

    /* The paper's Table I passes a MUD's context to the host's function. */
    no_mud = openuvr_alloc_mud_context(OPENUVR_ENCODER_H264, OPENUVR_NETWORK_UDP);
    EXPECT(no_mud != NULL, 1);
    none = (struct openuvr_context *)no_mud;
    EXPECT(openuvr_map_device(none, 1, 1), OPENUVR_ERROR_ARGUMENT);
    openuvr_close(&none);
    EXPECT(none != NULL, 1); /* unchanged: it is not a host */
    EXPECT(openuvr_init_mud_thread(no_mud), OPENUVR_ERROR_STATE); /* no host is set */
    EXPECT(openuvr_set_host(no_mud, "no host", NULL), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_host(no_mud, NULL, NULL), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_set_host(no_mud, "127.0.0.1:9", "12"), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_host(no_mud, "127.0.0.1:9", NULL), OPENUVR_OK);
    EXPECT(openuvr_mud_pointer(no_mud, &pointer), OPENUVR_ERROR_STATE);
    EXPECT(openuvr_next_frame(no_mud, &picture, 0), OPENUVR_ERROR_STATE);
    EXPECT(openuvr_register_input_device(no_mud, 256, 0), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_register_input_device(no_mud, 1, -1), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_register_input_device(no_mud, 1, 999), OPENUVR_ERROR_ARGUMENT);
    openuvr_close_mud(&no_mud);
    EXPECT(no_mud == NULL, 1);
    openuvr_close_mud(&no_mud);

    EXPECT(openuvr_alloc_context(99, 0, NULL) == NULL, 1);
    EXPECT(openuvr_alloc_mud_context(1, 99) == NULL, 1);
    /* A hardware decoder is never replaced by one on the CPU. */
    EXPECT(openuvr_alloc_mud_context(OPENUVR_ENCODER_H264_VAAPI, OPENUVR_NETWORK_UDP) == NULL, 1);
    EXPECT(openuvr_check_mud_support(OPENUVR_ENCODER_H264_VAAPI, OPENUVR_NETWORK_UDP, NULL, 0),
           OPENUVR_ERROR_UNAVAILABLE);
    EXPECT(openuvr_check_support(OPENUVR_ENCODER_H264, OPENUVR_NETWORK_INJECT, NULL, 0),
           OPENUVR_ERROR_UNAVAILABLE);
}

/* A failed start changes nothing: the settings remain for the next one. */
static void failed_starts(void)
{
    struct openuvr_mud_config config = { .size = sizeof config };
    struct openuvr_mud_context *mud;
    struct openuvr_context *host;
    struct openuvr_config host_config = valid_config();
    char text[200] = "";
    int ends[2];

    EXPECT(pipe(ends), 0);
    EXPECT(openuvr_mud_config_default(&config), OPENUVR_OK);
    config.host = "127.0.0.1:9";
    config.pin = "135790";
    config.display = ":65000"; /* does not exist */
    config.max_width = 640; /* without max_height */
    EXPECT(openuvr_open_mud(&config, &mud, text, sizeof text), OPENUVR_ERROR_ARGUMENT);
    EXPECT(strstr(text, "max_height") != NULL, 1);
    config.max_width = 0;
    config.max_bitrate = 7;
    EXPECT(openuvr_open_mud(&config, &mud, text, sizeof text), OPENUVR_ERROR_ARGUMENT);
    EXPECT(strstr(text, "max_bitrate") != NULL, 1);
    config.max_bitrate = 0;
    config.observe = config.take_over = 1;
    EXPECT(openuvr_open_mud(&config, &mud, text, sizeof text), OPENUVR_ERROR_ARGUMENT);
    EXPECT(strstr(text, "take_over") != NULL, 1);
    config.observe = config.take_over = 0;
    EXPECT(openuvr_open_mud(&config, &mud, NULL, 0), OPENUVR_OK);
    EXPECT(openuvr_register_input_device(mud, 1, ends[1]), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_register_input_device(mud, 1, ends[0]), OPENUVR_OK);
    close(ends[0]);
    EXPECT(openuvr_init_mud_thread(mud), OPENUVR_ERROR_FAILED);
    EXPECT((int)write(ends[1], "", 1), 1); /* it still has a reader */
    openuvr_close_mud(&mud);
    EXPECT((int)write(ends[1], "", 1), -1);
    close(ends[1]);

    EXPECT(pipe(ends), 0);
    EXPECT(openuvr_open(&host_config, &host, NULL, 0), OPENUVR_OK);
    EXPECT(openuvr_map_input_device(host, 1, ends[0]), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_map_input_device(host, 1, ends[1]), OPENUVR_OK);
    /* For a missing device, open() returns -1, which does not remove the mapping. */
    EXPECT(openuvr_map_input_device(host, 1, open("/dev/input/none", O_RDWR)), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_last_error(host, text, sizeof text), OPENUVR_OK);
    EXPECT(strstr(text, "did open() fail?") != NULL, 1);
    EXPECT(openuvr_map_input_device(host, 0, ends[1]), OPENUVR_OK); /* 0 is a valid number */
    EXPECT(openuvr_map_input_device(host, 255, ends[1]), OPENUVR_OK);
    EXPECT(openuvr_unmap_input_device(host, 255), OPENUVR_OK);
    EXPECT(openuvr_unmap_input_device(host, 256), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_init_thread(host), OPENUVR_OK);
    EXPECT(openuvr_open_pairing(host, "1234", 0), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_open_pairing(host, "1234", 1), OPENUVR_OK);
    EXPECT(openuvr_unmap_input_device(host, 1), OPENUVR_OK);
    EXPECT(openuvr_unmap_input_device(host, 1), OPENUVR_OK);
    openuvr_close(&host);
    close(ends[0]);
    close(ends[1]);
}

static void features(struct openuvr_context *context)
{
    char text[300] = "";

    EXPECT(openuvr_set_feature(context, 99, 1), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_TARGET_FPS, 0), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_TARGET_FPS, -60), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_TARGET_FPS, 30), OPENUVR_OK);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_WIDTH, 20000), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_PORT, 65536), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_REALTIME, 2), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_GOP, -1), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_GOP, 100001), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_GOP, 100000), OPENUVR_OK);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_ENCODER, OPENUVR_ENCODER_H264_VAAPI),
           OPENUVR_ERROR_UNAVAILABLE);
    EXPECT(openuvr_last_error(context, text, sizeof text), OPENUVR_OK);
    EXPECT(strstr(text, "; use OPENUVR_ENCODER_") != NULL, 1);
    EXPECT(openuvr_last_error(context, text, 5), OPENUVR_OK);
    EXPECT((int)strlen(text), 4);
    EXPECT(openuvr_last_error(context, NULL, 5), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_REALTIME, 0), OPENUVR_OK);
    EXPECT(openuvr_set_viewport(context, 0, 0, 0, 100), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_viewport(context, 0, 0, 16385, 100), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_viewport(context, -20, 10, 100, 100), OPENUVR_OK);
}

static int released;

static void release(void *user)
{
    __atomic_add_fetch((int *)user, 1, __ATOMIC_SEQ_CST);
}

static void pictures(struct openuvr_context *context)
{
    static uint32_t pixels[64][64];
    struct openuvr_picture picture = { .size = sizeof picture };
    struct openuvr_input input = { 0 };
    struct openuvr_pose pose = { .size = sizeof pose };
    struct openuvr_controllers held = { .size = sizeof held };
    struct openuvr_haptic haptic = { .size = sizeof haptic };
    struct openuvr_event event = { .size = sizeof event };
    struct openuvr_pointer pointer = { .size = sizeof pointer };

    EXPECT(openuvr_send_picture(context, NULL, 0), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_send_picture(context, &picture, 0), OPENUVR_ERROR_ARGUMENT);
    picture.format = OPENUVR_PIXEL_FORMAT_BGRX;
    EXPECT(openuvr_send_picture(context, &picture, 0), OPENUVR_ERROR_ARGUMENT);
    picture.width = picture.height = 64;
    EXPECT(openuvr_send_picture(context, &picture, 0), OPENUVR_ERROR_NULL);
    picture.data = pixels;
    picture.stride = 63 * 4;
    EXPECT(openuvr_send_picture(context, &picture, 0), OPENUVR_ERROR_ARGUMENT);
    picture.stride = (size_t)-1;
    EXPECT(openuvr_send_picture(context, &picture, 0), OPENUVR_ERROR_ARGUMENT);
    picture.stride = 0;
    picture.size = 3;
    EXPECT(openuvr_send_picture(context, &picture, 0), OPENUVR_ERROR_SIZE);
    picture.size = sizeof picture;
    picture.release = release;
    picture.user = &released;
    /* While no MUD watches, one picture per second is needed. The other pictures are released at once. */
    EXPECT(openuvr_send_picture(context, &picture, 1) >= 0, 1);
    int sent = 1;
    for (int again = 0; again < 100 && sent != 0; again++)
        sent = openuvr_send_picture(context, &picture, 0);
    EXPECT(sent, 0);
    EXPECT(__atomic_load_n(&released, __ATOMIC_SEQ_CST) >= 1, 1);
    EXPECT(openuvr_frame_ready(context), OPENUVR_ERROR_STATE);
    EXPECT(openuvr_send_frame(context), OPENUVR_ERROR_STATE);

    EXPECT(openuvr_next_event(context, NULL), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_next_event(context, &event), 0);
    EXPECT(openuvr_next_log(context, NULL, NULL, 10), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_set_pointer(context, NULL), OPENUVR_ERROR_NULL);
    pointer.argb = pixels[0], pointer.width = 257, pointer.height = 1;
    EXPECT(openuvr_set_pointer(context, &pointer), OPENUVR_ERROR_ARGUMENT);
    pointer.width = 16, pointer.height = 16, pointer.hot_x = 16;
    EXPECT(openuvr_set_pointer(context, &pointer), OPENUVR_ERROR_ARGUMENT);
    pointer.hot_x = 15, pointer.x = 65536;
    EXPECT(openuvr_set_pointer(context, &pointer), OPENUVR_ERROR_ARGUMENT);
    pointer.x = 65535, pointer.relative = 2;
    EXPECT(openuvr_set_pointer(context, &pointer), OPENUVR_ERROR_ARGUMENT);
    pointer.relative = 1;
    EXPECT(openuvr_set_pointer(context, &pointer), OPENUVR_OK);
    EXPECT(openuvr_next_input(context, NULL), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_next_input(context, &input), OPENUVR_ERROR_SIZE);
    input.size = sizeof input;
    EXPECT(openuvr_next_input(context, &input), 0);
    EXPECT(openuvr_last_pose(context, &pose), 0);
    EXPECT(openuvr_last_pose(context, NULL), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_last_controllers(context, &held), 0);
    EXPECT(openuvr_last_controllers(context, NULL), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_send_haptic(context, NULL), OPENUVR_ERROR_NULL);
    EXPECT(openuvr_send_haptic(context, &haptic), OPENUVR_OK);
    haptic.hand = 2;
    EXPECT(openuvr_send_haptic(context, &haptic), OPENUVR_ERROR_ARGUMENT);
    haptic.hand = 1, haptic.amplitude = 1.5f;
    EXPECT(openuvr_send_haptic(context, &haptic), OPENUVR_ERROR_ARGUMENT);
    haptic.amplitude = 1, haptic.duration_ns = 61000000000;
    EXPECT(openuvr_send_haptic(context, &haptic), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_map_input_device(context, -1, 1), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_map_input_device(context, 1, 999), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_open_pairing(context, "12", 1), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_open_pairing(context, NULL, 1), OPENUVR_ERROR_NULL);
}

/* The number of submitted pictures. */
static int submitted;

/* Submits a picture until it is accepted: while no MUD watches, one per second is. */
static int submit(struct openuvr_context *context, const struct openuvr_picture *picture)
{
    for (int tries = 0; tries < 1000; tries++) {
        int sent = openuvr_send_picture(context, picture, 0);
        submitted++;
        if (sent != 0)
            return sent;
        usleep(5000);
    }
    return 0;
}

/* Uses a sealed memfd as a linear dma-buf, so that the test also runs on machines without /dev/udmabuf. */
static void dma_bufs(struct openuvr_context *context)
{
    struct openuvr_picture picture = { .size = sizeof picture };
    int fd = memfd_create("picture", MFD_CLOEXEC | MFD_ALLOW_SEALING), releases = 0;

    picture.format = OPENUVR_PIXEL_FORMAT_BGRX;
    picture.width = picture.height = 64;
    picture.is_dma_buf = 1;
    picture.dma_buf = fd;
    EXPECT(submit(context, &picture), OPENUVR_ERROR_ARGUMENT); /* it can shrink */
    EXPECT(ftruncate(fd, 64 * 64 * 4 + 100), 0);
    EXPECT(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    picture.offset = 101;
    EXPECT(submit(context, &picture), OPENUVR_ERROR_ARGUMENT); /* it ends too early */
    picture.offset = 100;
    EXPECT((int)lseek(fd, 7, SEEK_SET), 7);
    EXPECT(submit(context, &picture), 1);
    EXPECT((int)lseek(fd, 0, SEEK_CUR), 7); /* its file position is unchanged */
    picture.release = release; /* called for each skipped picture, and for the accepted one */
    picture.user = &releases;
    submitted = 0;
    EXPECT(submit(context, &picture), 1);
    EXPECT(releases, submitted);
    picture.release = NULL;
    picture.modifier = 1;
    EXPECT(submit(context, &picture), OPENUVR_ERROR_UNAVAILABLE);
    close(fd);
}

/* The stream belongs to the parent. */
static void forked(struct openuvr_context *context)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct openuvr_context *mine = context;
        struct openuvr_input input = { .size = sizeof input };
        failures = 0;
        EXPECT(openuvr_next_input(mine, &input), OPENUVR_ERROR_FORKED);
        EXPECT(openuvr_begin_frame(mine), OPENUVR_ERROR_FORKED);
        openuvr_close(&mine);
        EXPECT(mine == NULL, 1);
        _exit(failures != 0);
    }
    EXPECT(waitpid(child, &status, 0) == child, 1);
    EXPECT(status, 0);
    EXPECT(openuvr_begin_frame(context), OPENUVR_OK);
}

/* The library's threads receive no signals of the application, and the application's handlers stay installed. */
static volatile sig_atomic_t alarms;
static pthread_t main_thread;

static void on_alarm(int signal)
{
    (void)signal;
    alarms += pthread_equal(pthread_self(), main_thread) ? 1 : 1000;
}

/* Replaces the sockets of the library's only host, like a failing network card. */
static void unplug(void)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    for (int fd = 3; fd < 1000; fd++) {
        struct sockaddr_storage address;
        socklen_t size = sizeof address;
        if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
            (address.ss_family == AF_INET || address.ss_family == AF_INET6))
            EXPECT(dup2(null_fd, fd), fd);
    }
    close(null_fd);
}

/* After the end of a stream each submission returns an error, and all lent pictures are released. */
static void ended_stream(void)
{
    static uint32_t pixels[64][64];
    struct openuvr_config config = valid_config();
    struct openuvr_context *context;
    struct openuvr_picture picture = { .size = sizeof picture };
    int lent = 0, sent = 0, releases = 0;
    char text[100] = "";

    picture.format = OPENUVR_PIXEL_FORMAT_BGRX;
    picture.width = picture.height = 64;
    picture.data = pixels;
    picture.release = release;
    picture.user = &releases;
    EXPECT(openuvr_open(&config, &context, NULL, 0), OPENUVR_OK);
    EXPECT(openuvr_init_thread(context), OPENUVR_OK);
    unplug();
    for (; sent >= 0 && lent < 2000; lent++) {
        EXPECT(openuvr_open_pairing(context, "1234", 1), OPENUVR_OK); /* it uses the host's socket */
        sent = openuvr_send_picture(context, &picture, lent % 2);
        usleep(5000);
    }
    EXPECT(sent, OPENUVR_ERROR_ENDED);
    for (int wait = 0; wait < 2; wait++, lent++)
        EXPECT(openuvr_send_picture(context, &picture, wait), OPENUVR_ERROR_ENDED);
    /* openuvr_last_error returns the reason shortly after the stream has ended. */
    for (int tries = 0; tries < 1000 && strstr(text, "receiving failed") == NULL; tries++, lent++) {
        usleep(5000);
        EXPECT(openuvr_send_picture(context, &picture, 0), OPENUVR_ERROR_ENDED);
        EXPECT(openuvr_last_error(context, text, sizeof text), OPENUVR_OK);
    }
    EXPECT(strstr(text, "receiving failed") != NULL, 1);
    EXPECT(openuvr_begin_frame(context), OPENUVR_OK);
    openuvr_close(&context);
    EXPECT(releases, lent);
}

int main(void)
{
    struct sigaction action = { .sa_handler = on_alarm }, after;
    struct openuvr_context *context, *other, *copy;
    struct openuvr_config config = valid_config();
    char text[100] = "";

    main_thread = pthread_self();
    sigaction(SIGALRM, &action, NULL);
    configurations();
    null_and_wrong_contexts();
    signal(SIGPIPE, SIG_IGN);
    failed_starts();

    EXPECT(openuvr_open(&config, &context, text, sizeof text), OPENUVR_OK);
    EXPECT(openuvr_begin_frame(context), OPENUVR_ERROR_STATE);
    EXPECT(openuvr_listen_address(context, text, sizeof text), OPENUVR_ERROR_STATE);
    features(context);
    EXPECT(openuvr_init_thread(context), OPENUVR_OK);
    EXPECT(openuvr_init_thread(context), OPENUVR_ERROR_STATE);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_PORT, 0), OPENUVR_ERROR_STATE);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_BITRATE, 50), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_BITRATE, 5000), OPENUVR_OK);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_GOP, -30), OPENUVR_ERROR_ARGUMENT);
    EXPECT(openuvr_last_error(context, text, sizeof text), OPENUVR_OK);
    EXPECT(strstr(text, "1 to 100000, or 0 for") != NULL, 1);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_GOP, 30), OPENUVR_OK);
    EXPECT(openuvr_set_feature(context, OPENUVR_FEATURE_GOP, 0), OPENUVR_OK);
    EXPECT(openuvr_pin(context, text, sizeof text), OPENUVR_OK);
    EXPECT(strcmp(text, "135790"), 0);

    /* A second host in the process, on another port. */
    EXPECT(openuvr_open(&config, &other, text, sizeof text), OPENUVR_OK);
    EXPECT(openuvr_init_thread(other), OPENUVR_OK);
    openuvr_close(&other);

    pictures(context);
    dma_bufs(context);
    forked(context);
    for (int i = 0; i < 5; i++)
        kill(getpid(), SIGALRM);
    EXPECT(alarms >= 1 && alarms < 1000, 1);
    sigaction(SIGALRM, NULL, &after);
    EXPECT(after.sa_handler == on_alarm, 1);

    copy = context;
    openuvr_close(&context);
    EXPECT(context == NULL && copy != NULL, 1);
    openuvr_close(&context);
    /* All lent pictures are released. */
    EXPECT(released >= 2, 1);
    ended_stream();
    if (failures == 0)
        fprintf(stderr, "all calls returned the expected errors\n");
    return failures != 0;
}
