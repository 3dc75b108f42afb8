package io.github.hwheel;

/** An error of the library, in its words. {@link #errno()} tells errors apart. */
public final class HwheelException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Out of memory. */
    public static final int ENOMEM = 12;
    /** Another thread drives. */
    public static final int EBUSY = 16;
    /** A bad argument, or a closed wheel. */
    public static final int EINVAL = 22;
    /** The limit on live timers is reached. */
    public static final int ENOSPC = 28;
    /** The timer was shut down, or the wheel drained. */
    public static final int ESHUTDOWN = 108;
    /** The timer no longer exists. */
    public static final int ESTALE = 116;

    /** The number of the error. */
    private final int errno;

    HwheelException(int errno) {
        super(Library.strerror(-errno));
        this.errno = errno;
    }

    /**
     * The system's number of the error.
     *
     * @return the number, above 0
     */
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
