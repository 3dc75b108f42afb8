package io.github.hwheel;

import java.util.Arrays;
import java.util.List;

/**
 * A share of the tasks of {@link Timers}, so that threads seldom wait for each other. Each
 * place is a timer of C, which one task after the other owns.
 *
 * <p>To arm and to cancel changes memory of Java's. What has changed crosses into C with
 * other changes, at most a millisecond later; at once if it is due soon, or if the shard
 * has been quiet.
 */
final class Shard {
    /** The changes that cross at once. */
    private static final int GATHER = 256;
    /** The time until fewer cross, and since which a quiet shard has not changed. */
    static final long LATER_NS = 1_000_000;

    final Timers timers;
    private final int number;
    private Timers.Task[] tasks = new Timers.Task[16];
    private long[] handles = new long[16];
    private boolean[] changed = new boolean[16];
    /** A stack of places without a task. */
    private int[] free = new int[16];
    private int frees;
    private int used;
    private boolean closed;

    private final int[] changes = new int[GATHER];
    private int count;
    private long crossedAt;
    private final long[] armed = new long[GATHER];
    private final long[] times = new long[GATHER];
    private final int[] places = new int[GATHER];
    private final int[] results = new int[GATHER];
    private final long[] cancelled = new long[GATHER];

    Shard(Timers timers, int number) {
        this.timers = timers;
        this.number = number;
        crossedAt = timers.now() - LATER_NS;
    }

    /** The caller holds the lock of the task, so that no other shard arms it. */
    void arm(Timers.Task task, long ns) {
        long now = timers.now();
        synchronized (this) {
            if (closed) {
                throw new IllegalStateException("the wheel is closed");
            }
            if (task.state == Timers.Task.State.PENDING) {
                throw new IllegalStateException("the task is pending");
            }
            timers.count();
            int place;
            try {
                place = frees > 0 ? free[--frees] : fresh();
            } catch (Throwable e) {
                timers.uncount();
                throw e;
            }
            tasks[place] = task;
            task.shard = this;
            task.place = place;
            task.deadlineNs = ns < Wheel.NEVER - now ? now + ns : Wheel.NEVER;
            task.state = Timers.Task.State.PENDING;
            try {
                change(place, ns, now);
            } catch (Throwable e) {
                leave(task, Timers.Task.State.NEW);
                throw e;
            }
        }
    }

    synchronized boolean cancel(Timers.Task task) {
        // In this order: another shard may take over a task that is no longer pending.
        if (task.state != Timers.Task.State.PENDING || task.shard != this) {
            return false;
        }
        leave(task, Timers.Task.State.CANCELLED);
        change(task.place, Wheel.NEVER, count == 0 ? timers.now() : 0);
        return true;
    }

    /**
     * The task of an event. Null if there is no such place, or it has no task, or a later
     * one, which is not due yet.
     */
    synchronized Timers.Task fired(int place, long now) {
        Timers.Task task = place >= 0 && place < used ? tasks[place] : null;
        if (task == null || task.deadlineNs > now) {
            return null;
        }
        leave(task, Timers.Task.State.EXPIRED);
        return task;
    }

    synchronized void list(List<Timers.Task> pending) {
        for (int place = 0; place < used; place++) {
            if (tasks[place] != null) {
                pending.add(tasks[place]);
            }
        }
    }

    synchronized int pending() {
        return used - frees;
    }

    synchronized void close(List<Timers.Task> pending) {
        closed = true;
        count = 0;
        for (int place = 0; place < used; place++) {
            Timers.Task task = tasks[place];
            if (task != null) {
                leave(task, Timers.Task.State.CANCELLED);
                pending.add(task);
            }
        }
    }

    /**
     * Tells C what has changed. If this throws, as at the end of a thread's stack, the
     * changes wait for the next crossing.
     */
    synchronized void cross(long now) {
        if (closed) {
            return;
        }
        int arms = 0;
        int cancels = 0;
        for (int i = 0; i < count; i++) {
            int place = changes[i];
            Timers.Task task = tasks[place];
            if (task == null) {
                cancelled[cancels++] = handles[place];
            } else {
                places[arms] = place;
                armed[arms] = handles[place];
                times[arms++] = task.deadlineNs;
            }
        }
        timers.wheel().cancelFirst(cancels, cancelled);
        timers.wheel().armFirst(arms, armed, times, results);
        for (int i = 0; i < count; i++) {
            changed[changes[i]] = false;
        }
        count = 0;
        crossedAt = now;
        for (int i = 0; i < arms; i++) {
            if (results[i] < 0) { // no memory for now
                changed[places[i]] = true;
                changes[count++] = places[i];
            }
        }
        if (count > 0) {
            timers.plan();
        }
    }

    private void change(int place, long ns, long now) {
        if (closed) {
            return;
        }
        if (!changed[place]) {
            if (count == GATHER) { // They have not crossed.
                cross(timers.now());
            }
            if (count == GATHER) {
                throw new HwheelException(HwheelException.ENOMEM);
            }
            changed[place] = true;
            changes[count++] = place;
        }
        if (ns < timers.soonNs || count == GATHER || count == 1 && now - crossedAt > LATER_NS) {
            cross(now == 0 ? timers.now() : now);
        } else {
            timers.plan();
        }
    }

    private void leave(Timers.Task task, Timers.Task.State state) {
        task.state = state;
        tasks[task.place] = null;
        free[frees++] = task.place;
        timers.uncount();
    }

    private int fresh() {
        if (used == tasks.length) {
            Timers.Task[] moreTasks = Arrays.copyOf(tasks, 2 * used);
            long[] moreHandles = Arrays.copyOf(handles, 2 * used);
            boolean[] moreChanged = Arrays.copyOf(changed, 2 * used);
            free = Arrays.copyOf(free, 2 * used);
            tasks = moreTasks;
            handles = moreHandles;
            changed = moreChanged;
        }
        handles[used] = timers.wheel().setup(Timers.cookie(used, number));
        return used++;
    }
}
