/*
 * A MUD without a window for a host in the same process, and a function that ends a failed test.
 */
#include <openuvr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

/* Fills a host's configuration, with a folder for keys inside `folder`. `own` (`size` bytes) receives its path. */
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

/* Starts a MUD that pairs with the host. Its keys are in the folder mud-`which` inside `folder`; `sound` is an
 * OPENUVR_SOUND. */
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
    /* Larger than any picture of the tests. */
    config.max_width = 4000;
    config.max_height = 3000;
    config.max_bitrate = 9000000;
    config.sound = sound;
    check(openuvr_open_pairing(host, config.pin, 60) == 0, "cannot open pairing");
    check(openuvr_open_mud(&config, &context, NULL, 0) == 0, "cannot open the MUD");
    check(openuvr_init_mud_thread(context) == 0, "the MUD does not start");
    return context;
}

/* Like `mud_with_sound`, without sound. */
__attribute__((unused)) static struct openuvr_mud_context *mud_of(struct openuvr_context *host, const char *folder, int which)
{
    return mud_with_sound(host, folder, which, OPENUVR_SOUND_NOWHERE);
}
