/*
 * A host's MUD in the same process, without a window, and what a test says when something is wrong.
 */
#include <openuvr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

/* Fills a host's configuration; its keys lie in `own`, of `size` bytes, a folder in `folder`. */
__attribute__((unused)) static void host_config(struct openuvr_config *config, const char *folder, char *own, size_t size)
{
    snprintf(own, size, "%s/host", folder);
    config->size = sizeof *config;
    openuvr_config_default(config);
    config->bind = "127.0.0.1:0";
    config->config_dir = own;
    config->pin = "135790";
    config->realtime = 0;
}

/* A MUD that a host lets in, with keys of its own number, and its sound, an OPENUVR_SOUND. */
__attribute__((unused)) static struct openuvr_mud_context *mud_with_sound(struct openuvr_context *host, const char *folder, int which, uint32_t sound)
{
    struct openuvr_mud_config config = { .size = sizeof config };
    struct openuvr_mud_context *context;
    char own[300], place[200], *address;

    snprintf(own, sizeof own, "%s/mud-%d", folder, which);
    openuvr_listen_address(host, place, sizeof place);
    address = strstr(place, "127.0.0.1:");
    address[strcspn(address, ",")] = 0;
    openuvr_mud_config_default(&config);
    config.surface = OPENUVR_SURFACE_APPLICATION;
    config.host = address;
    config.pin = "135790";
    config.config_dir = own;
    config.realtime = 0;
    /* More than any picture here has. */
    config.max_width = 4000;
    config.max_height = 3000;
    config.max_bitrate = 9000000;
    config.sound = sound;
    check(openuvr_open_pairing(host, config.pin, 60) == 0, "nobody is let in");
    check(openuvr_open_mud(&config, &context, NULL, 0) == 0, "no MUD");
    check(openuvr_init_mud_thread(context) == 0, "the MUD does not start");
    return context;
}

/* The same without sound. */
__attribute__((unused)) static struct openuvr_mud_context *mud_of(struct openuvr_context *host, const char *folder, int which)
{
    return mud_with_sound(host, folder, which, OPENUVR_SOUND_NOWHERE);
}
