package hwheel;

import java.util.Map;

/** An error of the library, told apart by {@link #errno()}. */
public final class HwheelException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** No memory. */
    public static final int ENOMEM = 12;
    /** Another thread drives. */
    public static final int EBUSY = 16;
    /** A bad argument, or a closed wheel. */
    public static final int EINVAL = 22;
    /** The limit on live timers is reached. */
    public static final int ENOSPC = 28;
    /** The timer was shut down, or the wheel drained. */
    public static final int ESHUTDOWN = 108;
    /** No such timer, or not any more. */
    public static final int ESTALE = 116;

    private static final Map<Integer, String> NAMES = Map.of(
            ENOMEM, "ENOMEM", EBUSY, "EBUSY", EINVAL, "EINVAL",
            ENOSPC, "ENOSPC", ESHUTDOWN, "ESHUTDOWN", ESTALE, "ESTALE");

    private final int errno;

    HwheelException(int errno) {
        super(NAMES.getOrDefault(errno, "errno " + errno));
        this.errno = errno;
    }

    /** The system's number of the error, above 0. */
    public int errno() {
        return errno;
    }

    static int check(int result) {
        if (result < 0) {
            throw new HwheelException(-result);
        }
        return result;
    }
}
