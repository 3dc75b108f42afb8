package hwheel;

import com.sun.jna.Native;
import java.nio.ByteBuffer;

/**
 * The C functions. Pointers to a wheel and to a function are longs, as direct
 * mapping passes them on unconverted; the library is for 64-bit systems.
 */
final class Library {
    static {
        Native.register(Library.class, "hwheel");
    }

    static native int hwheel_create(ByteBuffer options, int flags, long[] wheel);
    static native int hwheel_destroy(long wheel);
    static native int hwheel_now(long wheel, long[] nowNs);
    static native int hwheel_next_expiry(long wheel, long[] deadlineNs);
    static native int hwheel_get_stats(long wheel, ByteBuffer stats);
    static native int hwheel_setup(long wheel, long fn, long cookie, int flags, long[] timer);
    static native int hwheel_after(
            long wheel, long delayNs, long fn, long cookie, int flags, long[] timer);
    static native int hwheel_at(
            long wheel, long deadlineNs, long fn, long cookie, int flags, long[] timer);
    static native int hwheel_every(
            long wheel, long firstNs, long periodNs, long fn, long cookie, int flags, long[] timer);
    static native int hwheel_mod(long wheel, long timer, long delayNs, int flags);
    static native int hwheel_mod_at(long wheel, long timer, long deadlineNs, int flags);
    static native int hwheel_reduce(long wheel, long timer, long delayNs, int flags);
    static native int hwheel_mod_pending(long wheel, long timer, long delayNs, int flags);
    static native int hwheel_delete(long wheel, long timer);
    static native int hwheel_shutdown(long wheel, long timer);
    static native int hwheel_free(long wheel, long timer);
    static native int hwheel_pending(long wheel, long timer);
    static native int hwheel_remaining(long wheel, long timer, long[] remainingNs);
    static native int hwheel_key_set(
            long wheel, byte[] key, int length, long delayNs, long fn, long cookie, int flags);
    static native int hwheel_key_move(long wheel, byte[] key, int length, long delayNs, int flags);
    static native int hwheel_key_delete(long wheel, byte[] key, int length);
    static native int hwheel_key_pending(long wheel, byte[] key, int length);
    static native int hwheel_id_set(
            long wheel, long id, long delayNs, long fn, long cookie, int flags);
    static native int hwheel_id_move(long wheel, long id, long delayNs, int flags);
    static native int hwheel_id_delete(long wheel, long id);
    static native int hwheel_id_pending(long wheel, long id);
    static native int hwheel_poll(long wheel, ByteBuffer events, int max);
    static native int hwheel_advance(long wheel, long nowNs, ByteBuffer events, int max);
    static native int hwheel_drain(long wheel, ByteBuffer events, int max);
    static native int hwheel_fd(long wheel);
    static native String hwheel_version_string();

    private Library() {}
}
