import io.github.hwheel.Events;
import io.github.hwheel.HwheelException;
import io.github.hwheel.Timers;
import io.github.hwheel.Wheel;
import io.github.hwheel.Wheel.Clock;
import io.github.hwheel.Wheel.Options;
import io.github.hwheel.WheelExecutor;
import java.io.FileInputStream;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Delayed;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.RunnableScheduledFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** Tasks and futures. Each method is a test; main runs them all. */
class TimersTest {
    static final Duration MS = Duration.ofMillis(1);
    static final Duration HOUR = Duration.ofHours(1);
    static final Runnable NOTHING = () -> {};

    static void tasksRunOnceAndNeverEarly() throws Exception {
        try (Timers timers = new Timers()) {
            AtomicIntegerArray runs = new AtomicIntegerArray(2000);
            AtomicInteger early = new AtomicInteger();
            CountDownLatch all = new CountDownLatch(runs.length());
            for (int i = 0; i < runs.length(); i++) {
                int task = i;
                Duration delay = Duration.ofNanos(i % 50 * 500_000L);
                long begin = System.nanoTime();
                timers.schedule(() -> {
                    if (System.nanoTime() - begin < delay.toNanos()) {
                        early.incrementAndGet();
                    }
                    runs.incrementAndGet(task);
                    all.countDown();
                }, delay);
            }
            check(all.await(20, TimeUnit.SECONDS));
            Thread.sleep(30);
            for (int i = 0; i < runs.length(); i++) {
                WheelTest.equal(runs.get(i), 1);
            }
            WheelTest.equal(early.get(), 0);
        }
    }

    static void aTaskIsCancelledOrArmedAgain() throws Exception {
        try (Timers timers = new Timers(new Options(Clock.MONOTONIC), Runnable::run)) {
            AtomicInteger runs = new AtomicInteger();
            Timers.Task[] self = new Timers.Task[1];
            Timers.Task task = self[0] = new Timers.Task() {
                @Override
                protected void run() {
                    if (runs.incrementAndGet() < 5) {
                        timers.arm(self[0], MS);
                    }
                }
            };
            check(!task.cancel() && !task.isPending());
            timers.arm(task, HOUR);
            check(task.isPending());
            WheelTest.equal(WheelTest.thrown(IllegalStateException.class,
                    () -> timers.arm(task, MS)).getMessage(), "the task is pending");
            check(task.cancel() && !task.cancel() && task.isCancelled() && !task.isPending());
            timers.arm(task, MS);
            until(() -> runs.get() == 5);
            check(task.isExpired() && !task.cancel());
        }
    }

    /**
     * The first timers of a process run while the machine loads classes. If that makes the
     * clock late, the clock stays late. So one timer that is on time shows that the clock is
     * right. A busy machine may need some time for it.
     */
    static void theFirstTimersAreOnTime() throws Exception {
        try (Timers timers = new Timers(new Options(Clock.MONOTONIC), Runnable::run)) {
            long end = System.nanoTime() + 20_000_000_000L;
            long least;
            do {
                least = lateness(timers, MS.multipliedBy(5)).get();
            } while (least >= 3_000_000 && System.nanoTime() < end);
            check(least < 3_000_000);
        }
    }

    static void noTaskIsTwoTicksLate() throws Exception {
        // More than once, as the system may be late itself: by less than half of a long tick.
        long tick = 125_000_000;
        long worst;
        do {
            tick *= 2;
            worst = worstLateness(tick);
        } while (worst >= tick + tick / 2 && tick < 4_000_000_000L);
        check(worst < tick + tick / 2);
    }

    /** How late the latest of some tasks runs, which are spread over a tick of that length. */
    static long worstLateness(long tick) throws Exception {
        Options options = new Options(Clock.MONOTONIC).withTick(Duration.ofNanos(tick));
        try (Timers timers = new Timers(options, Runnable::run)) {
            List<CompletableFuture<Long>> all = new ArrayList<>();
            for (int i = 0; i < 80; i++) {
                all.add(lateness(timers, Duration.ofNanos(tick / 20 + i % 8 * (tick / 8))));
                Thread.sleep(i % 8 == 0 ? tick / 8_000_000 : 0);
            }
            long worst = 0;
            for (CompletableFuture<Long> one : all) {
                worst = Math.max(worst, one.get());
            }
            return worst;
        }
    }

    /** How late a task runs. */
    static CompletableFuture<Long> lateness(Timers timers, Duration delay) {
        CompletableFuture<Long> late = new CompletableFuture<>();
        long due = System.nanoTime() + delay.toNanos();
        timers.schedule(() -> late.complete(System.nanoTime() - due), delay);
        return late;
    }

    static void anInterruptIsForOneTask() throws Exception {
        try (Timers timers = new Timers(new Options(Clock.MONOTONIC), Runnable::run)) {
            timers.schedule(() -> Thread.currentThread().interrupt(), MS);
            CompletableFuture<Boolean> next = new CompletableFuture<>();
            timers.schedule(() -> next.complete(Thread.currentThread().isInterrupted()),
                    MS.multipliedBy(20));
            check(!next.get(20, TimeUnit.SECONDS));
        }
    }

