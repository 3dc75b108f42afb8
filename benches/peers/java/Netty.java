import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Netty's HashedWheelTimer of 512 slots and 1 ms. Arming and cancelling put
 * the timer on a queue; its thread sorts them into the wheel every tick, so
 * that part of the price is paid on another core.
 */
final class Netty implements Workloads.Peer<Timeout> {
    private final HashedWheelTimer timer =
            new HashedWheelTimer(Executors.defaultThreadFactory(), 1, TimeUnit.MILLISECONDS, 512);

    @Override
    public Timeout arm(Runnable callback, long delayNs) {
        return timer.newTimeout(timeout -> callback.run(), delayNs, TimeUnit.NANOSECONDS);
    }

    @Override
    public void cancel(Timeout timeout) {
        timeout.cancel();
    }

    public static void main(String[] args) throws InterruptedException {
        Workloads.main(new Netty(), args);
    }
}
