package io.netty.util;

import io.github.hwheel.Wheel;
import io.github.hwheel.netty.WheelTimer;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/**
 * Netty's constructors for {@link WheelTimer}. The number of ticks of a wheel and the
 * detection of leaks have no counterpart.
 */
public class HashedWheelTimer implements Timer {
    private final WheelTimer timer;

    public HashedWheelTimer() {
        timer = new WheelTimer();
    }

    public HashedWheelTimer(long tick, TimeUnit unit) {
        this(Executors.defaultThreadFactory(), tick, unit, 512);
    }

    public HashedWheelTimer(ThreadFactory threads, long tick, TimeUnit unit, int ticks) {
        this(threads, tick, unit, ticks, true, 0);
    }

    public HashedWheelTimer(ThreadFactory threads, long tick, TimeUnit unit, int ticks,
            boolean leaks, long max) {
        this(threads, tick, unit, ticks, leaks, max, Runnable::run);
    }

    public HashedWheelTimer(ThreadFactory threads, long tick, TimeUnit unit, int ticks,
            boolean leaks, long max, Executor executor) {
        Wheel.Options options = new Wheel.Options(Wheel.Clock.MONOTONIC)
                .withTick(Duration.of(tick, unit.toChronoUnit()))
                .withMaxTimers((int) max);
        timer = new WheelTimer(options, threads, executor);
    }

    @Override
    public Timeout newTimeout(TimerTask task, long delay, TimeUnit unit) {
        return timer.newTimeout(task, delay, unit);
    }

    @Override
    public Set<Timeout> stop() {
        return timer.stop();
    }

    public long pendingTimeouts() {
        return timer.pendingTimeouts();
    }
}
