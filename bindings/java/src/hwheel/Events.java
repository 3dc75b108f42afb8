package hwheel;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Objects;

/**
 * Room for a batch of events, outside of Java's heap. The last {@code poll},
 * {@code advance}, {@code drain} or {@code list} has written its contents.
 */
public final class Events {
    /** Flag of an event that {@link Wheel#drain} has handed back. */
    public static final int DRAINED = 1 << 8;

    /** Flag of an event that {@link Wheel#list} shows. */
    public static final int LISTED = 1 << 9;

    /** The bytes of an event: timer, cookie, deadline, missed, flags. */
    public static final int SIZE = 32;

    final ByteBuffer buffer;

    /** Makes room for this many events, at least 1. */
    public Events(int room) {
        if (room < 1) {
            throw new IllegalArgumentException("room must be at least 1");
        }
        if (room > Integer.MAX_VALUE / SIZE) {
            throw new IllegalArgumentException(
                    "room must be at most " + Integer.MAX_VALUE / SIZE);
        }
        buffer = ByteBuffer.allocateDirect(room * SIZE).order(ByteOrder.nativeOrder());
    }

    /** The number of events that there is room for. */
    public int room() {
        return buffer.capacity() / SIZE;
    }

    /** The timer of event i: stale already if the timer freed itself. */
    public long timer(int i) {
        return buffer.getLong(at(i));
    }

    /** The cookie of event i. */
    public long cookie(int i) {
        return buffer.getLong(at(i) + 8);
    }

    /** The time for which event i was armed, in nanoseconds on the wheel's clock. */
    public long deadlineNs(int i) {
        return Wheel.fromC(buffer.getLong(at(i) + 16));
    }

    /** The number of periods that event i left out. */
    public int missed(int i) {
        return buffer.getInt(at(i) + 24);
    }

    /** {@link #DRAINED}, {@link #LISTED} or 0. */
    public int flags(int i) {
        return buffer.getInt(at(i) + 28);
    }

    private int at(int i) {
        return Objects.checkIndex(i, room()) * SIZE;
    }
}
