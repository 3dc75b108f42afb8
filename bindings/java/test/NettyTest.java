import io.github.hwheel.Wheel.Clock;
import io.github.hwheel.Wheel.Options;
import io.github.hwheel.netty.WheelTimer;
import io.netty.util.Timeout;
import io.netty.util.Timer;
import io.netty.util.TimerTask;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** The scenarios of Netty's HashedWheelTimerTest. main runs all tests. */
class NettyTest {
    static final TimerTask NOTHING = timeout -> {};

    static void aTaskDoesNotRunBeforeItsDelay() throws Exception {
        Timer timer = new WheelTimer();
        boolean inTime;
        do {
            CountDownLatch barrier = new CountDownLatch(1);
            long begin = System.nanoTime();
            Timeout timeout = timer.newTimeout(t -> barrier.countDown(), 1, TimeUnit.SECONDS);
            boolean ran = barrier.await(300, TimeUnit.MILLISECONDS) || timeout.isExpired();
            inTime = System.nanoTime() - begin < 1_000_000_000;
            check(!ran || !inTime);
        } while (!inTime); // A busy machine. Once more.
        timer.stop();
    }

    static void aTaskRunsAfterItsDelay() throws Exception {
        Timer timer = new WheelTimer();
        CountDownLatch barrier = new CountDownLatch(1);
        Timeout timeout = timer.newTimeout(t -> barrier.countDown(), 20, TimeUnit.MILLISECONDS);
        check(timeout.timer() == timer && timeout.task() != null && !timeout.isCancelled());
        check(barrier.await(20, TimeUnit.SECONDS));
        check(timeout.isExpired() && !timeout.isCancelled() && !timeout.cancel());
        check(timer.stop().isEmpty());
    }

