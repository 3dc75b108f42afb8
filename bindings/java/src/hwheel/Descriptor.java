package hwheel;

import com.sun.jna.Native;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Waits for descriptors, which java.nio cannot do for those it has not made. */
final class Descriptor {
    private static final short POLLIN = 1;
    private static final int EFD_CLOEXEC = 02000000;
    private static final int EINTR = 4;

    static {
        Native.register(Descriptor.class, "c");
    }

    private static native int poll(ByteBuffer fds, long n, int timeoutMs);

    private static native int eventfd(int value, int flags);

    private static native long write(int fd, long[] value, long bytes);

    static native int close(int fd);

    /** A descriptor that becomes readable by {@link #ring}, or is so already. */
    static int bell(boolean rung) {
        int fd = eventfd(rung ? 1 : 0, EFD_CLOEXEC);
        return HwheelException.check(fd < 0 ? -Native.getLastError() : fd);
    }

    static void ring(int bell) {
        write(bell, new long[] {1}, Long.BYTES);
    }

    /** Waits for both, and returns whether the first one is readable. */
    static boolean await(int fd, int bell, int timeoutMs) {
        ByteBuffer fds = ByteBuffer.allocateDirect(16).order(ByteOrder.nativeOrder());
        fds.putInt(0, fd).putShort(4, POLLIN).putInt(8, bell).putShort(12, POLLIN);
        if (poll(fds, 2, timeoutMs) < 0) {
            int errno = Native.getLastError();
            if (errno != EINTR) {
                throw new HwheelException(errno);
            }
            return false;
        }
        return fds.getShort(6) != 0;
    }

    private Descriptor() {}
}
