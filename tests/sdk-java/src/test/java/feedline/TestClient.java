package feedline;

import io.github.centrifugal.centrifuge.Client;
import io.github.centrifugal.centrifuge.ConnectedEvent;
import io.github.centrifugal.centrifuge.ConnectingEvent;
import io.github.centrifugal.centrifuge.ConnectionTokenEvent;
import io.github.centrifugal.centrifuge.ConnectionTokenGetter;
import io.github.centrifugal.centrifuge.DisconnectedEvent;
import io.github.centrifugal.centrifuge.ErrorEvent;
import io.github.centrifugal.centrifuge.EventListener;
import io.github.centrifugal.centrifuge.JoinEvent;
import io.github.centrifugal.centrifuge.LeaveEvent;
import io.github.centrifugal.centrifuge.Options;
import io.github.centrifugal.centrifuge.PublicationEvent;
import io.github.centrifugal.centrifuge.ResultCallback;
import io.github.centrifugal.centrifuge.ServerPublicationEvent;
import io.github.centrifugal.centrifuge.ServerSubscribedEvent;
import io.github.centrifugal.centrifuge.SubscribedEvent;
import io.github.centrifugal.centrifuge.Subscription;
import io.github.centrifugal.centrifuge.SubscriptionErrorEvent;
import io.github.centrifugal.centrifuge.SubscriptionEventListener;
import io.github.centrifugal.centrifuge.TokenCallback;
import io.github.centrifugal.centrifuge.UnsubscribedEvent;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** A client of the SDK that records its events. */
final class TestClient implements AutoCloseable {
    /** A subscription and its events. */
    record Channel(Subscription sub, Events events) {}

    final Events events = new Events();
    final Client sdk;

    /** A client that connects with a token, and asks for later ones. */
    TestClient(int port, String token, Supplier<String> later) {
        Options options = new Options();
        options.setToken(token);
        options.setMinReconnectDelay(50);
        options.setMaxReconnectDelay(200);
        options.setTokenGetter(new ConnectionTokenGetter() {
            @Override
            public void getConnectionToken(ConnectionTokenEvent event, TokenCallback callback) {
                callback.Done(null, later.get());
            }
        });
        sdk = new Client("ws://127.0.0.1:" + port + "/connection/websocket", options, new ClientListener());
    }

    /** Subscribes to a channel, without waiting. */
    Channel subscribe(String channel) throws Exception {
        Events events = new Events();
        Subscription sub = sdk.newSubscription(channel, new ChannelListener(events));
        sub.subscribe();
        return new Channel(sub, events);
    }

    /** Waits for the result of a call. Fails with the error of the call. */
    static <T> T result(Consumer<ResultCallback<T>> call) throws Throwable {
        record Outcome<R>(Throwable error, R value) {}
        CompletableFuture<Outcome<T>> done = new CompletableFuture<>();
        call.accept((error, value) -> done.complete(new Outcome<>(error, value)));
        Outcome<T> outcome = done.get(Events.PATIENCE_SECONDS, TimeUnit.SECONDS);
        if (outcome.error() != null) {
            throw outcome.error();
        }
        return outcome.value();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    @Override
    public void close() throws InterruptedException {
        sdk.close(TimeUnit.SECONDS.toMillis(Events.PATIENCE_SECONDS));
    }

    private final class ClientListener extends EventListener {
        @Override
        public void onConnecting(Client client, ConnectingEvent event) {
            events.add(event);
        }

        @Override
        public void onConnected(Client client, ConnectedEvent event) {
            events.add(event);
        }

        @Override
        public void onDisconnected(Client client, DisconnectedEvent event) {
            events.add(event);
        }

        @Override
        public void onError(Client client, ErrorEvent event) {
            events.add(event);
        }

        @Override
        public void onSubscribed(Client client, ServerSubscribedEvent event) {
            events.add(event);
        }

        @Override
        public void onPublication(Client client, ServerPublicationEvent event) {
            events.add(event);
        }
    }

    private static final class ChannelListener extends SubscriptionEventListener {
        private final Events events;

        ChannelListener(Events events) {
            this.events = events;
        }

        @Override
        public void onSubscribed(Subscription sub, SubscribedEvent event) {
            events.add(event);
        }

        @Override
        public void onUnsubscribed(Subscription sub, UnsubscribedEvent event) {
            events.add(event);
        }

        @Override
        public void onPublication(Subscription sub, PublicationEvent event) {
            events.add(event);
        }

        @Override
        public void onJoin(Subscription sub, JoinEvent event) {
            events.add(event);
        }

        @Override
        public void onLeave(Subscription sub, LeaveEvent event) {
            events.add(event);
        }

        @Override
        public void onError(Subscription sub, SubscriptionErrorEvent event) {
            events.add(event);
        }
    }
}