    /** Neither one that refuses nor one whose threads all wait delays a future. */
    static void futuresEndWithoutTheExecutor() throws Exception {
        Executor[] bad = {task -> {
            throw new RejectedExecutionException();
        }, task -> {}};
        for (Executor executor : bad) {
            try (Timers timers = new Timers(new Options(Clock.MONOTONIC), executor)) {
                timers.driver().setUncaughtExceptionHandler((thread, error) -> {});
                timers.schedule(NOTHING, MS);
                timers.delay(MS).get(20, TimeUnit.SECONDS);
                timers.completeOnTimeout(new CompletableFuture<>(), 1, MS)
                        .get(20, TimeUnit.SECONDS);
                CompletableFuture<Void> late = timers.orTimeout(new CompletableFuture<>(), MS);
                until(late::isCompletedExceptionally);
                timers.delay(MS).get(20, TimeUnit.SECONDS);
            }
        }
    }

    /** In a process whose common pool has no threads. */
    static void tasksRunWithoutACommonPool() throws Exception {
        CountDownLatch never = new CountDownLatch(1);
        ForkJoinPool.commonPool().execute(never::countDown);
        check(Runtime.version().feature() > 17 || !never.await(50, TimeUnit.MILLISECONDS));
        try (Timers timers = new Timers()) {
            CountDownLatch runs = new CountDownLatch(2);
            timers.schedule(runs::countDown, MS);
            timers.delayedExecutor(MS).execute(runs::countDown);
            timers.delay(MS).get(20, TimeUnit.SECONDS);
            check(runs.await(20, TimeUnit.SECONDS));
        }
        System.out.println("no common pool: 1 test passed");
    }

    static void aTimeThatHasPassed() throws Exception {
        Duration[] passed = {Duration.ZERO, Duration.ofNanos(-1), Duration.ofDays(-365 * 400)};
        try (Timers timers = new Timers()) {
            for (Duration time : passed) {
                // A future is completed by the call.
                check(timers.delay(time).isDone());
                CompletableFuture<Integer> late = new CompletableFuture<>();
                check(timers.orTimeout(late, time) == late);
                WheelTest.equal(WheelTest.thrown(CompletionException.class, () -> late.getNow(1))
                        .getCause().getClass(), TimeoutException.class);
                WheelTest.equal(timers.completeOnTimeout(new CompletableFuture<>(), "over", time)
                        .getNow("no"), "over");
                WheelTest.equal(timers.orTimeout(
                        CompletableFuture.completedFuture("now"), time).get(), "now");
                // A task runs at the next tick.
                CountDownLatch runs = new CountDownLatch(3);
                timers.schedule(runs::countDown, time);
                timers.delayedExecutor(time).execute(runs::countDown);
                timers.arm(new Timers.Task() {
                    @Override
                    protected void run() {
                        runs.countDown();
                    }
                }, time.isZero() ? 0 : Long.MIN_VALUE);
                check(runs.await(20, TimeUnit.SECONDS));
            }
            WheelTest.equal(timers.pending(), 0L);
        }
        Timers ended = new Timers();
        ended.close();
        closed(() -> ended.delay(Duration.ZERO));
        closed(() -> ended.orTimeout(new CompletableFuture<>(), Duration.ZERO));
        closed(() -> ended.delayedExecutor(MS).execute(NOTHING));
    }

    static void closed(Runnable call) {
        WheelTest.equal(WheelTest.thrown(IllegalStateException.class, call::run).getMessage(),
                "the wheel is closed");
    }

    static void aTimeThatIsTooLong() throws Exception {
        Duration[] lengths = {Duration.ofDays(365 * 300), Duration.ofSeconds(Long.MAX_VALUE)};
        try (Timers timers = new Timers();
                Pool pool = new Pool(1)) {
            for (Duration length : lengths) {
                timers.schedule(() -> { throw new AssertionError("early"); }, length);
                check(!timers.delay(length).isDone());
                timers.completeOnTimeout(new CompletableFuture<>(), 1, length);
            }
            Thread.sleep(20);
            WheelTest.equal(timers.pending(), 6L);
            ScheduledFuture<?> far = pool.schedule(NOTHING, Long.MAX_VALUE, TimeUnit.DAYS);
            ScheduledFuture<?> rare =
                    pool.scheduleAtFixedRate(NOTHING, 1, Long.MAX_VALUE, TimeUnit.SECONDS);
            check(far.getDelay(TimeUnit.DAYS) > 365 * 290 && far.compareTo(rare) > 0);
            check(far.cancel(false) && rare.cancel(false));
        }
    }

    static void aDelayedExecutorPassesFunctionsOn() throws Exception {
        try (Timers timers = new Timers()) {
            long begin = System.nanoTime();
            Thread own = CompletableFuture.supplyAsync(Thread::currentThread,
                    timers.delayedExecutor(MS.multipliedBy(20), run -> new Thread(run, "mine").start()))
                    .get(20, TimeUnit.SECONDS);
            check(own.getName().equals("mine") && System.nanoTime() - begin >= 20_000_000);
            Executor later = timers.delayedExecutor(MS);
            check(CompletableFuture.supplyAsync(Thread::currentThread, later)
                    .get(20, TimeUnit.SECONDS) != timers.driver());
            // An executor that refuses does not stop the others.
            List<Throwable> thrown = new ArrayList<>();
            timers.driver().setUncaughtExceptionHandler((thread, error) -> thrown.add(error));
            timers.delayedExecutor(MS, run -> {
                throw new RejectedExecutionException();
            }).execute(NOTHING);
            timers.delay(MS.multipliedBy(10)).get(20, TimeUnit.SECONDS);
            WheelTest.equal(thrown.get(0).getClass(), RejectedExecutionException.class);
        }
    }

    // The pool of threads.

    /** Closed by try. */
    static final class Pool extends WheelExecutor implements AutoCloseable {
        Pool(int threads) {
            super(threads);
        }