    static void stopReturnsTheUnprocessed() throws Exception {
        WheelTimer processed = new WheelTimer();
        for (int i = 0; i < 3; i++) {
            processed.newTimeout(NOTHING, 1, TimeUnit.MILLISECONDS);
        }
        for (int ms = 0; ms < 20_000 && processed.pendingTimeouts() > 0; ms++) {
            Thread.sleep(1);
        }
        check(processed.stop().isEmpty());

        Timer unprocessed = new WheelTimer();
        List<Timeout> timeouts = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            timeouts.add(unprocessed.newTimeout(NOTHING, 1, TimeUnit.HOURS));
        }
        check(timeouts.get(0).cancel() && timeouts.get(0).isCancelled());
        check(!timeouts.get(0).cancel());
        Set<Timeout> left = unprocessed.stop();
        WheelTest.equal(left.size(), 4);
        check(left.containsAll(timeouts.subList(1, 5)));
        for (Timeout timeout : left) {
            check(!timeout.isExpired() && timeout.isCancelled() && !timeout.cancel());
        }
        check(unprocessed.stop().isEmpty());
    }

    static void aStoppedTimerTakesNoTimeout() {
        Timer timer = new WheelTimer();
        timer.stop();
        WheelTest.equal(WheelTest.thrown(IllegalStateException.class,
                () -> timer.newTimeout(NOTHING, 1, TimeUnit.SECONDS)).getMessage(),
                "the timer is stopped");
    }

    static void aTaskCannotStopItsTimer() throws Exception {
        Timer timer = new WheelTimer();
        BlockingQueue<Object> results = new LinkedBlockingQueue<>();
        timer.newTimeout(t -> {
            try {
                results.add(timer.stop());
            } catch (IllegalStateException e) {
                results.add(e);
            }
        }, 0, TimeUnit.SECONDS);
        check(results.poll(20, TimeUnit.SECONDS) instanceof IllegalStateException);
        timer.stop();
    }

    static void stopEndsATaskThatWaits() throws Exception {
        Timer timer = new WheelTimer();
        CountDownLatch waits = new CountDownLatch(1);
        timer.newTimeout(t -> {
            waits.countDown();
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException e) {
                // The timer stops.
            }
        }, 0, TimeUnit.SECONDS);
        check(waits.await(20, TimeUnit.SECONDS));
        long begin = System.nanoTime();
        timer.stop();
        check(System.nanoTime() - begin < 20_000_000_000L);
    }

    /** Newer versions of Netty have a method for it. */
    static void aCancelledTaskIsTold() throws Exception {
        try {
            TimerTask.class.getMethod("cancelled", Timeout.class);
        } catch (NoSuchMethodException e) {
            System.out.println("cancelled: not tested, as this Netty's tasks have no such method");
            return;
        }
        List<Timeout> cancelled = new ArrayList<>();
        class Told implements TimerTask {
            @Override
            public void run(Timeout timeout) {}

            public void cancelled(Timeout timeout) {
                cancelled.add(timeout);
                throw new IllegalStateException("of the task");
            }
        }

        WheelTimer timer = new WheelTimer();
        BlockingQueue<Throwable> thrown = new LinkedBlockingQueue<>();
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> thrown.add(error));
        Timeout timeout = timer.newTimeout(new Told(), 1, TimeUnit.MINUTES);
        check(timeout.cancel() && !timeout.cancel());
        WheelTest.equal(cancelled, List.of(timeout));
        WheelTest.equal(thrown.take().getMessage(), "of the task");
        Timeout expires = timer.newTimeout(new Told(), 0, TimeUnit.MINUTES);
        TimersTest.until(expires::isExpired);
        timer.newTimeout(new Told(), 1, TimeUnit.MINUTES);
        check(!expires.cancel());
        WheelTest.equal(timer.stop().size(), 1);
        WheelTest.equal(cancelled.size(), 1);
        Thread.setDefaultUncaughtExceptionHandler(null);
        System.out.println("cancelled: 1 test passed");
    }

    static void anotherThreadAndAnExecutor() throws Exception {
        BlockingQueue<Thread> ran = new LinkedBlockingQueue<>();
        Thread[] driver = new Thread[1];
        WheelTimer timer = new WheelTimer(new Options(Clock.MONOTONIC),
                run -> driver[0] = new Thread(run, "mine"),
                run -> new Thread(run, "runs tasks").start());
        timer.newTimeout(t -> ran.add(Thread.currentThread()), 1, TimeUnit.MILLISECONDS);
        WheelTest.equal(ran.poll(20, TimeUnit.SECONDS).getName(), "runs tasks");
        check(driver[0].isAlive());
        timer.stop();
        check(!driver[0].isAlive());
        WheelTest.equal(WheelTest.thrown(IllegalStateException.class,
                () -> new WheelTimer(new Options(Clock.MONOTONIC), run -> null, Runnable::run))
                .getMessage(), "the factory makes no thread");
    }

    static void aTaskArmsTheNext() throws Exception {
        Timer timer = new WheelTimer();
        AtomicInteger left = new AtomicInteger(20);
        CountDownLatch done = new CountDownLatch(1);
        timer.newTimeout(new TimerTask() {
            @Override
            public void run(Timeout timeout) {
                if (left.decrementAndGet() > 0) {
                    timeout.timer().newTimeout(this, 1, TimeUnit.MILLISECONDS);
                } else {
                    done.countDown();
                }
            }
        }, 1, TimeUnit.MILLISECONDS);
        check(done.await(20, TimeUnit.SECONDS));
        timer.stop();
    }

    static void delaysAreKept() throws Exception {
        Timer timer = new WheelTimer();
        BlockingQueue<Long> early = new LinkedBlockingQueue<>();
        int n = 2000;
        for (int i = 0; i < n; i++) {
            long delay = i % 40 * 1_000_000L;
            long begin = System.nanoTime();
            timer.newTimeout(
                    t -> early.add(System.nanoTime() - begin - delay), delay, TimeUnit.NANOSECONDS);
        }
        for (int i = 0; i < n; i++) {
            check(early.poll(20, TimeUnit.SECONDS) >= 0);
        }
        timer.stop();
    }

    static void delaysOfAnyLength() throws Exception {
        Timer timer = new WheelTimer();
        CountDownLatch barrier = new CountDownLatch(2);
        timer.newTimeout(t -> barrier.countDown(), 0, TimeUnit.DAYS);
        timer.newTimeout(t -> barrier.countDown(), -5, TimeUnit.DAYS);
        Timeout longest = timer.newTimeout(NOTHING, Long.MAX_VALUE, TimeUnit.DAYS);
        Timeout years = timer.newTimeout(NOTHING, 365 * 200, TimeUnit.DAYS);
        check(barrier.await(20, TimeUnit.SECONDS));
        check(!longest.isExpired() && !years.isExpired() && longest.cancel());
        WheelTest.equal(timer.stop().size(), 1);
    }

    static void aLimitRejects() throws Exception {
        WheelTimer timer = new WheelTimer(new Options(Clock.MONOTONIC).withMaxTimers(2));
        Timeout first = timer.newTimeout(NOTHING, 1, TimeUnit.HOURS);
        Timeout full = timer.newTimeout(NOTHING, 1, TimeUnit.HOURS);
        WheelTest.equal(timer.pendingTimeouts(), 2L);
        WheelTest.thrown(RejectedExecutionException.class,
                () -> timer.newTimeout(NOTHING, 1, TimeUnit.SECONDS));
        check(full.cancel());
        CountDownLatch second = new CountDownLatch(1);
        timer.newTimeout(t -> second.countDown(), 50, TimeUnit.MILLISECONDS);
        check(second.await(20, TimeUnit.SECONDS) && first.cancel());
        WheelTest.equal(timer.pendingTimeouts(), 0L);
        timer.newTimeout(NOTHING, 1, TimeUnit.HOURS);
        timer.newTimeout(NOTHING, 1, TimeUnit.HOURS);
        WheelTest.equal(timer.stop().size(), 2);
    }

    static void anExceptionDoesNotStopTheTimer() throws Exception {
        Timer timer = new WheelTimer();
        CountDownLatch barrier = new CountDownLatch(1);
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            if (error.getCause() instanceof java.io.IOException) {
                barrier.countDown();
            }
        });
        timer.newTimeout(t -> {
            throw new java.io.IOException("of the task");
        }, 1, TimeUnit.MILLISECONDS);
        check(barrier.await(20, TimeUnit.SECONDS));
        CountDownLatch next = new CountDownLatch(1);
        timer.newTimeout(t -> next.countDown(), 1, TimeUnit.MILLISECONDS);
        check(next.await(20, TimeUnit.SECONDS));
        Thread.setDefaultUncaughtExceptionHandler(null);
        timer.stop();
    }

    static void check(boolean condition) {
        TimersTest.check(condition);
    }

    public static void main(String[] args) throws Exception {
        aTaskDoesNotRunBeforeItsDelay();
        aTaskRunsAfterItsDelay();
        stopReturnsTheUnprocessed();
        aStoppedTimerTakesNoTimeout();
        aTaskCannotStopItsTimer();
        stopEndsATaskThatWaits();
        aTaskArmsTheNext();
        aCancelledTaskIsTold();
        anotherThreadAndAnExecutor();
        delaysAreKept();
        delaysOfAnyLength();
        aLimitRejects();
        anExceptionDoesNotStopTheTimer();
        System.out.println("Netty's timer: 12 tests passed");
    }
}
