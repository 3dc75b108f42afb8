package io.github.hwheel;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Objects;

/**
 * Room for a batch of events, outside of Java's heap. The last {@code poll},
 * {@code advance}, {@code drain} or {@code list} has written its contents.
 */
public final class Events {
    private static final int DRAINED = 1 << 8;
    private static final int LISTED = 1 << 9;
    /** The bytes of an event: timer, cookie, deadline, missed, flags. */
    private static final int SIZE = 32;

    final ByteBuffer buffer;

    /**
     * Makes room for events.
     *
     * @param room the number of events, at least 1
     */
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

    /**
     * The number of events that there is room for.
     *
     * @return the number
     */
    public int room() {
        return buffer.capacity() / SIZE;
    }

    /**
     * The timer of an event: stale already if the timer freed itself.
     *
     * @param i the number of the event, from 0 on
     * @return the timer
     */
    public long timer(int i) {
        return buffer.getLong(at(i));
    }

    /**
     * The cookie of an event.
     *
     * @param i the number of the event, from 0 on
     * @return the cookie
     */
    public long cookie(int i) {
        return buffer.getLong(at(i) + 8);
    }

    /**
     * The time for which an event was armed.
     *
     * @param i the number of the event, from 0 on
     * @return nanoseconds on the wheel's clock, or {@link Wheel#NEVER}
     */
    public long deadlineNs(int i) {
        return Wheel.fromC(buffer.getLong(at(i) + 16));
    }

    /**
     * The number of periods that an event left out.
     *
     * @param i the number of the event, from 0 on
     * @return the number of periods
     */
    public int missed(int i) {
        return buffer.getInt(at(i) + 24);
    }

    /**
     * Whether {@link Wheel#drain} has handed an event back.
     *
     * @param i the number of the event, from 0 on
     * @return whether it has
     */
    public boolean drained(int i) {
        return (buffer.getInt(at(i) + 28) & DRAINED) != 0;
    }

    /**
     * Whether {@link Wheel#list} shows an event.
     *
     * @param i the number of the event, from 0 on
     * @return whether it does
     */
    public boolean listed(int i) {
        return (buffer.getInt(at(i) + 28) & LISTED) != 0;
    }

    private int at(int i) {
        return Objects.checkIndex(i, room()) * SIZE;
    }
}
