/*
 * Fig. 9 (a) as printed, except for an encoder and a network that every machine has, and a free port. Like the
 * paper's program, it draws and reads its pictures into the buffer, and never signals that a picture is complete.
 * Each picture shows its number as bars from the left: white is 1. The number is in Gray code, so that a row that is
 * torn between two successive pictures shows the number of one of them. Ends when its standard input ends.
 *
 * BUFFER=NULL builds a program without a pixel buffer, which therefore streams no picture.
 */
#define OPENUVR_PAPER_NAMES
#include "gl.h"
#include <poll.h>

#ifndef BUFFER
#define BUFFER &pbo
#endif

enum { WIDTH = 1920, HEIGHT = 1080, BARS = 16 };

static void draw(unsigned number)
{
    unsigned gray = number ^ number >> 1;

    glClearColor(0, 0, 0, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    glEnable(GL_SCISSOR_TEST);
    glClearColor(1, 1, 1, 1);
    for (int bar = 0; bar < BARS; bar++) {
        if (gray >> bar & 1) {
            glScissor(bar * WIDTH / BARS, 0, WIDTH / BARS, HEIGHT);
            glClear(GL_COLOR_BUFFER_BIT);
        }
    }
    glDisable(GL_SCISSOR_TEST);
}

int main(void)
{
    struct openuvr_context *ouvr_ctx;
    GLXContext context;
    GLuint pbo;

    open_window(WIDTH, HEIGHT);
    context = new_context();
    /* Fig. 9: */
    glGenBuffers(1, &pbo);
    glBindBuffer(GL_PIXEL_PACK_BUFFER, pbo);
    glBufferData(GL_PIXEL_PACK_BUFFER, 1920 * 1080 * 4, 0, GL_DYNAMIC_COPY);
    glReadPixels(0, 0, 1920, 1080, GL_RGB, GL_UNSIGNED_BYTE, 0);
    ouvr_ctx = openuvr_alloc_context(OPENUVR_ENCODER_H264, OPENUVR_NETWORK_UDP, BUFFER);
    if (ouvr_ctx == NULL) {
        fprintf(stderr, "couldn't allocate openuvr context\n");
        exit(1);
    }
    openuvr_set_feature(ouvr_ctx, TARGET_FPS, 60);
    openuvr_set_feature(ouvr_ctx, OPENUVR_FEATURE_PORT, 0);
    openuvr_init_thread(ouvr_ctx);
    /* End of Fig. 9. */

    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    for (unsigned number = 1; poll(&input, 1, 16) == 0; number++) {
        draw(number);
        glReadPixels(0, 0, 1920, 1080, GL_RGB, GL_UNSIGNED_BYTE, 0);
        glXSwapBuffers(display, window);
    }
    openuvr_close(&ouvr_ctx);
    glXMakeCurrent(display, None, NULL);
    glXDestroyContext(display, context);
    return 0;
}
