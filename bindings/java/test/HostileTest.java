import io.github.hwheel.Events;
import io.github.hwheel.HwheelException;
import io.github.hwheel.Wheel;
import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/** No call, in any order, from any thread, ends the process. main runs all tests. */
class HostileTest {
    static final Duration MS = Duration.ofMillis(1);

    /** Every call of a wheel. */
    static List<Runnable> everyCall(Wheel w, long timer, Events events) {
        byte[] key = Wheel.keyOf(7);
        return List.of(
                () -> w.once(MS, 1), () -> w.every(MS, 2), () -> w.setup(3),
                () -> w.mod(timer, MS), () -> w.modRange(timer, 0, 1000),
                () -> w.setPeriod(timer, 0),
                () -> w.modMany(new long[] {timer}, new long[] {0}, new int[1]),
                () -> w.deleteMany(new long[] {timer}, null),
                () -> w.pending(timer), () -> w.remaining(timer), () -> w.delete(timer),
                () -> w.shutdown(timer), () -> w.free(timer), () -> w.keySet(key, MS, 4),
                () -> w.keyMod(key, MS), () -> w.keyPending(key), () -> w.keyDelete(key),
                w::now, w::nextExpiry, w::stats, () -> w.poll(events),
                () -> w.advance(1, events), () -> w.list(new long[1], events), w::fd,
                () -> w.await(Duration.ZERO));
    }

