package io.github.hwheel;

import java.util.AbstractQueue;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Delayed;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionHandler;
import java.util.concurrent.RunnableScheduledFuture;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;
import java.util.function.Supplier;

/**
 * A pool of threads that runs tasks later, as
 * {@link java.util.concurrent.ScheduledThreadPoolExecutor} does, with a wheel in place of
 * its heap. Tasks run in the order of their ticks.
 *
 * <p>The methods keep the contracts of that class: fixed rates and delays, the two policies
 * of {@link #shutdown}, rejected tasks. A task whose time has passed runs as soon as a
 * thread is free, and a delay of more than 292 years counts as 292 years. These differ: a
 * task that is cancelled while it waits for its time leaves the queue at once, and the pool
 * has at least one core thread. {@link #shutdown} also ends the thread that drives the
 * wheel, when the last task has run.
 */
public class WheelExecutor extends ThreadPoolExecutor implements ScheduledExecutorService {
    private final Queue queue;
    private final Timers timers;
    private final AtomicLong sequence = new AtomicLong();
    private volatile boolean keepDelayed = true;
    private volatile boolean keepPeriodic;
    private volatile boolean stopped;

    /**
     * A pool on a wheel with the library's defaults.
     *
     * @param corePoolSize the number of threads
     */
    public WheelExecutor(int corePoolSize) {
        this(corePoolSize, Executors.defaultThreadFactory());
    }

    /**
     * The same, with the threads of a factory.
     *
     * @param corePoolSize the number of threads
     * @param threads makes them
     */
    public WheelExecutor(int corePoolSize, ThreadFactory threads) {
        this(corePoolSize, threads, new AbortPolicy());
    }

    /**
     * The same, with a handler of the tasks that come after {@link #shutdown}.
     *
     * @param corePoolSize the number of threads
     * @param handler the handler
     */
    public WheelExecutor(int corePoolSize, RejectedExecutionHandler handler) {
        this(corePoolSize, Executors.defaultThreadFactory(), handler);
    }

    /**
     * The same, with the threads of a factory and a handler.
     *
     * @param corePoolSize the number of threads
     * @param threads makes them
     * @param handler gets the tasks that come after {@link #shutdown}
     */
    public WheelExecutor(
            int corePoolSize, ThreadFactory threads, RejectedExecutionHandler handler) {
        this(corePoolSize, threads, handler, new Wheel.Options(Wheel.Clock.MONOTONIC));
    }

    /**
     * The same, on a wheel that is made with options.
     *
     * @param corePoolSize the number of threads
     * @param threads makes them
     * @param handler gets the tasks that come after {@link #shutdown}
     * @param options the options, as those of {@link Timers}
     */
    public WheelExecutor(int corePoolSize, ThreadFactory threads,
            RejectedExecutionHandler handler, Wheel.Options options) {
        this(atLeastOne(corePoolSize), threads, handler, options, new Queue());
    }

    private WheelExecutor(int corePoolSize, ThreadFactory threads,
            RejectedExecutionHandler handler, Wheel.Options options, Queue queue) {
        super(corePoolSize, Integer.MAX_VALUE, 10, TimeUnit.MILLISECONDS, queue, threads,
                handler);
        this.queue = queue;
        timers = new Timers(options, Runnable::run, Timers::daemon, true);
        queue.timers = timers;
    }

    private static int atLeastOne(int corePoolSize) {
        if (corePoolSize < 1) {
            throw new IllegalArgumentException("no core thread: " + corePoolSize);
        }
        return corePoolSize;
    }

    @Override
    public void setCorePoolSize(int corePoolSize) {
        super.setCorePoolSize(atLeastOne(corePoolSize));
    }

    // Tasks.

    /**
     * Modifies or replaces the task of a {@link Runnable}, as the method of
     * {@link java.util.concurrent.ScheduledThreadPoolExecutor} does. This one returns the task.
     *
     * @param run the function that was submitted
     * @param task the task that runs it
     * @param <V> the type of its result
     * @return the task that the pool runs
     */
    protected <V> RunnableScheduledFuture<V> decorateTask(
            Runnable run, RunnableScheduledFuture<V> task) {
        return task;
    }

    /**
     * Modifies or replaces the task of a {@link Callable}, as the method of
     * {@link java.util.concurrent.ScheduledThreadPoolExecutor} does. This one returns the task.
     *
     * @param call the function that was submitted
     * @param task the task that calls it
     * @param <V> the type of its result
     * @return the task that the pool runs
     */
    protected <V> RunnableScheduledFuture<V> decorateTask(
            Callable<V> call, RunnableScheduledFuture<V> task) {
        return task;
    }

