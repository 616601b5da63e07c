package feedline;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** The way from a client to the server, which a test can cut. */
final class Network implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private final int serverPort;
    private volatile boolean isCut;

    Network(int serverPort) throws IOException {
        this.serverPort = serverPort;
        start(this::accept);
    }

    int port() {
        return listener.getLocalPort();
    }

    /** Breaks all connections, and refuses new ones. */
    void cut() {
        isCut = true;
        sockets.forEach(Network::close);
    }

    /** Accepts connections again. */
    void mend() {
        isCut = false;
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }

    private void accept() {
        while (!listener.isClosed()) {
            try {
                Socket client = listener.accept();
                if (isCut) {
                    close(client);
                    continue;
                }
                Socket server = new Socket(InetAddress.getLoopbackAddress(), serverPort);
                start(() -> pass(client, server));
                start(() -> pass(server, client));
            } catch (IOException error) {
                // The test has ended, or the server has.
            }
        }
    }

    private void pass(Socket from, Socket to) {
        sockets.add(from);
        try {
            // A cut may have come before the socket was known.
            if (!isCut) {
                from.getInputStream().transferTo(to.getOutputStream());
            }
        } catch (IOException error) {
            // One side is gone, and so is the other now.
        } finally {
            close(from);
            close(to);
            sockets.remove(from);
        }
    }

    private static void start(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
    }

    private static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException error) {
            // It is of no use any more.
        }
    }
}
