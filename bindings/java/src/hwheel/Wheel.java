package hwheel;

import static hwheel.HwheelException.check;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;

/**
 * A lock-free timing wheel that writes a batch of {@link Events}.
 *
 * <p>Times are nanoseconds or a {@link Duration}; a negative one, and one longer than 292
 * years, is an {@link IllegalArgumentException}. Cookies are any 64 bits. The handle of a timer is
 * a long; a stale one is ESTALE and never touches another timer.
 *
 * <p>Any thread may arm and cancel, without a lock. One thread at a time calls
 * {@code poll}, {@code advance} or {@code drain}; another gets EBUSY. Any thread may
 * {@code close} at any time. Only {@code await} blocks.
 *
 * <p>Every method may throw {@link HwheelException}, and {@link IllegalStateException} if
 * the wheel is closed.
 */
public final class Wheel implements AutoCloseable {
    /** A time that never comes. */
    public static final long NEVER = Long.MAX_VALUE;

    /** Flag: the time is a point on the wheel's clock, not a delay. */
    public static final int ABS = 1 << 0;
    /** Flag of mod: only to an earlier time. */
    public static final int REDUCE = 1 << 1;
    /** Flag of mod: only if the timer is pending. */
    public static final int IF_PENDING = 1 << 2;
    /** Flag of every: fire each missed period, one after another, until caught up. */
    public static final int MISSED_BURST = 1 << 4;
    /** Flag of every: after a miss, count the next period from now. */
    public static final int MISSED_DELAY = 1 << 5;

    private static final Cleaner CLEANER = Cleaner.create();

    private final Handle handle;
    private final Cleaner.Cleanable closing;

    /** The clock of a wheel. */
    public enum Clock { MONOTONIC, BOOTTIME, REALTIME, MANUAL }

    /**
     * How to make a wheel. 0 is the library's default: ticks of a millisecond, four
     * levels of 256 slots. {@code startNs} is for a manual clock.
     */
    public record Options(
            Clock clock, long tickNs, int levels, int slots, int maxTimers, long startNs) {
        public Options(Clock clock) {
            this(clock, 0, 0, 0, 0, 0);
        }

        /** The same with ticks of another length. */
        public Options withTick(Duration tick) {
            return new Options(clock, nanoseconds(tick), levels, slots, maxTimers, startNs);
        }

        /** The same with a limit on live timers. */
        public Options withMaxTimers(int limit) {
            return new Options(clock, tickNs, levels, slots, limit, startNs);
        }
    }

    /**
     * The counts of a wheel; exact while no thread uses it. The members are named as those
     * of {@code struct hwheel_stats}.
     */
    public record Stats(
            long live, long fired, long missed, long unclaimed, long sweeps, long wakeups,
            long kicks, long notes, long slabBytes, long armed, long rearmed,
            long cancelled, long drained, long pending, long entries,
            long queued, long[] lateness, long dropped, long noteBytes) {
        private static final int LATENESS = 40;
        private static final int BYTES = 152 + 8 * LATENESS;

        private static Stats read(ByteBuffer s) {
            s.position(8);
            return new Stats(
                    s.getLong(), s.getLong(), s.getLong(), s.getLong(), s.getLong(), s.getLong(),
                    s.getLong(), s.getLong(), s.getLong(), s.getLong(), s.getLong(),
                    s.getLong(), s.getLong(), s.getLong(), s.getLong(),
                    s.getLong(), readLateness(s), s.getLong(), s.getLong());
        }

        private static long[] readLateness(ByteBuffer s) {
            long[] lateness = new long[LATENESS];
            for (int i = 0; i < LATENESS; i++) {
                lateness[i] = s.getLong();
            }
            return lateness;
        }
    }

    /** A wheel with the library's defaults. */
    public Wheel() {
        this(new Options(Clock.MONOTONIC));
    }

    public Wheel(Options options) {
        ByteBuffer o = struct(40);
        o.putInt(o.capacity()).putInt(options.clock.ordinal()).putLong(time(options.tickNs))
                .putInt(options.levels).putInt(options.slots).putInt(options.maxTimers).putInt(0)
                .putLong(time(options.startNs));
        handle = new Handle(Library.create(o));
        closing = CLEANER.register(this, handle);
    }

    /**
     * Frees the wheel; pending timers do not fire. Any thread may call it at any time:
     * {@code await} wakes, calls that have begun come to their end, and later ones are an
     * {@link IllegalStateException}. The second call does nothing. The collector closes a
     * wheel that nothing refers to.
     */
    @Override
    public void close() {
        closing.clean();
    }

    /** The version of the library that is loaded. */
    public static String version() {
        return Library.version();
    }

    /** The time on the wheel's clock. */
    public long now() {
        return make(Library::now);
    }

    /** The time at which to drive the wheel next; NEVER if no timer is pending. */
    public long nextExpiry() {
        return fromC(make(Library::nextExpiry));
    }

    /** The counts of the wheel. */
    public Stats stats() {
        ByteBuffer s = struct(Stats.BYTES);
        s.putInt(0, s.capacity());
        call(c -> Library.stats(c, s));
        return Stats.read(s);
    }

