/*
 * Fig. 9 (a) verbatim, except for an encoder and a network that every machine has, and a free port: it draws
 * and reads its pictures into the buffer, and never signals that a picture is complete. Ends when its standard
 * input ends.
 */
#define OPENUVR_PAPER_NAMES
#include "gl.h"
#include <poll.h>

enum { WIDTH = 640, HEIGHT = 368 };

int main(void)
{
    struct openuvr_context *ouvr_ctx;
    GLXContext context;
    GLuint pbo;

    open_window(WIDTH, HEIGHT);
    context = new_context();
    glGenBuffers(1, &pbo);
    glBindBuffer(GL_PIXEL_PACK_BUFFER, pbo);
    glBufferData(GL_PIXEL_PACK_BUFFER, 1920 * 1080 * 4, 0, GL_DYNAMIC_COPY);
    ouvr_ctx = openuvr_alloc_context(OPENUVR_ENCODER_H264, OPENUVR_NETWORK_UDP, &pbo);
    if (ouvr_ctx == NULL) {
        fprintf(stderr, "couldn't allocate openuvr context\n");
        exit(1);
    }
    openuvr_set_feature(ouvr_ctx, TARGET_FPS, 60);
    openuvr_set_feature(ouvr_ctx, OPENUVR_FEATURE_PORT, 0);
    openuvr_init_thread(ouvr_ctx);

    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    while (poll(&input, 1, 16) == 0) {
        glClear(GL_COLOR_BUFFER_BIT);
        glReadPixels(0, 0, WIDTH, HEIGHT, GL_RGB, GL_UNSIGNED_BYTE, 0);
        glXSwapBuffers(display, window);
    }
    openuvr_close(&ouvr_ctx);
    glXMakeCurrent(display, None, NULL);
    glXDestroyContext(display, context);
    return 0;
}
