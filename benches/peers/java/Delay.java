import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ScheduledExecutorService;

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
