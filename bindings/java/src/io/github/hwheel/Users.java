package io.github.hwheel;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Counts the calls that are inside a wheel, so that whoever leaves last after close frees
 * it. There are several entrances, so that threads on different processors do not write
 * to one cache line.
 */
final class Users {
    /** A power of two. */
    private static final int ENTRANCES = 8;
    /** Longs from one entrance to the next: a cache line. */
    private static final int STEP = 8;
    /** Added to the number of calls inside: no more come in. */
    private static final long SHUT = Long.MIN_VALUE;
    /** Shut, and counted by {@link #pass}. */
    private static final long PASSED = SHUT / 2;

    private final AtomicLongArray inside = new AtomicLongArray(STEP * (ENTRANCES + 1));
    private final AtomicInteger left = new AtomicInteger(ENTRANCES);
    private final Runnable free;

    Users(Runnable free) {
        this.free = free;
    }

    /** Returns the entrance, for {@link #leave}. */
    int enter() {
        int entrance = STEP * (1 + ((int) Thread.currentThread().getId() & ENTRANCES - 1));
        if (inside.incrementAndGet(entrance) < 0) {
            leave(entrance);
            throw new IllegalStateException("the wheel is closed");
        }
        return entrance;
    }

    void leave(int entrance) {
        if (inside.decrementAndGet(entrance) == SHUT) {
            pass(entrance);
        }
    }

    /** Shuts every entrance. Called once. */
    void shut() {
        for (int entrance = STEP; entrance < inside.length(); entrance += STEP) {
            if (inside.addAndGet(entrance, SHUT) == SHUT) {
                pass(entrance);
            }
        }
    }

    /** Counts an entrance that is shut and empty, once. */
    private void pass(int entrance) {
        if (inside.compareAndSet(entrance, SHUT, PASSED) && left.decrementAndGet() == 0) {
            free.run();
        }
    }
}
