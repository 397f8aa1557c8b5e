import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.locks.LockSupport;

/**
 * The sample file and the options of a probe; see ../README.md. The file is mapped, so that recording a
 * sample does not allocate. System.nanoTime is CLOCK_MONOTONIC on Linux.
 */
final class Samples {
  enum Pattern {
    PING_PONG,
    FLOOD,
    PACED
  }

  private static final int HEADER = 4096;
  private static final int RECORD = 24;
  private static final int COUNTS = 128;

  final int pairs;
  final int capacity;
  final Pattern pattern;
  /** Payload of each message in bytes, as in an application. */
  final int payload = 64;

  private final long period;
  private final MappedByteBuffer bytes;

  Samples(String[] words, String name) throws IOException {
    String out = null;
    int pairs = 16;
    long samples = 1_000_000;
    double rate = 240;
    Pattern pattern = Pattern.PING_PONG;
    for (int at = 0; at < words.length; at += 2) {
      if (at + 1 == words.length) throw fail(words[at] + " needs a value");
      String value = words[at + 1];
      try {
        switch (words[at]) {
          case "--out":
            out = value;
            break;
          case "--pattern":
            pattern = Pattern.valueOf(value.replace('-', '_').toUpperCase());
            break;
          case "--pairs":
            pairs = Integer.parseInt(value);
            break;
          case "--samples":
            samples = Long.parseLong(value);
            break;
          case "--rate":
            rate = Double.parseDouble(value);
            break;
          default:
            throw fail("unknown option " + words[at]);
        }
      } catch (IllegalArgumentException wrong) {
        throw fail("invalid value " + value + " for " + words[at]);
      }
    }
    if (out == null) throw fail("--out FILE is required");
    if (pairs < 1 || pairs > 496) throw fail("--pairs must be 1 to 496");
    if (samples < pairs) throw fail("--samples must be at least one for each pair");
    if (pattern == Pattern.PACED && !(rate > 0)) throw fail("--rate must be above 0");
    this.pairs = pairs;
    this.pattern = pattern;
    period = (long) (1e9 / rate);
    long each = samples / pairs;
    long length = HEADER + RECORD * each * pairs;
    if (length > Integer.MAX_VALUE) throw fail("--samples must be at most 89000000 here");
    capacity = (int) each;
    try (RandomAccessFile file = new RandomAccessFile(out, "rw")) {
      file.setLength(0);
      file.setLength(length);
      bytes = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, length);
    }
    bytes.order(ByteOrder.LITTLE_ENDIAN);
    byte[] magic = "JITTER01".getBytes(StandardCharsets.US_ASCII);
    for (int n = 0; n < magic.length; n++) bytes.put(n, magic[n]);
    bytes.putInt(8, HEADER).putInt(12, RECORD).putInt(16, pairs).putInt(20, pattern.ordinal());
    bytes.putLong(24, each).putLong(48, pattern == Pattern.PACED ? (long) (rate * 1000) : 0);
    byte[] letters = name.getBytes(StandardCharsets.UTF_8);
    for (int n = 0; n < letters.length; n++) bytes.put(64 + n, letters[n]);
    // Prefault all pages: a later page fault would be measured as latency.
    for (int at = HEADER; at < length; at += 4096) bytes.put(at, (byte) 0);
  }

  void record(int pair, int number, long intended, long sent, long received) {
    int at = HEADER + RECORD * (pair * capacity + number);
    bytes.putLong(at, intended).putLong(at + 8, sent).putLong(at + 16, received);
    bytes.putLong(COUNTS + 8 * pair, number + 1);
  }

  /** Prints "ready", and waits for the first byte of a line on standard input. Returns the start time of the test. */
  long start() throws IOException {
    System.out.println("ready");
    if (System.in.read() < 0) throw fail("standard input was closed before the start");
    long at = System.nanoTime();
    bytes.putLong(32, at);
    return at;
  }

  void end() {
    bytes.putLong(40, System.nanoTime());
  }

  /** The intended send time of a paced message. */
  long intended(long begin, int pair, int number) {
    return begin + period + pair * period / pairs + number * period;
  }

  static void sleepUntil(long at) {
    for (long left; (left = at - System.nanoTime()) > 0; ) LockSupport.parkNanos(left);
  }

  private static IllegalArgumentException fail(String words) {
    System.err.println(words);
    System.exit(1);
    return new IllegalArgumentException(words);
  }
}
