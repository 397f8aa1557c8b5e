/* A plain reader of /dev/input: opens existing and new devices, and records their descriptions and events. It knows
 * no pad's codes except those that the devices report. With the argument "twice" it also opens and reads each device
 * in a second thread. It plays the rumble effect in the file given. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/input.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define MOST 16

struct device {
  int fd;
  char name[256];
};

static struct device devices[MOST];
static FILE *notes;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

#define NOTE(...)                       \
  do {                                  \
    pthread_mutex_lock(&writing);       \
    fprintf(notes, __VA_ARGS__);        \
    fflush(notes);                      \
    pthread_mutex_unlock(&writing);     \
  } while (0)

static int has(const unsigned char *bits, int n) { return bits[n / 8] >> (n % 8) & 1; }

static int count(const unsigned char *bits, int most) {
  int n = 0;
  for (int i = 0; i < most; i++) n += has(bits, i);
  return n;
}

static void describe(const char *name, int fd, const struct stat *seen) {
  unsigned char keys[KEY_CNT / 8] = {0}, axes[ABS_CNT / 8] = {0}, forces[FF_CNT / 8] = {0};
  struct input_id id = {0};
  struct input_absinfo x = {0};
  struct stat opened;
  char text[256] = "", place[64] = "";
  int effects = 0, version = 0;
  if (ioctl(fd, EVIOCGVERSION, &version) || ioctl(fd, EVIOCGID, &id) ||
      ioctl(fd, EVIOCGNAME(sizeof text), text) < 0 || ioctl(fd, EVIOCGPHYS(sizeof place), place) < 0 ||
      ioctl(fd, EVIOCGBIT(EV_KEY, sizeof keys), keys) < 0 || ioctl(fd, EVIOCGBIT(EV_ABS, sizeof axes), axes) < 0 ||
      ioctl(fd, EVIOCGBIT(EV_FF, sizeof forces), forces) < 0 || ioctl(fd, EVIOCGABS(ABS_X), &x) ||
      ioctl(fd, EVIOCGEFFECTS, &effects) || fstat(fd, &opened)) {
    NOTE("%s odd %s\n", name, strerror(errno));
    return;
  }
  int same = S_ISCHR(seen->st_mode) && S_ISCHR(opened.st_mode) && seen->st_rdev == opened.st_rdev;
  NOTE("%s is %s at %s %04x:%04x:%04x:%04x keys %d axes %d x %d..%d flat %d rumble %d effects %d device %d %d\n",
       name, text, place, id.bustype, id.vendor, id.product, id.version, count(keys, KEY_CNT), count(axes, ABS_CNT),
       x.minimum, x.maximum, x.flat, has(forces, FF_RUMBLE), effects, same, major(opened.st_rdev));
}

static void *second_reader(void *name) {
  char path[64];
  snprintf(path, sizeof path, "/dev/input/%s", (char *)name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct input_event events[8];
  ssize_t got;
  while ((got = read(fd, events, sizeof events)) > 0) {
    for (size_t i = 0; i < got / sizeof *events; i++)
      if (events[i].type != EV_SYN) NOTE("%s again %d %d %d\n", (char *)name, events[i].type, events[i].code, events[i].value);
  }
  NOTE("%s again gone %s\n", (char *)name, got == 0 ? "end" : strerror(errno));
  close(fd);
  return NULL;
}

static void scan(int twice) {
  DIR *folder = opendir("/dev/input");
  if (!folder) return;
  struct dirent *entry;
  while ((entry = readdir(folder))) {
    if (strncmp(entry->d_name, "event", 5)) continue;
    struct device *empty = NULL;
    int known = 0;
    for (int i = 0; i < MOST; i++) {
      if (devices[i].fd < 0 && !empty) empty = &devices[i];
      if (devices[i].fd >= 0 && !strcmp(devices[i].name, entry->d_name)) known = 1;
    }
    if (known || !empty) continue;
    char path[300];
    struct stat seen;
    snprintf(path, sizeof path, "/dev/input/%s", entry->d_name);
    if (stat(path, &seen) || access(path, R_OK | W_OK)) continue;
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    int clock = CLOCK_MONOTONIC;
    if (ioctl(fd, EVIOCSCLOCKID, &clock)) NOTE("%s has no clock\n", entry->d_name);
    empty->fd = fd;
    snprintf(empty->name, sizeof empty->name, "%s", entry->d_name);
    describe(empty->name, fd, &seen);
    if (twice) {
      pthread_t thread;
      pthread_create(&thread, NULL, second_reader, strdup(entry->d_name));
      pthread_detach(thread);
    }
  }
  closedir(folder);
}

/* Records the state that the device itself reports. */
static void state(const struct device *device) {
  unsigned char keys[KEY_CNT / 8] = {0};
  struct input_absinfo x = {0};
  if (ioctl(device->fd, EVIOCGKEY(sizeof keys), keys) < 0 || ioctl(device->fd, EVIOCGABS(ABS_X), &x)) return;
  NOTE("%s holds %d keys x %d\n", device->name, count(keys, KEY_CNT), x.value);
}

