/*
 * The rules for callbacks: the signal mask of their threads, closing inside a callback, closing while one is
 * running. Exits with 0 if all is as the header documents. The argument is a folder for keys.
 */
#include "pair.h"
#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

enum { SIDE = 64 };

static pthread_t main_thread;
static int inputs, frames, lines, released, wrong_masks, closed_in_callback, blocks, returned, closed_after;
static sem_t inside, go_on;
static struct openuvr_context *host, *of_callback;

static int count(int *counter)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static void increment(int *counter)
{
    __atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL);
}

/* Whether a signal reports a fault of the thread itself. The library's threads do not block such a signal. */
static int is_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
           number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

/* Checks the mask of a library thread: it must block all signals except those that report a fault. */
static void check_signal_mask(void)
{
    sigset_t mask;

    if (pthread_equal(pthread_self(), main_thread))
        return;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number <= SIGRTMAX; number++) {
        /* The C library reserves the numbers between SIGSYS and SIGRTMIN. */
        if (number == SIGKILL || number == SIGSTOP || (number > SIGSYS && number < SIGRTMIN))
            continue;
        if (sigismember(&mask, number) == is_fault(number))
            increment(&wrong_masks);
    }
}

static void log_line(void *user, uint32_t level, const char *text)
{
    (void)user, (void)level, (void)text;
    check_signal_mask();
    increment(&lines);
}

static void release(void *user)
{
    check_signal_mask();
    increment(user);
}

static void on_frame(void *user, const struct openuvr_picture *picture)
{
    (void)user, (void)picture;
    check_signal_mask();
    increment(&frames);
}

static void on_input(void *user, const struct openuvr_input *input)
{
    struct openuvr_context *copy = of_callback;

    (void)user, (void)input;
    check_signal_mask();
    /* The call would wait for this callback, so it does nothing, and the variable is unchanged. */
    openuvr_close(&copy);
    if (copy != of_callback)
        increment(&closed_in_callback);
    increment(&inputs);
    if (count(&blocks)) {
        sem_post(&inside);
        sem_wait(&go_on);
        increment(&returned);
    }
}

static void *close_it(void *unused)
{
    (void)unused;
    sem_post(&inside);
    openuvr_close(&host);
    closed_after = count(&returned);
    return NULL;
}

/* Whether this process has a thread with this name. */
static int has_thread(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int found = 0;

    check(tasks != NULL, "cannot list the threads");
    while ((task = readdir(tasks)) != NULL) {
        char path[300], comm[32] = "";
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(comm, sizeof comm, file) != NULL) {
            comm[strcspn(comm, "\n")] = 0;
            found |= strcmp(comm, name) == 0;
        }
        fclose(file);
    }
    closedir(tasks);
    return found;
}

int main(int argc, char **argv)
{
    static uint32_t pixels[SIDE][SIDE];
    const char *folder = argc > 1 ? argv[1] : ".";
    struct openuvr_config config;
    struct openuvr_mud_config of_mud = { .size = sizeof of_mud };
    struct openuvr_mud_context *mud;
    struct openuvr_picture picture = { .size = sizeof picture };
    struct openuvr_input motion = { .size = sizeof motion };
    char own[300], keys[300], place[200], why[200] = "", *address;
    pthread_t closer;
    int lent = 0;

    main_thread = pthread_self();
    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    host_config(&config, folder, own, sizeof own);
    config.log = log_line;
    config.on_input = on_input;
    check(openuvr_open(&config, &host, why, sizeof why) == 0, why);
    of_callback = host;
    check(openuvr_next_log(host, NULL, why, sizeof why) == OPENUVR_ERROR_STATE, "lines go to the callback only");
    check(openuvr_init_thread(host) == 0, "the host does not start");
    openuvr_listen_address(host, place, sizeof place);
    address = strstr(place, "127.0.0.1:");
    address[strcspn(address, ",")] = 0;
    snprintf(keys, sizeof keys, "%s/mud", folder);
    openuvr_mud_config_default(&of_mud);
    of_mud.surface = OPENUVR_SURFACE_APPLICATION;
    of_mud.host = address;
    of_mud.pin = "135790";
    of_mud.config_dir = keys;
    of_mud.realtime = 0;
    of_mud.log = log_line;
    of_mud.on_frame = on_frame;
    check(openuvr_open_mud(&of_mud, &mud, why, sizeof why) == 0, why);
    check(openuvr_init_mud_thread(mud) == 0, "the MUD does not start");

    picture.format = OPENUVR_PIXEL_FORMAT_BGRX;
    picture.width = picture.height = SIDE;
    picture.data = pixels;
    picture.release = release;
    picture.user = &released;
    motion.kind = OPENUVR_INPUT_MOTION;
    motion.x = 1;
    for (int tries = 0;
         count(&inputs) < 3 || count(&frames) < 3 || count(&released) < 3 || count(&lines) < 3; tries++) {
        check(tries < 3000, "a callback is not called");
        check(openuvr_send_picture(host, &picture, 0) >= 0, "cannot submit a picture");
        lent++;
        check(openuvr_send_input(mud, &motion) == 0, "cannot send input");
        usleep(5000);
    }
    check(count(&closed_in_callback) == 0, "a callback has closed the context that called it");

    /* Closing waits for a running callback. */
    __atomic_store_n(&blocks, 1, __ATOMIC_RELEASE);
    check(openuvr_send_input(mud, &motion) == 0, "cannot send input");
    sem_wait(&inside);
    check(pthread_create(&closer, NULL, close_it, NULL) == 0, "cannot create a thread");
    sem_wait(&inside);
    usleep(20000); /* without the wait, closing is done by then */
    __atomic_store_n(&blocks, 0, __ATOMIC_RELEASE);
    sem_post(&go_on);
    pthread_join(closer, NULL);
    check(closed_after == 1 && host == NULL, "the host is closed before a callback has returned");
    check(count(&released) == lent, "not all lent pictures are released");
    openuvr_close_mud(&mud);

    /* The thread that calls on_input exists only if input goes to the application. */
    config.input = OPENUVR_INPUT_TO_NOTHING;
    check(openuvr_open(&config, &host, why, sizeof why) == 0, why);
    check(openuvr_init_thread(host) == 0, "the host does not start without input");
    check(!has_thread("ouvr-input"), "a thread waits for input that does not go to the application");
    openuvr_close(&host);
    check(count(&wrong_masks) == 0, "a callback's thread has an unexpected signal mask");
    return 0;
}
