import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;

/** Pairs of Java threads with a mailbox (a monitor and a queue) for each direction. Messages are not reused. */
public final class Threads {
  private static final class Message {
    final long intended;
    final long sent;
    final byte[] payload;

    Message(long intended, long sent, byte[] payload) {
      this.intended = intended;
      this.sent = sent;
      this.payload = payload;
    }
  }

  private static final class Mailbox {
    private final ArrayDeque<Message> queue = new ArrayDeque<>();

    synchronized void put(Message message) {
      queue.add(message);
      notify();
    }

    synchronized Message take() throws InterruptedException {
      while (queue.isEmpty()) wait();
      return queue.poll();
    }
  }

  private static long begin;

  public static void main(String[] words) throws Exception {
    Samples samples = new Samples(words, "Java threads");
    CyclicBarrier created = new CyclicBarrier(2 * samples.pairs + 1);
    CyclicBarrier begun = new CyclicBarrier(2 * samples.pairs + 1);
    List<Thread> threads = new ArrayList<>();
    for (int n = 0; n < samples.pairs; n++) {
      int pair = n;
      Mailbox there = new Mailbox();
      Mailbox back = new Mailbox();
      Body send = () -> send(samples, pair, there, back);
      Body receive = () -> receive(samples, pair, there, back);
      for (Body body : List.of(send, receive)) {
        threads.add(
            new Thread(
                () -> {
                  try {
                    created.await();
                    begun.await();
                    body.run();
                  } catch (InterruptedException | BrokenBarrierException error) {
                    throw new IllegalStateException(error);
                  }
                },
                "pair-" + n));
      }
    }
    threads.forEach(Thread::start);
    created.await();
    begin = samples.start();
    begun.await();
    for (Thread thread : threads) thread.join();
    samples.end();
  }

  private interface Body {
    void run() throws InterruptedException;
  }

  private static void send(Samples samples, int pair, Mailbox there, Mailbox back)
      throws InterruptedException {
    for (int n = 0; n < samples.capacity; n++) {
      boolean paced = samples.pattern == Samples.Pattern.PACED;
      long intended = 0;
      if (paced) {
        intended = samples.intended(begin, pair, n);
        Samples.sleepUntil(intended);
      }
      long sent = System.nanoTime();
      there.put(new Message(paced ? intended : sent, sent, new byte[samples.payload]));
      if (samples.pattern == Samples.Pattern.PING_PONG) back.take();
    }
  }

  private static void receive(Samples samples, int pair, Mailbox there, Mailbox back)
      throws InterruptedException {
    for (int n = 0; n < samples.capacity; n++) {
      Message message = there.take();
      long received = System.nanoTime();
      samples.record(pair, n, message.intended, message.sent, received);
      if (samples.pattern == Samples.Pattern.PING_PONG) {
        back.put(new Message(0, 0, new byte[samples.payload]));
      }
    }
  }
}