    /**
     * Fetches pending timers, which stay pending, and returns the number of timers. The
     * cursor is an array of one 0 before the first call; each call moves it on. Fewer
     * timers than there is room for mean the end.
     */
    public int list(long[] cursor, Events events) {
        if (cursor.length < 1) {
            throw new IllegalArgumentException("the cursor has no element");
        }
        return call(c -> Library.list(c, cursor, events.buffer, events.room()));
    }

    // Timers that free themselves when they have fired for the last time.

    /** Fires once after a delay. Returns the timer. */
    public long once(Duration delay, long cookie) {
        return once(nanoseconds(delay), cookie, 0);
    }

    /** Fires once. Flags: ABS. Returns the timer. */
    public long once(long timeNs, long cookie, int flags) {
        long ns = time(timeNs);
        return make(c -> Library.once(c, ns, cookie, flags));
    }

    /** Fires again and again, for the first time after one period. Returns the timer. */
    public long every(Duration period, long cookie) {
        return every(nanoseconds(period), nanoseconds(period), 0, cookie, 0);
    }

    /**
     * Fires again and again, each time up to slackNs late, which shares wake-ups. Flags:
     * ABS, and MISSED_BURST or MISSED_DELAY. Returns the timer.
     */
    public long every(long firstNs, long periodNs, long slackNs, long cookie, int flags) {
        return make(c -> Library.every(
                c, time(firstNs), time(periodNs), time(slackNs), cookie, flags));
    }

    // Timers to arm again and again.

    /** Makes a timer that is not pending, and lives until {@link #free}. */
    public long setup(long cookie) {
        return make(c -> Library.setup(c, cookie));
    }

    /** Arms a timer, or moves it. True if it was pending. */
    public boolean mod(long timer, Duration delay) {
        return mod(timer, nanoseconds(delay), 0);
    }

    /** The same. Flags: ABS, and REDUCE or IF_PENDING. */
    public boolean mod(long timer, long timeNs, int flags) {
        return call(c -> Library.mod(c, timer, time(timeNs), flags)) == 1;
    }

    /** As mod, to any time up to slackNs later, which shares wake-ups. Flags: ABS. */
    public boolean modRange(long timer, long timeNs, long slackNs, int flags) {
        return call(c -> Library.modRange(
                c, timer, time(timeNs), time(slackNs), flags)) == 1;
    }

    /** The same. */
    public boolean modRange(long timer, Duration delay, Duration slack) {
        return modRange(timer, nanoseconds(delay), nanoseconds(slack), 0);
    }

    /** Makes a timer periodic from the next time that it fires; zero ends that. */
    public void setPeriod(long timer, Duration period) {
        setPeriod(timer, nanoseconds(period));
    }

    /** Makes a timer periodic from the next time that it fires; 0 ends that. */
    public void setPeriod(long timer, long periodNs) {
        call(c -> Library.setPeriod(c, timer, time(periodNs)));
    }

    /**
     * Does what mod does for each timer, with one crossing into C. Returns the number of
     * timers that were armed or moved. A timer that fails does not stop the others:
     * results, unless null, receives 1, 0 or the negative errno of each.
     */
    public int modMany(long[] timers, long[] timesNs, int flags, int[] results) {
        same(timers.length, timesNs.length);
        same(timers.length, results == null ? timers.length : results.length);
        long[] times = new long[timesNs.length];
        for (int i = 0; i < times.length; i++) {
            times[i] = time(timesNs[i]);
        }
        return call(c -> Library.modMany(
                c, timers, times, timers.length, flags, results));
    }

    // The same for Timers: deadlines, and the first of each array.

    void armFirst(int count, long[] timers, long[] deadlinesNs, int[] results) {
        for (int i = 0; i < count; i++) {
            deadlinesNs[i] = time(deadlinesNs[i]);
        }
        call(c -> Library.modMany(c, timers, deadlinesNs, count, ABS, results));
    }

    void cancelFirst(int count, long[] timers) {
        call(c -> Library.deleteMany(c, timers, count, null));
    }

    /** Does what delete does for each timer, as modMany. */
    public int deleteMany(long[] timers, int[] results) {
        same(timers.length, results == null ? timers.length : results.length);
        return call(c -> Library.deleteMany(c, timers, timers.length, results));
    }

    /**
     * Cancels a timer. True if it was pending and will not fire. False, or ESTALE: too
     * late, its event has been fetched.
     */
    public boolean delete(long timer) {
        return call(c -> Library.delete(c, timer)) == 1;
    }

    /** As delete, and arming the timer again is ESHUTDOWN. */
    public boolean shutdown(long timer) {
        return call(c -> Library.shutdown(c, timer)) == 1;
    }

    /** As delete, and frees the timer. */
    public boolean free(long timer) {
        return call(c -> Library.free(c, timer)) == 1;
    }

    /** Whether a timer is pending. */
    public boolean pending(long timer) {
        return call(c -> Library.pending(c, timer)) == 1;
    }

