import hwheel.Timers;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

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
