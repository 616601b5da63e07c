//! Encrypted connections to PostgreSQL.

use std::time::{Duration, Instant};

use feedline::ledger::{Ledger, PostgresLedger, PostgresOptions, PostgresUrl};

use crate::postgres_server::PostgresServer;
use crate::support::PATIENCE;

#[tokio::test]
async fn tls_verifies_the_server_certificate() {
    let certificates = Certificates::make();
    let server = PostgresServer::start();
    certificates.install(&server).await;
    let open = async |host: &str, roots: &str| {
        let roots = certificates.folder.path().join(roots);
        let url = server.url("postgres").replace("127.0.0.1", host);
        let url = format!("{url}?sslmode=verify-full&sslrootcert={}", roots.display());
        PostgresLedger::open(PostgresOptions::new(PostgresUrl::parse(&url).unwrap())).await
    };
    let ledger = open("localhost", "server.crt").await.unwrap();
    assert!(ledger.name().ends_with("over TLS"), "{}", ledger.name());
    ledger.ping().await.unwrap();
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE ssl AND application_name = 'feedline'";
    let client = server.client("postgres").await;
    assert!(client.query_one(encrypted, &[]).await.unwrap().get::<_, i64>(0) > 0);
    ledger.close().await;
    // The right authority with the wrong host, and the right host with the wrong authority.
    for (host, roots) in [("127.0.0.1", "server.crt"), ("localhost", "other.crt")] {
        let Err(refused) = open(host, roots).await else { panic!("it trusts {host} with {roots}") };
        assert!(refused.to_string().contains("certificate"), "{refused}");
    }
}

/// Two self-signed certificates for `localhost`: `server`, which the server uses, and `other`.
struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["server", "other"] {
            let made = std::process::Command::new("openssl")
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
                .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
                .args(["-addext", "basicConstraints=critical,CA:FALSE"])
                .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.crt")])
                .current_dir(folder.path())
                .output()
                .expect("openssl is installed");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        Self { folder }
    }

    /// Installs the certificate `server` on a running server. The server writes the files itself, since they must
    /// belong to its user.
    async fn install(&self, server: &PostgresServer) {
        let read = |name| std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        let write = |name: &str, text: String| {
            let text = text.trim().replace('\n', "\\n");
            let file = server.data().join(name);
            let put = format!("umask 077; cat >/dev/null; printf -- \"{text}\\n\" > {}", file.display());
            format!("COPY (SELECT 1) TO PROGRAM $program${put}$program$")
        };
        server.ask("postgres", &write("server.crt", read("server.crt"))).await;
        server.ask("postgres", &write("server.key", read("server.key"))).await;
        server.ask("postgres", "ALTER SYSTEM SET ssl = on").await;
        server.ask("postgres", "SELECT pg_reload_conf()").await;
        let client = server.client("postgres").await;
        let until = Instant::now() + PATIENCE;
        while client.query_one("SELECT current_setting('ssl')", &[]).await.unwrap().get::<_, &str>(0) != "on" {
            assert!(Instant::now() < until, "the server does not take its certificate");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
