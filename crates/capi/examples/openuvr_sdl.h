/*
 * Streams the window of an SDL 2 program that draws with OpenGL, and passes the player's input to the program as
 * SDL events. Add this file and openuvr_sdl.c to the program's sources; sdl.c is an example. Four calls are needed:
 *
 *   openuvr_sdl_start(&stream, window, &config, why, sizeof why)    after SDL_GL_CreateContext
 *   openuvr_sdl_input(&stream)      before the loop of SDL_PollEvent, which must empty the queue before drawing
 *   openuvr_sdl_frame(&stream)      before SDL_GL_SwapWindow
 *   openuvr_sdl_stop(&stream)       before SDL_GL_DeleteContext
 *
 * Each frame states which input it shows: the input that openuvr_sdl_input has put into the queue. Call all functions
 * on the thread of the OpenGL context, which must also be the thread that polls the events.
 *
 * The player's keys also appear in SDL_GetKeyboardState and SDL_GetModState. SDL_GetMouseState and
 * SDL_GetRelativeMouseState return the state of the local mouse only: use the events instead. While
 * SDL_SetRelativeMouseMode is on, the player's client grabs its pointer and sends relative motion.
 */
#ifndef OPENUVR_SDL_H
#define OPENUVR_SDL_H

#include <SDL.h>
#include <openuvr.h>

struct openuvr_sdl {
    /* The host, for the functions that return its log, address, PIN or statistics. NULL after openuvr_sdl_stop. */
    struct openuvr_context *context;
    SDL_Window *window;
    /* The player's pressed keys by scancode, and pressed mouse buttons as a mask of SDL_BUTTON(…). */
    Uint8 keys[SDL_NUM_SCANCODES];
    Uint32 buttons;
    /* The position of the player's pointer in the window. */
    int x, y;
    /* Rotation of the wheel since its last whole notch, in 1/120 of a notch. */
    int wheel_x, wheel_y;
    SDL_bool relative;
};

/* Starts a host for the window. Ignores the width and height in `config`, and uses those of the window. Returns 0, or a
 * negative OPENUVR_ERROR; `why` then contains the reason. */
int openuvr_sdl_start(struct openuvr_sdl *stream, SDL_Window *window, const struct openuvr_config *config,
                      char *why, size_t why_size);

/* Puts the player's input into SDL's event queue, and begins a frame. Returns the number of the player's input events,
 * or a negative OPENUVR_ERROR. */
int openuvr_sdl_input(struct openuvr_sdl *stream);

/* Submits the picture in the window's back buffer. Returns 1 if the host accepted the picture, 0 if it did not
 * (openuvr_last_error returns the reason), or a negative OPENUVR_ERROR. */
int openuvr_sdl_frame(struct openuvr_sdl *stream);

/* Ends the stream, and releases the player's keys and mouse buttons. A second call does nothing. */
void openuvr_sdl_stop(struct openuvr_sdl *stream);

#endif
