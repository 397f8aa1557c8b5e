/*
 * Sound from a host's application to a MUD's: a tone is given a few milliseconds at a time, and taken as a
 * sound device would. Ends with 0 if it comes as it was given: its pitch, its level, its two sides, for two
 * seconds. The word is a folder to keep keys in.
 */
#include "pair.h"
#include <math.h>
#include <time.h>

enum { RATE = 48000, GIVEN = 240, TAKEN = 480, WANTED = 2 * RATE };

static const double PITCH = 1000, LEFT = 0.5, RIGHT = 0.25;
static const double TURN = 6.283185307179586;

/* How loud the pitch is on one side of so many sample frames. */
static double level(const float *samples, int frames, int side)
{
    double sine = 0, cosine = 0;

    for (int n = 0; n < frames; n++) {
        double angle = TURN * PITCH * n / RATE;
        sine += samples[2 * n + side] * sin(angle);
        cosine += samples[2 * n + side] * cos(angle);
    }
    return 2 * sqrt(sine * sine + cosine * cosine) / frames;
}

static void give(struct openuvr_context *host)
{
    static long place;
    float samples[2 * GIVEN];
    int taken;

    for (int n = 0; n < GIVEN; n++, place++) {
        double value = sin(TURN * PITCH * (place % RATE) / RATE);
        samples[2 * n] = (float)(LEFT * value);
        samples[2 * n + 1] = (float)(RIGHT * value);
    }
    taken = openuvr_send_sound(host, samples, GIVEN);
    check(taken == 0 || taken == GIVEN, "a part of what was given was taken");
}

static void refused(struct openuvr_context *host, struct openuvr_mud_context *mud)
{
    struct openuvr_config config;
    struct openuvr_context *silent;
    char own[300], why[300];
    float samples[2] = { 0, 0 };

    check(openuvr_send_sound(host, NULL, 1) < 0, "NULL is sound");
    check(openuvr_send_sound(host, samples, 48001) < 0, "more than a second is taken");
    check(openuvr_take_sound(mud, NULL, 1) < 0, "NULL is filled");
    host_config(&config, "/nonexistent", own, sizeof own);
    config.sound = 2;
    check(openuvr_open(&config, &silent, why, sizeof why) < 0 && strstr(why, "sound"), "sound is 2");
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    struct openuvr_config config;
    struct openuvr_context *host;
    struct openuvr_mud_context *mud;
    struct timespec due;
    static float heard[2 * WANTED];
    float samples[2 * TAKEN];
    int all = 0;
    char own[300], why[300] = "";

    host_config(&config, folder, own, sizeof own);
    config.sound = 1;
    if (openuvr_open(&config, &host, why, sizeof why) < 0 || openuvr_init_thread(host) < 0) {
        fprintf(stderr, "no host: %s\n", why);
        return 1;
    }
    mud = mud_with_sound(host, folder, 1, OPENUVR_SOUND_APPLICATION);
    refused(host, mud);
    clock_gettime(CLOCK_MONOTONIC, &due);
    /* A minute at most. */
    for (int turn = 0; turn < 12000 && all < WANTED; turn++) {
        give(host);
        if (turn % (TAKEN / GIVEN) == 0) {
            int taken = openuvr_take_sound(mud, samples, TAKEN);
            check(taken >= 0 && taken <= TAKEN, "more than was asked for is taken");
            /* Silence in front of the tone does not count. */
            for (int n = 0; n < taken && all < WANTED; n++)
                if (all > 0 || fabsf(samples[2 * n]) > 0.4f) {
                    heard[2 * all] = samples[2 * n];
                    heard[2 * all + 1] = samples[2 * n + 1];
                    all++;
                }
        }
        due.tv_nsec += 1000000000L / RATE * GIVEN;
        if (due.tv_nsec >= 1000000000L) {
            due.tv_sec++;
            due.tv_nsec -= 1000000000L;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
    check(all == WANTED, "two seconds do not come");
    /* By parts of 20 ms: within a longer one the resampler's half per cent turns the tone's phase, and a
     * machine that is busy leaves holes. */
    int right = 0, part = RATE / 50;
    for (int n = 0; n + part <= WANTED; n += part) {
        double left = level(heard + 2 * n, part, 0), other = level(heard + 2 * n, part, 1);
        right += fabs(left - LEFT) < 0.06 && fabs(other - RIGHT) < 0.03;
    }
    fprintf(stderr, "%d of %d parts are the tone\n", right, WANTED / part);
    check(right >= WANTED / part * 7 / 10, "the tone is not what was given");
    openuvr_close_mud(&mud);
    openuvr_close(&host);
    return 0;
}
