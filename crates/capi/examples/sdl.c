/*
 * An SDL 2 program that is streamed (openuvr_sdl.h): a square follows the mouse; the space bar changes the
 * background. Local input and the player's input work at the same time. Ends when its window is closed.
 *
 *   cc sdl.c openuvr_sdl.c -o sdl $(pkg-config --cflags --libs sdl2 gl openuvr) && ./sdl
 *
 *   sdl [PIN [ADDRESS:PORT [CSV]]]      CSV: a file that gets a row for each frame
 */
#include "openuvr_sdl.h"
#include <SDL_opengl.h>
#include <stdio.h>

enum { WIDTH = 640, HEIGHT = 360, SIDE = 64 };

static void draw(SDL_Window *window, int ground, int x, int y)
{
    int width, height;

    SDL_GL_GetDrawableSize(window, &width, &height);
    glViewport(0, 0, width, height);
    glClearColor(0.1f, ground ? 0.6f : 0.2f, ground ? 0.2f : 0.6f, 1.0f);
    glClear(GL_COLOR_BUFFER_BIT);
    /* A square at the mouse. OpenGL counts rows from below. */
    glEnable(GL_SCISSOR_TEST);
    glScissor(x - SIDE / 2, height - y - SIDE / 2, SIDE, SIDE);
    glClearColor(1.0f, 0.2f, 0.1f, 1.0f);
    glClear(GL_COLOR_BUFFER_BIT);
    glDisable(GL_SCISSOR_TEST);
}

/* Prints the log, which contains the address, the PIN, and the clients that join and leave. */
static void print_log(struct openuvr_context *context)
{
    char line[1024];
    uint32_t level;

    while (openuvr_next_log(context, &level, line, sizeof line) == 1)
        if (level <= OPENUVR_LOG_INFO)
            fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    struct openuvr_config config = { .size = sizeof config };
    struct openuvr_sdl stream;
    SDL_Window *window;
    SDL_GLContext context;
    SDL_Event event;
    int running = 1, ground = 0, x = WIDTH / 2, y = HEIGHT / 2;
    char why[256] = "";

    if (SDL_Init(SDL_INIT_VIDEO) != 0) {
        fprintf(stderr, "cannot start SDL: %s\n", SDL_GetError());
        return 1;
    }
    window = SDL_CreateWindow("OpenUVR SDL", SDL_WINDOWPOS_UNDEFINED, SDL_WINDOWPOS_UNDEFINED, WIDTH, HEIGHT,
                              SDL_WINDOW_OPENGL | SDL_WINDOW_RESIZABLE);
    context = window == NULL ? NULL : SDL_GL_CreateContext(window);
    if (context == NULL) {
        fprintf(stderr, "cannot open a window with OpenGL: %s\n", SDL_GetError());
        return 1;
    }
    openuvr_config_default(&config);
    config.pin = argc > 1 ? argv[1] : NULL;
    config.bind = argc > 2 ? argv[2] : NULL;
    config.csv = argc > 3 ? argv[3] : NULL;
    if (openuvr_sdl_start(&stream, window, &config, why, sizeof why) < 0) {
        fprintf(stderr, "cannot start the stream: %s\n", why);
        return 1;
    }
    while (running) {
        /* If the stream ends, the program continues without it. */
        int streams = stream.context != NULL && openuvr_sdl_input(&stream) >= 0;

        while (SDL_PollEvent(&event)) {
            if (event.type == SDL_QUIT)
                running = 0;
            else if (event.type == SDL_KEYDOWN && event.key.keysym.sym == SDLK_SPACE && !event.key.repeat)
                ground = !ground;
            else if (event.type == SDL_MOUSEMOTION)
                x = event.motion.x, y = event.motion.y;
        }
        draw(window, ground, x, y);
        streams = streams && openuvr_sdl_frame(&stream) >= 0;
        if (stream.context != NULL)
            print_log(stream.context);
        if (!streams && stream.context != NULL) {
            openuvr_last_error(stream.context, why, sizeof why);
            fprintf(stderr, "the stream has ended: %s\n", why);
            openuvr_sdl_stop(&stream);
        }
        SDL_GL_SwapWindow(window);
        SDL_Delay(16);
    }
    openuvr_sdl_stop(&stream);
    SDL_GL_DeleteContext(context);
    SDL_DestroyWindow(window);
    SDL_Quit();
    return 0;
}