    /** Nanoseconds until a timer fires; NEVER also if it is not pending. */
    public long remaining(long timer) {
        return fromC(make(c -> Library.remaining(c, timer)));
    }

    /** The time until a timer fires, empty if it is not pending or fires never. */
    public Optional<Duration> timeLeft(long timer) {
        long ns = remaining(timer);
        return ns == NEVER ? Optional.empty() : Optional.of(Duration.ofNanos(ns));
    }

    // Timers by key: any 1 to 255 bytes. They fire once, and the timer of their event
    // is 0.

    /** A number as a key. */
    public static byte[] keyOf(long number) {
        return ByteBuffer.allocate(8).order(ByteOrder.nativeOrder()).putLong(number).array();
    }

    /** Gives a key a timer. True if it replaced a pending timer, which does not fire. */
    public boolean keySet(byte[] key, Duration delay, long cookie) {
        return keySet(key, nanoseconds(delay), cookie, 0);
    }

    /** The same. Flags: ABS. */
    public boolean keySet(byte[] key, long timeNs, long cookie, int flags) {
        return call(c -> Library.keySet(
                c, bytes(key), time(timeNs), cookie, flags)) == 1;
    }

    /** Moves the pending timer of a key, which keeps its cookie. False if it has none. */
    public boolean keyMod(byte[] key, Duration delay) {
        return keyMod(key, nanoseconds(delay), 0);
    }

    /** The same. Flags: ABS. */
    public boolean keyMod(byte[] key, long timeNs, int flags) {
        return call(c -> Library.keyMod(
                c, bytes(key), time(timeNs), flags)) == 1;
    }

    /** Cancels the pending timer of a key. False if it has none. */
    public boolean keyDelete(byte[] key) {
        return call(c -> Library.keyDelete(c, bytes(key))) == 1;
    }

    /** Whether a key has a pending timer. */
    public boolean keyPending(byte[] key) {
        return call(c -> Library.keyPending(c, bytes(key))) == 1;
    }

    // Drive.

    /**
     * Fetches the events that are due, in the order of their ticks, and returns the
     * number of events. A full batch means that there may be more.
     */
    public int poll(Events events) {
        return call(c -> Library.poll(c, events.buffer, events.room()));
    }

    /** As poll, for a manual clock that moves to nowNs. */
    public int advance(long nowNs, Events events) {
        return call(c -> Library.advance(
                c, time(nowNs), events.buffer, events.room()));
    }

    /** Shuts the wheel down and fetches its pending timers. */
    public int drain(Events events) {
        return call(c -> Library.drain(c, events.buffer, events.room()));
    }

    /**
     * A descriptor that becomes readable when a timer is due; do not read or close it. It
     * may be readable with nothing due.
     */
    public int fd() {
        return call(c -> Library.fd(c));
    }

    /**
     * Blocks until the descriptor is readable, or for timeoutMs milliseconds; -1 is no
     * limit. Wakes when another thread arms an earlier timer.
     */
    public boolean await(int timeoutMs) {
        if (timeoutMs < -1) {
            throw new IllegalArgumentException("a negative time: " + timeoutMs);
        }
        try {
            return handle.await(timeoutMs);
        } finally {
            Reference.reachabilityFence(this); // or the collector would close it
        }
    }

    /** The same. The time is rounded up to milliseconds, at most 24 days. */
    public boolean await(Duration timeout) {
        long ns = nanoseconds(timeout);
        long ms = ns / 1_000_000 + (ns % 1_000_000 == 0 ? 0 : 1);
        return await((int) Math.min(ms, Integer.MAX_VALUE));
    }

    private int call(Handle.Call call) {
        try {
            return check(handle.call(call));
        } finally {
            Reference.reachabilityFence(this); // or the collector might close it
        }
    }

    private long make(Handle.Make make) {
        try {
            return handle.make(make);
        } finally {
            Reference.reachabilityFence(this); // or the collector might close it
        }
    }

    /** The 2^63 nanoseconds of a long are 292 years. */
    private static long nanoseconds(Duration duration) {
        if (duration.isNegative()) {
            throw new IllegalArgumentException("a negative duration: " + duration);
        }
        try {
            return duration.toNanos();
        } catch (ArithmeticException e) {
            throw new IllegalArgumentException("longer than 292 years: " + duration, e);
        }
    }

    /** A time for C. */
    static long time(long ns) {
        if (ns < 0) {
            throw new IllegalArgumentException("a negative time: " + ns);
        }
        return ns == NEVER ? -1 : ns;
    }

    /** A time of C, for which never is the greatest unsigned number. */
    static long fromC(long ns) {
        return ns < 0 ? NEVER : ns;
    }

    private static byte[] bytes(byte[] key) {
        return Objects.requireNonNull(key, "the key is null");
    }

    private static void same(int length, int other) {
        if (length != other) {
            throw new IllegalArgumentException("arrays of " + length + " and " + other);
        }
    }

    private static ByteBuffer struct(int bytes) {
        return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
    }
}
