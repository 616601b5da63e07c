package feedline;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The events of a client or a subscription, in order. */
final class Events {
    static final int PATIENCE_SECONDS = 10;

    private final BlockingQueue<Object> queue = new LinkedBlockingQueue<>();

    void add(Object event) {
        queue.add(event);
    }

    /** Waits for the next event of this kind, and drops those before it. */
    <T> T next(Class<T> kind) throws InterruptedException {
        List<Object> others = new ArrayList<>();
        for (;;) {
            Object event = queue.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
            if (event == null) {
                throw new AssertionError("no " + kind.getSimpleName() + " came, but " + others);
            }
            if (kind.isInstance(event)) {
                return kind.cast(event);
            }
            others.add(event);
        }
    }
}
