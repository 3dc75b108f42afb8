package hwheel;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Tasks and futures over a wheel, which a daemon thread drives until {@link #close}. Any
 * thread may make any call at any time.
 *
 * <p>A negative delay is an {@link IllegalArgumentException}, a closed wheel an
 * {@link IllegalStateException}, and no room an {@link HwheelException}.
 */
public final class Timers implements AutoCloseable {
    private static final int SHARDS = 8;

    private final Wheel wheel;
    private final Executor executor;
    private final Thread driver;
    private final Shard[] shards = new Shard[SHARDS];
    /** Nanoseconds from System.nanoTime() to the wheel's clock. */
    private final long offset;
    /** What is due before this crosses into C at once: a crossing may wait for a tick. */
    final long soonNs;
    private final int limit;
    private final AtomicInteger pending = new AtomicInteger();
    /** When it fires, changes cross into C. */
    private final long crossing;
    private volatile boolean planned;

    /** What {@link #arm} runs later. Each arming of a task runs it once. */
    public abstract static class Task {
        enum State { NEW, PENDING, EXPIRED, CANCELLED }

        volatile Shard shard;
        volatile State state = State.NEW;
        long deadlineNs;
        int place;

        /** Called by the executor of the timers. */
        protected abstract void run();

        /** True if the task was pending; it does not run then. */
        public boolean cancel() {
            Shard in = shard;
            return in != null && in.cancel(this);
        }

        /** Whether the task is still to run. */
        public boolean isPending() {
            return state == State.PENDING;
        }

        /** Whether the task has run, or is about to. */
        public boolean isExpired() {
            return state == State.EXPIRED;
        }

        /** Whether the task was cancelled. */
        public boolean isCancelled() {
            return state == State.CANCELLED;
        }
    }

    /** Timers on a wheel with the library's defaults; the common pool runs the tasks. */
    public Timers() {
        this(new Wheel.Options(Wheel.Clock.MONOTONIC), ForkJoinPool.commonPool());
    }

    /**
     * Timers on a wheel that is made with these options, whose clock must be MONOTONIC.
     * With {@code Runnable::run} as the executor the driving thread runs the tasks, which
     * must then be short. More pending tasks than {@code maxTimers} are ENOSPC.
     */
    public Timers(Wheel.Options options, Executor executor) {
        this.executor = Objects.requireNonNull(executor);
        if (options.clock() != Wheel.Clock.MONOTONIC) {
            throw new IllegalArgumentException("not the clock MONOTONIC: " + options.clock());
        }
        if (options.maxTimers() < 0) {
            throw new IllegalArgumentException("maxTimers is negative");
        }
        limit = options.maxTimers();
        // Places of cancelled tasks stay timers of C: the limit is of pending tasks.
        wheel = new Wheel(new Wheel.Options(
                options.clock(), options.tickNs(), options.levels(), options.slots(), 0, 0));
        offset = offset(wheel);
        soonNs = Shard.LATER_NS + Math.max(Shard.LATER_NS, options.tickNs());
        crossing = wheel.setup(cookie(0, SHARDS));
        for (int i = 0; i < SHARDS; i++) {
            shards[i] = new Shard(this, i);
        }
        Events events = new Events(1024); // here, where the caller learns that this fails
        driver = new Thread(() -> drive(events), "hwheel-timers");
        driver.setDaemon(true);
        driver.start();
    }

    /**
     * The smallest of several measurements. Each includes the time between the two
     * readings, which is milliseconds while the machine loads classes.
     */
    private static long offset(Wheel wheel) {
        long least = Long.MAX_VALUE;
        for (int i = 0; i < 8; i++) {
            long begin = System.nanoTime();
            least = Math.min(least, wheel.now() - begin);
        }
        return least;
    }

    Wheel wheel() {
        return wheel;
    }

    /** The counts of the wheel. */
    public Wheel.Stats stats() {
        return wheel.stats();
    }

    /** The number of tasks that are pending. */
    public long pending() {
        long sum = 0;
        for (Shard shard : shards) {
            sum += shard.pending();
        }
        return sum;
    }

    /** The thread that drives the wheel. */
    public Thread driver() {
        return driver;
    }

    /** Runs a task once, after a delay, and returns it; it may be armed again afterwards. */
    public <T extends Task> T arm(T task, Duration delay) {
        return arm(task, Wheel.nanoseconds(delay));
    }

    /** The same, in nanoseconds. */
    public <T extends Task> T arm(T task, long delayNs) {
        Wheel.time(delayNs);
        synchronized (task) {
            Shard shard = ((Task) task).shard;
            if (shard == null || shard.timers != this) {
                if (((Task) task).state == Task.State.PENDING) {
                    throw new IllegalStateException("the task is pending on another wheel");
                }
                shard = shards[(int) Thread.currentThread().getId() & SHARDS - 1];
            }
            shard.arm(task, delayNs);
        }
        return task;
    }

    /** Runs a function once, after a delay. */
    public Task schedule(Runnable run, Duration delay) {
        Objects.requireNonNull(run);
        return arm(new Task() {
            @Override
            protected void run() {
                run.run();
            }
        }, delay);
    }

    /**
     * A future that is completed with null after a delay, and is cancelled by
     * {@link #close}. To complete or to cancel it earlier frees its timer.
     */
    public CompletableFuture<Void> delay(Duration delay) {
        Delay task = new Delay();
        arm(task, delay);
        task.future.whenComplete((value, error) -> task.cancel());
        return task.future;
    }

    /** Ends a future: on the driver if the executor does not take it. */
    private abstract static class End extends Task {}

    private static final class Delay extends End {
        private final CompletableFuture<Void> future = new CompletableFuture<>();

        @Override
        protected void run() {
            future.complete(null);
        }
    }

    /**
     * Completes a future with a {@link TimeoutException} if it is not completed before the
     * delay is over, and returns that future, as {@link CompletableFuture#orTimeout}.
     */
    public <T> CompletableFuture<T> orTimeout(CompletableFuture<T> future, Duration delay) {
        return end(future, delay, () -> future.completeExceptionally(new TimeoutException()));
    }

    /**
     * Completes a future with a value if it is not completed before the delay is over, and
     * returns that future, as {@link CompletableFuture#completeOnTimeout}.
     */
    public <T> CompletableFuture<T> completeOnTimeout(
            CompletableFuture<T> future, T value, Duration delay) {
        return end(future, delay, () -> future.complete(value));
    }

    private <T> CompletableFuture<T> end(
            CompletableFuture<T> future, Duration delay, Runnable end) {
        if (future.isDone()) {
            Wheel.nanoseconds(delay);
            return future;
        }
        Task task = arm(new End() {
            @Override
            protected void run() {
                end.run();
            }
        }, delay);
        future.whenComplete((value, error) -> task.cancel());
        return future;
    }

    /**
     * Frees the wheel. What is pending does not run; a future of {@link #delay} is
     * cancelled. The second call does nothing.
     */
    @Override
    public void close() {
        for (Task task : stop()) {
            if (task instanceof Delay delay) {
                delay.future.completeExceptionally(new CancellationException("closed"));
            }
        }
    }

    /** As close, and returns the tasks that were pending. */
    public List<Task> stop() {
        List<Task> pending = new ArrayList<>();
        for (Shard shard : shards) {
            shard.close(pending);
        }
        wheel.close();
        return pending;
    }

    static long cookie(int place, int shard) {
        return (long) place << 4 | shard;
    }

    /** The time on the wheel's clock; at most some microseconds ahead, never behind. */
    long now() {
        return System.nanoTime() + offset;
    }

    /** Counts a task, if there is a limit. */
    void count() {
        if (limit > 0 && pending.incrementAndGet() > limit) {
            pending.decrementAndGet();
            throw new HwheelException(HwheelException.ENOSPC);
        }
    }

    void uncount() {
        if (limit > 0) {
            pending.decrementAndGet();
        }
    }

    /** Makes the driver tell C soon what has changed. */
    void plan() {
        if (!planned) {
            planned = true;
            try {
                wheel.mod(crossing, 1_000_000, 0);
            } catch (Throwable e) {
                planned = false;
                throw e;
            }
        }
    }

    private void drive(Events events) {
        boolean changed = false;
        while (true) {
            try {
                if (changed) {
                    cross(now());
                    changed = false;
                }
                int n = wheel.poll(events);
                changed = fire(events, n);
                if (n < events.room() && !changed) {
                    wheel.await(-1);
                }
            } catch (HwheelException | OutOfMemoryError e) {
                // No descriptor or no memory for now.
                rest();
            } catch (IllegalStateException e) {
                return; // The wheel is closed.
            }
        }
    }

    /** Runs the tasks of events, and returns whether to cross. */
    private boolean fire(Events events, int n) {
        boolean changed = false;
        long now = now();
        for (int i = 0; i < n; i++) {
            long cookie = events.cookie(i);
            int shard = (int) cookie & 15;
            if (shard < SHARDS) {
                Task task = shards[shard].fired((int) (cookie >> 4), now);
                if (task != null) {
                    run(task);
                    Thread.interrupted(); // The next task must not see it.
                }
            } else if (shard == SHARDS) {
                changed = true;
            }
        }
        return changed;
    }

    /** With classes that are loaded: without memory no other can be. */
    private static void rest() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException e) {
            // Nothing waits for the driver to end but close.
        }
    }

    private void cross(long now) {
        planned = false;
        for (Shard shard : shards) {
            shard.cross(now);
        }
    }

    /** An exception goes where those of a thread go, and the others run. */
    private void run(Task task) {
        try {
            try {
                executor.execute(task::run);
            } catch (Throwable e) {
                if (!(task instanceof End)) {
                    throw e;
                }
                task.run();
            }
        } catch (Throwable e) {
            report(e);
        }
    }

    private void report(Throwable e) {
        try {
            driver.getUncaughtExceptionHandler().uncaughtException(driver, e);
        } catch (Throwable ignored) {
            // As the Java machine ignores what a handler throws.
        }
    }
}
