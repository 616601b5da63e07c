package feedline;

import static feedline.TestClient.bytes;
import static feedline.TestClient.result;
import static feedline.TestClient.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import feedline.TestClient.Channel;
import io.github.centrifugal.centrifuge.ClientState;
import io.github.centrifugal.centrifuge.ConnectedEvent;
import io.github.centrifugal.centrifuge.ConnectingEvent;
import io.github.centrifugal.centrifuge.DisconnectedEvent;
import io.github.centrifugal.centrifuge.HistoryOptions;
import io.github.centrifugal.centrifuge.HistoryResult;
import io.github.centrifugal.centrifuge.JoinEvent;
import io.github.centrifugal.centrifuge.LeaveEvent;
import io.github.centrifugal.centrifuge.PresenceResult;
import io.github.centrifugal.centrifuge.PresenceStatsResult;
import io.github.centrifugal.centrifuge.PublicationEvent;
import io.github.centrifugal.centrifuge.PublishResult;
import io.github.centrifugal.centrifuge.RPCResult;
import io.github.centrifugal.centrifuge.ReplyError;
import io.github.centrifugal.centrifuge.ServerPublicationEvent;
import io.github.centrifugal.centrifuge.ServerSubscribedEvent;
import io.github.centrifugal.centrifuge.StreamPosition;
import io.github.centrifugal.centrifuge.SubscribedEvent;
import io.github.centrifugal.centrifuge.UnsubscribedEvent;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** The official Java SDK, which speaks Protobuf, against a server. */
final class SdkTest {
    private static final int HOUR = 3600;
    private static Server server;

    private final List<AutoCloseable> opened = new ArrayList<>();

    @BeforeAll
    static void startServer() throws Exception {
        server = Server.start();
    }

    @AfterAll
    static void stopServer() throws Exception {
        server.close();
    }

    @AfterEach
    void closeClients() throws Exception {
        for (AutoCloseable each : opened) {
            each.close();
        }
    }

    @Test
    void publicationsArriveLiveInOrder() throws Throwable {
        Channel room = connected("ann").subscribe("chat:live");
        SubscribedEvent subscribed = room.events().next(SubscribedEvent.class);
        assertTrue(subscribed.getRecoverable() && subscribed.getPositioned());
        for (int n = 1; n <= 20; n++) {
            server.publish("chat:live", n);
        }
        assertEquals(numbers(1, 20), publications(room, 20));
        Channel other = connected("bo").subscribe("chat:live");
        other.events().next(SubscribedEvent.class);
        byte[] data = bytes("{\"text\":\"line\\nbreak\"}");
        TestClient.<PublishResult>result(done -> other.sub().publish(data, done));
        PublicationEvent got = room.events().next(PublicationEvent.class);
        assertEquals(text(data), text(got.getData()));
        assertEquals("bo", got.getInfo().getUser());
        assertEquals(21, got.getOffset());
    }

    @Test
    void aLostConnectionIsRecovered() throws Throwable {
        Network network = opened(new Network(server.port));
        TestClient client = client(network.port(), "ann", Server.token("ann", HOUR));
        client.sdk.connect();
        client.events.next(ConnectedEvent.class);
        Channel room = client.subscribe("chat:lost");
        room.events().next(SubscribedEvent.class);
        server.publish("chat:lost", 1);
        assertEquals(numbers(1, 1), publications(room, 1));
        network.cut();
        client.events.next(ConnectingEvent.class);
        for (int n = 2; n <= 9; n++) {
            server.publish("chat:lost", n);
        }
        network.mend();
        SubscribedEvent again = room.events().next(SubscribedEvent.class);
        assertTrue(again.wasRecovering() && again.getRecovered());
        server.publish("chat:lost", 10);
        assertEquals(numbers(2, 10), publications(room, 9));
    }

    @Test
    void theTimelineIsSubscribedByTheServerAndRecovered() throws Throwable {
        server.call("author", "POST", "/posts", "{\"text\":\"first\"}");
        server.call("reader", "PUT", "/users/author/follow", "");
        Network network = opened(new Network(server.port));
        TestClient client = client(network.port(), "reader", Server.token("reader", HOUR));
        client.sdk.connect();
        while (!client.events.next(ServerSubscribedEvent.class).getChannel().equals("timeline:reader")) {
            // The notifications are subscribed, too.
        }
        network.cut();
        client.events.next(ConnectingEvent.class);
        server.call("author", "POST", "/posts", "{\"text\":\"missed\"}");
        network.mend();
        String missed = text(client.events.next(ServerPublicationEvent.class).getData());
        assertTrue(missed.contains("\"text\":\"missed\""), missed);
    }

    @Test
    void presenceJoinsAndLeavesArrive() throws Throwable {
        Channel ann = connected("ann").subscribe("chat:presence");
        assertEquals("ann", ann.events().next(JoinEvent.class).getInfo().getUser());
        TestClient second = connected("bo");
        Channel bo = second.subscribe("chat:presence");
        bo.events().next(SubscribedEvent.class);
        assertEquals("bo", ann.events().next(JoinEvent.class).getInfo().getUser());
        PresenceResult there = result(ann.sub()::presence);
        List<String> users = there.getClients().values().stream().map(info -> info.getUser()).sorted().toList();
        assertEquals(List.of("ann", "bo"), users);
        there.getClients().forEach((client, info) -> assertEquals(client, info.getClient()));
        PresenceStatsResult stats = result(ann.sub()::presenceStats);
        assertEquals(List.of(2, 2), List.of(stats.getNumClients(), stats.getNumUsers()));
        bo.sub().unsubscribe();
        assertEquals("bo", ann.events().next(LeaveEvent.class).getInfo().getUser());
    }

