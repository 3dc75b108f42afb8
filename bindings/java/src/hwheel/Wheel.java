package hwheel;

import static hwheel.HwheelException.check;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A lock-free timing wheel whose timers come due as {@link Events}.
 *
 * <p>Times are unsigned nanoseconds and cookies any 64 bits. A timer is named
 * by a long, of which no value is a danger: a stale one is ESTALE.
 *
 * <p>Any thread may arm and cancel, without a lock. One thread at a time calls
 * {@code poll}, {@code advance} or {@code drain}; another gets EBUSY. {@code
 * close} is for when no other thread uses the wheel. Only {@code await} blocks.
 *
 * <p>Every method may throw {@link HwheelException}.
 */
public final class Wheel implements AutoCloseable {
    /** A delay or deadline that never comes: the greatest unsigned long. */
    public static final long NEVER = -1;

    /** Arm flag: the time is a deadline, not a delay. */
    public static final int ABSTIME = 1;
    /** Periodic flag: missed periods are fired one by one until caught up. */
    public static final int MISSED_BURST = 2;
    /** Periodic flag: after a miss the next period is counted from now. */
    public static final int MISSED_DELAY = 4;

    private static final long NO_FUNCTION = 0;

    private long wheel;

    /** What a wheel counts. */
    public enum Clock { MONOTONIC, BOOTTIME, REALTIME, MANUAL }

    /**
     * How a wheel is made. What is 0 takes the library's default: ticks of a
     * millisecond, four levels of 256 slots. {@code startNs} is for a manual
     * clock.
     */
    public record Options(
            Clock clock, long tickNs, int levels, int slots, int maxTimers, long startNs) {
        public Options(Clock clock) {
            this(clock, 0, 0, 0, 0, 0);
        }
    }

