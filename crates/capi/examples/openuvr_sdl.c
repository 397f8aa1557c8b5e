/* See openuvr_sdl.h. */
#include "openuvr_sdl.h"

enum { NOTCH = 120 };

/* The modifiers that are in effect while their key is pressed. */
static const struct { SDL_Scancode key; SDL_Keymod held; } MODIFIERS[] = {
    { SDL_SCANCODE_LSHIFT, KMOD_LSHIFT }, { SDL_SCANCODE_RSHIFT, KMOD_RSHIFT },
    { SDL_SCANCODE_LCTRL, KMOD_LCTRL },   { SDL_SCANCODE_RCTRL, KMOD_RCTRL },
    { SDL_SCANCODE_LALT, KMOD_LALT },     { SDL_SCANCODE_RALT, KMOD_RALT },
    { SDL_SCANCODE_LGUI, KMOD_LGUI },     { SDL_SCANCODE_RGUI, KMOD_RGUI },
};

static void push_key(struct openuvr_sdl *stream, SDL_Scancode key, int pressed)
{
    int modifiers = SDL_GetModState(), count = 0;
    /* SDL has no function that sets the state of a key, so this function writes into SDL's own array. */
    Uint8 *state = (Uint8 *)SDL_GetKeyboardState(&count);
    SDL_Event event;

    if (key <= SDL_SCANCODE_UNKNOWN || key >= SDL_NUM_SCANCODES || stream->keys[key] == pressed)
        return;
    stream->keys[key] = pressed;
    if ((int)key < count)
        state[key] = pressed;
    for (size_t i = 0; i < SDL_arraysize(MODIFIERS); i++)
        if (MODIFIERS[i].key == key)
            modifiers = pressed ? modifiers | MODIFIERS[i].held : modifiers & ~MODIFIERS[i].held;
    SDL_SetModState((SDL_Keymod)modifiers);

    SDL_zero(event);
    event.type = pressed ? SDL_KEYDOWN : SDL_KEYUP;
    event.key.timestamp = SDL_GetTicks();
    event.key.windowID = SDL_GetWindowID(stream->window);
    event.key.state = pressed ? SDL_PRESSED : SDL_RELEASED;
    event.key.keysym.scancode = key;
    event.key.keysym.sym = SDL_GetKeyFromScancode(key);
    event.key.keysym.mod = (Uint16)modifiers;
    SDL_PushEvent(&event);
}

/* Writes a Unicode scalar value as UTF-8 with a terminating NUL: at most 5 bytes. */
static void encode(uint32_t scalar, char *text)
{
    int more = scalar < 0x80 ? 0 : scalar < 0x800 ? 1 : scalar < 0x10000 ? 2 : 3;
    static const unsigned char first[] = { 0, 0xc0, 0xe0, 0xf0 };

    *text++ = (char)(first[more] | scalar >> 6 * more);
    while (more-- > 0)
        *text++ = (char)(0x80 | (scalar >> 6 * more & 0x3f));
    *text = 0;
}

static void push_text(struct openuvr_sdl *stream, uint32_t scalar)
{
    SDL_Event event;

    /* Control characters are keys, not text. */
    if (scalar < 0x20 || scalar == 0x7f || !SDL_IsTextInputActive())
        return;
    SDL_zero(event);
    event.type = SDL_TEXTINPUT;
    event.text.timestamp = SDL_GetTicks();
    event.text.windowID = SDL_GetWindowID(stream->window);
    encode(scalar, event.text.text);
    SDL_PushEvent(&event);
}

static void push_motion(struct openuvr_sdl *stream, int x, int y, int by_x, int by_y)
{
    SDL_Event event;

    stream->x = x;
    stream->y = y;
    SDL_zero(event);
    event.type = SDL_MOUSEMOTION;
    event.motion.timestamp = SDL_GetTicks();
    event.motion.windowID = SDL_GetWindowID(stream->window);
    event.motion.state = stream->buttons;
    event.motion.x = x;
    event.motion.y = y;
    event.motion.xrel = by_x;
    event.motion.yrel = by_y;
    SDL_PushEvent(&event);
}

static void push_button(struct openuvr_sdl *stream, Uint8 button, int pressed)
{
    Uint32 mask = SDL_BUTTON(button);
    SDL_Event event;

    if (!(stream->buttons & mask) == !pressed)
        return;
    stream->buttons ^= mask;
    SDL_zero(event);
    event.type = pressed ? SDL_MOUSEBUTTONDOWN : SDL_MOUSEBUTTONUP;
    event.button.timestamp = SDL_GetTicks();
    event.button.windowID = SDL_GetWindowID(stream->window);
    event.button.button = button;
    event.button.state = pressed ? SDL_PRESSED : SDL_RELEASED;
    event.button.clicks = 1;
    event.button.x = stream->x;
    event.button.y = stream->y;
    SDL_PushEvent(&event);
}

