/* Reads game pads with SDL 2 and records SDL's events. Plays the rumble effect in the file that is the second
 * argument. */
#include <SDL2/SDL.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **arguments) {
  if (count < 3) return 2;
  FILE *notes = fopen(arguments[1], "w");
  setvbuf(notes, NULL, _IOLBF, 0);
  SDL_SetHint(SDL_HINT_JOYSTICK_ALLOW_BACKGROUND_EVENTS, "1");
  if (SDL_Init(SDL_INIT_VIDEO | SDL_INIT_GAMECONTROLLER) != 0) {
    fprintf(notes, "no SDL: %s\n", SDL_GetError());
    return 1;
  }
  SDL_Window *window = SDL_CreateWindow("pads", 0, 0, 160, 120, SDL_WINDOW_OPENGL);
  SDL_GLContext context = window ? SDL_GL_CreateContext(window) : NULL;
  if (!context) {
    fprintf(notes, "no window: %s\n", SDL_GetError());
    return 1;
  }
  fprintf(notes, "ready\n");
  SDL_GameController *first = NULL;
  for (;;) {
    SDL_Event event;
    while (SDL_PollEvent(&event)) {
      switch (event.type) {
        case SDL_CONTROLLERDEVICEADDED: {
          SDL_GameController *pad = SDL_GameControllerOpen(event.cdevice.which);
          SDL_Joystick *raw = SDL_GameControllerGetJoystick(pad);
          if (!first) first = pad;
          fprintf(notes, "added %s %04x:%04x buttons %d axes %d hats %d rumble %d\n", SDL_JoystickName(raw),
                  SDL_JoystickGetVendor(raw), SDL_JoystickGetProduct(raw), SDL_JoystickNumButtons(raw),
                  SDL_JoystickNumAxes(raw), SDL_JoystickNumHats(raw), SDL_GameControllerHasRumble(pad));
          break;
        }
        case SDL_CONTROLLERDEVICEREMOVED:
          fprintf(notes, "removed %d\n", event.cdevice.which);
          break;
        case SDL_CONTROLLERBUTTONDOWN:
        case SDL_CONTROLLERBUTTONUP:
          fprintf(notes, "%d %s %d\n", event.cbutton.which, SDL_GameControllerGetStringForButton(event.cbutton.button),
                  event.cbutton.state);
          break;
        case SDL_CONTROLLERAXISMOTION:
          fprintf(notes, "%d %s %d\n", event.caxis.which, SDL_GameControllerGetStringForAxis(event.caxis.axis),
                  event.caxis.value);
          break;
        case SDL_QUIT:
          return 0;
        default:
          break;
      }
    }
    FILE *request = fopen(arguments[2], "r");
    unsigned strong, weak, length;
    if (request) {
      int read = fscanf(request, "%u %u %u", &strong, &weak, &length);
      fclose(request);
      if (read == 3 && first) {
        unlink(arguments[2]);
        if (SDL_GameControllerRumble(first, strong, weak, length)) fprintf(notes, "no rumble: %s\n", SDL_GetError());
      }
    }
    SDL_GL_SwapWindow(window);
    SDL_Delay(5);
  }
}
