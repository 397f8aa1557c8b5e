/*
 * Sound from a host's application to a MUD's application: a tone is sent a few milliseconds at a time, and read as a
 * sound device reads it. Exits with 0 if its pitch, level and channels arrive unchanged for two seconds. The argument
 * is a folder for keys.
 */
#include "pair.h"
#include <math.h>
#include <time.h>

enum { RATE = 48000, SENT = 240, READ = 480, TOTAL = 2 * RATE };

static const double PITCH = 1000, LEFT = 0.5, RIGHT = 0.25;
static const double TURN = 6.283185307179586;

/* The amplitude of the frequency PITCH in one channel of the sample frames. */
static double level(const float *samples, int frames, int channel)
{
    double sine = 0, cosine = 0;

    for (int n = 0; n < frames; n++) {
        double angle = TURN * PITCH * n / RATE;
        sine += samples[2 * n + channel] * sin(angle);
        cosine += samples[2 * n + channel] * cos(angle);
    }
    return 2 * sqrt(sine * sine + cosine * cosine) / frames;
}

static void send_tone(struct openuvr_context *host)
{
    static long position;
    float samples[2 * SENT];
    int taken;

    for (int n = 0; n < SENT; n++, position++) {
        double value = sin(TURN * PITCH * (position % RATE) / RATE);
        samples[2 * n] = (float)(LEFT * value);
        samples[2 * n + 1] = (float)(RIGHT * value);
    }
    taken = openuvr_send_sound(host, samples, SENT);
    check(taken == 0 || taken == SENT, "a part of the samples is accepted");
}

static void invalid_calls(struct openuvr_context *host, struct openuvr_mud_context *mud)
{
    struct openuvr_config config;
    struct openuvr_context *silent;
    char own[300], why[300];
    float samples[2] = { 0, 0 };

    check(openuvr_send_sound(host, NULL, 1) < 0, "NULL is accepted as sound");
    check(openuvr_send_sound(host, samples, 48001) < 0, "more than a second is accepted");
    check(openuvr_take_sound(mud, NULL, 1) < 0, "NULL is accepted as a buffer");
    host_config(&config, "/nonexistent", own, sizeof own);
    config.sound = 2;
    check(openuvr_open(&config, &silent, why, sizeof why) < 0 && strstr(why, "sound"), "sound 2 is accepted");
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    struct openuvr_config config;
    struct openuvr_context *host;
    struct openuvr_mud_context *mud;
    struct timespec due;
    static float heard[2 * TOTAL];
    float samples[2 * READ];
    int all = 0;
    char own[300], why[300] = "";

    host_config(&config, folder, own, sizeof own);
    config.sound = 1;
    if (openuvr_open(&config, &host, why, sizeof why) < 0 || openuvr_init_thread(host) < 0) {
        fprintf(stderr, "cannot start the host: %s\n", why);
        return 1;
    }
    mud = mud_with_sound(host, folder, 1, OPENUVR_SOUND_APPLICATION);
    invalid_calls(host, mud);
    clock_gettime(CLOCK_MONOTONIC, &due);
    /* Takes at most a minute: 12000 turns of 5 ms. */
    for (int turn = 0; turn < 12000 && all < TOTAL; turn++) {
        send_tone(host);
        if (turn % (READ / SENT) == 0) {
            int taken = openuvr_take_sound(mud, samples, READ);
            check(taken >= 0 && taken <= READ, "more samples than requested");
            /* Skips the silence before the tone. */
            for (int n = 0; n < taken && all < TOTAL; n++)
                if (all > 0 || fabsf(samples[2 * n]) > 0.4f) {
                    heard[2 * all] = samples[2 * n];
                    heard[2 * all + 1] = samples[2 * n + 1];
                    all++;
                }
        }
        due.tv_nsec += 1000000000L / RATE * SENT;
        if (due.tv_nsec >= 1000000000L) {
            due.tv_sec++;
            due.tv_nsec -= 1000000000L;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
    check(all == TOTAL, "less than two seconds arrive");
    /* Each part is 20 ms long. In longer parts, the resampler's change of rate by 0.5 % would shift the tone's phase.
     * Many parts may differ, because a busy machine leaves gaps. A wrong tone would differ in all parts. */
    int right = 0, part = RATE / 50;
    for (int n = 0; n + part <= TOTAL; n += part) {
        double left = level(heard + 2 * n, part, 0), other = level(heard + 2 * n, part, 1);
        right += fabs(left - LEFT) < 0.06 && fabs(other - RIGHT) < 0.03;
    }
    fprintf(stderr, "%d of %d parts are the tone\n", right, TOTAL / part);
    check(right >= TOTAL / part / 3, "the tone differs from the sent one");
    openuvr_close_mud(&mud);
    openuvr_close(&host);
    return 0;
}
