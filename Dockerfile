# The server in a small image: the executable of the profile `dist`, linked statically, and the certificates.
FROM rust:1.90-alpine AS build
RUN apk add --no-cache ca-certificates cmake g++ gcc linux-headers make musl-dev perl
# jemalloc has no threads of its own on this C library.
ENV JEMALLOC_SYS_WITH_MALLOC_CONF=background_thread:false,dirty_decay_ms:1000,muzzy_decay_ms:1000
WORKDIR /src
COPY . .
RUN cargo build --locked --profile dist --package feedline

FROM alpine:3.22
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/target/dist/feedline /usr/local/bin/feedline
RUN adduser -D -H -u 10001 feedline && mkdir /data && chown feedline /data
USER 10001
VOLUME /data
# Probes and metrics have a port of their own. Load balancers need the delay to see that the node leaves: see
# docs/operations.md.
ENV FEEDLINE__SERVER__LISTEN=0.0.0.0:8000 \
    FEEDLINE__SERVER__ADMIN_LISTEN=0.0.0.0:9000 \
    FEEDLINE__SERVER__DATA_DIR=/data \
    FEEDLINE__SERVER__DRAIN_DELAY=5s \
    FEEDLINE__SERVER__LOG_FORMAT=json
EXPOSE 8000 9000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD wget -q -O /dev/null http://127.0.0.1:9000/health || exit 1
ENTRYPOINT ["/usr/local/bin/feedline"]
CMD ["serve"]
