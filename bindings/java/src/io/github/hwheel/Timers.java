package io.github.hwheel;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Tasks and futures over a wheel, which a daemon thread drives until {@link #close}. Any
 * thread may make any call at any time.
 *
 * <p>A delay of zero or less is over: a task runs at the next tick, and a future is
 * completed by the call itself. A delay of more than 292 years counts as 292 years, as in
 * the JDK. A closed wheel is an {@link IllegalStateException}, no room an
 * {@link HwheelException}.
 */
public final class Timers implements AutoCloseable {
    private static final int SHARDS = 8;
    private static final int BATCH = 1024;
    private static final Comparator<Task> BY_DEADLINE =
            Comparator.comparingLong(task -> task.deadlineNs);

    private final Wheel wheel;
    private final Executor executor;
    private final Thread driver;
    private final Shard[] shards = new Shard[SHARDS];
    /** Nanoseconds from System.nanoTime() to the wheel's clock. */
    private final long offset;
    /** A timer that is due before this crosses into C at once: a crossing may wait for a tick. */
    final long soonNs;
    private final int limit;
    private final AtomicInteger pending = new AtomicInteger();
    /** When it fires, changes cross into C. */
    private final long crossing;
    private volatile boolean planned;
    /** Room to sort the tasks of a batch by time; null if nobody asks for the order. */
    private final Task[] sorted;
    /** Odd while the driver moves tasks to the executor. Only the driver writes it. */
    private volatile int moves;

    /** A task that {@link #arm} runs later. Each arming of a task runs it once. */
    public abstract static class Task {
        enum State { NEW, PENDING, EXPIRED, CANCELLED }

        volatile Shard shard;
        volatile State state = State.NEW;
        long deadlineNs;
        int place;

        /** A task that no timers have armed yet. */
        protected Task() {}

        /** Called by the executor of the timers. */
        protected abstract void run();

        /**
         * Gives an exception to the handler that gets those of tasks. The task was armed
         * before.
         *
         * @param e the exception
         */
        protected final void report(Throwable e) {
            shard.timers.report(e);
        }

        /**
         * Cancels the task.
         *
         * @return whether it was pending; it does not run then
         */
        public boolean cancel() {
            Shard in = shard;
            return in != null && in.cancel(this);
        }

        /**
         * Whether the task is still to run.
         *
         * @return whether it is
         */
        public boolean isPending() {
            return state == State.PENDING;
        }

        /**
         * Whether the task has run, or is about to.
         *
         * @return whether it has
         */
        public boolean isExpired() {
            return state == State.EXPIRED;
        }

        /**
         * Whether the task was cancelled.
         *
         * @return whether it was
         */
        public boolean isCancelled() {
            return state == State.CANCELLED;
        }
    }

    /**
     * Timers on a wheel with the library's defaults. The common pool runs the tasks. If a
     * property leaves it without a thread, the default executor of
     * {@link CompletableFuture} does.
     */
    public Timers() {
        this(new Wheel.Options(Wheel.Clock.MONOTONIC), pool());
    }

    private static Executor pool() {
        boolean none = Integer.getInteger(
                "java.util.concurrent.ForkJoinPool.common.parallelism", 1) == 0;
        return none ? new CompletableFuture<Void>().defaultExecutor() : ForkJoinPool.commonPool();
    }

    /**
     * Timers on a wheel that is made with these options, whose clock must be MONOTONIC.
     * With {@code Runnable::run} as the executor the driving thread runs the tasks, which
     * must then be short. More pending tasks than {@code maxTimers} are ENOSPC.
     *
     * @param options the options of the wheel
     * @param executor runs the tasks
     */
    public Timers(Wheel.Options options, Executor executor) {
        this(options, executor, Timers::daemon);
    }

    /** A thread that keeps nothing of the thread that makes it. */
    static Thread daemon(Runnable run) {
        Thread thread = new Thread(null, run, "hwheel-timers", 0, false);
        thread.setDaemon(true);
        thread.setContextClassLoader(ClassLoader.getSystemClassLoader());
        return thread;
    }

    /**
     * The same, with a driver of another factory.
     *
     * @param options the options of the wheel
     * @param executor runs the tasks
     * @param threads makes the thread that drives the wheel
     */
    public Timers(Wheel.Options options, Executor executor, ThreadFactory threads) {
        this(options, executor, threads, false);
    }

    Timers(Wheel.Options options, Executor executor, ThreadFactory threads, boolean inOrder) {
        this.executor = Objects.requireNonNull(executor);
        Objects.requireNonNull(threads);
        if (options.clock() != Wheel.Clock.MONOTONIC) {
            throw new IllegalArgumentException("not the clock MONOTONIC: " + options.clock());
        }
        if (options.maxTimers() < 0) {
            throw new IllegalArgumentException("maxTimers is negative");
        }
        limit = options.maxTimers();
        sorted = inOrder ? new Task[BATCH] : null;
        // Places of cancelled tasks stay timers of C: the limit is of pending tasks.
        wheel = new Wheel(new Wheel.Options(
                options.clock(), options.tickNs(), options.levels(), options.slots(), 0, 0));
        offset = offset(wheel);
        soonNs = Shard.LATER_NS + Math.max(Shard.LATER_NS, options.tickNs());
        crossing = wheel.setup(cookie(0, SHARDS));
        for (int i = 0; i < SHARDS; i++) {
            shards[i] = new Shard(this, i);
        }
        Events events = new Events(BATCH); // here, where the caller learns that this fails
        driver = threads.newThread(() -> drive(events));
        if (driver == null) {
            wheel.close();
            throw new IllegalStateException("the factory makes no thread");
        }
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

    /**
     * The counts of the wheel.
     *
     * @return the counts
     */
    public Wheel.Stats stats() {
        return wheel.stats();
    }

    /**
     * The number of tasks that are pending.
     *
     * @return the number
     */
    public long pending() {
        long sum = 0;
        for (Shard shard : shards) {
            sum += shard.pending();
        }
        return sum;
    }

    /** The tasks that are pending. */
    List<Task> tasks() {
        List<Task> tasks = new ArrayList<>();
        for (Shard shard : shards) {
            shard.list(tasks);
        }
        return tasks;
    }

    /** Odd while the driver moves tasks to the executor, another number after each move. */
    int moves() {
        return moves;
    }

    /**
     * The thread that drives the wheel.
     *
     * @return the thread
     */
    public Thread driver() {
        return driver;
    }

    /**
     * Runs a task once, after a delay. It may be armed again afterwards.
     *
     * @param task the task
     * @param delay the delay
     * @param <T> its type
     * @return the task
     */
    public <T extends Task> T arm(T task, Duration delay) {
        return arm(task, nanoseconds(delay));
    }

    /**
     * Runs a task once, after a delay. It may be armed again afterwards.
     *
     * @param task the task
     * @param delayNs the delay in nanoseconds
     * @param <T> its type
     * @return the task
     */
    public <T extends Task> T arm(T task, long delayNs) {
        long ns = Math.max(0, delayNs);
        synchronized (task) {
            Shard shard = ((Task) task).shard;
            if (shard == null || shard.timers != this) {
                if (((Task) task).state == Task.State.PENDING) {
                    throw new IllegalStateException("the task is pending on another wheel");
                }
                shard = shards[(int) Thread.currentThread().getId() & SHARDS - 1];
            }
            shard.arm(task, ns);
        }
        return task;
    }

    /**
     * Runs a function once, after a delay.
     *
     * @param run the function
     * @param delay the delay
     * @return a task, to cancel it
     */
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
     *
     * @param delay the delay
     * @return the future
     */
    public CompletableFuture<Void> delay(Duration delay) {
        long ns = nanoseconds(delay);
        Delay task = new Delay();
        if (ns == 0) {
            open();
            task.future.complete(null);
            return task.future;
        }
        arm(task, ns);
        task.future.whenComplete((value, error) -> task.cancel());
        return task.future;
    }

    /**
     * Ends a future, on the driver. So a future ends on time whatever the executor does,
     * and its dependent stages run on the driver, as on the one of the JDK.
     */
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
     * delay is over, as {@link CompletableFuture#orTimeout}.
     *
     * @param future the future
     * @param delay the delay
     * @param <T> the type of its value
     * @return the future
     */
    public <T> CompletableFuture<T> orTimeout(CompletableFuture<T> future, Duration delay) {
        return end(future, delay, () -> future.completeExceptionally(new TimeoutException()));
    }

    /**
     * Completes a future with a value if it is not completed before the delay is over, as
     * {@link CompletableFuture#completeOnTimeout}.
     *
     * @param future the future
     * @param value the value
     * @param delay the delay
     * @param <T> the type of its value
     * @return the future
     */
    public <T> CompletableFuture<T> completeOnTimeout(
            CompletableFuture<T> future, T value, Duration delay) {
        return end(future, delay, () -> future.complete(value));
    }

    private <T> CompletableFuture<T> end(
            CompletableFuture<T> future, Duration delay, Runnable end) {
        long ns = nanoseconds(delay);
        if (future.isDone()) {
            return future;
        }
        if (ns == 0) {
            open();
            end.run();
            return future;
        }
        Task task = arm(new End() {
            @Override
            protected void run() {
                end.run();
            }
        }, ns);
        future.whenComplete((value, error) -> task.cancel());
        return future;
    }

    /**
     * An executor that passes each function on after a delay, as
     * {@link CompletableFuture#delayedExecutor}. The executor of these timers runs it.
     *
     * @param delay the delay
     * @return the executor
     */
    public Executor delayedExecutor(Duration delay) {
        return delayedExecutor(delay, executor);
    }

    /**
     * The same, for another executor.
     *
     * @param delay the delay
     * @param executor runs the functions
     * @return the executor
     */
    public Executor delayedExecutor(Duration delay, Executor executor) {
        long ns = nanoseconds(delay);
        Objects.requireNonNull(executor);
        return run -> {
            Objects.requireNonNull(run);
            arm(new Pass(executor, run), ns);
        };
    }

    /** Hands a function to an executor that is not the one of the timers. */
    private static final class Pass extends Task {
        private final Executor executor;
        private final Runnable run;

        Pass(Executor executor, Runnable run) {
            this.executor = executor;
            this.run = run;
        }

        @Override
        protected void run() {
            executor.execute(run);
        }
    }

    /** Zero for a time that has passed, and 292 years for a longer one. */
    private static long nanoseconds(Duration delay) {
        try {
            return Math.max(0, delay.toNanos());
        } catch (ArithmeticException e) {
            return delay.isNegative() ? 0 : Wheel.NEVER;
        }
    }

    private void open() {
        wheel.now(); // or throws
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

    /**
     * As close, and returns the tasks that were pending.
     *
     * @return the tasks
     */
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
                wheel.mod(crossing, 1_000_000);
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
                    wheel.await();
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
        if (sorted == null) {
            return fire(events, n, null);
        }
        moves++;
        try {
            return fire(events, n, sorted);
        } finally {
            moves++;
        }
    }

    private boolean fire(Events events, int n, Task[] batch) {
        boolean changed = false;
        int due = 0;
        long now = now();
        for (int i = 0; i < n; i++) {
            long cookie = events.cookie(i);
            int shard = (int) cookie & 15;
            if (shard < SHARDS) {
                Task task = shards[shard].fired((int) (cookie >> 4), now);
                if (task == null) {
                    continue;
                } else if (batch != null) {
                    batch[due++] = task;
                } else {
                    run(task);
                }
            } else if (shard == SHARDS) {
                changed = true;
            }
        }
        sort(batch, due);
        for (int i = 0; i < due; i++) {
            run(batch[i]);
            batch[i] = null;
        }
        return changed;
    }

    private static void sort(Task[] batch, int n) {
        try {
            if (n > 1) {
                Arrays.sort(batch, 0, n, BY_DEADLINE);
            }
        } catch (OutOfMemoryError e) {
            // They run in another order within their tick.
        }
    }

    /**
     * With classes that are loaded: without memory no other can be. Since Java 21 sleeping
     * itself takes memory.
     */
    private static void rest() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException e) {
            // Nothing waits for the driver to end but close.
        } catch (OutOfMemoryError e) {
            Thread.yield();
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
            if (task instanceof End || task instanceof Pass) {
                task.run();
            } else {
                executor.execute(task::run);
            }
        } catch (Throwable e) {
            report(e);
        }
        Thread.interrupted(); // The next task must not see it.
    }

    private void report(Throwable e) {
        try {
            driver.getUncaughtExceptionHandler().uncaughtException(driver, e);
        } catch (Throwable ignored) {
            // As the Java machine ignores what a handler throws.
        }
    }
}