    /**
     * What a wheel has done; exact when nobody uses it. The members are those of
     * {@code struct hwheel_stats}.
     */
    public record Stats(
            long live, long fired, long missed, long unclaimed, long sweeps, long wakeups,
            long kicks, long pushes, long repeats, long slabBytes, long armed, long rearmed,
            long quiet, long cancelled, long drained, long pending, long entries, long dead,
            long queued, long[] lateness, long dropped) {
        private static final int LATENESS = 40;
        private static final int BYTES = 168 + 8 * LATENESS;

        private static Stats read(ByteBuffer s) {
            s.position(8);
            return new Stats(
                    s.getLong(), s.getLong(), s.getLong(), s.getLong(), s.getLong(), s.getLong(),
                    s.getLong(), s.getLong(), s.getLong(), s.getLong(), s.getLong(), s.getLong(),
                    s.getLong(), s.getLong(), s.getLong(), s.getLong(), s.getLong(), s.getLong(),
                    s.getLong(), readLateness(s), s.getLong());
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
        o.putInt(o.capacity()).putInt(options.clock.ordinal()).putLong(options.tickNs)
                .putInt(options.levels).putInt(options.slots).putInt(options.maxTimers).putInt(0)
                .putLong(options.startNs);
        long[] out = new long[1];
        check(Library.hwheel_create(o.rewind(), 0, out));
        wheel = out[0];
    }

    /** Frees the wheel; what is armed does not fire. */
    @Override
    public void close() {
        check(Library.hwheel_destroy(wheel));
        wheel = 0;
    }

    /** The version of the library that is loaded. */
    public static String version() {
        return Library.hwheel_version_string();
    }

    /** The time on the wheel's clock. */
    public long now() {
        long[] out = new long[1];
        check(Library.hwheel_now(wheel, out));
        return out[0];
    }

    /** When the wheel wants to be driven next; NEVER if nothing is armed. */
    public long nextExpiry() {
        long[] out = {NEVER};
        check(Library.hwheel_next_expiry(wheel, out));
        return out[0];
    }

    /** What the wheel has done so far. */
    public Stats stats() {
        ByteBuffer s = struct(Stats.BYTES);
        s.putInt(0, s.capacity());
        check(Library.hwheel_get_stats(wheel, s));
        return Stats.read(s);
    }

    // Timers that free themselves when they have fired for the last time.

    /** Fires once after a delay. Returns the timer. */
    public long after(long delayNs, long cookie) {
        long[] out = new long[1];
        check(Library.hwheel_after(wheel, delayNs, NO_FUNCTION, cookie, 0, out));
        return out[0];
    }

    /** Fires once at a deadline on the wheel's clock. Returns the timer. */
    public long at(long deadlineNs, long cookie) {
        long[] out = new long[1];
        check(Library.hwheel_at(wheel, deadlineNs, NO_FUNCTION, cookie, 0, out));
        return out[0];
    }

    /** Fires again and again. Flags: ABSTIME, MISSED_BURST, MISSED_DELAY. */
    public long every(long firstNs, long periodNs, long cookie, int flags) {
        long[] out = new long[1];
        check(Library.hwheel_every(wheel, firstNs, periodNs, NO_FUNCTION, cookie, flags, out));
        return out[0];
    }

    // Timers to arm again and again.

    /** A timer that is not armed and lives until {@link #free}. */
    public long setup(long cookie) {
        long[] out = new long[1];
        check(Library.hwheel_setup(wheel, NO_FUNCTION, cookie, 0, out));
        return out[0];
    }

    /** Arms a timer, or moves it. True if it was armed. */
    public boolean mod(long timer, long delayNs) {
        return check(Library.hwheel_mod(wheel, timer, delayNs, 0)) == 1;
    }

    /** As mod, to a deadline; the clock is not read. */
    public boolean modAt(long timer, long deadlineNs) {
        return check(Library.hwheel_mod_at(wheel, timer, deadlineNs, 0)) == 1;
    }

    /** As mod, but only to an earlier deadline. */
    public boolean reduce(long timer, long delayNs) {
        return check(Library.hwheel_reduce(wheel, timer, delayNs, 0)) == 1;
    }

    /** As mod, but only if the timer is armed. */
    public boolean modPending(long timer, long delayNs) {
        return check(Library.hwheel_mod_pending(wheel, timer, delayNs, 0)) == 1;
    }

    /**
     * Cancels a timer. True if it was armed and will not fire. False, or
     * ESTALE: too late, its event has been handed over.
     */
    public boolean delete(long timer) {
        return check(Library.hwheel_delete(wheel, timer)) == 1;
    }

    /** As delete, and arming it again is ESHUTDOWN. */
    public boolean shutdown(long timer) {
        return check(Library.hwheel_shutdown(wheel, timer)) == 1;
    }

    /** As delete, and the timer is no more. */
    public boolean free(long timer) {
        return check(Library.hwheel_free(wheel, timer)) == 1;
    }

    /** Whether a timer is armed. */
    public boolean pending(long timer) {
        return check(Library.hwheel_pending(wheel, timer)) == 1;
    }

    /** Nanoseconds to a timer's deadline; NEVER also if it is not armed. */
    public long remaining(long timer) {
        long[] out = {NEVER};
        check(Library.hwheel_remaining(wheel, timer, out));
        return out[0];
    }

    // Timers by name: any 1 to 255 bytes, or a number. They fire once, and the
    // timer of their event is 0.

    /** Gives a key a timer. True if its pending timer was replaced, and does not fire. */
    public boolean keySet(byte[] key, long delayNs, long cookie) {
        return check(Library.hwheel_key_set(wheel, key, key.length, delayNs, NO_FUNCTION, cookie, 0)) == 1;
    }

    /** The same for a number. */
    public boolean keySet(long key, long delayNs, long cookie) {
        return check(Library.hwheel_id_set(wheel, key, delayNs, NO_FUNCTION, cookie, 0)) == 1;
    }

    /** Moves the pending timer of a key, which keeps its cookie. False if it has none. */
    public boolean keyMove(byte[] key, long delayNs) {
        return check(Library.hwheel_key_move(wheel, key, key.length, delayNs, 0)) == 1;
    }

    /** The same for a number. */
    public boolean keyMove(long key, long delayNs) {
        return check(Library.hwheel_id_move(wheel, key, delayNs, 0)) == 1;
    }

    /** Cancels the pending timer of a key. False if it has none, or not any more. */
    public boolean keyDelete(byte[] key) {
        return check(Library.hwheel_key_delete(wheel, key, key.length)) == 1;
    }

    /** The same for a number. */
    public boolean keyDelete(long key) {
        return check(Library.hwheel_id_delete(wheel, key)) == 1;
    }

    /** Whether a key has a pending timer. */
    public boolean keyPending(byte[] key) {
        return check(Library.hwheel_key_pending(wheel, key, key.length)) == 1;
    }

    /** The same for a number. */
    public boolean keyPending(long key) {
        return check(Library.hwheel_id_pending(wheel, key)) == 1;
    }

    // Drive.

    /**
     * Fetches what is due, in the order of the ticks, and returns how many. A
     * full batch means that there may be more.
     */
    public int poll(Events events) {
        return check(Library.hwheel_poll(wheel, events.buffer, events.room()));
    }

    /** As poll, for a manual clock that is moved to a time. */
    public int advance(long nowNs, Events events) {
        return check(Library.hwheel_advance(wheel, nowNs, events.buffer, events.room()));
    }

    /** Shuts the wheel down and fetches the timers that were armed. */
    public int drain(Events events) {
        return check(Library.hwheel_drain(wheel, events.buffer, events.room()));
    }

    /**
     * A descriptor that is readable when a timer is due; not to be read or
     * closed. It may be readable with nothing due.
     */
    public int fd() {
        return check(Library.hwheel_fd(wheel));
    }

    /**
     * Blocks until the descriptor is readable, or for so many milliseconds; -1
     * is no limit. Wakes when another thread arms an earlier timer.
     */
    public boolean await(int timeoutMs) {
        return Descriptor.await(fd(), timeoutMs);
    }

    private static ByteBuffer struct(int bytes) {
        return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
    }
}