        @Override
        public void close() {
            shutdownNow();
            try {
                check(awaitTermination(20, TimeUnit.SECONDS));
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }
    }

    static void aPoolRunsTasksAtARateAndWithADelay() throws Exception {
        try (Pool pool = new Pool(2)) {
            WheelTest.equal(pool.schedule(() -> "a", 3, TimeUnit.MILLISECONDS).get(), "a");
            for (boolean rate : new boolean[] {true, false}) {
                long begin = System.nanoTime();
                AtomicInteger runs = new AtomicInteger();
                CountDownLatch ten = new CountDownLatch(10);
                Runnable slow = () -> {
                    runs.incrementAndGet();
                    ten.countDown();
                    pause(8_000_000);
                };
                ScheduledFuture<?> task = rate
                        ? pool.scheduleAtFixedRate(slow, 5, 10, TimeUnit.MILLISECONDS)
                        : pool.scheduleWithFixedDelay(slow, 5, 10, TimeUnit.MILLISECONDS);
                check(ten.await(20, TimeUnit.SECONDS));
                long took = System.nanoTime() - begin;
                check(took >= (rate ? 95_000_000L : 5_000_000L + 9 * 18_000_000L));
                check(task.cancel(false) && task.isCancelled() && !task.cancel(true));
                until(() -> pool.getActiveCount() == 0);
                int last = runs.get();
                Thread.sleep(40);
                WheelTest.equal(runs.get(), last);
            }
            // A rate makes up for what it has missed, one at a time.
            long begin = System.nanoTime();
            CountDownLatch ten = new CountDownLatch(10);
            ScheduledFuture<?> task = pool.scheduleAtFixedRate(() -> {
                if (ten.getCount() == 10) {
                    pause(100_000_000);
                }
                ten.countDown();
            }, 0, 10, TimeUnit.MILLISECONDS);
            check(ten.await(20, TimeUnit.SECONDS) && System.nanoTime() - begin >= 90_000_000);
            task.cancel(false);
            // An exception ends a series.
            ScheduledFuture<?> fails = pool.scheduleAtFixedRate(() -> {
                throw new IllegalStateException("of the task");
            }, 0, 1, TimeUnit.MILLISECONDS);
            WheelTest.equal(WheelTest.thrown(ExecutionException.class,
                    () -> fails.get(20, TimeUnit.SECONDS)).getCause().getMessage(), "of the task");
        }
    }

    /** Also those of one tick, and those that have one delay. */
    static void aPoolKeepsTheOrderOfTimes() throws Exception {
        long ms = 20;
        while (!aPoolKeepsTheOrderOfTimes(ms)) {
            ms *= 4; // A busy machine: the times are not in the order of the delays. Once more.
        }
    }

    /** False if the calls that schedule have taken as long as the difference of two delays. */
    static boolean aPoolKeepsTheOrderOfTimes(long ms) throws Exception {
        Options options = new Options(Clock.MONOTONIC).withTick(Duration.ofNanos(ms * 2_500_000));
        WheelExecutor pool = new WheelExecutor(1, Executors.defaultThreadFactory(),
                new ThreadPoolExecutor.AbortPolicy(), options);
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        List<Integer> wanted = new ArrayList<>();
        long between = ms * 40_000;
        long begin = System.nanoTime();
        for (int i = 0; i < 50; i++) {
            int number = i;
            pool.schedule(() -> order.add(number),
                    ms * 1_000_000 + i * 7 % 25 * between, TimeUnit.NANOSECONDS);
            wanted.add(i);
        }
        boolean inTime = System.nanoTime() - begin < between;
        pool.shutdown();
        check(pool.awaitTermination(60, TimeUnit.SECONDS));
        WheelTest.equal(order.size(), 50);
        if (inTime) {
            wanted.sort(Comparator.comparingInt(i -> i * 7 % 25)); // which keeps the order of equals
            WheelTest.equal(order, wanted);
        }
        return inTime;
    }

    /** A task that a subclass puts around each task of the pool, as a wrapper for metrics does. */
    static final class Around<V> implements RunnableScheduledFuture<V> {
        final RunnableScheduledFuture<V> inner;
        final AtomicInteger runs = new AtomicInteger();

        Around(RunnableScheduledFuture<V> inner) {
            this.inner = inner;
        }

        @Override
        public void run() {
            runs.incrementAndGet();
            inner.run();
        }

        @Override
        public boolean isPeriodic() {
            return inner.isPeriodic();
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            return inner.cancel(mayInterrupt);
        }

        @Override
        public boolean isCancelled() {
            return inner.isCancelled();
        }

        @Override
        public boolean isDone() {
            return inner.isDone();
        }

        @Override
        public V get() throws InterruptedException, ExecutionException {
            return inner.get();
        }

        @Override
        public V get(long time, TimeUnit unit)
                throws InterruptedException, ExecutionException, TimeoutException {
            return inner.get(time, unit);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return inner.getDelay(unit);
        }

        @Override
        public int compareTo(Delayed other) {
            return inner.compareTo(other instanceof Around<?> task ? task.inner : other);
        }
    }

