package hwheel;

import com.sun.jna.Native;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Waits for a descriptor, which java.nio cannot do for one it has not made. */
final class Descriptor {
    private static final short POLLIN = 1;

    static {
        Native.register(Descriptor.class, "c");
    }

    private static native int poll(ByteBuffer fds, long n, int timeoutMs);

    static boolean await(int fd, int timeoutMs) {
        ByteBuffer pollfd = ByteBuffer.allocateDirect(8).order(ByteOrder.nativeOrder());
        pollfd.putInt(0, fd).putShort(4, POLLIN);
        return poll(pollfd, 1, timeoutMs) > 0;
    }

    private Descriptor() {}
}
