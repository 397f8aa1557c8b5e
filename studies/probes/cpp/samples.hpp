// The sample file and the options of a probe; see ../README.md.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum class Pattern : uint32_t { PingPong = 0, Flood = 1, Paced = 2 };

// Nanoseconds of CLOCK_MONOTONIC.
inline uint64_t now() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return uint64_t(at.tv_sec) * 1000000000u + uint64_t(at.tv_nsec);
}

inline void sleep_until(uint64_t at) {
  const timespec until{time_t(at / 1000000000u), long(at % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

[[noreturn]] inline void fail(const std::string &message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

struct Options {
  std::string out;
  Pattern pattern = Pattern::PingPong;
  uint32_t pairs = 16;
  uint64_t samples = 1000000;
  double rate = 240;

  static Options parse(int count, char **words) {
    Options options;
    for (int at = 1; at < count; at += 2) {
      const std::string name = words[at];
      if (at + 1 == count) fail(name + " needs a value");
      const std::string value = words[at + 1];
      try {
        if (name == "--out") options.out = value;
        else if (name == "--pattern") options.pattern = pattern_of(value);
        else if (name == "--pairs") options.pairs = uint32_t(std::stoul(value));
        else if (name == "--samples") options.samples = std::stoull(value);
        else if (name == "--rate") options.rate = std::stod(value);
        else fail("unknown option " + name);
      } catch (const std::exception &) {
        fail("invalid value " + value + " for " + name);
      }
    }
    if (options.out.empty()) fail("--out FILE is required");
    if (options.pairs < 1 || options.pairs > 496) fail("--pairs must be 1 to 496");
    if (options.samples < options.pairs) fail("--samples must be at least one for each pair");
    if (options.pattern == Pattern::Paced && !(options.rate > 0)) fail("--rate must be above 0");
    return options;
  }

  static Pattern pattern_of(const std::string &name) {
    if (name == "ping-pong") return Pattern::PingPong;
    if (name == "flood") return Pattern::Flood;
    if (name == "paced") return Pattern::Paced;
    fail("--pattern must be ping-pong, flood or paced, not " + name);
  }

  // The period of a pair's paced messages, and the time of its first one for a test that starts at `begin`.
  uint64_t period() const { return uint64_t(1e9 / rate); }
  uint64_t first(uint64_t begin, uint32_t pair) const {
    return begin + period() + pair * period() / pairs;
  }
};

struct Record {
  uint64_t intended, sent, received;
};

class Samples {
public:
  Samples(const Options &options, const char *name)
      : capacity(options.samples / options.pairs) {
    const size_t length = 4096 + options.pairs * capacity * sizeof(Record);
    const int file = open(options.out.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || ftruncate(file, off_t(length)) != 0)
      fail("cannot write " + options.out + ": " + std::strerror(errno));
    void *mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (mapped == MAP_FAILED) fail("cannot map " + options.out + ": " + std::strerror(errno));
    close(file);
    bytes = static_cast<char *>(mapped);
    std::memcpy(bytes, "JITTER01", 8);
    const bool paced = options.pattern == Pattern::Paced;
    put<uint32_t>(8, 4096);
    put<uint32_t>(12, sizeof(Record));
    put<uint32_t>(16, options.pairs);
    put<uint32_t>(20, uint32_t(options.pattern));
    put<uint64_t>(24, capacity);
    put<uint64_t>(48, paced ? uint64_t(options.rate * 1000) : 0);
    std::strncpy(bytes + 64, name, 63);
    // Prefault and lock all pages: a later page fault would be measured as latency.
    for (size_t at = 4096; at < length; at += 4096) bytes[at] = 0;
    // Without the privilege, pages may be evicted; that is acceptable.
    (void)mlockall(MCL_CURRENT);
  }

  void record(uint32_t pair, uint64_t number, Record record) {
    auto *records = reinterpret_cast<Record *>(bytes + 4096);
    records[pair * capacity + number] = record;
    __atomic_store_n(reinterpret_cast<uint64_t *>(bytes + 128) + pair, number + 1, __ATOMIC_RELEASE);
  }

  // Prints `ready`, and waits for a line on standard input. Returns the start time of the test.
  uint64_t start() {
    std::puts("ready");
    std::fflush(stdout);
    if (std::getchar() == EOF) fail("standard input was closed before the start");
    const uint64_t at = now();
    put<uint64_t>(32, at);
    return at;
  }

  void end() { put<uint64_t>(40, now()); }

  const uint64_t capacity;

private:
  template <typename T> void put(size_t at, T value) { std::memcpy(bytes + at, &value, sizeof value); }

  char *bytes;
};