static void push_wheel(struct openuvr_sdl *stream, int x, int y)
{
    SDL_Event event;

    SDL_zero(event);
    event.type = SDL_MOUSEWHEEL;
    event.wheel.timestamp = SDL_GetTicks();
    event.wheel.windowID = SDL_GetWindowID(stream->window);
    stream->wheel_x += x;
    stream->wheel_y += y;
    event.wheel.x = stream->wheel_x / NOTCH;
    event.wheel.y = stream->wheel_y / NOTCH;
    stream->wheel_x %= NOTCH;
    stream->wheel_y %= NOTCH;
#if SDL_VERSION_ATLEAST(2, 0, 18)
    event.wheel.preciseX = (float)x / NOTCH;
    event.wheel.preciseY = (float)y / NOTCH;
#endif
    SDL_PushEvent(&event);
}

static void release_all(struct openuvr_sdl *stream)
{
    for (int key = 0; key < SDL_NUM_SCANCODES; key++)
        push_key(stream, (SDL_Scancode)key, 0);
    for (Uint8 button = SDL_BUTTON_LEFT; button <= SDL_BUTTON_X2; button++)
        push_button(stream, button, 0);
}

static void push(struct openuvr_sdl *stream, const struct openuvr_input *input)
{
    struct openuvr_key key = { .size = sizeof key };
    int width = 1, height = 1;

    switch (input->kind) {
    case OPENUVR_INPUT_KEY:
        if (openuvr_key_of(input->code, &key) == 0)
            push_key(stream, (SDL_Scancode)key.sdl, input->value);
        if (input->value == 1 && input->text != 0)
            push_text(stream, input->text);
        break;
    case OPENUVR_INPUT_BUTTON:
        if (openuvr_key_of(input->code, &key) == 0 && key.sdl >= SDL_BUTTON_LEFT && key.sdl <= SDL_BUTTON_X2)
            push_button(stream, (Uint8)key.sdl, input->value);
        break;
    case OPENUVR_INPUT_POINTER:
        SDL_GetWindowSize(stream->window, &width, &height);
        width = (int)((int64_t)input->x * (width - 1) / 65535);
        height = (int)((int64_t)input->y * (height - 1) / 65535);
        push_motion(stream, width, height, width - stream->x, height - stream->y);
        break;
    case OPENUVR_INPUT_MOTION:
        push_motion(stream, stream->x + input->x, stream->y + input->y, input->x, input->y);
        break;
    case OPENUVR_INPUT_WHEEL:
        push_wheel(stream, input->x, input->y);
        break;
    case OPENUVR_INPUT_RELEASE_ALL:
        release_all(stream);
        break;
    default:
        break;
    }
}

/* Passes the program's mouse mode to the player's client when the mode changes. */
static int follow_mouse_mode(struct openuvr_sdl *stream)
{
    struct openuvr_pointer pointer = { .size = sizeof pointer };
    SDL_bool relative = SDL_GetRelativeMouseMode();

    if (relative == stream->relative)
        return 0;
    stream->relative = relative;
    pointer.relative = relative == SDL_TRUE;
    pointer.visible = relative != SDL_TRUE;
    return openuvr_set_pointer(stream->context, &pointer);
}

int openuvr_sdl_start(struct openuvr_sdl *stream, SDL_Window *window, const struct openuvr_config *config,
                      char *why, size_t why_size)
{
    struct openuvr_config own = *config;
    int width = 0, height = 0, result;

    SDL_memset(stream, 0, sizeof *stream);
    stream->window = window;
    SDL_GL_GetDrawableSize(window, &width, &height);
    own.width = (uint32_t)width;
    own.height = (uint32_t)height;
    result = openuvr_open(&own, &stream->context, why, why_size);
    if (result < 0)
        return result;
    result = openuvr_init_thread(stream->context);
    if (result < 0) {
        if (why != NULL)
            openuvr_last_error(stream->context, why, why_size);
        openuvr_close(&stream->context);
    }
    return result;
}

int openuvr_sdl_input(struct openuvr_sdl *stream)
{
    struct openuvr_input input = { .size = sizeof input };
    int result = follow_mouse_mode(stream), count = 0;

    while (result >= 0 && (result = openuvr_next_input(stream->context, &input)) == 1) {
        push(stream, &input);
        count++;
    }
    if (result >= 0)
        result = openuvr_begin_frame(stream->context);
    return result < 0 ? result : count;
}

int openuvr_sdl_frame(struct openuvr_sdl *stream)
{
    int width = 0, height = 0;

    SDL_GL_GetDrawableSize(stream->window, &width, &height);
    return openuvr_capture_gl(stream->context, (uint32_t)width, (uint32_t)height, 0);
}

void openuvr_sdl_stop(struct openuvr_sdl *stream)
{
    if (stream->context == NULL)
        return;
    release_all(stream);
    /* The stream has pictures in the memory of the OpenGL context. */
    openuvr_release_buffer(stream->context);
    openuvr_close(&stream->context);
}
