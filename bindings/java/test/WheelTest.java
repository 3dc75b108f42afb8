import io.github.hwheel.Events;
import io.github.hwheel.HwheelException;
import io.github.hwheel.Wheel;
import io.github.hwheel.Wheel.Clock;
import io.github.hwheel.Wheel.Flag;
import io.github.hwheel.Wheel.Missed;
import io.github.hwheel.Wheel.Options;
import java.time.Duration;
import java.util.BitSet;
import java.util.OptionalLong;
import java.util.function.Consumer;

/** Each method is a test; main runs them all. */
class WheelTest {
    static final long MS = 1_000_000;

    static void anEventTellsTimerCookieAndDeadline() {
        manual(new Options(Clock.MANUAL), wheel -> {
            Events events = new Events(4);
            long timer = wheel.once(5 * MS, -1);
            equal(wheel.advance(5 * MS - 1, events), 0);
            equal(wheel.advance(5 * MS, events), 1);
            equal(events.timer(0), timer);
            equal(events.cookie(0), -1);
            equal(events.deadlineNs(0), 5 * MS);
            equal(events.missed(0), 0);
            equal(events.drained(0) || events.listed(0), false);
            equal(wheel.advance(6 * MS, events), 0);
        });
    }

    static void aFullBatchMeansThereMayBeMore() {
        manual(new Options(Clock.MANUAL), wheel -> {
            Events events = new Events(4);
            for (int cookie = 0; cookie < 10; cookie++) {
                wheel.once(cookie * MS, cookie, Flag.ABS);
            }
            int next = 0;
            for (int want : new int[] {4, 4, 2, 0}) {
                int n = wheel.advance(20 * MS, events);
                equal(n, want);
                for (int i = 0; i < n; i++) {
                    equal(events.cookie(i), next++);
                }
            }
        });
    }

    static void missedPeriodsAreCountedOrFired() {
        manual(new Options(Clock.MANUAL), wheel -> {
            Events events = new Events(16);
            long timer = wheel.every(MS, MS, 0, 1, Missed.SKIP);
            equal(wheel.advance(10 * MS, events), 1);
            equal(events.missed(0), 9);
            equal(wheel.delete(timer), true);
            wheel.every(11 * MS, MS, 0, 2, Missed.BURST, Flag.ABS);
            equal(wheel.advance(20 * MS, events), 10);
        });
    }

    static void aTimerIsArmedAgainAndAgain() {
        manual(new Options(Clock.MANUAL), wheel -> {
            Events events = new Events(2);
            long timer = wheel.setup(7);
            equal(wheel.pending(timer), false);
            equal(wheel.remaining(timer), OptionalLong.empty());
            equal(wheel.mod(timer, MS, Flag.IF_PENDING), false);
            equal(wheel.mod(timer, Duration.ofMillis(10)), false);
            equal(wheel.mod(timer, 20 * MS, Flag.REDUCE), true);
            equal(wheel.remaining(timer), OptionalLong.of(10 * MS));
            equal(wheel.mod(timer, 3 * MS, Flag.ABS), true);
            equal(wheel.nextExpiry(), OptionalLong.of(3 * MS));
            equal(wheel.advance(3 * MS, events), 1);
            equal(events.cookie(0), 7);
            equal(wheel.mod(timer, Wheel.NEVER), false);
            equal(wheel.nextExpiry(), OptionalLong.empty());
            equal(wheel.shutdown(timer), true);
            fails(HwheelException.ESHUTDOWN, () -> wheel.mod(timer, MS));
            equal(wheel.free(timer), false);
            fails(HwheelException.ESTALE, () -> wheel.free(timer));
            Wheel.Stats stats = wheel.stats();
            equal(stats.live(), 0);
            equal(stats.fired(), 1);
            equal(stats.armed(), 2);
            equal(stats.cancelled(), 1);
            equal(stats.lateness()[0], 1);
        });
    }

