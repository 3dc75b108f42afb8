package io.github.hwheel;

/** Waits for descriptors, which java.nio cannot do for those it has not made. */
final class Descriptor {
    static {
        Library.version(); // loads the library
    }

    private static native int eventfd(int value);

    private static native int poll(int fd, int bell, int timeoutMs);

    static native int ring(int bell);

    static native int close(int fd);

    /** A descriptor that becomes readable by {@link #ring}, or is so already. */
    static int bell(boolean rung) {
        return HwheelException.check(eventfd(rung ? 1 : 0));
    }

    /** Waits for both, and returns whether the first one is readable. */
    static boolean await(int fd, int bell, int timeoutMs) {
        return HwheelException.check(poll(fd, bell, timeoutMs)) == 1;
    }

    private Descriptor() {}
}
