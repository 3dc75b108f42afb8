import io.github.hwheel.Events;
import io.github.hwheel.Wheel;
import java.util.function.LongSupplier;

/**
 * Events per second, by batches and by one callback of the library for each
 * timer. The best of thirty rounds, or of as many as five seconds hold; a round is a
 * hundred thousand timers over a thousand ticks.
 */
class Bench {
    static final int TIMERS = 100_000;
    static final long TICK = 1_000_000;
    static final long END = 1000 * TICK;

    static long total;

    /** C calls this for each timer. */
    static void fired(long cookie) {
        total += cookie;
    }

    /** The nanoseconds that it took, or a negative errno. */
    static native long callbacks(int timers, long tick, long end);

    static long batch() {
        try (Wheel wheel = new Wheel(new Wheel.Options(Wheel.Clock.MANUAL))) {
            for (int cookie = 0; cookie < TIMERS; cookie++) {
                wheel.once(cookie % 1000 * TICK, cookie, Wheel.Flag.ABS);
            }
            Events events = new Events(1024);
            long begin = System.nanoTime();
            int n;
            do {
                n = wheel.advance(END, events);
                for (int i = 0; i < n; i++) {
                    total += events.cookie(i);
                }
            } while (n == events.room());
            return System.nanoTime() - begin;
        }
    }

    static long callback() {
        long took = callbacks(TIMERS, TICK, END);
        if (took < 0) {
            throw new IllegalStateException("errno " + -took);
        }
        return took;
    }

    static void print(String name, LongSupplier way) {
        long best = Long.MAX_VALUE;
        long begin = System.nanoTime();
        for (int round = 0;
                round < 3 || round < 30 && System.nanoTime() - begin < 5_000_000_000L; round++) {
            total = 0;
            best = Math.min(best, way.getAsLong());
            if (total != TIMERS * (TIMERS - 1L) / 2) {
                throw new IllegalStateException("not every timer fired once");
            }
        }
        System.out.println(name + " " + TIMERS * 1_000_000_000L / best);
    }

    public static void main(String[] args) {
        System.loadLibrary("hwheel-bench");
        print("batch", Bench::batch);
        print("callback", Bench::callback);
    }
}
