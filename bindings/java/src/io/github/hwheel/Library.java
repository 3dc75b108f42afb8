package io.github.hwheel;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * The C functions. A result below 0 is an errno; those that return a long throw
 * {@link HwheelException} themselves.
 */
final class Library {
    private static final String NAME = "hwheel-java";

    static {
        load();
    }

    /** The library that the property names, or else the jar's, or else the system's. */
    private static void load() {
        String named = System.getProperty("hwheel.library");
        String inside = "/" + platform() + "/lib" + NAME + ".so";
        try {
            if (named != null) {
                System.load(Path.of(named).toAbsolutePath().toString());
                return;
            }
            try (InputStream library = Library.class.getResourceAsStream(inside)) {
                if (library == null) {
                    System.loadLibrary(NAME);
                } else {
                    loadCopy(library);
                }
            }
        } catch (Failed e) {
            throw e;
        } catch (UnsatisfiedLinkError | IOException e) {
            throw failed(named != null ? "the library " + named + " of -Dhwheel.library"
                    : "a library: neither " + inside + " in the jar nor lib" + NAME
                            + ".so in -Djava.library.path", e);
        } catch (IllegalCallerException e) {
            String module = Library.class.getModule().getName();
            throw failed("its library: run java with --enable-native-access="
                    + (module == null ? "ALL-UNNAMED" : module), e);
        }
    }

    private static Failed failed(String what, Throwable cause) {
        return new Failed("hwheel cannot load " + what + ": " + cause.getMessage(), cause);
    }

    /** The constructor of its superclass takes no cause. */
    private static final class Failed extends UnsatisfiedLinkError {
        private static final long serialVersionUID = 1;

        Failed(String message, Throwable cause) {
            super(message);
            initCause(cause);
        }
    }

    /** Loads from a file, which the process needs no longer once it is loaded. */
    private static void loadCopy(InputStream library) {
        String directory = System.getProperty("java.io.tmpdir");
        try {
            Path copy = Files.createTempFile("lib" + NAME, ".so");
            try {
                Files.copy(library, copy, StandardCopyOption.REPLACE_EXISTING);
                System.load(copy.toString());
            } finally {
                Files.delete(copy);
            }
        } catch (UnsatisfiedLinkError | IOException e) {
            throw failed("the copy that it makes of the jar's library in " + directory
                    + ". Name a directory that permits execution with -Djava.io.tmpdir, or a"
                    + " library with -Dhwheel.library", e);
        }
    }

    /** As in linux-x86-64. */
    private static String platform() {
        String machine = System.getProperty("os.arch");
        return System.getProperty("os.name").toLowerCase() + "-"
                + (machine.equals("amd64") ? "x86-64" : machine);
    }

    static native long create(ByteBuffer options);
    static native int destroy(long wheel);
    static native long now(long wheel);
    static native long nextExpiry(long wheel);
    static native int stats(long wheel, ByteBuffer stats);
    static native int list(long wheel, long[] cursor, ByteBuffer events, int max);
    static native long once(long wheel, long timeNs, long cookie, int flags);
    static native long every(
            long wheel, long firstNs, long periodNs, long slackNs, long cookie, int flags);
    static native long setup(long wheel, long cookie);
    static native int mod(long wheel, long timer, long timeNs, int flags);
    static native int modRange(long wheel, long timer, long timeNs, long slackNs, int flags);
    static native int setPeriod(long wheel, long timer, long periodNs);
    static native int modMany(
            long wheel, long[] timers, long[] timesNs, int count, int flags, int[] results);
    static native int deleteMany(long wheel, long[] timers, int count, int[] results);
    static native int delete(long wheel, long timer);
    static native int shutdown(long wheel, long timer);
    static native int free(long wheel, long timer);
    static native int pending(long wheel, long timer);
    static native long remaining(long wheel, long timer);
    static native int keySet(long wheel, byte[] key, long timeNs, long cookie, int flags);
    static native int keyMod(long wheel, byte[] key, long timeNs, int flags);
    static native int keyDelete(long wheel, byte[] key);
    static native int keyPending(long wheel, byte[] key);
    static native int poll(long wheel, ByteBuffer events, int max);
    static native int advance(long wheel, long nowNs, ByteBuffer events, int max);
    static native int drain(long wheel, ByteBuffer events, int max);
    static native int fd(long wheel);
    static native String strerror(int error);
    static native String version();

    private Library() {}
}