    @Test
    void theHistoryIsReadInPartsAndBackwards() throws Throwable {
        Channel room = connected("ann").subscribe("chat:history");
        room.events().next(SubscribedEvent.class);
        for (int n = 1; n <= 5; n++) {
            server.publish("chat:history", n);
        }
        HistoryResult position = history(room, new HistoryOptions.Builder().build());
        assertEquals(5, position.getOffset());
        assertTrue(position.getPublications().isEmpty());
        HistoryResult first = history(room, new HistoryOptions.Builder().withLimit(2).build());
        assertEquals(numbers(1, 2), data(first));
        HistoryOptions since = new HistoryOptions.Builder()
                .withLimit(10).withSince(new StreamPosition(3, position.getEpoch())).build();
        assertEquals(numbers(4, 5), data(history(room, since)));
        HistoryResult last = history(room, new HistoryOptions.Builder().withLimit(2).withReverse(true).build());
        assertEquals(List.of("5", "4"), data(last));
    }

    @Test
    void operationsAreCalledByRpc() throws Throwable {
        TestClient client = connected("caller");
        RPCResult created = rpc(client, "posts.create", "{\"text\":\"by rpc\"}");
        String post = text(created.getData());
        assertTrue(post.contains("\"text\":\"by rpc\"") && post.contains("\"author\":\"caller\""), post);
        assertEquals(108, refused(() -> rpc(client, "no.such", "{}")).getCode());
        assertTrue(refused(() -> rpc(client, "posts.create", "{}")).getMessage().startsWith("invalid"));
    }

    @Test
    void tokensAreRefreshedAndRenewed() throws Throwable {
        AtomicInteger asked = new AtomicInteger();
        // One that is about to expire is replaced on the connection.
        TestClient soon = opened(new TestClient(server.port, Server.token("ann", 2), () -> {
            asked.incrementAndGet();
            return Server.token("ann", HOUR);
        }));
        soon.sdk.connect();
        soon.events.next(ConnectedEvent.class);
        Thread.sleep(3_000);
        assertEquals(1, asked.get());
        assertTrue(text(rpc(soon, "users.get", "{\"id\":\"ann\"}").getData()).contains("\"id\":\"ann\""));
        assertEquals(ClientState.CONNECTED, soon.sdk.getState());
        // One that has expired is refused, and replaced.
        TestClient late = client(server.port, "bo", Server.token("bo", -60));
        late.sdk.connect();
        late.events.next(ConnectedEvent.class);
    }

    @Test
    void refusalsHaveTheirCodes() throws Throwable {
        TestClient forged = client(server.port, "eve", Server.forged("eve"));
        forged.sdk.connect();
        assertEquals(3500, forged.events.next(DisconnectedEvent.class).getCode());
        TestClient client = connected("ann");
        assertEquals(103, client.subscribe("closed:1").events().next(UnsubscribedEvent.class).getCode());
        assertEquals(102, client.subscribe("nowhere:1").events().next(UnsubscribedEvent.class).getCode());
        ReplyError error = refused(() -> TestClient.<PublishResult>result(
                done -> client.sdk.publish("chat:refused", bytes("1"), done)));
        assertEquals(103, error.getCode());
        server.backend("disconnect", "{\"user\":\"ann\"}");
        assertEquals(3503, client.events.next(DisconnectedEvent.class).getCode());
    }

    private <T extends AutoCloseable> T opened(T closeable) {
        opened.add(closeable);
        return closeable;
    }

    private TestClient client(int port, String user, String token) {
        return opened(new TestClient(port, token, () -> Server.token(user, HOUR)));
    }

    private TestClient connected(String user) throws InterruptedException {
        TestClient client = client(server.port, user, Server.token(user, HOUR));
        client.sdk.connect();
        client.events.next(ConnectedEvent.class);
        return client;
    }

    /** The data of the next publications, whose offsets are consecutive. */
    private static List<String> publications(Channel channel, int count) throws InterruptedException {
        List<String> data = new ArrayList<>();
        long last = 0;
        for (int n = 0; n < count; n++) {
            PublicationEvent event = channel.events().next(PublicationEvent.class);
            assertTrue(last == 0 || event.getOffset() == last + 1, "an offset is missing before " + event.getOffset());
            last = event.getOffset();
            data.add(text(event.getData()));
        }
        return data;
    }

    private static HistoryResult history(Channel channel, HistoryOptions options) throws Throwable {
        return result(done -> channel.sub().history(options, done));
    }

    private static List<String> data(HistoryResult history) {
        return history.getPublications().stream().map(publication -> text(publication.getData())).toList();
    }

    private static RPCResult rpc(TestClient client, String method, String data) throws Throwable {
        return result(done -> client.sdk.rpc(method, bytes(data), done));
    }

    private static ReplyError refused(Executable call) {
        return assertThrows(ReplyError.class, call);
    }

    private static List<String> numbers(int first, int last) {
        return IntStream.rangeClosed(first, last).mapToObj(String::valueOf).toList();
    }
}