    static void aSubclassDecoratesTasks() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        WheelExecutor pool = new WheelExecutor(1) {
            @Override
            protected <V> RunnableScheduledFuture<V> decorateTask(
                    Runnable run, RunnableScheduledFuture<V> task) {
                return new Around<>(task);
            }

            @Override
            protected <V> RunnableScheduledFuture<V> decorateTask(
                    Callable<V> call, RunnableScheduledFuture<V> task) {
                calls.incrementAndGet();
                return new Around<>(task);
            }
        };
        ScheduledFuture<String> called = pool.schedule(() -> "a", 3, TimeUnit.MILLISECONDS);
        WheelTest.equal(called.get(20, TimeUnit.SECONDS), "a");
        WheelTest.equal(((Around<?>) called).runs.get(), 1);
        WheelTest.equal(calls.get(), 1);
        pool.submit(() -> { }).get(20, TimeUnit.SECONDS);
        Around<?> rate = (Around<?>) pool.scheduleAtFixedRate(
                () -> { }, 1, 1, TimeUnit.MILLISECONDS);
        until(() -> rate.runs.get() >= 5);
        check(rate.cancel(false));
        until(() -> pool.getActiveCount() == 0); // The last run may be on its way to the queue.
        // What waits is in the queue as it was decorated, and leaves it.
        List<Around<?>> wait = new ArrayList<>();
        for (int hour = 3; hour > 0; hour--) {
            wait.add((Around<?>) pool.schedule(() -> { }, hour, TimeUnit.HOURS));
        }
        until(() -> pool.getQueue().size() == 3);
        WheelTest.equal(new ArrayList<>(pool.getQueue()),
                List.of(wait.get(2), wait.get(1), wait.get(0)));
        check(pool.getQueue().contains(wait.get(1)));
        check(wait.get(1).cancel(false) && pool.getQueue().size() == 2);
        check(pool.remove(wait.get(0)) && !pool.remove(wait.get(0)));
        ScheduledFuture<?> last = pool.schedule(() -> { }, 5, TimeUnit.MILLISECONDS);
        pool.shutdown();
        last.get(20, TimeUnit.SECONDS);
        WheelTest.equal(pool.shutdownNow(), List.of(wait.get(2)));
        check(!wait.get(2).isCancelled() && pool.awaitTermination(20, TimeUnit.SECONDS));
        AtomicInteger rejected = new AtomicInteger();
        pool.setRejectedExecutionHandler((task, from) -> rejected.addAndGet(
                task instanceof Around<?> ? 1 : 100));
        pool.execute(() -> { });
        WheelTest.equal(rejected.get(), 1);
    }

    /** It would keep an application that made the timers, and all of its classes. */
    static void theDriverKeepsNoClassLoader() throws Exception {
        InheritableThreadLocal<Object> local = new InheritableThreadLocal<>();
        local.set(new Object());
        Thread caller = Thread.currentThread();
        ClassLoader before = caller.getContextClassLoader();
        try (URLClassLoader application = new URLClassLoader(new URL[0])) {
            caller.setContextClassLoader(application);
            try (Timers timers = new Timers(new Options(Clock.MONOTONIC), Runnable::run)) {
                check(timers.driver().getContextClassLoader()
                        == ClassLoader.getSystemClassLoader());
                AtomicReference<Object> seen = new AtomicReference<>(local);
                timers.schedule(() -> seen.set(local.get()), Duration.ZERO);
                until(() -> seen.get() != local);
                check(seen.get() == null);
            }
        } finally {
            caller.setContextClassLoader(before);
        }
    }

    /** Two policies, two kinds of tasks. */
    static void theEndOfAPool() throws Exception {
        long delay = 60;
        for (int i = 0; i < 8; i++) {
            boolean delayed = (i & 1) != 0;
            boolean periodic = (i & 2) != 0;
            boolean after = (i & 4) != 0;
            WheelExecutor pool = new WheelExecutor(2);
            if (!after) {
                pool.setExecuteExistingDelayedTasksAfterShutdownPolicy(delayed);
                pool.setContinueExistingPeriodicTasksAfterShutdownPolicy(periodic);
            } else {
                pool.setContinueExistingPeriodicTasksAfterShutdownPolicy(true);
            }
            AtomicInteger runs = new AtomicInteger();
            long begin = System.nanoTime();
            ScheduledFuture<?> once = pool.schedule(NOTHING, delay, TimeUnit.MILLISECONDS);
            ScheduledFuture<?> rate = pool.scheduleAtFixedRate(
                    runs::incrementAndGet, delay, 1, TimeUnit.MILLISECONDS);
            pool.shutdown();
            pool.setExecuteExistingDelayedTasksAfterShutdownPolicy(delayed);
            pool.setContinueExistingPeriodicTasksAfterShutdownPolicy(periodic);
            if (System.nanoTime() - begin >= delay * 1_000_000) {
                // A busy machine: the tasks may have run before the end. Once more.
                pool.shutdownNow();
                delay *= 2;
                i--;
                continue;
            }
            WheelTest.thrown(RejectedExecutionException.class,
                    () -> pool.schedule(NOTHING, 1, TimeUnit.MILLISECONDS));
            WheelTest.equal(once.isCancelled(), !delayed);
            WheelTest.equal(rate.isCancelled(), !periodic);
            if (periodic) {
                until(() -> runs.get() > 3);
                check(!pool.isTerminated() && rate.cancel(false));
            }
            check(pool.awaitTermination(20, TimeUnit.SECONDS) && pool.getQueue().isEmpty());
            check(once.isDone());
            WheelTest.equal(runs.get() > 0, periodic);
        }
        WheelExecutor pool = new WheelExecutor(1);
        ScheduledFuture<?> waits = pool.schedule(NOTHING, 1, TimeUnit.HOURS);
        ScheduledFuture<?> cancelled = pool.schedule(NOTHING, 1, TimeUnit.HOURS);
        check(cancelled.cancel(false));
        WheelTest.equal(pool.getQueue().size(), 1);
        WheelTest.equal(pool.shutdownNow(), List.of(waits));
        check(!waits.isDone() && pool.awaitTermination(20, TimeUnit.SECONDS));
        // The wheel ends with the pool.
        until(() -> Thread.getAllStackTraces().keySet().stream()
                .noneMatch(thread -> thread.getName().equals("hwheel-timers")));
        WheelTest.refuses(() -> new WheelExecutor(0));
        WheelTest.refuses(() -> new WheelExecutor(-1));
        try (Pool one = new Pool(1)) {
            WheelTest.refuses(() -> one.setCorePoolSize(0));
            WheelTest.refuses(() -> one.scheduleAtFixedRate(NOTHING, 1, 0, TimeUnit.DAYS));
            WheelTest.refuses(() -> one.scheduleWithFixedDelay(NOTHING, 1, -1, TimeUnit.DAYS));
            try (Timers timers = new Timers()) {
                for (Runnable call : List.<Runnable>of(
                        () -> one.execute(null), () -> one.schedule(NOTHING, 1, null),
                        () -> one.scheduleAtFixedRate(null, 1, 1, TimeUnit.DAYS),
                        () -> one.scheduleWithFixedDelay(NOTHING, 1, 1, null),
                        () -> one.submit((Runnable) null), () -> timers.delay(null),
                        () -> timers.schedule(null, MS), () -> timers.orTimeout(null, MS),
                        () -> timers.delayedExecutor(null),
                        () -> timers.delayedExecutor(MS, null),
                        () -> timers.delayedExecutor(MS).execute(null))) {
                    WheelTest.thrown(NullPointerException.class, call::run);
                }
                WheelTest.equal(timers.pending(), 0L);
            }
        }
    }