    static void aKeyThatIsSetAgainMovesItsTimer() {
        manual(new Options(Clock.MANUAL), wheel -> {
            Events events = new Events(4);
            byte[] key = "session 7".getBytes();
            equal(wheel.keySet(key, Duration.ofMillis(1), 1), false);
            equal(wheel.keySet(Wheel.keyOf(7), MS, 2), false);
            equal(wheel.keySet(key, 2 * MS, 3), true);
            equal(wheel.keySet(Wheel.keyOf(7), 3 * MS, 4, Flag.ABS), true);
            equal(wheel.advance(2 * MS, events), 1);
            equal(events.cookie(0), 3);
            equal(events.timer(0), 0);
            equal(wheel.keyPending(key), false);
            equal(wheel.keyMod(key, MS), false);
            equal(wheel.keyDelete(key), false);
            equal(wheel.keyMod(Wheel.keyOf(7), Duration.ofMillis(9)), true);
            equal(wheel.keyPending(Wheel.keyOf(7)), true);
            equal(wheel.keyDelete(Wheel.keyOf(7)), true);
            fails(HwheelException.EINVAL, () -> wheel.keySet(new byte[0], MS, 1));
        });
    }

    static void errorsCarryTheirNumber() {
        manual(new Options(Clock.MANUAL, 0, 0, 0, 1, 0), wheel -> {
            fails(HwheelException.ESTALE, () -> wheel.delete(12345));
            fails(HwheelException.EINVAL, () -> wheel.every(MS, 0, 0, 1, Missed.SKIP));
            fails(HwheelException.EINVAL, () -> wheel.poll(new Events(1)));
            wheel.once(Wheel.NEVER, 1);
            fails(HwheelException.ENOSPC, () -> wheel.once(MS, 2));
        });
        fails(HwheelException.EINVAL, () -> new Wheel(new Options(Clock.MANUAL, 0, 0, 3, 0, 0)));
        Wheel closed = new Wheel();
        closed.close();
        closed.close();
    }

    static void errorsAreInTheLibrarysWords() {
        manual(new Options(Clock.MANUAL), wheel -> {
            equal(thrown(HwheelException.class, () -> wheel.delete(12345)).getMessage(),
                    "the timer no longer exists");
        });
    }

    static void negativeTimesAreRefused() {
        manual(new Options(Clock.MANUAL), wheel -> {
            long timer = wheel.setup(1);
            Duration negative = Duration.ofNanos(-1);
            refuses(() -> wheel.once(-1, 1));
            refuses(() -> wheel.once(negative, 1));
            refuses(() -> wheel.every(negative, 1));
            refuses(() -> wheel.every(0, 1, -1, 1, Missed.SKIP));
            refuses(() -> wheel.mod(timer, Long.MIN_VALUE));
            refuses(() -> wheel.modRange(timer, 0, -1));
            refuses(() -> wheel.keySet(Wheel.keyOf(1), negative, 1));
            refuses(() -> wheel.advance(-1, new Events(1)));
            refuses(() -> new Wheel(new Options(Clock.MANUAL, -1, 0, 0, 0, 0)));
            equal(wheel.stats().pending(), 0);
            equal(wheel.mod(timer, Duration.ofNanos(Wheel.NEVER)), false);
            equal(wheel.remaining(timer), OptionalLong.empty());
            for (Duration longer : new Duration[] {
                    Duration.ofNanos(Wheel.NEVER).plusNanos(1), Duration.ofDays(365 * 300),
                    Duration.ofSeconds(Long.MAX_VALUE)}) {
                refuses(() -> wheel.mod(timer, longer));
                refuses(() -> wheel.once(longer, 1));
                refuses(() -> wheel.await(longer));
            }
        });
    }

