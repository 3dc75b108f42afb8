package hwheel.netty;

import hwheel.HwheelException;
import hwheel.Timers;
import hwheel.Wheel;
import io.netty.util.Timeout;
import io.netty.util.Timer;
import io.netty.util.TimerTask;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * Netty's timer over a wheel, in place of {@code HashedWheelTimer}. As there, one thread
 * runs all tasks, a delay of zero or less is over at once, and {@link #stop} returns what
 * has not run. The thread sleeps until a timeout is due; there is no tick to wake for.
 */
public final class WheelTimer implements Timer {
    private final Timers timers;

    /** A timer with the library's defaults. */
    public WheelTimer() {
        this(new Wheel.Options(Wheel.Clock.MONOTONIC));
    }

    /**
     * A timer on a wheel that is made with these options. More pending timeouts than their
     * {@code maxTimers} are a {@link RejectedExecutionException}.
     */
    public WheelTimer(Wheel.Options options) {
        timers = new Timers(options, Runnable::run);
    }

    @Override
    public Timeout newTimeout(TimerTask task, long delay, TimeUnit unit) {
        Objects.requireNonNull(task, "task");
        Objects.requireNonNull(unit, "unit");
        try {
            return timers.arm(new Entry(this, task), Math.max(0, unit.toNanos(delay)));
        } catch (HwheelException e) {
            if (e.errno() == HwheelException.ENOSPC) {
                throw new RejectedExecutionException(e.getMessage(), e);
            }
            throw e;
        } catch (IllegalStateException e) {
            throw new IllegalStateException("the timer is stopped", e);
        }
    }

    /**
     * Ends the thread, which it interrupts, and cancels and returns the timeouts that are
     * pending.
     */
    @Override
    public Set<Timeout> stop() {
        if (Thread.currentThread() == timers.driver()) {
            throw new IllegalStateException("a task of the timer cannot stop it");
        }
        Set<Timeout> unprocessed = new HashSet<>();
        timers.stop().forEach(task -> unprocessed.add((Entry) task));
        boolean interrupted = false;
        while (timers.driver().isAlive()) {
            timers.driver().interrupt(); // A task may wait for something.
            try {
                timers.driver().join(100);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        return unprocessed;
    }

    /** The number of timeouts that are pending. */
    public long pendingTimeouts() {
        return timers.pending();
    }

    private static final class Entry extends Timers.Task implements Timeout {
        private final WheelTimer timer;
        private final TimerTask task;

        Entry(WheelTimer timer, TimerTask task) {
            this.timer = timer;
            this.task = task;
        }

        @Override
        protected void run() {
            try {
                task.run(this);
            } catch (Exception e) {
                throw new IllegalStateException("exception in " + task, e);
            }
        }

        @Override
        public Timer timer() {
            return timer;
        }

        @Override
        public TimerTask task() {
            return task;
        }
    }
}
