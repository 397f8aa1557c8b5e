/*
 * The paper's MUD daemon (Fig. 9 b): shows a host's stream and sends input to the host. The comments
 * explain the changes to the paper's code.
 *
 *   cc mud.c -o mud $(pkg-config --cflags --libs openuvr) && ./mud HOST PIN
 *
 *   mud HOST[:PORT] [PIN [MOUSE]]      MOUSE is an event device or /dev/input/mice
 *
 * Ends when its standard input or the stream ends, or its window is closed.
 */
#define OPENUVR_PAPER_NAMES
#include <fcntl.h>
#include <openuvr.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct openuvr_mud_context *ouvr_ctx;
    char text[256];

    if (argc < 2) {
        fprintf(stderr, "usage: mud HOST[:PORT] [PIN [MOUSE]]\n");
        return 2;
    }

    /* Fig. 9: initialize the OpenUVR context. The paper's decoder and network need an NVIDIA GPU and
     * the permission to send Ethernet frames. Without them, this program decodes on the CPU, over any network. */
    uint32_t decoder = OPENUVR_ENCODER_H264_CUDA, network = OPENUVR_NETWORK_RAW;
    if (openuvr_check_mud_support(decoder, network, text, sizeof text) < 0) {
        fprintf(stderr, "CUDA with raw Ethernet is not available: %s\n", text);
        decoder = OPENUVR_ENCODER_H264;
        network = OPENUVR_NETWORK_ANY;
    }
    ouvr_ctx = openuvr_alloc_mud_context(decoder, network);
    if (ouvr_ctx == NULL) {
        fprintf(stderr, "couldn't allocate openuvr context\n");
        exit(1);
    }
    /* The listing does not set the host's address. */
    if (openuvr_set_host(ouvr_ctx, argv[1], argc > 2 ? argv[2] : NULL) < 0)
        goto failed;

    /* map an OpenUVR MUD input to the OpenUVR MUD context. Without it, input comes from the
     * window's keyboard and mouse. */
    if (argc > 3) {
        int fd = open(argv[3], O_RDONLY | O_NONBLOCK);
        int registered = openuvr_register_input_device(ouvr_ctx, SYS_MOUSE, fd);
        if (fd >= 0)
            close(fd);
        if (registered < 0)
            goto failed;
    }

    /* create an OpenUVR thread to receive VR content and send user inputs */
    if (openuvr_init_mud_thread(ouvr_ctx) < 0)
        goto failed;
    /* End of Fig. 9. */

    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    struct openuvr_mud_statistics seen = { .size = sizeof seen };
    uint32_t shown = 0;
    while (poll(&input, 1, 100) == 0) {
        openuvr_mud_statistics(ouvr_ctx, &seen);
        if (seen.width != shown) {
            shown = seen.width;
            fprintf(stderr, "showing %ux%u\n", seen.width, seen.height);
        }
        if (seen.state == OPENUVR_MUD_ENDED) {
            openuvr_mud_last_error(ouvr_ctx, text, sizeof text);
            fprintf(stderr, "the stream has ended: %s\n", text);
            break;
        }
    }
    fprintf(stderr, "%llu of %llu frames were complete\n", (unsigned long long)seen.complete,
            (unsigned long long)seen.frames);
    openuvr_close_mud(&ouvr_ctx);
    return 0;

failed:
    openuvr_mud_last_error(ouvr_ctx, text, sizeof text);
    fprintf(stderr, "cannot show the stream: %s\n", text);
    openuvr_close_mud(&ouvr_ctx);
    return 1;
}