    /** Each task runs, or is cancelled, or comes back; none is lost or doubled. */
    static void threadsUseAPoolThatEnds() throws Exception {
        for (int round = 0; round < 20; round++) {
            WheelExecutor pool = new WheelExecutor(3);
            pool.setExecuteExistingDelayedTasksAfterShutdownPolicy(round % 2 == 0);
            AtomicInteger accepted = new AtomicInteger();
            AtomicInteger runs = new AtomicInteger();
            AtomicReference<Throwable> failed = new AtomicReference<>();
            List<ScheduledFuture<?>> all = Collections.synchronizedList(new ArrayList<>());
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < 4; t++) {
                int number = t;
                threads.add(new Thread(() -> {
                    try {
                        for (int i = 0; ; i++) {
                            all.add(pool.schedule(runs::incrementAndGet,
                                    (i * 31 + number) % 4000, TimeUnit.MICROSECONDS));
                            accepted.incrementAndGet();
                            if (!pool.schedule(NOTHING, 1, TimeUnit.HOURS).cancel(false)
                                    && !pool.isShutdown()) {
                                failed.set(new AssertionError("not pending"));
                            }
                            if (i % 50 == 0) {
                                LockSupport.parkNanos(200_000);
                            }
                        }
                    } catch (RejectedExecutionException e) {
                        // The pool has ended.
                    } catch (Throwable e) {
                        failed.set(e);
                    }
                }));
            }
            threads.forEach(Thread::start);
            Thread.sleep(30);
            List<Runnable> left = round % 4 < 2 ? pool.shutdownNow() : List.of();
            pool.shutdown();
            for (Thread thread : threads) {
                thread.join();
            }
            check(pool.awaitTermination(20, TimeUnit.SECONDS));
            if (failed.get() != null) {
                throw new AssertionError(failed.get());
            }
            int open = 0;
            int gone = 0;
            for (ScheduledFuture<?> task : all) {
                open += task.isDone() ? 0 : 1;
                gone += task.isCancelled() ? 1 : 0;
            }
            long back = left.stream().filter(task -> !((ScheduledFuture<?>) task).isDone()).count();
            WheelTest.equal((long) open, back);
            WheelTest.equal(runs.get() + gone + open, accepted.get());
        }
    }

    /** Where the Java machine has them. */
    static void virtualThreads() throws Exception {
        ThreadFactory virtual;
        try {
            Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
            virtual = (ThreadFactory) Class.forName("java.lang.Thread$Builder")
                    .getMethod("factory").invoke(builder);
        } catch (ReflectiveOperationException | UnsupportedOperationException e) {
            System.out.println("virtual threads: not tested, as Java "
                    + Runtime.version().feature() + " has none");
            return;
        }
        List<Thread> threads = new ArrayList<>();
        AtomicInteger ended = new AtomicInteger();
        try (Timers timers = new Timers(new Options(Clock.MONOTONIC),
                run -> virtual.newThread(run).start())) {
            for (int i = 0; i < 2000; i++) {
                int number = i;
                Thread thread = virtual.newThread(() -> {
                    timers.schedule(NOTHING, HOUR).cancel();
                    timers.delay(Duration.ofMillis(number % 50)).join();
                    try {
                        timers.orTimeout(new CompletableFuture<>(), MS).join();
                    } catch (CompletionException e) {
                        ended.incrementAndGet();
                    }
                });
                thread.start();
                threads.add(thread);
            }
            for (Thread thread : threads) {
                thread.join();
            }
            WheelTest.equal(ended.get(), 2000);
            CompletableFuture<Thread> ran = new CompletableFuture<>();
            timers.schedule(() -> ran.complete(Thread.currentThread()), MS);
            check(ran.get(20, TimeUnit.SECONDS).getClass() != Thread.class);
        }
        WheelExecutor pool = new WheelExecutor(4, virtual);
        CountDownLatch runs = new CountDownLatch(20);
        pool.scheduleAtFixedRate(runs::countDown, 1, 1, TimeUnit.MILLISECONDS);
        pool.scheduleWithFixedDelay(runs::countDown, 1, 1, TimeUnit.MILLISECONDS);
        check(runs.await(20, TimeUnit.SECONDS));
        check(pool.schedule(Thread::currentThread, 1, TimeUnit.MILLISECONDS).get().getClass()
                != Thread.class);
        pool.shutdown();
        check(pool.awaitTermination(20, TimeUnit.SECONDS));
        System.out.println("virtual threads of Java " + Runtime.version().feature()
                + ": 1 test passed");
    }

    static void aCancelledTaskDoesNotRun() throws Exception {
        try (Timers timers = new Timers()) {
            Duration delay = MS.multipliedBy(500);
            AtomicInteger runs;
            boolean inTime;
            do {
                AtomicInteger of = runs = new AtomicInteger();
                inTime = true;
                for (int wait : new int[] {0, 5}) {
                    long begin = System.nanoTime();
                    Timers.Task task = timers.schedule(of::incrementAndGet, delay);
                    Thread.sleep(wait);
                    boolean cancelled = task.cancel();
                    inTime = inTime && System.nanoTime() - begin < delay.toNanos();
                    check(cancelled || !inTime);
                }
                delay = delay.multipliedBy(2);
            } while (!inTime); // A busy machine: a task may have run before. Once more.
            Thread.sleep(delay.toMillis() / 2 + 100);
            WheelTest.equal(runs.get(), 0);
            until(() -> timers.stats().pending() == 0);
        }
    }

    static void threadsArmAndCancel() throws Exception {
        try (Timers timers = new Timers()) {
            AtomicInteger runs = new AtomicInteger();
            AtomicInteger cancelled = new AtomicInteger();
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < 8; t++) {
                int number = t;
                threads.add(new Thread(() -> {
                    Timers.Task[] own = new Timers.Task[64];
                    for (int i = 0; i < 5000; i++) {
                        if (i >= 64 && own[i % 64].cancel()) {
                            cancelled.incrementAndGet();
                        }
                        own[i % 64] = timers.schedule(runs::incrementAndGet,
                                Duration.ofNanos((i * 31 + number) % 4000 * 1000L));
                    }
                }));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            until(() -> runs.get() + cancelled.get() == 40_000);
            Thread.sleep(20);
            WheelTest.equal(runs.get() + cancelled.get(), 40_000);
        }
    }

    static void futuresEndAfterADelay() throws Exception {
        try (Timers timers = new Timers()) {
            long begin = System.nanoTime();
            timers.delay(Duration.ofMillis(20)).get(20, TimeUnit.SECONDS);
            check(System.nanoTime() - begin >= 20_000_000);

            CompletableFuture<String> late = timers.orTimeout(new CompletableFuture<>(), MS);
            WheelTest.equal(WheelTest.thrown(ExecutionException.class,
                    () -> late.get(20, TimeUnit.SECONDS)).getCause().getClass(),
                    TimeoutException.class);
            WheelTest.equal(timers.completeOnTimeout(new CompletableFuture<>(), "value", MS)
                    .get(20, TimeUnit.SECONDS), "value");

            CompletableFuture<String> done =
                    timers.orTimeout(new CompletableFuture<>(), HOUR);
            done.complete("done");
            CompletableFuture<Void> cancelled = timers.delay(HOUR);
            cancelled.cancel(false);
            until(() -> timers.pending() == 0);
            WheelTest.equal(done.get(), "done");
            WheelTest.equal(
                    timers.orTimeout(CompletableFuture.completedFuture("now"), MS).get(), "now");
        }
    }

    static void anExceptionDoesNotStopTheOthers() throws Exception {
        try (Timers timers = new Timers(new Options(Clock.MONOTONIC), Runnable::run)) {
            List<Throwable> thrown = new ArrayList<>();
            timers.driver().setUncaughtExceptionHandler((thread, error) -> thrown.add(error));
            timers.schedule(() -> {
                throw new IllegalStateException("of the task");
            }, MS);
            timers.delay(Duration.ofMillis(10)).get(20, TimeUnit.SECONDS);
            WheelTest.equal(thrown.get(0).getMessage(), "of the task");
        }
    }

    static void closeEndsTheThread() throws Exception {
        long ms = 500;
        while (!closeEndsTheThread(ms)) {
            ms *= 2; // A busy machine: the task may have run before the end. Once more.
        }
    }

    /** False if the timers were not closed within that time. */
    static boolean closeEndsTheThread(long ms) throws Exception {
        Timers timers = new Timers();
        AtomicInteger runs = new AtomicInteger();
        long begin = System.nanoTime();
        Timers.Task pending = timers.schedule(runs::incrementAndGet, MS.multipliedBy(ms));
        CompletableFuture<Void> delay = timers.delay(HOUR);
        List<Thread> users = new ArrayList<>();
        AtomicInteger closed = new AtomicInteger();
        for (int i = 0; i < 4; i++) {
            users.add(new Thread(() -> {
                try {
                    for (int n = 1; ; n++) {
                        timers.schedule(() -> {}, HOUR);
                        if (n % 1000 == 0) {
                            LockSupport.parkNanos(1_000_000); // Their number has a limit.
                        }
                    }
                } catch (IllegalStateException e) {
                    closed.incrementAndGet();
                }
            }));
        }
        users.forEach(Thread::start);
        Thread.sleep(5);
        timers.close();
        boolean inTime = System.nanoTime() - begin < ms * 1_000_000;
        timers.close();
        for (Thread user : users) {
            user.join(20_000);
        }
        timers.driver().join(20_000);
        check(!timers.driver().isAlive() && !pending.cancel() && !pending.isPending());
        WheelTest.equal(closed.get(), 4);
        WheelTest.thrown(CancellationException.class, () -> delay.get(0, TimeUnit.SECONDS));
        if (!inTime) {
            return false;
        }
        check(pending.isCancelled());
        Thread.sleep(ms + 100);
        WheelTest.equal(runs.get(), 0);
        return true;
    }

    static void errorsAreClear() throws Exception {
        Options options = new Options(Clock.MONOTONIC);
        try (Timers timers = new Timers(options.withMaxTimers(2), Runnable::run);
                Wheel wheel = new Wheel()) {
            WheelTest.refuses(() -> new Timers(new Options(Clock.MANUAL), Runnable::run));
            WheelTest.refuses(() -> new Wheel(options.withTick(Duration.ofMillis(-1))));
            WheelTest.refuses(() -> wheel.setPeriod(1, Duration.ofNanos(-1)));
            WheelTest.refuses(() -> wheel.modRange(1, MS, Duration.ofNanos(-1)));
            WheelTest.refuses(() -> wheel.await(Duration.ofNanos(-1)));
            WheelTest.refuses(() -> wheel.keySet(new byte[1], Duration.ofNanos(-1), 1));
            // The limit is of pending tasks, whichever thread arms them.
            for (int i = 0; i < 20; i++) {
                Thread thread = new Thread(() -> {
                    Timers.Task first = timers.schedule(() -> {}, HOUR);
                    Timers.Task second = timers.schedule(() -> {}, HOUR);
                    WheelTest.fails(HwheelException.ENOSPC,
                            () -> timers.schedule(() -> {}, HOUR));
                    check(first.cancel() && second.cancel());
                });
                Throwable[] failed = new Throwable[1];
                thread.setUncaughtExceptionHandler((t, error) -> failed[0] = error);
                thread.start();
                thread.join();
                if (failed[0] != null) {
                    throw new AssertionError(failed[0]);
                }
            }
            check(wheel.timeLeft(wheel.setup(1)).isEmpty());
            check(wheel.timeLeft(wheel.once(HOUR, 1)).orElseThrow().compareTo(HOUR.plus(MS.multipliedBy(2))) <= 0);
            check(!wheel.await(MS) || wheel.poll(new Events(1)) == 0);
        }
    }

    static void oneOfTwoWheelsArmsATask() throws Exception {
        class Shy extends Timers.Task {
            @Override
            protected void run() {}

            @Override
            public boolean isPending() {
                return false;
            }
        }

        Timers[] two = {new Timers(), new Timers()};
        AtomicInteger armed = new AtomicInteger();
        Throwable[] failed = new Throwable[2];
        Shy[] tasks = new Shy[20_000];
        for (int i = 0; i < tasks.length; i++) {
            tasks[i] = new Shy();
        }
        CyclicBarrier both = new CyclicBarrier(2);
        Thread[] threads = new Thread[2];
        for (int n = 0; n < 2; n++) {
            int number = n;
            threads[n] = new Thread(() -> {
                try {
                    for (Shy task : tasks) {
                        both.await();
                        try {
                            two[number].arm(task, HOUR);
                            armed.incrementAndGet();
                        } catch (IllegalStateException e) {
                            // The other one has armed it.
                        }
                    }
                } catch (Throwable e) {
                    failed[number] = e;
                    both.reset();
                }
            });
            threads[n].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (Throwable error : failed) {
            if (error != null) {
                throw new AssertionError(error);
            }
        }
        WheelTest.equal(armed.get(), tasks.length);
        WheelTest.equal(two[0].pending() + two[1].pending(), (long) tasks.length);
        for (Shy task : tasks) {
            check(task.cancel());
        }
        WheelTest.equal(two[0].pending() + two[1].pending(), 0L);
        two[0].close();
        two[1].close();
    }

    static void theDriverOutlivesErrors() throws Exception {
        // The first round loads the classes, which takes descriptors.
        for (boolean taken : new boolean[] {false, true}) {
            List<FileInputStream> descriptors = new ArrayList<>();
            try {
                while (taken) {
                    descriptors.add(new FileInputStream("/dev/null"));
                }
            } catch (IOException e) {
                check(!descriptors.isEmpty());
            }
            Timers timers = new Timers(new Options(Clock.MONOTONIC), Runnable::run);
            timers.delay(MS).get(20, TimeUnit.SECONDS);
            for (FileInputStream descriptor : descriptors) {
                descriptor.close();
            }
            timers.delay(MS).get(20, TimeUnit.SECONDS);

            Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
            Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
                throw new IllegalStateException("a handler that fails");
            });
            timers.schedule(() -> {
                throw new IllegalStateException("a task that fails");
            }, MS);
            timers.delay(MS).get(20, TimeUnit.SECONDS);
            Thread.setDefaultUncaughtExceptionHandler(before);
            timers.close();
            timers.driver().join();
        }
    }

    /** Arms and cancels wherever the stack ends. */
    static void toTheEndOfTheStack(Timers timers, int[] left) {
        try {
            toTheEndOfTheStack(timers, left);
        } finally {
            if (left[0]-- > 0) {
                try {
                    timers.schedule(NOTHING, HOUR);
                    timers.schedule(NOTHING, Duration.ZERO).cancel();
                } catch (StackOverflowError e) {
                    // Once more where there is a little more of it.
                }
            }
        }
    }

    static void aThreadWithoutStackHarmsNoOther() throws Exception {
        try (Timers timers = new Timers(new Options(Clock.MONOTONIC), Runnable::run)) {
            AtomicInteger runs = new AtomicInteger();
            for (int round = 1; round <= 60; round++) {
                for (int i = 0; i < 100; i++) {
                    timers.schedule(runs::incrementAndGet, MS.multipliedBy(5 + i));
                }
                Thread thread = new Thread(null, () -> {
                    for (int i = 0; i < 5; i++) {
                        try {
                            toTheEndOfTheStack(timers, new int[] {60});
                        } catch (StackOverflowError e) {
                            // As it should be.
                        }
                    }
                }, "deep", 256 * 1024);
                thread.start();
                thread.join();
            }
            until(() -> runs.get() == 6000);
        }
    }

    /** With a small heap, which one thread fills again and again. */
    static void aFullHeapHarmsNoTask() throws Exception {
        AtomicInteger ended = new AtomicInteger();
        class Counts extends Timers.Task {
            @Override
            protected void run() {
                ended.incrementAndGet();
            }
        }

        Counts[] tasks = new Counts[20_000];
        for (int i = 0; i < tasks.length; i++) {
            tasks[i] = new Counts();
        }
        AtomicBoolean done = new AtomicBoolean();
        boolean[] refused = new boolean[tasks.length];
        Object[] kept = new Object[200_000];
        Thread greedy = new Thread(() -> {
            LockSupport.parkNanos(1); // what it loads it has no memory for later
            while (!done.get()) {
                int n = 0;
                for (int size = 1 << 20; size >= 16; size /= 2) {
                    try {
                        while (n < kept.length) {
                            kept[n++] = new byte[size];
                        }
                    } catch (OutOfMemoryError e) {
                        // A smaller piece may fit.
                    }
                }
                LockSupport.parkNanos(20_000_000);
                Arrays.fill(kept, null);
                LockSupport.parkNanos(5_000_000);
            }
        });
        try (Timers timers = new Timers(new Options(Clock.MONOTONIC), Runnable::run)) {
            // What the executor cannot take is reported.
            timers.driver().setUncaughtExceptionHandler((thread, error) -> ended.incrementAndGet());
            greedy.setDaemon(true);
            greedy.start();
            int armed = 0;
            long begin = System.nanoTime();
            for (int i = 0; i < tasks.length && System.nanoTime() - begin < 4_000_000_000L; i++) {
                try {
                    timers.arm(tasks[i], 3_000_000 + i % 7 * 1_000_000);
                    armed++;
                } catch (OutOfMemoryError e) {
                    refused[i] = true;
                }
                if (i % 20 == 0) {
                    LockSupport.parkNanos(1_000_000);
                }
            }
            done.set(true);
            greedy.join();
            for (int i = 0; i < tasks.length; i++) {
                check(!(refused[i] && tasks[i].isPending()));
            }
            int all = armed;
            until(() -> ended.get() == all);
        }
        System.out.println("a full heap: 1 test passed");
    }

    /** With less memory outside the heap than a batch of events needs. */
    static void timersWithoutADriverAreRefused() {
        WheelTest.thrown(OutOfMemoryError.class, () -> new Timers().close());
        System.out.println("no direct memory: 1 test passed");
    }

    /** At least that long, which parkNanos alone does not promise. */
    static void pause(long ns) {
        long end = System.nanoTime() + ns;
        for (long left = ns; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    static void check(boolean condition) {
        if (!condition) {
            throw new AssertionError();
        }
    }

    static void until(BooleanSupplier condition) throws InterruptedException {
        for (int i = 0; i < 20_000 && !condition.getAsBoolean(); i++) {
            Thread.sleep(1);
        }
        check(condition.getAsBoolean());
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 1) {
            switch (args[0]) {
                case "heap" -> aFullHeapHarmsNoTask();
                case "direct" -> timersWithoutADriverAreRefused();
                case "pool" -> tasksRunWithoutACommonPool();
                case "virtual" -> virtualThreads();
                default -> throw new IllegalArgumentException(args[0]);
            }
            return;
        }
        theFirstTimersAreOnTime(); // before any other
        tasksRunOnceAndNeverEarly();
        aTaskIsCancelledOrArmedAgain();
        aCancelledTaskDoesNotRun();
        threadsArmAndCancel();
        futuresEndAfterADelay();
        anExceptionDoesNotStopTheOthers();
        noTaskIsTwoTicksLate();
        anInterruptIsForOneTask();
        futuresEndWithoutTheExecutor();
        closeEndsTheThread();
        errorsAreClear();
        oneOfTwoWheelsArmsATask();
        theDriverOutlivesErrors();
        aThreadWithoutStackHarmsNoOther();
        aTimeThatHasPassed();
        aTimeThatIsTooLong();
        aDelayedExecutorPassesFunctionsOn();
        theEndOfAPool();
        aPoolRunsTasksAtARateAndWithADelay();
        aPoolKeepsTheOrderOfTimes();
        threadsUseAPoolThatEnds();
        aSubclassDecoratesTasks();
        theDriverKeepsNoClassLoader();
        System.out.println("tasks, futures and pools: 24 tests passed");
    }
}
