/*
 * Receives the pictures of paper.c, and reads the number in each.
 *
 *   paper_mud ADDRESS PIN PICTURES FOLDER
 *
 * Ends after PICTURES different pictures. Prints how many pictures were torn: their upper and lower rows have
 * different numbers. Fails if a picture is older than the one before it.
 */
#include "pair.h"

enum { BARS = 16 };

/* The number in a row of the picture, which shows it in Gray code. */
static unsigned number_in(const struct openuvr_picture *picture, uint32_t row)
{
    const unsigned char *at = (const unsigned char *)picture->data + row * picture->stride;
    unsigned gray = 0, number = 0;

    for (uint32_t bar = 0; bar < BARS; bar++) {
        uint32_t x = (2 * bar + 1) * picture->width / (2 * BARS);
        gray |= (unsigned)(at[4 * x + 1] > 127) << bar;
    }
    for (; gray; gray >>= 1)
        number ^= gray;
    return number;
}

int main(int argc, char **argv)
{
    struct openuvr_mud_config config = { .size = sizeof config };
    struct openuvr_picture picture = { .size = sizeof picture };
    struct openuvr_mud_context *context;
    unsigned last = 0, torn = 0, different = 0;
    char why[200] = "";

    check(argc == 5, "usage: paper_mud ADDRESS PIN PICTURES FOLDER");
    openuvr_mud_config_default(&config);
    config.surface = OPENUVR_SURFACE_APPLICATION;
    config.host = argv[1];
    config.pin = argv[2];
    config.config_dir = argv[4];
    config.realtime = 0;
    config.sound = OPENUVR_SOUND_NOWHERE;
    check(openuvr_open_mud(&config, &context, why, sizeof why) == 0, why);
    check(openuvr_init_mud_thread(context) == 0, "the MUD does not start");
    while (different < (unsigned)atoi(argv[3])) {
        int result = openuvr_next_frame(context, &picture, 1000);

        check(result >= 0, "the stream has ended");
        if (result == 0)
            continue;
        check(picture.width == 1920 && picture.height == 1080, "the picture has another size");
        unsigned upper = number_in(&picture, 8), lower = number_in(&picture, picture.height - 8);
        unsigned older = upper < lower ? upper : lower;

        snprintf(why, sizeof why, "picture %u (top %u, bottom %u) is older than the one before it, %u", older, upper,
                 lower, last);
        check(older >= last, why);
        torn += upper != lower;
        different += older > last;
        last = older;
    }
    printf("%u pictures, %u torn, the last one is number %u\n", different, torn, last);
    openuvr_close_mud(&context);
    return 0;
}
