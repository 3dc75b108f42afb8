import com.sun.jna.Callback;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import hwheel.Events;
import hwheel.Wheel;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.LongSupplier;

/**
 * Events per second, by batches and by one callback of the library for each
 * timer. The best of thirty rounds; a round is a hundred thousand timers
 * over a thousand ticks.
 */
class Bench {
    static final int TIMERS = 100_000;
    static final long TICK = 1_000_000;
    static final long END = 1000 * TICK;

    static long total;

    interface Fired extends Callback {
        void invoke(Pointer wheel, Pointer event);
    }

    /** The C functions again, with a callback. */
    static final class Raw {
        static {
            Native.register(Raw.class, "hwheel");
        }

        static native int hwheel_create(ByteBuffer options, long[] wheel);
        static native int hwheel_destroy(long wheel);
        static native int hwheel_once(
                long wheel, long timeNs, Fired fn, long cookie, int flags, long[] timer);
        static native int hwheel_advance(
                long wheel, long nowNs, Pointer events, int max, Pointer run);
    }

    static long batch() {
        try (Wheel wheel = new Wheel(new Wheel.Options(Wheel.Clock.MANUAL))) {
            for (int cookie = 0; cookie < TIMERS; cookie++) {
                wheel.once(cookie % 1000 * TICK, cookie, Wheel.ABS);
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
        ByteBuffer options = ByteBuffer.allocateDirect(40).order(ByteOrder.nativeOrder());
        options.putInt(0, 40).putInt(4, Wheel.Clock.MANUAL.ordinal());
        long[] wheel = new long[1];
        must(Raw.hwheel_create(options, wheel));
        Fired fired = (w, event) -> total += event.getLong(8);
        long[] timer = new long[1];
        for (int cookie = 0; cookie < TIMERS; cookie++) {
            must(Raw.hwheel_once(
                    wheel[0], cookie % 1000 * TICK, fired, cookie, Wheel.ABS, timer));
        }
        long begin = System.nanoTime();
        must(Raw.hwheel_advance(wheel[0], END, null, 0, null));
        long took = System.nanoTime() - begin;
        must(Raw.hwheel_destroy(wheel[0]));
        return took;
    }

    static void must(int result) {
        if (result < 0) {
            throw new IllegalStateException("errno " + -result);
        }
    }

    static void print(String name, LongSupplier way) {
        long best = Long.MAX_VALUE;
        for (int round = 0; round < 30; round++) {
            total = 0;
            best = Math.min(best, way.getAsLong());
            if (total != TIMERS * (TIMERS - 1L) / 2) {
                throw new IllegalStateException("not every timer fired once");
            }
        }
        System.out.println(name + " " + TIMERS * 1_000_000_000L / best);
    }

    public static void main(String[] args) {
        print("batch", Bench::batch);
        print("callback", Bench::callback);
    }
}
