package io.github.hwheel.netty;

import io.github.hwheel.HwheelException;
import io.github.hwheel.Timers;
import io.github.hwheel.Wheel;
import io.netty.util.Timeout;
import io.netty.util.Timer;
import io.netty.util.TimerTask;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/**
 * Netty's timer over a wheel, in place of {@code HashedWheelTimer}. As there, one thread
 * runs all tasks, a task with a delay of zero or less runs at the next tick, a delay of
 * more than 292 years counts as 292 years, and {@link #stop} returns what has not run. The
 * thread sleeps until a timeout is due; there is no tick to wake for.
 */
public final class WheelTimer implements Timer {
    /** Null before Netty 4.2, whose tasks have no such method. */
    private static final MethodHandle CANCELLED = cancelled();

    private final Timers timers;

    private static MethodHandle cancelled() {
        try {
            return MethodHandles.publicLookup().findVirtual(TimerTask.class, "cancelled",
                    MethodType.methodType(void.class, Timeout.class));
        } catch (ReflectiveOperationException e) {
            return null;
        }
    }

    /** A timer with the library's defaults. */
    public WheelTimer() {
        this(new Wheel.Options(Wheel.Clock.MONOTONIC));
    }

    /**
     * A timer on a wheel that is made with these options. More pending timeouts than their
     * {@code maxTimers} are a {@link RejectedExecutionException}.
     *
     * @param options the options of the wheel
     */
    public WheelTimer(Wheel.Options options) {
        timers = new Timers(options, Runnable::run);
    }

    /**
     * The same, with a thread of a factory, and an executor that runs the tasks.
     *
     * @param options the options of the wheel
     * @param threads makes the thread that drives the wheel
     * @param executor runs the tasks
     */
    public WheelTimer(Wheel.Options options, ThreadFactory threads, Executor executor) {
        timers = new Timers(options, executor, threads);
    }

    @Override
    public Timeout newTimeout(TimerTask task, long delay, TimeUnit unit) {
        Objects.requireNonNull(task, "task");
        Objects.requireNonNull(unit, "unit");
        try {
            return timers.arm(new Entry(this, task), unit.toNanos(delay));
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

    /**
     * The number of timeouts that are pending.
     *
     * @return the number
     */
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

        /** Calls {@code cancelled} of the task in this thread, if the timeout was pending. */
        @Override
        public boolean cancel() {
            if (!super.cancel()) {
                return false;
            }
            try {
                if (CANCELLED != null) {
                    CANCELLED.invokeExact(task, (Timeout) this);
                }
            } catch (Throwable e) {
                report(e);
            }
            return true;
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
