import com.sun.management.OperatingSystemMXBean;
import io.github.hwheel.Events;
import io.github.hwheel.Timers;
import io.github.hwheel.Wheel;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.IntConsumer;

/**
 * Pairs of cancelling and arming a second, with 10,000 timers pending: the oldest is
 * cancelled and another armed. Java's own ScheduledThreadPoolExecutor, Timers, the wheel
 * one by one, and the wheel with a call for a thousand, while a thread drives it. It counts the
 * processor time of the whole process, the collector's included: the best of ten rounds.
 */
class OwnBench {
    static final int PENDING = 10_000;
    static final int PAIRS = 1_000_000;
    static final int MANY = 1000;

    /** One to two hours in nanoseconds, and another for each timer. */
    static long delay(int i) {
        return 3_600_000_000_000L + i * 7919 % PENDING * 360_000_000L;
    }

    static long spent() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    static void ring(String name, IntConsumer pair) {
        for (int i = 0; i < PENDING; i++) {
            pair.accept(i);
        }
        long best = Long.MAX_VALUE;
        for (int round = 0; round < 10; round++) {
            long begin = spent();
            for (int i = 0; i < PAIRS; i++) {
                pair.accept(i % PENDING);
            }
            best = Math.min(best, spent() - begin);
        }
        System.out.println(name + " " + PAIRS * 1_000_000_000L / best);
    }

    static void drive(Wheel wheel) {
        Events events = new Events(1024);
        try {
            while (true) {
                wheel.poll(events);
                wheel.await();
            }
        } catch (IllegalStateException e) {
            // The wheel is closed.
        }
    }

    public static void main(String[] args) {
        ScheduledThreadPoolExecutor own = new ScheduledThreadPoolExecutor(1);
        own.setRemoveOnCancelPolicy(true);
        ScheduledFuture<?>[] futures = new ScheduledFuture<?>[PENDING];
        ring("own", i -> {
            if (futures[i] != null) {
                futures[i].cancel(false);
            }
            futures[i] = own.schedule(() -> {}, delay(i), TimeUnit.NANOSECONDS);
        });
        own.shutdownNow();

        try (Timers form = new Timers()) {
            Timers.Task[] tasks = new Timers.Task[PENDING];
            ring("form", i -> {
                if (tasks[i] != null) {
                    tasks[i].cancel();
                }
                tasks[i] = form.schedule(() -> {}, Duration.ofNanos(delay(i)));
            });
        }

        try (Wheel wheel = new Wheel()) {
            new Thread(() -> drive(wheel)).start();
            long[] timers = new long[PENDING];
            ring("one", i -> {
                if (timers[i] != 0) {
                    wheel.delete(timers[i]);
                }
                timers[i] = wheel.once(delay(i), i);
            });
            for (long timer : timers) {
                wheel.delete(timer);
            }
            long[] many = new long[MANY];
            long[] times = new long[MANY];
            Arrays.setAll(many, wheel::setup);
            Arrays.setAll(times, OwnBench::delay);
            ring("many", i -> {
                if (i % MANY == 0) {
                    wheel.deleteMany(many, null);
                    wheel.modMany(many, times, null);
                }
            });
        }
    }
}