    static void oneClosesWhileOthersUseIt() throws Exception {
        for (int round = 0; round < 60; round++) {
            Wheel wheel = new Wheel();
            List<Thread> threads = new ArrayList<>();
            AtomicReference<Throwable> failed = new AtomicReference<>();
            for (int i = 0; i < 4; i++) {
                threads.add(new Thread(() -> {
                    Events events = new Events(4);
                    try {
                        while (true) {
                            for (Runnable call : everyCall(wheel, wheel.setup(1), events)) {
                                try {
                                    call.run();
                                } catch (HwheelException e) {
                                    // EBUSY, EINVAL or ESTALE.
                                }
                            }
                        }
                    } catch (IllegalStateException e) {
                        // The wheel is closed.
                    } catch (Throwable e) {
                        failed.set(e);
                    }
                }));
            }
            long delay = round % 10;
            for (int i = 0; i < 2; i++) {
                threads.add(new Thread(() -> {
                    sleep(delay);
                    wheel.close();
                }));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            if (failed.get() != null) {
                throw new AssertionError(failed.get());
            }
        }
    }

    static void useAfterClose() {
        Wheel wheel = new Wheel();
        long timer = wheel.setup(1);
        wheel.close();
        wheel.close();
        for (Runnable call : everyCall(wheel, timer, new Events(1))) {
            WheelTest.equal(WheelTest.thrown(IllegalStateException.class, call::run).getMessage(),
                    "the wheel is closed");
        }
    }

    static void closeWakesAwait() throws Exception {
        for (boolean drained : new boolean[] {false, true}) {
            Wheel wheel = new Wheel();
            if (drained) {
                wheel.drain(new Events(1));
            }
            Throwable[] thrown = new Throwable[1];
            Thread[] waiting = new Thread[3];
            for (int i = 0; i < waiting.length; i++) {
                waiting[i] = new Thread(() -> {
                    try {
                        while (true) {
                            wheel.await();
                        }
                    } catch (Throwable e) {
                        thrown[0] = e;
                    }
                });
                waiting[i].start();
            }
            sleep(50);
            wheel.close();
            for (Thread thread : waiting) {
                thread.join(20_000);
                if (thread.isAlive()) {
                    throw new AssertionError("await still sleeps");
                }
            }
            WheelTest.equal(thrown[0].getClass(), IllegalStateException.class);
        }
    }

    static void theCollectorClosesAForgottenWheel() {
        int before = descriptors();
        for (int i = 0; i < 50; i++) {
            Wheel wheel = new Wheel();
            wheel.await(Duration.ZERO);
            wheel.once(Duration.ofHours(1), 1);
        }
        for (int i = 0; i < 2000 && descriptors() > before + 10; i++) {
            System.gc();
            sleep(10);
        }
        if (descriptors() > before + 10) {
            throw new AssertionError("the wheels are still open");
        }
    }

    static void hostileArguments() {
        try (Wheel wheel = new Wheel()) {
            for (long timer : new long[] {0, 1, 12345, Long.MIN_VALUE, -1}) {
                WheelTest.fails(HwheelException.ESTALE, () -> wheel.mod(timer, MS));
                WheelTest.fails(HwheelException.ESTALE, () -> wheel.free(timer));
                WheelTest.fails(HwheelException.ESTALE, () -> wheel.remaining(timer));
            }
            long timer = wheel.setup(1);
            WheelTest.fails(HwheelException.EINVAL, () -> wheel.mod(timer, 1, Wheel.Flag.REDUCE, Wheel.Flag.IF_PENDING));
            WheelTest.fails(HwheelException.EINVAL, () -> wheel.keySet(new byte[256], MS, 1));
            WheelTest.fails(HwheelException.EINVAL, () -> wheel.keySet(new byte[0], MS, 1));
            WheelTest.fails(HwheelException.EINVAL, () -> wheel.keySet(new byte[1000], MS, 1));
            for (Runnable call : List.<Runnable>of(
                    () -> wheel.keySet(null, MS, 1), () -> wheel.keyMod(null, MS),
                    () -> wheel.keyDelete(null), () -> wheel.keyPending(null),
                    () -> wheel.poll(null), () -> wheel.list(null, new Events(1)),
                    () -> wheel.modMany(null, new long[1], null),
                    () -> wheel.deleteMany(null, null), () -> wheel.once(null, 1))) {
                WheelTest.thrown(NullPointerException.class, call::run);
            }
            WheelTest.equal(wheel.modMany(new long[0], new long[0], new int[0]), 0);
            WheelTest.refuses(() -> wheel.setPeriod(timer, -1));
            WheelTest.refuses(() -> wheel.modMany(new long[2], new long[1], null));
            WheelTest.refuses(() -> wheel.modMany(new long[1], new long[] {-1}, null));
            WheelTest.refuses(() -> wheel.deleteMany(new long[1], new int[2]));
            int[] results = new int[2];
            WheelTest.equal(
                    wheel.modMany(new long[] {timer, 5}, new long[] {5, 5}, results), 1);
            WheelTest.equal(results[1], -HwheelException.ESTALE);
        }
    }

    /** A thread may say any number, and greater ones than an int come with time. */
    static void aThreadHasAnyNumber() throws Exception {
        for (long number : new long[] {0xffff_ffffL, 0xffff_fff9L, Long.MIN_VALUE, -1}) {
            Wheel wheel = new Wheel();
            AtomicReference<Throwable> failed = new AtomicReference<>();
            Thread thread = new Thread(() -> {
                try {
                    long timer = wheel.setup(1);
                    wheel.close();
                    wheel.mod(timer, MS);
                    failed.set(new AssertionError("a closed wheel works"));
                } catch (IllegalStateException e) {
                    // The wheel is closed.
                } catch (Throwable e) {
                    failed.set(e);
                }
            }) {
                @Override
                public long getId() {
                    return number;
                }
            };
            thread.start();
            thread.join();
            if (failed.get() != null) {
                throw new AssertionError(failed.get());
            }
        }
    }

    static void eventsHaveBounds() {
        Events events = new Events(2);
        for (int i : new int[] {-1, 2, 1 << 27, 1 << 28, -1 << 27, Integer.MIN_VALUE}) {
            for (Runnable call : List.<Runnable>of(
                    () -> events.timer(i), () -> events.cookie(i), () -> events.deadlineNs(i),
                    () -> events.missed(i), () -> events.drained(i), () -> events.listed(i))) {
                WheelTest.thrown(IndexOutOfBoundsException.class, call::run);
            }
        }
        for (int room : new int[] {0, -1, Integer.MIN_VALUE, 1 << 26, Integer.MAX_VALUE}) {
            WheelTest.refuses(() -> new Events(room));
        }
    }

    /** With a small heap, which threads fill with garbage. */
    static void batchesDoNotKeepTheCollectorOut() throws Exception {
        long end = System.nanoTime() + 3_000_000_000L;
        AtomicReference<Throwable> failed = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        try (Wheel wheel = new Wheel()) {
            for (int i = 0; i < 18; i++) {
                boolean arms = i < 16;
                threads.add(new Thread(() -> {
                    try {
                        long[] timers = new long[3000];
                        long[] times = new long[timers.length];
                        Arrays.fill(times, Duration.ofHours(1).toNanos());
                        byte[][] garbage = new byte[64][];
                        for (int t = 0; arms && t < timers.length; t++) {
                            timers[t] = wheel.setup(t);
                        }
                        while (System.nanoTime() < end && failed.get() == null) {
                            if (arms) {
                                wheel.modMany(timers, times, null);
                            } else {
                                Arrays.setAll(garbage, g -> new byte[20_000]);
                            }
                        }
                    } catch (Throwable e) {
                        failed.set(e);
                    }
                }));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
        }
        if (failed.get() != null) {
            throw new AssertionError(failed.get());
        }
        System.out.println("a heap of garbage: 1 test passed");
    }

    static int descriptors() {
        return new File("/proc/self/fd").list().length;
    }

    static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 1) {
            batchesDoNotKeepTheCollectorOut();
            return;
        }
        useAfterClose();
        oneClosesWhileOthersUseIt();
        closeWakesAwait();
        theCollectorClosesAForgottenWheel();
        hostileArguments();
        aThreadHasAnyNumber();
        eventsHaveBounds();
        System.out.println("hostile calls: 7 tests passed");
    }
}
