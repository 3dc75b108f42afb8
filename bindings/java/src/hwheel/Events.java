package hwheel;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Room for a batch of events, outside of Java's heap. What is in it is what the
 * last {@code poll}, {@code advance} or {@code drain} has written.
 */
public final class Events {
    /** Flag of an event that {@link Wheel#drain} has handed back. */
    public static final int DRAINED = 1;

    /** The bytes of an event: timer, cookie, deadline, missed, flags. */
    public static final int SIZE = 32;

    final ByteBuffer buffer;

    /** Room for so many events, at least 1. */
    public Events(int room) {
        if (room < 1) {
            throw new IllegalArgumentException("room must be at least 1");
        }
        buffer = ByteBuffer.allocateDirect(Math.multiplyExact(room, SIZE))
                .order(ByteOrder.nativeOrder());
    }

    /** How many events there is room for. */
    public int room() {
        return buffer.capacity() / SIZE;
    }

    /** The timer of event i: stale already, if it was one that frees itself. */
    public long timer(int i) {
        return buffer.getLong(i * SIZE);
    }

    /** The cookie of event i. */
    public long cookie(int i) {
        return buffer.getLong(i * SIZE + 8);
    }

    /** When event i was due, in unsigned nanoseconds on the wheel's clock. */
    public long deadlineNs(int i) {
        return buffer.getLong(i * SIZE + 16);
    }

    /** How many periods after event i were left out. */
    public int missed(int i) {
        return buffer.getInt(i * SIZE + 24);
    }

    /** {@link #DRAINED} or 0. */
    public int flags(int i) {
        return buffer.getInt(i * SIZE + 28);
    }
}
