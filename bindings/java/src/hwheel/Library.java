package hwheel;

import com.sun.jna.Native;
import java.nio.ByteBuffer;

/**
 * The C functions. Pointers to a wheel and to a function are longs, which direct
 * mapping passes on as they are; the library is for 64-bit systems.
 */
final class Library {
    static {
        Native.register(Library.class, System.getProperty("hwheel.library", "hwheel"));
    }

    static native int hwheel_create(ByteBuffer options, long[] wheel);
    static native int hwheel_destroy(long wheel);
    static native int hwheel_now(long wheel, long[] nowNs);
    static native int hwheel_next_expiry(long wheel, long[] timeNs);
    static native int hwheel_get_stats(long wheel, ByteBuffer stats);
    static native int hwheel_list(long wheel, long[] cursor, ByteBuffer events, int max);
    static native int hwheel_once(
            long wheel, long timeNs, long fn, long cookie, int flags, long[] timer);
    static native int hwheel_every(
            long wheel, long firstNs, long periodNs, long slackNs, long fn, long cookie, int flags,
            long[] timer);
    static native int hwheel_timer_setup(long wheel, long fn, long cookie, long[] timer);
    static native int hwheel_timer_mod(long wheel, long timer, long timeNs, int flags);
    static native int hwheel_timer_mod_range(
            long wheel, long timer, long timeNs, long slackNs, int flags);
    static native int hwheel_timer_set_period(long wheel, long timer, long periodNs);
    static native int hwheel_timer_mod_many(
            long wheel, long[] timers, long[] timesNs, int count, int flags, int[] results);
    static native int hwheel_timer_delete_many(
            long wheel, long[] timers, int count, int[] results);
    static native int hwheel_timer_delete(long wheel, long timer);
    static native int hwheel_timer_shutdown(long wheel, long timer);
    static native int hwheel_timer_free(long wheel, long timer);
    static native int hwheel_timer_pending(long wheel, long timer);
    static native int hwheel_timer_remaining(long wheel, long timer, long[] remainingNs);
    static native int hwheel_key_set(
            long wheel, byte[] key, int length, long timeNs, long fn, long cookie, int flags);
    static native int hwheel_key_mod(long wheel, byte[] key, int length, long timeNs, int flags);
    static native int hwheel_key_delete(long wheel, byte[] key, int length);
    static native int hwheel_key_pending(long wheel, byte[] key, int length);
    static native int hwheel_poll(long wheel, ByteBuffer events, int max, long run);
    static native int hwheel_advance(
            long wheel, long nowNs, ByteBuffer events, int max, long run);
    static native int hwheel_drain(long wheel, ByteBuffer events, int max);
    static native int hwheel_fd(long wheel);
    static native String hwheel_strerror(int error);
    static native String hwheel_version_string();

    private Library() {}
}
