import hwheel.Wheel;
import java.util.Arrays;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Pairs of arming and cancelling a second, with 10,000 other timers pending: Java's own
 * ScheduledThreadPoolExecutor, the wheel one by one, and the wheel with a call for a
 * thousand. The best of ten rounds.
 */
class OwnBench {
    static final int PENDING = 10_000;
    static final int PAIRS = 100_000;
    static final int MANY = 1000;
    static final long HOUR = 3_600_000_000_000L;

    static void rate(String name, Runnable way) {
        long best = Long.MAX_VALUE;
        for (int round = 0; round < 10; round++) {
            long begin = System.nanoTime();
            way.run();
            best = Math.min(best, System.nanoTime() - begin);
        }
        System.out.println(name + " " + PAIRS * 1_000_000_000L / best);
    }

    public static void main(String[] args) {
        ScheduledThreadPoolExecutor own = new ScheduledThreadPoolExecutor(1);
        own.setRemoveOnCancelPolicy(true);
        for (int i = 0; i < PENDING; i++) {
            own.schedule(() -> {}, HOUR, TimeUnit.NANOSECONDS);
        }
        rate("own", () -> {
            for (int i = 0; i < PAIRS; i++) {
                own.schedule(() -> {}, HOUR, TimeUnit.NANOSECONDS).cancel(false);
            }
        });
        own.shutdownNow();

        try (Wheel wheel = new Wheel()) {
            for (int cookie = 0; cookie < PENDING; cookie++) {
                wheel.once(HOUR, cookie, 0);
            }
            rate("one", () -> {
                for (int i = 0; i < PAIRS; i++) {
                    wheel.delete(wheel.once(HOUR, i, 0));
                }
            });
            long[] timers = new long[MANY];
            long[] times = new long[MANY];
            Arrays.setAll(timers, i -> wheel.setup(0));
            Arrays.fill(times, HOUR);
            rate("many", () -> {
                for (int i = 0; i < PAIRS; i += MANY) {
                    wheel.modMany(timers, times, 0, null);
                    wheel.deleteMany(timers, null);
                }
            });
        }
    }
}
