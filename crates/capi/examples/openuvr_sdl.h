/*
 * Streams the window of an SDL 2 program that draws with OpenGL, and passes the player's input to the program as
 * SDL events. Copy this file and openuvr_sdl.c into the program; sdl.c is an example. Four calls are needed:
 *
 *   openuvr_sdl_start(&stream, window, &config, why, sizeof why)    after SDL_GL_CreateContext
 *   openuvr_sdl_input(&stream)      before the loop of SDL_PollEvent, which must empty the queue before drawing
 *   openuvr_sdl_frame(&stream)      before SDL_GL_SwapWindow
 *   openuvr_sdl_stop(&stream)       before SDL_GL_DeleteContext
 *
 * Each frame states which input it shows: the input that openuvr_sdl_input has put into the queue. All functions
 * belong on the thread of the OpenGL context, which must also be the thread of the events.
 *
 * The player's keys also appear in SDL_GetKeyboardState and SDL_GetModState. SDL_GetMouseState and
 * SDL_GetRelativeMouseState return the local mouse only: use the events. While SDL_SetRelativeMouseMode is on, the
 * player's client grabs its pointer and sends relative motion.
 */
#ifndef OPENUVR_SDL_H
#define OPENUVR_SDL_H

#include <SDL.h>
#include <openuvr.h>

struct openuvr_sdl {
    /* The host: for its log, address, PIN and statistics. NULL after openuvr_sdl_stop. */
    struct openuvr_context *context;
    SDL_Window *window;
    /* The player's pressed keys, by scancode, and mouse buttons, as a mask of SDL_BUTTON(…). */
    Uint8 keys[SDL_NUM_SCANCODES];
    Uint32 buttons;
    /* The position of the player's pointer in the window. */
    int x, y;
    /* Parts of a notch of the wheel, in 1/120. */
    int wheel_x, wheel_y;
    SDL_bool relative;
};

/* Starts a host for the window. Sets the width and height of the configuration itself. Returns 0, or a negative
 * OPENUVR_ERROR; `why` then has the reason. */
int openuvr_sdl_start(struct openuvr_sdl *stream, SDL_Window *window, const struct openuvr_config *config,
                      char *why, size_t why_size);

/* Puts the player's input into SDL's event queue, and begins a frame. Returns the number of events of the player,
 * or a negative OPENUVR_ERROR. */
int openuvr_sdl_input(struct openuvr_sdl *stream);

/* Submits the window's back buffer. Returns 1 if it was accepted, 0 if it is not needed, or a negative
 * OPENUVR_ERROR. */
int openuvr_sdl_frame(struct openuvr_sdl *stream);

/* Ends the stream, and releases the player's keys. A second call does nothing. */
void openuvr_sdl_stop(struct openuvr_sdl *stream);

#endif
