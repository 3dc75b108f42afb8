package io.github.hwheel;

import static io.github.hwheel.HwheelException.check;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;

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

    /** How to arm a timer. */
    public enum Flag {
        /** The time is a point on the wheel's clock, not a delay. */
        ABS,
        /** Of mod: only to an earlier time. */
        REDUCE,
        /** Of mod: only if the timer is pending. */
        IF_PENDING;

        private static int bits(Flag[] flags) {
            int bits = 0;
            for (Flag flag : flags) {
                bits |= 1 << flag.ordinal();
            }
            return bits;
        }
    }

    /** What a timer does about periods that it has missed. */
    public enum Missed {
        /** Leaves them out, and counts them. */
        SKIP(0),
        /** Fires for each of them, one after another, until it has caught up. */
        BURST(1 << 4),
        /** Leaves them out, and counts the next period from now. */
        DELAY(1 << 5);

        private final int bits;

        Missed(int bits) {
            this.bits = bits;
        }
    }

    private static final Cleaner CLEANER = Cleaner.create();

    private final Handle handle;
    private final Cleaner.Cleanable closing;

    /** The clock of a wheel. */
    public enum Clock {
        /** Nothing sets it; it stands still while the system is suspended. */
        MONOTONIC,
        /** As MONOTONIC, and it counts the time of a suspend. */
        BOOTTIME,
        /** The wall clock. */
        REALTIME,
        /** The caller moves it, by {@link #advance}. */
        MANUAL
    }

    /**
     * How to make a wheel. 0 is the library's default: ticks of a millisecond, four
     * levels of 256 slots.
     *
     * @param clock the clock
     * @param tickNs the length of a tick, in nanoseconds
     * @param levels the number of levels
     * @param slots the number of slots of a level
     * @param maxTimers the limit on live timers
     * @param startNs the first time of a manual clock
     */
    public record Options(
            Clock clock, long tickNs, int levels, int slots, int maxTimers, long startNs) {
        /**
         * The library's defaults.
         *
         * @param clock the clock
         */
        public Options(Clock clock) {
            this(clock, 0, 0, 0, 0, 0);
        }

        /**
         * The same with ticks of another length.
         *
         * @param tick the length
         * @return the options
         * @throws IllegalArgumentException if it is negative or longer than 292 years
         */
        public Options withTick(Duration tick) {
            return new Options(clock, nanoseconds(tick), levels, slots, maxTimers, startNs);
        }

        /**
         * The same with a limit on live timers.
         *
         * @param limit the limit, 0 for the library's
         * @return the options
         */
        public Options withMaxTimers(int limit) {
            return new Options(clock, tickNs, levels, slots, limit, startNs);
        }
    }

    /**
     * The counts of a wheel; exact while no thread uses it. The members are named as those
     * of {@code struct hwheel_stats}.
     *
     * @param live timers that exist
     * @param fired timers that have fired
     * @param missed periods that were left out
     * @param unclaimed timers that came due in a call without room for events
     * @param sweeps moves of the wheel's hand
     * @param wakeups wake-ups of the tick thread
     * @param kicks arms that woke the driver
     * @param notes notes of threads for the driver
     * @param slabBytes memory of timers
     * @param armed arms of timers that were not pending
     * @param rearmed arms that moved a pending timer
     * @param cancelled timers that were cancelled
     * @param drained timers that drain has handed back
     * @param pending timers that are pending
     * @param entries entries in buckets after the last call that drove the wheel
     * @param queued callbacks that wait for a worker
     * @param lateness timers by lateness: [0] for none, [i] for 2^(i-1) ns to below 2^i ns
     * @param dropped callbacks for which the queue had no room
     * @param noteBytes memory of notes
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

    /**
     * A wheel that is made with options.
     *
     * @param options the options
     */
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

    /**
     * The version of the library that is loaded.
     *
     * @return the version, as in 0.1.0
     */
    public static String version() {
        return Library.version();
    }

    /**
     * The time on the wheel's clock.
     *
     * @return nanoseconds
     */
    public long now() {
        return make(Library::now);
    }

    /**
     * The time at which to drive the wheel next: never later than the next timer.
     *
     * @return nanoseconds on the wheel's clock; empty if no timer is pending
     */
    public OptionalLong nextExpiry() {
        return optional(make(Library::nextExpiry));
    }

    /**
     * The counts of the wheel.
     *
     * @return the counts
     */
    public Stats stats() {
        ByteBuffer s = struct(Stats.BYTES);
        s.putInt(0, s.capacity());
        call(c -> Library.stats(c, s));
        return Stats.read(s);
    }

    /**
     * Fetches pending timers, which stay pending. Fewer timers than there is room for mean
     * the end.
     *
     * @param cursor an array of one 0 before the first call; each call moves it on
     * @param events receives the timers
     * @return the number of timers
     */
    public int list(long[] cursor, Events events) {
        if (cursor.length < 1) {
            throw new IllegalArgumentException("the cursor has no element");
        }
        return call(c -> Library.list(c, cursor, events.buffer, events.room()));
    }

    // Timers that free themselves when they have fired for the last time.

    /**
     * Fires once after a delay.
     *
     * @param delay the delay
     * @param cookie comes with the event
     * @return the timer
     */
    public long once(Duration delay, long cookie) {
        return once(nanoseconds(delay), cookie);
    }

    /**
     * Fires once.
     *
     * @param timeNs the time in nanoseconds, or {@link #NEVER}
     * @param cookie comes with the event
     * @param flags ABS, or none
     * @return the timer
     */
    public long once(long timeNs, long cookie, Flag... flags) {
        long ns = time(timeNs);
        int bits = Flag.bits(flags);
        return make(c -> Library.once(c, ns, cookie, bits));
    }

    /**
     * Fires again and again, for the first time after one period. Leaves missed periods out.
     *
     * @param period the period
     * @param cookie comes with each event
     * @return the timer
     */
    public long every(Duration period, long cookie) {
        long ns = nanoseconds(period);
        return every(ns, ns, 0, cookie, Missed.SKIP);
    }

    /**
     * Fires again and again.
     *
     * @param firstNs the first time, in nanoseconds
     * @param periodNs the period
     * @param slackNs the nanoseconds that each event may be late by, which shares wake-ups
     * @param cookie comes with each event
     * @param missed what to do about missed periods
     * @param flags ABS, or none
     * @return the timer
     */
    public long every(long firstNs, long periodNs, long slackNs, long cookie, Missed missed,
            Flag... flags) {
        int bits = missed.bits | Flag.bits(flags);
        return make(c -> Library.every(
                c, time(firstNs), time(periodNs), time(slackNs), cookie, bits));
    }

    // Timers to arm again and again.

    /**
     * Makes a timer that is not pending, and lives until {@link #free}.
     *
     * @param cookie comes with each event
     * @return the timer
     */
    public long setup(long cookie) {
        return make(c -> Library.setup(c, cookie));
    }

    /**
     * Arms a timer, or moves it.
     *
     * @param timer the timer
     * @param delay the delay
     * @return whether it was pending
     */
    public boolean mod(long timer, Duration delay) {
        return mod(timer, nanoseconds(delay));
    }

    /**
     * Arms a timer, or moves it.
     *
     * @param timer the timer
     * @param timeNs the time in nanoseconds, or {@link #NEVER}
     * @param flags ABS, and REDUCE or IF_PENDING
     * @return whether it was pending
     */
    public boolean mod(long timer, long timeNs, Flag... flags) {
        int bits = Flag.bits(flags);
        return call(c -> Library.mod(c, timer, time(timeNs), bits)) == 1;
    }

    /**
     * Arms a timer for any time of a range, or moves it there, which shares wake-ups.
     *
     * @param timer the timer
     * @param timeNs the start of the range, in nanoseconds
     * @param slackNs the length of the range
     * @param flags ABS, or none
     * @return whether it was pending
     */
    public boolean modRange(long timer, long timeNs, long slackNs, Flag... flags) {
        int bits = Flag.bits(flags);
        return call(c -> Library.modRange(
                c, timer, time(timeNs), time(slackNs), bits)) == 1;
    }

    /**
     * Arms a timer for any time of a range, or moves it there, which shares wake-ups.
     *
     * @param timer the timer
     * @param delay the start of the range
     * @param slack the length of the range
     * @return whether it was pending
     */
    public boolean modRange(long timer, Duration delay, Duration slack) {
        return modRange(timer, nanoseconds(delay), nanoseconds(slack));
    }

    /**
     * Makes a timer periodic from the next time that it fires.
     *
     * @param timer the timer
     * @param period the period; zero ends that
     */
    public void setPeriod(long timer, Duration period) {
        setPeriod(timer, nanoseconds(period));
    }

    /**
     * Makes a timer periodic from the next time that it fires.
     *
     * @param timer the timer
     * @param periodNs the period; 0 ends that
     */
    public void setPeriod(long timer, long periodNs) {
        call(c -> Library.setPeriod(c, timer, time(periodNs)));
    }

    /**
     * Does what mod does for each timer, with one crossing into C. A timer that fails does
     * not stop the others.
     *
     * @param timers the timers
     * @param timesNs the time of each, in nanoseconds
     * @param results receives 1, 0 or the negative errno of each; null for none
     * @param flags ABS, and REDUCE or IF_PENDING
     * @return the number of timers that were armed or moved
     */
    public int modMany(long[] timers, long[] timesNs, int[] results, Flag... flags) {
        same(timers.length, timesNs.length);
        same(timers.length, results == null ? timers.length : results.length);
        long[] times = new long[timesNs.length];
        for (int i = 0; i < times.length; i++) {
            times[i] = time(timesNs[i]);
        }
        int bits = Flag.bits(flags);
        return call(c -> Library.modMany(
                c, timers, times, timers.length, bits, results));
    }

    // The same for Timers: deadlines, and the first of each array.

    void armFirst(int count, long[] timers, long[] deadlinesNs, int[] results) {
        for (int i = 0; i < count; i++) {
            deadlinesNs[i] = time(deadlinesNs[i]);
        }
        call(c -> Library.modMany(c, timers, deadlinesNs, count, 1 << Flag.ABS.ordinal(), results));
    }

    void cancelFirst(int count, long[] timers) {
        call(c -> Library.deleteMany(c, timers, count, null));
    }

    /**
     * Does what delete does for each timer, with one crossing into C. A timer that fails
     * does not stop the others.
     *
     * @param timers the timers
     * @param results receives 1, 0 or the negative errno of each; null for none
     * @return the number of timers that existed
     */
    public int deleteMany(long[] timers, int[] results) {
        same(timers.length, results == null ? timers.length : results.length);
        return call(c -> Library.deleteMany(c, timers, timers.length, results));
    }

    /**
     * Cancels a timer. False, or ESTALE, means that it is too late: its event has been
     * fetched.
     *
     * @param timer the timer
     * @return whether it was pending; it does not fire then
     */
    public boolean delete(long timer) {
        return call(c -> Library.delete(c, timer)) == 1;
    }

    /**
     * Cancels a timer, and arming it again is ESHUTDOWN.
     *
     * @param timer the timer
     * @return whether it was pending; it does not fire then
     */
    public boolean shutdown(long timer) {
        return call(c -> Library.shutdown(c, timer)) == 1;
    }

    /**
     * Cancels a timer and frees it.
     *
     * @param timer the timer
     * @return whether it was pending; it does not fire then
     */
    public boolean free(long timer) {
        return call(c -> Library.free(c, timer)) == 1;
    }

    /**
     * Whether a timer is pending.
     *
     * @param timer the timer
     * @return whether it is
     */
    public boolean pending(long timer) {
        return call(c -> Library.pending(c, timer)) == 1;
    }

    /**
     * The time until a timer fires.
     *
     * @param timer the timer
     * @return nanoseconds; empty if it is not pending, or never fires
     */
    public OptionalLong remaining(long timer) {
        return optional(make(c -> Library.remaining(c, timer)));
    }

    /**
     * The time until a timer fires.
     *
     * @param timer the timer
     * @return the duration; empty if it is not pending, or never fires
     */
    public Optional<Duration> timeLeft(long timer) {
        OptionalLong ns = remaining(timer);
        return ns.isEmpty() ? Optional.empty() : Optional.of(Duration.ofNanos(ns.getAsLong()));
    }

    // Timers by key: any 1 to 255 bytes. They fire once, and the timer of their event
    // is 0.

    /**
     * A number as a key.
     *
     * @param number the number
     * @return the key
     */
    public static byte[] keyOf(long number) {
        return ByteBuffer.allocate(8).order(ByteOrder.nativeOrder()).putLong(number).array();
    }

    /**
     * Gives a key a timer.
     *
     * @param key the key
     * @param delay the delay
     * @param cookie comes with the event
     * @return whether it replaced a pending timer, which does not fire
     */
    public boolean keySet(byte[] key, Duration delay, long cookie) {
        return keySet(key, nanoseconds(delay), cookie);
    }

    /**
     * Gives a key a timer.
     *
     * @param key the key
     * @param timeNs the time in nanoseconds
     * @param cookie comes with the event
     * @param flags ABS, or none
     * @return whether it replaced a pending timer, which does not fire
     */
    public boolean keySet(byte[] key, long timeNs, long cookie, Flag... flags) {
        int bits = Flag.bits(flags);
        return call(c -> Library.keySet(
                c, bytes(key), time(timeNs), cookie, bits)) == 1;
    }

    /**
     * Moves the pending timer of a key, which keeps its cookie.
     *
     * @param key the key
     * @param delay the delay
     * @return whether it has one
     */
    public boolean keyMod(byte[] key, Duration delay) {
        return keyMod(key, nanoseconds(delay));
    }

    /**
     * Moves the pending timer of a key, which keeps its cookie.
     *
     * @param key the key
     * @param timeNs the time in nanoseconds
     * @param flags ABS, or none
     * @return whether it has one
     */
    public boolean keyMod(byte[] key, long timeNs, Flag... flags) {
        int bits = Flag.bits(flags);
        return call(c -> Library.keyMod(
                c, bytes(key), time(timeNs), bits)) == 1;
    }

    /**
     * Cancels the pending timer of a key.
     *
     * @param key the key
     * @return whether it had one
     */
    public boolean keyDelete(byte[] key) {
        return call(c -> Library.keyDelete(c, bytes(key))) == 1;
    }

    /**
     * Whether a key has a pending timer.
     *
     * @param key the key
     * @return whether it has
     */
    public boolean keyPending(byte[] key) {
        return call(c -> Library.keyPending(c, bytes(key))) == 1;
    }

    // Drive.

    /**
     * Fetches the events that are due, in the order of their ticks. A full batch means that
     * there may be more.
     *
     * @param events receives the events
     * @return the number of events
     */
    public int poll(Events events) {
        return call(c -> Library.poll(c, events.buffer, events.room()));
    }

    /**
     * Moves a manual clock, and fetches the events that are due.
     *
     * @param nowNs the new time of the clock, in nanoseconds
     * @param events receives the events
     * @return the number of events
     */
    public int advance(long nowNs, Events events) {
        return call(c -> Library.advance(
                c, time(nowNs), events.buffer, events.room()));
    }

    /**
     * Shuts the wheel down and fetches its pending timers. A full batch means that there may
     * be more.
     *
     * @param events receives the timers
     * @return the number of timers
     */
    public int drain(Events events) {
        return call(c -> Library.drain(c, events.buffer, events.room()));
    }

    /**
     * A descriptor that becomes readable when a timer is due; do not read or close it. It
     * may be readable with nothing due.
     *
     * @return the descriptor
     */
    public int fd() {
        return call(c -> Library.fd(c));
    }

    /** Blocks until a timer may be due. Wakes when another thread arms an earlier timer. */
    public void await() {
        await(-1);
    }

    private boolean await(int timeoutMs) {
        try {
            return handle.await(timeoutMs);
        } finally {
            Reference.reachabilityFence(this); // or the collector would close it
        }
    }

    /**
     * Blocks until a timer may be due, or the time is over. Wakes when another thread arms
     * an earlier timer.
     *
     * @param timeout the time, which is rounded up to milliseconds, and at most 24 days
     * @return whether a timer may be due
     */
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

    private static OptionalLong optional(long ns) {
        return ns < 0 ? OptionalLong.empty() : OptionalLong.of(ns);
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
