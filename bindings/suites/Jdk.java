import io.github.hwheel.Timers;
import io.github.hwheel.WheelExecutor;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionHandler;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/** The JDK's constructors for {@link WheelExecutor}. */
class ScheduledThreadPoolExecutor extends WheelExecutor {
    private volatile boolean remove;

    public ScheduledThreadPoolExecutor(int corePoolSize) {
        super(corePoolSize);
    }

    public ScheduledThreadPoolExecutor(int corePoolSize, ThreadFactory threads) {
        super(corePoolSize, threads);
    }

    public ScheduledThreadPoolExecutor(int corePoolSize, RejectedExecutionHandler handler) {
        super(corePoolSize, handler);
    }

    public ScheduledThreadPoolExecutor(
            int corePoolSize, ThreadFactory threads, RejectedExecutionHandler handler) {
        super(corePoolSize, threads, handler);
    }

    /** The executor always removes what is cancelled, which this policy allows. */
    public void setRemoveOnCancelPolicy(boolean remove) {
        this.remove = remove;
    }

    public boolean getRemoveOnCancelPolicy() {
        return remove;
    }
}

/** A class of the library of jtreg's tests. */
final class Utils {
    static long adjustTimeout(long ms) {
        return ms;
    }

    private Utils() {}
}

/** The timeouts of CompletableFuture, by {@link Timers}. */
final class Timeouts {
    private static final Timers TIMERS = new Timers();

    static <T> CompletableFuture<T> orTimeout(
            CompletableFuture<T> future, long time, TimeUnit unit) {
        return TIMERS.orTimeout(future, duration(time, unit));
    }

    static <T> CompletableFuture<T> completeOnTimeout(
            CompletableFuture<T> future, T value, long time, TimeUnit unit) {
        return TIMERS.completeOnTimeout(future, value, duration(time, unit));
    }

    static Executor delayedExecutor(long time, TimeUnit unit) {
        return TIMERS.delayedExecutor(duration(time, unit));
    }

    static Executor delayedExecutor(long time, TimeUnit unit, Executor executor) {
        return TIMERS.delayedExecutor(duration(time, unit), executor);
    }

    private static Duration duration(long time, TimeUnit unit) {
        return Duration.of(time, unit.toChronoUnit());
    }

    private Timeouts() {}
}
