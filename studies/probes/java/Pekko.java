import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.pekko.actor.typed.ActorRef;
import org.apache.pekko.actor.typed.ActorSystem;
import org.apache.pekko.actor.typed.Behavior;
import org.apache.pekko.actor.typed.javadsl.AbstractBehavior;
import org.apache.pekko.actor.typed.javadsl.ActorContext;
import org.apache.pekko.actor.typed.javadsl.Behaviors;
import org.apache.pekko.actor.typed.javadsl.Receive;

/**
 * Pairs of typed Pekko actors. Messages are not reused. One thread per pair sends paced messages, because
 * actors must not sleep.
 */
public final class Pekko {
  private interface Message {}

  private enum Go implements Message {
    GO
  }

  private static final class Ping implements Message {
    final long intended;
    final long sent;
    final byte[] payload;
    final ActorRef<Message> from;

    Ping(long intended, long sent, byte[] payload, ActorRef<Message> from) {
      this.intended = intended;
      this.sent = sent;
      this.payload = payload;
      this.from = from;
    }
  }

  private static final class Pong implements Message {
    final byte[] payload;

    Pong(byte[] payload) {
      this.payload = payload;
    }
  }

  private static Samples samples;
  private static CountDownLatch left;

  private static final class Receiver extends AbstractBehavior<Message> {
    private final int pair;
    private int count;

    Receiver(ActorContext<Message> context, int pair) {
      super(context);
      this.pair = pair;
    }

    @Override
    public Receive<Message> createReceive() {
      return newReceiveBuilder().onMessage(Ping.class, this::receive).build();
    }

    private Behavior<Message> receive(Ping ping) {
      long received = System.nanoTime();
      samples.record(pair, count++, ping.intended, ping.sent, received);
      if (samples.pattern == Samples.Pattern.PING_PONG) {
        ping.from.tell(new Pong(new byte[samples.payload]));
      }
      if (count == samples.capacity) left.countDown();
      return this;
    }
  }

  private static final class Sender extends AbstractBehavior<Message> {
    private final ActorRef<Message> to;
    private int count;

    Sender(ActorContext<Message> context, ActorRef<Message> to) {
      super(context);
      this.to = to;
    }

    @Override
    public Receive<Message> createReceive() {
      return newReceiveBuilder()
          .onMessage(Go.class, go -> go())
          .onMessage(Pong.class, pong -> sendOne())
          .build();
    }

    private Behavior<Message> go() {
      if (samples.pattern == Samples.Pattern.PING_PONG) return sendOne();
      while (count < samples.capacity) sendOne();
      return this;
    }

    private Behavior<Message> sendOne() {
      if (count == samples.capacity) return this;
      count++;
      long sent = System.nanoTime();
      to.tell(new Ping(sent, sent, new byte[samples.payload], getContext().getSelf()));
      return this;
    }
  }

  public static void main(String[] words) throws Exception {
    samples = new Samples(words, "Pekko actors");
    left = new CountDownLatch(samples.pairs);
    boolean paced = samples.pattern == Samples.Pattern.PACED;
    List<ActorRef<Message>> receivers = new ArrayList<>();
    List<ActorRef<Message>> senders = new ArrayList<>();
    CountDownLatch spawned = new CountDownLatch(1);
    ActorSystem<Message> system =
        ActorSystem.create(
            Behaviors.setup(
                context -> {
                  for (int n = 0; n < samples.pairs; n++) {
                    int pair = n;
                    ActorRef<Message> to =
                        context.spawn(Behaviors.setup(c -> new Receiver(c, pair)), "receiver-" + n);
                    receivers.add(to);
                    if (!paced) {
                      senders.add(
                          context.spawn(Behaviors.setup(c -> new Sender(c, to)), "sender-" + n));
                    }
                  }
                  spawned.countDown();
                  return Behaviors.ignore();
                }),
            "probe");
    spawned.await();
    long[] begin = {0};
    CountDownLatch begun = new CountDownLatch(1);
    for (int n = 0; paced && n < samples.pairs; n++) {
      int pair = n;
      new Thread(() -> pace(begin, begun, pair, receivers.get(pair)), "pacer-" + n).start();
    }
    begin[0] = samples.start();
    begun.countDown();
    senders.forEach(sender -> sender.tell(Go.GO));
    left.await();
    samples.end();
    system.terminate();
    System.exit(0);
  }

  private static void pace(long[] begin, CountDownLatch begun, int pair, ActorRef<Message> to) {
    try {
      begun.await();
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
    for (int n = 0; n < samples.capacity; n++) {
      long intended = samples.intended(begin[0], pair, n);
      Samples.sleepUntil(intended);
      to.tell(new Ping(intended, System.nanoTime(), new byte[samples.payload], null));
    }
  }
}