    @Override
    public ScheduledFuture<?> schedule(Runnable task, long delay, TimeUnit unit) {
        Objects.requireNonNull(task);
        return later(task, null, delay, unit, 0);
    }

    @Override
    public <V> ScheduledFuture<V> schedule(Callable<V> task, long delay, TimeUnit unit) {
        Objects.requireNonNull(task);
        Scheduled<V> inner = new Scheduled<>(task, delay, unit, 0);
        return later(inner, decorateTask(task, inner));
    }

    @Override
    public ScheduledFuture<?> scheduleAtFixedRate(
            Runnable task, long initialDelay, long period, TimeUnit unit) {
        return later(periodic(task, period), null, initialDelay, unit, unit.toNanos(period));
    }

    @Override
    public ScheduledFuture<?> scheduleWithFixedDelay(
            Runnable task, long initialDelay, long delay, TimeUnit unit) {
        return later(periodic(task, delay), null, initialDelay, unit, -unit.toNanos(delay));
    }

    private static Runnable periodic(Runnable task, long period) {
        Objects.requireNonNull(task);
        if (period <= 0) {
            throw new IllegalArgumentException("not a period: " + period);
        }
        return task;
    }

    @Override
    public void execute(Runnable task) {
        schedule(task, 0, TimeUnit.NANOSECONDS);
    }

    @Override
    public Future<?> submit(Runnable task) {
        return schedule(task, 0, TimeUnit.NANOSECONDS);
    }

    @Override
    public <T> Future<T> submit(Runnable task, T result) {
        Objects.requireNonNull(task);
        return later(task, result, 0, TimeUnit.NANOSECONDS, 0);
    }

    @Override
    public <T> Future<T> submit(Callable<T> task) {
        return schedule(task, 0, TimeUnit.NANOSECONDS);
    }

    private <V> RunnableScheduledFuture<V> later(
            Runnable task, V result, long delay, TimeUnit unit, long periodNs) {
        Scheduled<V> inner =
                new Scheduled<>(Executors.callable(task, result), delay, unit, periodNs);
        return later(inner, decorateTask(task, inner));
    }

    /** The task is what decorateTask has made of the inner one, which it calls. */
    private <V> RunnableScheduledFuture<V> later(
            Scheduled<V> inner, RunnableScheduledFuture<V> task) {
        if (task != inner) {
            inner.outer = Objects.requireNonNull(task);
            queue.decorated.put(task, inner);
        }
        if (!isShutdown()) {
            try {
                enqueue(inner);
                return task;
            } catch (IllegalStateException e) {
                if (!isShutdown()) {
                    throw e;
                } // or the pool has ended meanwhile, and closed the wheel
            }
        }
        queue.decorated.remove(task, inner);
        getRejectedExecutionHandler().rejectedExecution(task, this);
        return task;
    }

    /** The pool may be shut down meanwhile, or the task cancelled: then it goes as it came. */
    private void enqueue(Scheduled<?> task) {
        queue.put(task.outer);
        if ((task.outer.isCancelled() || !mayRun(task)) && remove(task.outer)) {
            task.outer.cancel(false);
        } else {
            prestartCoreThread();
        }
    }

    private boolean mayRun(Scheduled<?> task) {
        return !isShutdown() || !stopped && (task.isPeriodic() ? keepPeriodic
                : keepDelayed || task.left() <= 0);
    }

    // The end.

    /**
     * Says whether periodic tasks go on after {@link #shutdown}; by default they do not.
     *
     * @param keep whether they do
     */
    public void setContinueExistingPeriodicTasksAfterShutdownPolicy(boolean keep) {
        keepPeriodic = keep;
        if (!keep && isShutdown()) {
            clear();
        }
    }

    /**
     * Whether periodic tasks go on after {@link #shutdown}.
     *
     * @return whether they do
     */
    public boolean getContinueExistingPeriodicTasksAfterShutdownPolicy() {
        return keepPeriodic;
    }

    /**
     * Says whether other tasks still run at their times after {@link #shutdown}; by default
     * they do.
     *
     * @param keep whether they do
     */
    public void setExecuteExistingDelayedTasksAfterShutdownPolicy(boolean keep) {
        keepDelayed = keep;
        if (!keep && isShutdown()) {
            clear();
        }
    }

    /**
     * Whether other tasks still run at their times after {@link #shutdown}.
     *
     * @return whether they do
     */
    public boolean getExecuteExistingDelayedTasksAfterShutdownPolicy() {
        return keepDelayed;
    }

