package feedline;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.Comparator;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** A Feedline server on a free port, with data of its own. */
final class Server implements AutoCloseable {
    private static final String SECRET = "a secret that is long enough for HS256 tokens";
    private static final String API_KEY = "the key of the backend in these tests";
    private static final Duration START = Duration.ofSeconds(20);
    private static final int STOP_SECONDS = 10;
    /** One namespace with all features, and one that admits nobody without a token. */
    private static final String NAMESPACES = """
            [{"name":"chat","history_size":100,"history_ttl":"60s","presence":true,"join_leave":true,
              "publish":"subscriber"},
             {"name":"closed","subscribe":"nobody"}]""";

    private final HttpClient http = HttpClient.newHttpClient();
    private final Path directory;
    private final Process process;
    final int port;

    private Server(Path directory, Process process, int port) {
        this.directory = directory;
        this.process = process;
        this.port = port;
    }

    /** Starts a server, and waits until it is ready. */
    static Server start() throws Exception {
        String configured = System.getenv("FEEDLINE_BIN");
        Path binary = Path.of(configured != null ? configured : "../../target/debug/feedline").toAbsolutePath();
        if (!Files.isExecutable(binary)) {
            throw new IOException("there is no " + binary + ": build it first, or name it with FEEDLINE_BIN");
        }
        Path directory = Files.createTempDirectory("feedline-java-");
        int port = freePort();
        ProcessBuilder builder = new ProcessBuilder(binary.toString(), "serve");
        builder.directory(directory.toFile()).redirectErrorStream(true).redirectOutput(log(directory).toFile());
        builder.environment().keySet().removeIf(name -> name.startsWith("FEEDLINE__"));
        builder.environment().putAll(Map.of(
                "FEEDLINE__SERVER__LISTEN", "127.0.0.1:" + port,
                "FEEDLINE__SERVER__DATA_DIR", directory.resolve("data").toString(),
                "FEEDLINE__SERVER__DRAIN", "100ms",
                "FEEDLINE__AUTH__HMAC_SECRET", SECRET,
                "FEEDLINE__AUTH__API_KEYS", API_KEY,
                "FEEDLINE__AUTH__LEEWAY", "0s",
                "FEEDLINE__NAMESPACES", NAMESPACES));
        Server server = new Server(directory, builder.start(), port);
        try {
            server.untilReady();
            return server;
        } catch (Exception error) {
            server.close();
            throw error;
        }
    }

    /** A token that expires after some seconds. */
    static String token(String user, long seconds) {
        return signed("{\"sub\":\"" + user + "\",\"exp\":" + (Instant.now().getEpochSecond() + seconds) + "}", SECRET);
    }

    /** A token that this server did not sign. */
    static String forged(String user) {
        return signed("{\"sub\":\"" + user + "\"}", "another secret, also of some length");
    }

    /** Calls a method of the server API. Returns the reply. */
    String backend(String method, String body) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(origin() + "/api/" + method));
        String reply = send(request.POST(HttpRequest.BodyPublishers.ofString(body)));
        if (!reply.startsWith("{\"result\":")) {
            throw new IOException(method + " " + body + ": " + reply);
        }
        return reply;
    }

    /** Publishes a number. */
    void publish(String channel, int number) throws Exception {
        backend("publish", "{\"channel\":\"" + channel + "\",\"data\":" + number + "}");
    }

    /** Calls an operation of the feed as a user. Returns the response. */
    String call(String user, String method, String path, String body) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(origin() + "/api/v1" + path));
        return send(request.header("X-User", user).method(method, HttpRequest.BodyPublishers.ofString(body)));
    }

    @Override
    public void close() throws IOException {
        process.destroy();
        try {
            if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    private String send(HttpRequest.Builder request) throws Exception {
        request.header("X-API-Key", API_KEY).header("Content-Type", "application/json").timeout(START);
        HttpResponse<String> response = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() / 100 != 2) {
            throw new IOException(response.uri() + ": " + response.statusCode() + " " + response.body());
        }
        return response.body();
    }

    private void untilReady() throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(origin() + "/ready")).timeout(START).build();
        Instant deadline = Instant.now().plus(START);
        while (process.isAlive() && Instant.now().isBefore(deadline)) {
            try {
                if (http.send(request, HttpResponse.BodyHandlers.discarding()).statusCode() == 200) {
                    return;
                }
            } catch (IOException error) {
                // Not listening yet.
            }
            Thread.sleep(20);
        }
        throw new IOException("the server is not ready:\n" + Files.readString(log(directory)));
    }

    private String origin() {
        return "http://127.0.0.1:" + port;
    }

    private static Path log(Path directory) {
        return directory.resolve("log");
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static String signed(String claims, String secret) {
        Base64.Encoder base64 = Base64.getUrlEncoder().withoutPadding();
        String head = base64.encodeToString("{\"alg\":\"HS256\",\"typ\":\"JWT\"}".getBytes(StandardCharsets.UTF_8));
        String message = head + "." + base64.encodeToString(claims.getBytes(StandardCharsets.UTF_8));
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
            return message + "." + base64.encodeToString(mac.doFinal(message.getBytes(StandardCharsets.UTF_8)));
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }
}
