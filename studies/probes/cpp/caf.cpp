// Pairs of actors of the C++ Actor Framework (0.17, Debian's version). One thread for each pair sends paced messages,
// because actors must not sleep.
#include "samples.hpp"

#include <memory>
#include <thread>
#include <vector>

#include <caf/all.hpp>

namespace {

using go = caf::atom_constant<caf::atom("go")>;
using ping = caf::atom_constant<caf::atom("ping")>;
using pong = caf::atom_constant<caf::atom("pong")>;

Options options;
Samples *samples;

caf::behavior receiver(caf::event_based_actor *self, uint32_t pair) {
  auto count = std::make_shared<uint64_t>(0);
  return {[=](ping, uint64_t intended, uint64_t sent) {
    const uint64_t received = now();
    samples->record(pair, *count, {intended, sent, received});
    *count += 1;
    const bool answers = options.pattern == Pattern::PingPong;
    if (answers) self->send(caf::actor_cast<caf::actor>(self->current_sender()), pong::value);
    if (*count == samples->capacity) self->quit();
  }};
}

caf::behavior sender(caf::event_based_actor *self, caf::actor to) {
  auto count = std::make_shared<uint64_t>(0);
  auto send_one = [=] {
    const uint64_t sent = now();
    self->send(to, ping::value, sent, sent);
    *count += 1;
  };
  return {[=](go) {
            send_one();
            if (options.pattern == Pattern::PingPong) return;
            while (*count < samples->capacity) send_one();
            self->quit();
          },
          [=](pong) {
            if (*count < samples->capacity) send_one();
            else self->quit();
          }};
}

void pace(uint64_t begin, uint32_t pair, const caf::actor &to) {
  for (uint64_t n = 0; n < samples->capacity; n++) {
    const uint64_t intended = options.first(begin, pair) + n * options.period();
    sleep_until(intended);
    caf::anon_send(to, ping::value, intended, now());
  }
}

} // namespace

int main(int count, char **words) {
  options = Options::parse(count, words);
  Samples file(options, "C++ actors (CAF)");
  samples = &file;
  caf::actor_system_config config;
  caf::actor_system system{config};
  const bool paced = options.pattern == Pattern::Paced;
  std::vector<caf::actor> receivers, senders;
  for (uint32_t pair = 0; pair < options.pairs; pair++) {
    receivers.push_back(system.spawn(receiver, pair));
    if (!paced) senders.push_back(system.spawn(sender, receivers.back()));
  }
  // Create the pacers before the test starts, so that scheduling settings of the process's threads apply to them.
  std::atomic<uint64_t> begin{0};
  std::vector<std::thread> pacers;
  for (uint32_t pair = 0; paced && pair < options.pairs; pair++)
    pacers.emplace_back([&, pair] {
      while (begin == 0) sleep_until(now() + 1000000);
      pace(begin, pair, receivers[pair]);
    });
  begin = file.start();
  for (const auto &actor : senders) caf::anon_send(actor, go::value);
  for (auto &pacer : pacers) pacer.join();
  receivers.clear();
  senders.clear();
  system.await_all_actors_done();
  file.end();
  return 0;
}