    /**
     * Takes no task any more. The policies say which of the tasks that wait still run; the
     * others are cancelled.
     */
    @Override
    public void shutdown() {
        super.shutdown();
        clear();
    }

    /** Cancels what may not run after shutdown, and ends the pool if nothing is left. */
    private void clear() {
        for (Runnable each : queue) {
            Scheduled<?> task = queue.inner(each);
            if (task != null && (task.outer.isCancelled() || !mayRun(task))
                    && queue.remove(each)) {
                task.outer.cancel(false);
            }
        }
        super.shutdown(); // it looks again whether the queue is empty
    }

    /**
     * As shutdown, interrupts the threads, and returns the tasks that have not begun, each
     * a {@link ScheduledFuture}. They are not cancelled.
     */
    @Override
    public List<Runnable> shutdownNow() {
        stopped = true;
        return super.shutdownNow();
    }

    @Override
    protected void terminated() {
        timers.close();
        super.terminated();
    }

    /** Nanoseconds from now on the wheel's clock, for which 292 years is the longest time. */
    private long after(long now, long ns) {
        return ns < Wheel.NEVER - now ? now + Math.max(0, ns) : Wheel.NEVER;
    }

    /** A task. Its period is negative for a fixed delay, and 0 for a task that runs once. */
    private final class Scheduled<V> extends FutureTask<V>
            implements RunnableScheduledFuture<V> {
        private final long number = sequence.getAndIncrement();
        private final long periodNs;
        /** On the wheel's clock. */
        private volatile long timeNs;
        /** Waits in the wheel for the task. Null for a task that never had to wait. */
        private volatile Wait wait;
        /** What runs: this, or what decorateTask has made of it. */
        private RunnableScheduledFuture<V> outer = this;

        Scheduled(Callable<V> task, long delay, TimeUnit unit, long periodNs) {
            super(task);
            this.periodNs = periodNs;
            timeNs = after(timers.now(), unit.toNanos(delay));
        }

        long left() {
            return timeNs - timers.now();
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(left(), TimeUnit.NANOSECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            if (other instanceof Scheduled<?> task && task.timers() == timers) {
                int order = Long.compare(timeNs, task.timeNs);
                return order != 0 ? order : Long.compare(number, task.number);
            }
            return Long.compare(
                    getDelay(TimeUnit.NANOSECONDS), other.getDelay(TimeUnit.NANOSECONDS));
        }

        private Timers timers() {
            return timers;
        }

        @Override
        public boolean isPeriodic() {
            return periodNs != 0;
        }

        @Override
        public boolean cancel(boolean mayInterruptIfRunning) {
            boolean cancelled = super.cancel(mayInterruptIfRunning);
            Wait waiting = wait;
            if (cancelled && waiting != null && waiting.cancel() && isShutdown()) {
                WheelExecutor.this.remove(outer); // it looks whether the queue is empty
            }
            return cancelled;
        }

        @Override
        protected void done() {
            if (outer != this) {
                queue.decorated.remove(outer, this);
            }
        }

        @Override
        public void run() {
            if (!mayRun(this)) {
                cancel(false);
            } else if (!isPeriodic()) {
                super.run();
            } else if (super.runAndReset()) {
                timeNs = periodNs > 0 ? after(timeNs, periodNs) : after(timers.now(), -periodNs);
                again();
            }
        }

        private void again() {
            try {
                if (mayRun(this)) {
                    enqueue(this);
                } else {
                    cancel(false);
                }
            } catch (Throwable e) {
                setException(e); // no memory for its next time
            }
        }

        /** False if its time has passed. */
        boolean await() {
            long ns = left();
            if (ns <= 0) {
                return false;
            }
            Wait waiting = wait;
            if (waiting == null) {
                wait = waiting = new Wait(queue, this);
            }
            timers.arm(waiting, ns);
            return true;
        }
    }

    /** A task in the wheel. */
    private static final class Wait extends Timers.Task {
        private final Queue queue;
        private final WheelExecutor.Scheduled<?> task;

        Wait(Queue queue, WheelExecutor.Scheduled<?> task) {
            this.queue = queue;
            this.task = task;
        }

        @Override
        protected void run() {
            try {
                queue.due.add(task.outer);
            } catch (OutOfMemoryError e) {
                queue.timers.arm(this, 1_000_000); // it has a place there
            }
        }
    }

    /** The tasks whose time has come, which threads take, and those that wait for theirs. */
    private static final class Queue extends AbstractQueue<Runnable>
            implements BlockingQueue<Runnable> {
        private final LinkedBlockingQueue<Runnable> due = new LinkedBlockingQueue<>();
        /** The tasks that decorateTask has made, and those inside of them. */
        private final Map<Object, WheelExecutor.Scheduled<?>> decorated =
                new ConcurrentHashMap<>();
        private Timers timers;

        /** The task of the pool that a task of the queue is or runs. Null for another one. */
        private WheelExecutor.Scheduled<?> inner(Object task) {
            return task instanceof WheelExecutor.Scheduled<?> itself ? itself
                    : task == null ? null : decorated.get(task);
        }

        @Override
        public boolean offer(Runnable task) {
            WheelExecutor.Scheduled<?> later = inner(task);
            return later != null && later.await() || due.offer(task);
        }

        @Override
        public boolean offer(Runnable task, long timeout, TimeUnit unit) {
            return offer(task);
        }

        @Override
        public void put(Runnable task) {
            offer(task);
        }

        @Override
        public Runnable take() throws InterruptedException {
            return due.take();
        }

        @Override
        public Runnable poll(long timeout, TimeUnit unit) throws InterruptedException {
            return due.poll(timeout, unit);
        }

        @Override
        public Runnable poll() {
            return due.poll();
        }

        @Override
        public Runnable peek() {
            return due.peek();
        }

        @Override
        public int remainingCapacity() {
            return Integer.MAX_VALUE;
        }

        /**
         * A task is in the wheel, then on its way, then due, and this looks for it in this
         * order. A thread that finds the queue not empty sleeps until there is a task: so
         * there must be one.
         */
        @Override
        public boolean isEmpty() {
            if (timers.pending() != 0) {
                return false;
            }
            rest();
            return due.isEmpty();
        }

        /** Waits until what was on its way is due. */
        private void rest() {
            while ((timers.moves() & 1) != 0) {
                Thread.yield();
            }
        }

        @Override
        public int size() {
            return still(() -> (int) Math.min(Integer.MAX_VALUE, timers.pending() + due.size()),
                    size -> false);
        }

        @Override
        public boolean contains(Object task) {
            Wait wait = waitOf(task);
            return still(() -> wait != null && wait.isPending() || due.contains(task),
                    found -> found);
        }

        @Override
        public boolean remove(Object task) {
            Wait wait = waitOf(task);
            return still(() -> wait != null && wait.cancel() || due.remove(task),
                    removed -> removed);
        }

        private Wait waitOf(Object task) {
            WheelExecutor.Scheduled<?> later = inner(task);
            return later != null ? later.wait : null;
        }

        @Override
        public int drainTo(Collection<? super Runnable> tasks) {
            return drainTo(tasks, Integer.MAX_VALUE);
        }

        @Override
        public int drainTo(Collection<? super Runnable> tasks, int max) {
            int n = 0;
            for (Timers.Task each : timers.tasks()) {
                if (n < max && each.cancel()) {
                    tasks.add(((Wait) each).task.outer);
                    n++;
                }
            }
            rest();
            return n + due.drainTo(tasks, max - n);
        }

        /** Over a copy, for which the order is that of the times. */
        @Override
        public Iterator<Runnable> iterator() {
            List<Runnable> tasks = still(() -> {
                List<Runnable> waiting = new ArrayList<>();
                for (Timers.Task each : timers.tasks()) {
                    waiting.add(((Wait) each).task.outer);
                }
                waiting.sort((a, b) -> ((Delayed) a).compareTo((Delayed) b));
                List<Runnable> all = new ArrayList<>(due);
                all.addAll(waiting);
                return all;
            }, all -> false);
            Iterator<Runnable> each = tasks.iterator();
            return new Iterator<>() {
                private Runnable last;

                @Override
                public boolean hasNext() {
                    return each.hasNext();
                }

                @Override
                public Runnable next() {
                    return last = each.next();
                }

                @Override
                public void remove() {
                    if (last == null) {
                        throw new IllegalStateException();
                    }
                    Queue.this.remove(last);
                    last = null;
                }
            };
        }

        /**
         * Reads, again until the value is final or no task was on its way meanwhile from the
         * wheel to those that are due. On a wheel that never rests it gives up after a while.
         */
        private <T> T still(Supplier<T> read, Predicate<T> isFinal) {
            for (int i = 0; ; i++) {
                int moves = timers.moves();
                T value = read.get();
                if ((moves & 1) == 0 && moves == timers.moves() || i >= 1000
                        || isFinal.test(value)) {
                    return value;
                }
                Thread.onSpinWait();
            }
        }
    }
}
