// Pairs of threads with a mailbox (a mutex, a condition variable and a queue) for each direction.
#include "samples.hpp"

#include <deque>
#include <vector>

#include <pthread.h>

namespace {

struct Message {
  uint64_t intended, sent;
};

class Mailbox {
public:
  void put(Message message) {
    pthread_mutex_lock(&mutex);
    queue.push_back(message);
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&mutex);
  }

  Message take() {
    pthread_mutex_lock(&mutex);
    while (queue.empty()) pthread_cond_wait(&filled, &mutex);
    const Message message = queue.front();
    queue.pop_front();
    pthread_mutex_unlock(&mutex);
    return message;
  }

private:
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
  std::deque<Message> queue;
};

struct Test {
  Options options;
  Samples &samples;
  pthread_barrier_t created, begun;
  uint64_t begin = 0;
};

struct Pair {
  Test *test;
  uint32_t number;
  Mailbox there, back;
};

// Two barriers ensure that the test starts only when all threads exist, and that no thread works before the start.
void wait_for_begin(Test &test) {
  pthread_barrier_wait(&test.created);
  pthread_barrier_wait(&test.begun);
}

void *send(void *argument) {
  auto &pair = *static_cast<Pair *>(argument);
  Test &test = *pair.test;
  const Options &options = test.options;
  wait_for_begin(test);
  const uint64_t first = options.first(test.begin, pair.number);
  for (uint64_t n = 0; n < test.samples.capacity; n++) {
    if (options.pattern == Pattern::Paced) {
      const uint64_t intended = first + n * options.period();
      sleep_until(intended);
      pair.there.put({intended, now()});
      continue;
    }
    const uint64_t sent = now();
    pair.there.put({sent, sent});
    if (options.pattern == Pattern::PingPong) pair.back.take();
  }
  return nullptr;
}

void *receive(void *argument) {
  auto &pair = *static_cast<Pair *>(argument);
  Test &test = *pair.test;
  wait_for_begin(test);
  for (uint64_t n = 0; n < test.samples.capacity; n++) {
    const Message message = pair.there.take();
    const uint64_t received = now();
    test.samples.record(pair.number, n, {message.intended, message.sent, received});
    if (test.options.pattern == Pattern::PingPong) pair.back.put(message);
  }
  return nullptr;
}

} // namespace

int main(int count, char **words) {
  const Options options = Options::parse(count, words);
  Samples samples(options, "C++ threads (pthread)");
  Test test{options, samples, {}, {}};
  pthread_barrier_init(&test.created, nullptr, 2 * options.pairs + 1);
  pthread_barrier_init(&test.begun, nullptr, 2 * options.pairs + 1);
  std::vector<Pair> pairs(options.pairs);
  std::vector<pthread_t> threads(2 * options.pairs);
  for (uint32_t n = 0; n < options.pairs; n++) {
    pairs[n].test = &test;
    pairs[n].number = n;
    if (pthread_create(&threads[2 * n], nullptr, send, &pairs[n]) != 0 ||
        pthread_create(&threads[2 * n + 1], nullptr, receive, &pairs[n]) != 0)
      fail("cannot start the threads");
  }
  pthread_barrier_wait(&test.created);
  test.begin = samples.start();
  pthread_barrier_wait(&test.begun);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  samples.end();
  return 0;
}