    static void pendingTimersAreListed() {
        manual(new Options(Clock.MANUAL), wheel -> {
            for (int cookie = 1; cookie <= 5; cookie++) {
                wheel.once(Duration.ofSeconds(1), cookie);
            }
            Events events = new Events(2);
            long[] cursor = new long[1];
            int sum = 0;
            int n;
            do {
                n = wheel.list(cursor, events);
                for (int i = 0; i < n; i++) {
                    equal(events.listed(i) && !events.drained(i), true);
                    equal(wheel.delete(events.timer(i)), true);
                    sum += (int) events.cookie(i);
                }
            } while (n == events.room());
            equal(sum, 15);
        });
    }

    static void whatIsArmedIsDrained() {
        manual(new Options(Clock.MANUAL), wheel -> {
            Events events = new Events(2);
            long timer = wheel.once(Wheel.NEVER, 9);
            equal(wheel.drain(events), 1);
            equal(events.timer(0), timer);
            equal(events.drained(0) && !events.listed(0), true);
            fails(HwheelException.ESHUTDOWN, () -> wheel.once(MS, 1));
        });
    }

    static void manyThreadsArmAndNoneIsEarlyLostOrDoubled() throws InterruptedException {
        final int threads = 4;
        final int each = 2000;
        try (Wheel wheel = new Wheel()) {
            Thread[] arming = new Thread[threads];
            for (int t = 0; t < threads; t++) {
                int first = t * each;
                arming[t] = new Thread(() -> {
                    for (int i = 0; i < each; i++) {
                        wheel.once(i % 20 * MS, first + i);
                        equal(wheel.delete(wheel.once(3_600_000 * MS, 0)), true);
                    }
                });
                arming[t].start();
            }
            BitSet seen = new BitSet();
            Events events = new Events(256);
            while (seen.cardinality() < threads * each) {
                equal(wheel.await(Duration.ofMinutes(1)), true);
                int n = wheel.poll(events);
                long now = wheel.now();
                for (int i = 0; i < n; i++) {
                    equal(events.deadlineNs(i) <= now, true);
                    equal(seen.get((int) events.cookie(i)), false);
                    seen.set((int) events.cookie(i));
                }
            }
            for (Thread thread : arming) {
                thread.join();
            }
            equal(wheel.stats().live(), 0);
            wheel.poll(events);
            equal(wheel.await(Duration.ZERO), false);
        }
    }

    static void theVersionIsTheLibrarys() {
        equal(Wheel.version().matches("\\d+\\.\\d+\\.\\d+"), true);
    }

    static void manual(Options options, Consumer<Wheel> test) {
        try (Wheel wheel = new Wheel(options)) {
            test.accept(wheel);
        }
    }

    static void equal(Object got, Object want) {
        if (!got.equals(want)) {
            throw new AssertionError("got " + got + ", want " + want);
        }
    }

    static void equal(long got, long want) {
        equal((Object) got, (Object) want);
    }

    interface Throwing {
        void run() throws Exception;
    }

    /** What a call throws, which must be of this type. */
    static <E extends Throwable> E thrown(Class<E> type, Throwing call) {
        try {
            call.run();
        } catch (Throwable e) {
            if (!type.isInstance(e)) {
                throw new AssertionError("not " + type, e);
            }
            return type.cast(e);
        }
        throw new AssertionError("no " + type);
    }

    static void refuses(Runnable call) {
        thrown(IllegalArgumentException.class, call::run);
    }

    static void fails(int errno, Runnable call) {
        equal(thrown(HwheelException.class, call::run).errno(), errno);
    }

    public static void main(String[] args) throws Exception {
        anEventTellsTimerCookieAndDeadline();
        aFullBatchMeansThereMayBeMore();
        missedPeriodsAreCountedOrFired();
        aTimerIsArmedAgainAndAgain();
        aKeyThatIsSetAgainMovesItsTimer();
        errorsCarryTheirNumber();
        errorsAreInTheLibrarysWords();
        negativeTimesAreRefused();
        pendingTimersAreListed();
        whatIsArmedIsDrained();
        manyThreadsArmAndNoneIsEarlyLostOrDoubled();
        theVersionIsTheLibrarys();
        System.out.println("12 tests passed, and the programs of README.md");
    }
}
