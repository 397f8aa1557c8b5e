/*
 * ioquake3 as an OpenUVR host: pictures go out before each swap, the player's input comes in with the
 * engine's own. hooks.patch has the calls of these functions.
 *
 *   openuvr 1            stream (0: do not; takes effect at once)
 *   openuvr_bind         where clients reach it, ADDRESS:PORT
 *   openuvr_pin          the PIN for new devices, 4 to 12 digits; empty: a random one, if none is known
 *   openuvr_fps          most frames a second that are streamed
 *   openuvr_bitrate      most kilobits a second that they take; 0: as the encoder needs
 */
#include "client.h"

#include <openuvr.h>

/* Only the names of events: the engine links SDL already. */
#ifdef USE_INTERNAL_SDL_HEADERS
#include "SDL.h"
#else
#include <SDL.h>
#endif

static struct openuvr_context *stream;
static cvar_t *enabled, *bind_to, *pin, *fps, *bitrate;

/* The pointer's last place, for a client that sends places instead of distances. */
static qboolean pointer_known;
static int pointer_x, pointer_y;
/* What is left of a notch of the wheel, in 1/120. */
static int wheel;
static int picture_width, picture_height;

static void print_log(void)
{
	char line[512];
	uint32_t level;

	while (openuvr_next_log(stream, &level, line, sizeof(line)) == 1) {
		if (level <= OPENUVR_LOG_WARNING)
			Com_Printf(S_COLOR_YELLOW "openuvr: %s\n", line);
		else if (level == OPENUVR_LOG_INFO)
			Com_Printf("openuvr: %s\n", line);
		else
			Com_DPrintf("openuvr: %s\n", line);
	}
}

/* Ends the stream, and does not begin it again until the player asks for it. */
static void give_up(const char *what, const char *why)
{
	Com_Printf(S_COLOR_RED "openuvr: %s: %s\n", what, why);
	CL_StreamShutdown();
	Cvar_Set("openuvr", "0");
}

static qboolean open_stream(int width, int height)
{
	struct openuvr_config config = { .size = sizeof(config) };
	struct openuvr_pointer pointer = { .size = sizeof(pointer), .relative = 1 };
	char why[256];

	openuvr_config_default(&config);
	config.width = width;
	config.height = height;
	config.name = CLIENT_WINDOW_TITLE;
	config.fps = fps->value;
	config.bitrate = (uint64_t)bitrate->integer * 1000;
	config.bind = bind_to->string[0] ? bind_to->string : NULL;
	config.pin = pin->string[0] ? pin->string : NULL;
	if (openuvr_open(&config, &stream, why, sizeof(why)) < 0) {
		give_up("it can't be opened", why);
		return qfalse;
	}
	if (openuvr_init_thread(stream) < 0) {
		openuvr_last_error(stream, why, sizeof(why));
		give_up("it can't be started", why);
		return qfalse;
	}
	/* The engine turns the view by how far the mouse moves, and draws its own pointer in menus. */
	openuvr_set_pointer(stream, &pointer);
	return qtrue;
}

/* The back buffer holds a whole picture. On the thread of the renderer, before the swap. */
void CL_StreamFrame(int width, int height)
{
	char why[256];
	int taken;

	if (enabled == NULL) {
		enabled = Cvar_Get("openuvr", "1", 0);
		bind_to = Cvar_Get("openuvr_bind", "", 0);
		pin = Cvar_Get("openuvr_pin", "", 0);
		fps = Cvar_Get("openuvr_fps", "60", CVAR_ARCHIVE);
		bitrate = Cvar_Get("openuvr_bitrate", "0", CVAR_ARCHIVE);
	}
	if (!enabled->integer) {
		CL_StreamShutdown();
		return;
	}
	if (stream == NULL && !open_stream(width, height))
		return;
	picture_width = width;
	picture_height = height;
	taken = openuvr_capture_gl(stream, width, height, 0);
	print_log();
	if (taken < 0) {
		openuvr_last_error(stream, why, sizeof(why));
		give_up("the stream has ended", why);
	}
}

/* The OpenGL context goes away (vid_restart): the stream waits for the next one's first picture. */
void CL_StreamRelease(void)
{
	if (stream != NULL)
		openuvr_release_buffer(stream);
}

void CL_StreamShutdown(void)
{
	openuvr_close(&stream);
	pointer_known = qfalse;
	wheel = 0;
}

static void key_event(const struct openuvr_input *input)
{
	struct openuvr_key key = { .size = sizeof(key) };
	SDL_Event event = { 0 };

	if (openuvr_key_of(input->code, &key) < 0 || key.sdl == 0)
		return;
	if (input->kind == OPENUVR_INPUT_BUTTON) {
		event.type = input->value ? SDL_MOUSEBUTTONDOWN : SDL_MOUSEBUTTONUP;
		event.button.button = key.sdl;
	} else {
		event.type = input->value ? SDL_KEYDOWN : SDL_KEYUP;
		event.key.keysym.scancode = (SDL_Scancode)key.sdl;
		event.key.keysym.sym = SDL_GetKeyFromScancode((SDL_Scancode)key.sdl);
	}
	SDL_PushEvent(&event);
	if (input->kind == OPENUVR_INPUT_KEY && input->value && input->text >= ' ') {
		SDL_Event text = { .type = SDL_TEXTINPUT };
		uint32_t c = input->text;
		char *out = text.text.text;

		if (c < 0x80) {
			*out = c;
		} else if (c < 0x800) {
			*out++ = 0xc0 | c >> 6;
			*out = 0x80 | (c & 0x3f);
		} else if (c < 0x10000) {
			*out++ = 0xe0 | c >> 12;
			*out++ = 0x80 | (c >> 6 & 0x3f);
			*out = 0x80 | (c & 0x3f);
		}
		SDL_PushEvent(&text);
	}
}

static void move(int x, int y)
{
	if (x != 0 || y != 0)
		Com_QueueEvent(0, SE_MOUSE, x, y, 0, NULL);
}

/* Takes what the player did. Before the engine takes its own events, once a frame. */
void CL_StreamInput(void)
{
	struct openuvr_input input = { .size = sizeof(input) };

	if (stream == NULL)
		return;
	while (openuvr_next_input(stream, &input) == 1) {
		switch (input.kind) {
		case OPENUVR_INPUT_KEY:
		case OPENUVR_INPUT_BUTTON:
			key_event(&input);
			break;
		case OPENUVR_INPUT_MOTION:
			move(input.x, input.y);
			break;
		case OPENUVR_INPUT_POINTER: {
			int x = input.x * picture_width / 65535;
			int y = input.y * picture_height / 65535;

			if (pointer_known)
				move(x - pointer_x, y - pointer_y);
			pointer_known = qtrue;
			pointer_x = x;
			pointer_y = y;
			break;
		}
		case OPENUVR_INPUT_WHEEL: {
			SDL_Event event = { .type = SDL_MOUSEWHEEL };

			wheel += input.y;
			event.wheel.y = wheel / 120;
			wheel %= 120;
			if (event.wheel.y != 0)
				SDL_PushEvent(&event);
			break;
		}
		case OPENUVR_INPUT_RELEASE_ALL:
			Key_ClearStates();
			pointer_known = qfalse;
			break;
		}
	}
	/* What was taken until now is in the frame that the engine draws next. */
	openuvr_begin_frame(stream);
}