static void hear(struct device *device) {
  struct input_event events[64];
  ssize_t got;
  while ((got = read(device->fd, events, sizeof events)) > 0) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (size_t i = 0; i < got / sizeof *events; i++) {
      const struct input_event *event = &events[i];
      if (event->type == EV_SYN && event->code == SYN_REPORT) continue;
      NOTE("%s %d %d %d @%lld.%06lld\n", device->name, event->type, event->code, event->value, (long long)now.tv_sec,
           (long long)now.tv_nsec / 1000);
      long long late = (now.tv_sec - event->time.tv_sec) * 1000000LL + now.tv_nsec / 1000 - event->time.tv_usec;
      if (late < 0 || late > 10000000) NOTE("%s stamped %lld us ago\n", device->name, late);
    }
    state(device);
  }
  if (got == 0 || errno != EAGAIN) {
    NOTE("%s gone %s\n", device->name, got == 0 ? "end" : strerror(errno));
    struct input_event stop = {.type = EV_FF, .code = 0, .value = 0};
    if (write(device->fd, &stop, sizeof stop) >= 0 || errno != ENODEV) NOTE("%s takes more\n", device->name);
    close(device->fd);
    device->fd = -1;
  }
}

/* Plays the effect in a file ("strong weak milliseconds") on the first device. With 0 milliseconds, the
 * effect lasts until a file with two zeros stops it. */
static void rumble(const char *file) {
  static int last = -1;
  FILE *request = fopen(file, "r");
  if (!request) return;
  unsigned strong, weak, length;
  int read = fscanf(request, "%u %u %u", &strong, &weak, &length);
  fclose(request);
  if (read != 3) return;
  unlink(file);
  for (int i = 0; i < MOST; i++) {
    if (devices[i].fd < 0) continue;
    struct ff_effect effect = {.type = FF_RUMBLE, .id = last};
    effect.u.rumble.strong_magnitude = strong;
    effect.u.rumble.weak_magnitude = weak;
    effect.replay.length = length;
    if (strong || weak) {
      if (ioctl(devices[i].fd, EVIOCSFF, &effect) < 0) NOTE("no effect: %s\n", strerror(errno));
      last = effect.id;
    }
    struct input_event play = {.type = EV_FF, .code = last, .value = strong || weak};
    if (write(devices[i].fd, &play, sizeof play) != sizeof play) NOTE("no play: %s\n", strerror(errno));
    if (!(strong || weak) && ioctl(devices[i].fd, EVIOCRMFF, last)) NOTE("no erasing: %s\n", strerror(errno));
    NOTE("played as %d\n", last);
    if (!(strong || weak)) last = -1;
    return;
  }
}

int main(int count, char **arguments) {
  if (count < 3) return 2;
  notes = fopen(arguments[1], "w");
  int twice = count > 3 && !strcmp(arguments[3], "twice");
  for (int i = 0; i < MOST; i++) devices[i].fd = -1;
  int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (inotify_add_watch(watch, "/dev/input", IN_CREATE | IN_DELETE) < 0) NOTE("no watch: %s\n", strerror(errno));
  NOTE("ready\n");
  scan(twice);
  for (;;) {
    struct pollfd wait[MOST + 1] = {{.fd = watch, .events = POLLIN}};
    for (int i = 0; i < MOST; i++) wait[i + 1] = (struct pollfd){.fd = devices[i].fd, .events = POLLIN};
    poll(wait, MOST + 1, 50);
    for (int i = 0; i < MOST; i++)
      if (devices[i].fd >= 0 && wait[i + 1].revents) hear(&devices[i]);
    char news[4096] __attribute__((aligned(8)));
    ssize_t got = read(watch, news, sizeof news);
    for (char *at = news; got > 0 && at < news + got;) {
      struct inotify_event *event = (struct inotify_event *)at;
      NOTE("folder %s %s\n", event->mask & IN_CREATE ? "+" : "-", event->name);
      at += sizeof *event + event->len;
    }
    if (got > 0) scan(twice);
    rumble(arguments[2]);
  }
}
