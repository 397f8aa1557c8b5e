/*
 * Checks the kinds, order and content of the SDL events of a player's input (examples/openuvr_sdl.c). Needs no display.
 *
 *   SDL_VIDEODRIVER=dummy sdl_events FOLDER
 */
#include "../examples/openuvr_sdl.h"
#include "pair.h"

enum { WIDTH = 640, HEIGHT = 360 };
enum { KEY_A = 30, KEY_LEFTCTRL = 29, BTN_RIGHT = 0x111 };

static struct openuvr_sdl stream;
static struct openuvr_mud_context *mud;

static void send_input(uint32_t kind, uint32_t code, int value, int x, int y, uint32_t text)
{
    struct openuvr_input input = { .size = sizeof input };

    input.kind = kind;
    input.code = code;
    input.value = value;
    input.x = x;
    input.y = y;
    input.text = text;
    check(openuvr_send_input(mud, &input) >= 0, "cannot send input");
}

static int is_input(const SDL_Event *event)
{
    switch (event->type) {
    case SDL_KEYDOWN: case SDL_KEYUP: case SDL_TEXTINPUT: case SDL_MOUSEMOTION:
    case SDL_MOUSEBUTTONDOWN: case SDL_MOUSEBUTTONUP: case SDL_MOUSEWHEEL:
        return 1;
    default:
        return 0;
    }
}

/* The next event of keyboard or mouse, which must be of this type. */
static SDL_Event next_event(Uint32 type)
{
    SDL_Event event;

    for (int tries = 0; tries < 60000; tries++) {
        while (SDL_PollEvent(&event)) {
            if (!is_input(&event))
                continue;
            if (event.type != type)
                fprintf(stderr, "event %x instead of %x\n", event.type, type);
            check(event.type == type, "the events have another order");
            return event;
        }
        check(openuvr_sdl_input(&stream) >= 0, "the stream has ended");
        SDL_Delay(1);
    }
    check(0, "an event does not arrive");
    return event;
}

static void wait_until_playing(void)
{
    struct openuvr_mud_statistics statistics = { .size = sizeof statistics };

    for (int tries = 0; tries < 60000; tries++) {
        check(openuvr_mud_statistics(mud, &statistics) == 0, "no statistics");
        if (statistics.state == OPENUVR_MUD_PLAYING)
            return;
        SDL_Delay(1);
    }
    check(0, "the MUD does not connect");
}

static void check_keys(void)
{
    const Uint8 *state = SDL_GetKeyboardState(NULL);
    SDL_Event event;

    send_input(OPENUVR_INPUT_KEY, KEY_A, 1, 0, 0, 0xe4);
    event = next_event(SDL_KEYDOWN);
    check(event.key.keysym.scancode == SDL_SCANCODE_A && event.key.state == SDL_PRESSED, "another key");
    check(state[SDL_SCANCODE_A] == 1, "the key is not held");
    event = next_event(SDL_TEXTINPUT);
    check(strcmp(event.text.text, "\xc3\xa4") == 0, "another text");
    send_input(OPENUVR_INPUT_KEY, KEY_A, 0, 0, 0, 0);
    event = next_event(SDL_KEYUP);
    check(event.key.keysym.scancode == SDL_SCANCODE_A && state[SDL_SCANCODE_A] == 0, "the key is held");

    /* A shortcut: the modifier holds, and nothing is typed. */
    send_input(OPENUVR_INPUT_KEY, KEY_LEFTCTRL, 1, 0, 0, 0);
    send_input(OPENUVR_INPUT_KEY, KEY_A, 1, 0, 0, 'a');
    next_event(SDL_KEYDOWN);
    event = next_event(SDL_KEYDOWN);
    check(event.key.keysym.mod & KMOD_LCTRL && SDL_GetModState() & KMOD_LCTRL, "Ctrl is not held");
    send_input(OPENUVR_INPUT_RELEASE_ALL, 0, 0, 0, 0, 0);
    next_event(SDL_KEYUP);
    next_event(SDL_KEYUP);
    check(!(SDL_GetModState() & KMOD_LCTRL), "Ctrl is held");
}

static void check_mouse(void)
{
    SDL_Event event;

    send_input(OPENUVR_INPUT_POINTER, 0, 0, 65535, 0, 0);
    event = next_event(SDL_MOUSEMOTION);
    check(event.motion.x == WIDTH - 1 && event.motion.y == 0, "the pointer is elsewhere");
    send_input(OPENUVR_INPUT_BUTTON, BTN_RIGHT, 1, 0, 0, 0);
    event = next_event(SDL_MOUSEBUTTONDOWN);
    check(event.button.button == SDL_BUTTON_RIGHT && event.button.x == WIDTH - 1, "another button");
    send_input(OPENUVR_INPUT_MOTION, 0, 0, -9, 4, 0);
    event = next_event(SDL_MOUSEMOTION);
    check(event.motion.xrel == -9 && event.motion.yrel == 4, "another motion");
    check(event.motion.state == SDL_BUTTON_RMASK, "the button is not held");
    send_input(OPENUVR_INPUT_BUTTON, BTN_RIGHT, 0, 0, 0, 0);
    next_event(SDL_MOUSEBUTTONUP);

    /* Two halves of a notch are one notch. */
    send_input(OPENUVR_INPUT_WHEEL, 0, 0, 0, -60, 0);
    check(next_event(SDL_MOUSEWHEEL).wheel.y == 0, "half a notch");
    send_input(OPENUVR_INPUT_WHEEL, 0, 0, 0, -60, 0);
    check(next_event(SDL_MOUSEWHEEL).wheel.y == -1, "a notch");
}

int main(int argc, char **argv)
{
    struct openuvr_config config = { 0 };
    char own[300], why[256] = "";
    SDL_Window *window;

    check(argc == 2, "usage: sdl_events FOLDER");
    check(SDL_Init(SDL_INIT_VIDEO) == 0, "SDL does not start");
    window = SDL_CreateWindow("events", 0, 0, WIDTH, HEIGHT, 0);
    check(window != NULL, "no window");
    host_config(&config, argv[1], own, sizeof own);
    check(openuvr_sdl_start(&stream, window, &config, why, sizeof why) == 0, why);
    mud = mud_of(stream.context, argv[1], 0);
    wait_until_playing();
    check_keys();
    check_mouse();
    openuvr_close_mud(&mud);
    openuvr_sdl_stop(&stream);
    check(stream.context == NULL && openuvr_version() != 0, "the stream still runs");
    openuvr_sdl_stop(&stream);
    SDL_DestroyWindow(window);
    SDL_Quit();
    puts("the events agree");
    return 0;
}
