import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BiConsumer;

/**
 * The workloads of docs/PERFORMANCE.md for timers of the JVM, with the same
 * pseudo-random sequence as benches/bench.h. The timers run on the real
 * clock, in a thread of their own: in "refresh" time passes by itself, and of
 * "cycle" there is the arming alone. None can be armed anew in place, so there is
 * no "rearm", and each arming allocates.
 */
final class Workloads<T> {
    /** A timer queue whose handles are of type T. */
    interface Peer<T> {
        T arm(Runnable callback, long delayNs);

        void cancel(T timer);
    }

    private static final long MS = 1_000_000, SEC = 1_000_000_000, LONGEST = 60 * SEC;
    private static final long SEED = 0x9e3779b97f4a7c15L;
    /** A fifth of what the wheels in C do: SLOW in workloads.c. */
    private static final int OPS = 400_000;
    private static final int CONNECTIONS = 100_000;

    private final Peer<T> peer;
    private final LongAdder fired = new LongAdder();
    private final Runnable callback = fired::increment;

    private Workloads(Peer<T> peer) {
        this.peer = peer;
    }

    private static final class Rng {
        private long state;

        Rng(long seed) {
            state = seed;
        }

        long below(long n) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
            // The high word of an unsigned product; n is positive.
            return Math.multiplyHigh(state, n) + (state < 0 ? n : 0);
        }

        long delay() {
            return MS + below(LONGEST - MS);
        }
    }

    private static void figure(String name, double value) {
        System.out.printf("%s %.4f%n", name, value);
    }

    private T arm(long delayNs) {
        return peer.arm(callback, delayNs);
    }

    @SuppressWarnings("unchecked")
    private T[] armed(int n, Rng rng) {
        T[] timers = (T[]) new Object[n];
        for (int i = 0; i < n; i++) {
            timers[i] = arm(rng == null ? 30 * SEC : rng.delay());
        }
        return timers;
    }

    private void pair(T[] timers, Rng rng) {
        int i = (int) rng.below(timers.length);
        peer.cancel(timers[i]);
        timers[i] = arm(rng.delay());
    }

    private void refresh(T[] timers, Rng rng) {
        int i = (int) rng.below(timers.length);
        peer.cancel(timers[i]);
        timers[i] = arm(30 * SEC);
    }

    private void armAndCancel(T[] timers, Rng rng) {
        peer.cancel(arm(30 * SEC));
    }

    /** Each thread works on timers of its own. */
    private void churn(int n, int threads, boolean uniform, BiConsumer<T[], Rng> operation)
            throws InterruptedException {
        Rng delays = uniform ? new Rng(SEED) : null;
        Thread[] running = new Thread[threads];
        CountDownLatch go = new CountDownLatch(1);
        for (int t = 0; t < threads; t++) {
            T[] timers = armed(n, delays);
            Rng rng = new Rng(SEED + t);
            running[t] = new Thread(() -> {
                // The compiler's share is not measured: a warm-up of a fifth.
                for (int i = 0; i < OPS / 5; i++) {
                    operation.accept(timers, rng);
                }
                try {
                    go.await();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                for (int i = 0; i < OPS; i++) {
                    operation.accept(timers, rng);
                }
            });
            running[t].start();
        }
        while (Arrays.stream(running).anyMatch(t -> t.getState() != Thread.State.WAITING)) {
            Thread.sleep(1);
        }
        long start = System.nanoTime();
        go.countDown();
        for (Thread t : running) {
            t.join();
        }
        figure("ns", (double) (System.nanoTime() - start) / ((double) OPS * threads));
    }

    /** Lateness in nanoseconds, below zero if early. */
    private void lateness() throws InterruptedException {
        int n = 1000;
        Rng rng = new Rng(SEED);
        long[] late = new long[n];
        CountDownLatch left = new CountDownLatch(n);
        for (int i = 0; i < n; i++) {
            int slot = i;
            long delay = MS + rng.below(SEC - MS);
            long due = System.nanoTime() + delay;
            peer.arm(() -> {
                late[slot] = System.nanoTime() - due;
                left.countDown();
            }, delay);
        }
        left.await();
        Arrays.sort(late);
        figure("min", late[0]);
        String[] names = {"p10", "p25", "p50", "p75", "p90", "p99", "p999"};
        int[] mille = {100, 250, 500, 750, 900, 990, 999};
        for (int i = 0; i < names.length; i++) {
            figure(names[i], late[n * mille[i] / 1000]);
        }
        figure("max", late[n - 1]);
    }

    /** The live heap: the rest of what is resident is the collector's. */
    private static long heap() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private void memory(int n) throws InterruptedException {
        long before = heap();
        T[] timers = armed(n, new Rng(SEED));
        // Time for a timer thread to take them over.
        TimeUnit.MILLISECONDS.sleep(500);
        figure("bytes", (double) (heap() - before) / n);
        // The array must outlive the measurement.
        if (timers[0] == null) {
            throw new IllegalStateException();
        }
    }

    private boolean run(String workload, int n, int threads) throws InterruptedException {
        switch (workload) {
            case "pair" -> churn(n, threads, true, this::pair);
            case "refresh" -> churn(CONNECTIONS, 1, false, this::refresh);
            case "constant" -> churn(1, threads, false, this::armAndCancel);
            case "cycle" -> {
                long start = System.nanoTime();
                armed(n, new Rng(SEED));
                figure("arm", (double) (System.nanoTime() - start) / n);
            }
            case "lateness" -> lateness();
            case "memory" -> memory(n);
            default -> {
                return false;
            }
        }
        return true;
    }

    static <T> void main(Peer<T> peer, String[] args) throws InterruptedException {
        int n = args.length > 1 ? Integer.parseInt(args[1]) : 1;
        int threads = args.length > 2 ? Integer.parseInt(args[2]) : 1;
        boolean known = args.length > 0 && new Workloads<>(peer).run(args[0], n, threads);
        System.exit(known ? 0 : 2);
    }
}
