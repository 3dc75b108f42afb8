import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * The JDK's ScheduledThreadPoolExecutor, a binary heap under a lock, with one
 * thread. Without the remove-on-cancel policy cancelled timers stay in the
 * heap until they are due, which is a leak, so the policy is on.
 */
final class Jdk implements Workloads.Peer<ScheduledFuture<?>> {
    private final ScheduledExecutorService executor;

    Jdk(ScheduledExecutorService executor) {
        this.executor = executor;
    }

    @Override
    public ScheduledFuture<?> arm(Runnable callback, long delayNs) {
        return executor.schedule(callback, delayNs, TimeUnit.NANOSECONDS);
    }

    @Override
    public void cancel(ScheduledFuture<?> timer) {
        timer.cancel(false);
    }

    public static void main(String[] args) throws InterruptedException {
        ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);
        executor.setRemoveOnCancelPolicy(true);
        Workloads.main(new Jdk(executor), args);
    }
}

/**
 * The DelayScheduler of a ForkJoinPool, from JDK 25 on: one thread has a heap of four
 * children, and other threads send it what to add and to remove. The cast compiles with
 * earlier versions, too.
 */
final class Delay {
    private Delay() {}

    public static void main(String[] args) throws InterruptedException {
        ScheduledExecutorService pool = (ScheduledExecutorService) (Object) new ForkJoinPool(1);
        Workloads.main(new Jdk(pool), args);
    }
}
