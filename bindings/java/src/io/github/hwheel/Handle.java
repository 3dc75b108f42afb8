package io.github.hwheel;

import java.util.concurrent.atomic.AtomicBoolean;

/** A wheel of C, with what wakes the threads that wait for it. Knows no {@link Wheel}. */
final class Handle implements Runnable {
    private final long wheel;
    private final Users users;
    private final AtomicBoolean closing = new AtomicBoolean();
    /** Readable once the wheel is closed; -1 before the first wait. */
    private int bell = -1;

    Handle(long wheel) {
        this.wheel = wheel;
        this.users = new Users(this::free);
    }

    /** A call of C. */
    interface Call {
        int on(long wheel);
    }

    int call(Call call) {
        int entrance = users.enter();
        try {
            return call.on(wheel);
        } finally {
            users.leave(entrance);
        }
    }

    /** A call of C that returns a number of 64 bits, or throws. */
    interface Make {
        long on(long wheel);
    }

    long make(Make make) {
        int entrance = users.enter();
        try {
            return make.on(wheel);
        } finally {
            users.leave(entrance);
        }
    }

    /** True if the descriptor of the wheel became readable. */
    boolean await(int timeoutMs) {
        int entrance = users.enter();
        try {
            int fd = HwheelException.check(Library.fd(wheel));
            boolean readable = Descriptor.await(fd, bell(), timeoutMs);
            if (closing.get()) {
                throw new IllegalStateException("the wheel is closed");
            }
            return readable;
        } finally {
            users.leave(entrance);
        }
    }

    /** Closes the wheel, at the first time. Also the cleaner's action. */
    @Override
    public void run() {
        if (closing.compareAndSet(false, true)) {
            synchronized (this) {
                if (bell >= 0) {
                    Descriptor.ring(bell);
                }
            }
            users.shut();
        }
    }

    private synchronized int bell() {
        if (bell < 0) {
            bell = Descriptor.bell(closing.get());
        }
        return bell;
    }

    private void free() {
        Library.destroy(wheel);
        synchronized (this) {
            if (bell >= 0) {
                Descriptor.close(bell);
            }
        }
    }
}
