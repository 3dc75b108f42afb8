import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/**
 * The DelayScheduler of a ForkJoinPool, from JDK 25 on: one thread has a heap of four
 * children, and other threads send it what to add and to remove. The cast compiles with
 * earlier versions, too.
 */
final class Delay implements Workloads.Peer<ScheduledFuture<?>> {
    private final ScheduledExecutorService pool = (ScheduledExecutorService) (Object) new ForkJoinPool(1);

    @Override
    public ScheduledFuture<?> arm(Runnable callback, long delayNs) {
        return pool.schedule(callback, delayNs, TimeUnit.NANOSECONDS);
    }

    @Override
    public void cancel(ScheduledFuture<?> timer) {
        timer.cancel(false);
    }

    public static void main(String[] args) throws InterruptedException {
        Workloads.main(new Delay(), args);
    }
}
