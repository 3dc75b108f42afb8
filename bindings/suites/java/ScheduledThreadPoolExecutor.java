import hwheel.WheelExecutor;
import java.util.concurrent.ThreadFactory;

/** The JDK's constructors for {@link WheelExecutor}. */
public class ScheduledThreadPoolExecutor extends WheelExecutor {
    private volatile boolean remove;

    public ScheduledThreadPoolExecutor(int corePoolSize) {
        super(corePoolSize);
    }

    public ScheduledThreadPoolExecutor(int corePoolSize, ThreadFactory threads) {
        super(corePoolSize, threads);
    }

    /** The executor always removes what is cancelled, which this policy allows. */
    public void setRemoveOnCancelPolicy(boolean remove) {
        this.remove = remove;
    }

    public boolean getRemoveOnCancelPolicy() {
        return remove;
    }
}
