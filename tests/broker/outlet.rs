//! The copy of the outlet in Redis: a Stream with the ids of the events.

use feedline::broker::{Broker as _, MemoryBroker, OutletRecord, OutletStream as _, RedisBroker};

use crate::engine::{inbox_options, redis_options};
use crate::redis_server::RedisServer;

fn records(ids: std::ops::RangeInclusive<u64>) -> Vec<OutletRecord> {
    let record = |id| OutletRecord {
        id,
        kind: "post.created".into(),
        owner: "ann".into(),
        event: format!("{{\"id\":\"{id}\"}}"),
    };
    ids.map(record).collect()
}

#[tokio::test]
async fn records_are_in_the_stream_once() {
    let server = RedisServer::start();
    let broker = RedisBroker::connect(redis_options(&server)).await.unwrap();
    assert_eq!(broker.outlet_stream_end().await.unwrap(), None);
    broker.append_to_outlet_stream(&records(1..=3), 1_000).await.unwrap();
    // Another process has read the log a little earlier.
    broker.append_to_outlet_stream(&records(2..=5), 1_000).await.unwrap();
    broker.append_to_outlet_stream(&[], 1_000).await.unwrap();
    assert_eq!(broker.outlet_stream_end().await.unwrap(), Some(5));
    assert_eq!(server.ask("XLEN feedline:outlet"), ":5");
    let first = server.ask_all("XRANGE feedline:outlet - + COUNT 1");
    for part in ["1-0", "type", "post.created", "owner", "ann", "event", "{\"id\":\"1\"}"] {
        assert!(first.contains(part), "{part} in {first}");
    }
    broker.append_to_outlet_stream(&records(6..=2_000), 100).await.unwrap();
    let length: u64 = server.ask("XLEN feedline:outlet").trim_start_matches(':').parse().unwrap();
    assert!((100..=400).contains(&length), "{length}");
    broker.drop_outlet_stream().await.unwrap();
    assert_eq!(broker.outlet_stream_end().await.unwrap(), None);
    broker.append_to_outlet_stream(&records(7..=8), 100).await.unwrap();
    assert_eq!(broker.outlet_stream_end().await.unwrap(), Some(8));
}

#[tokio::test]
async fn consumers_may_delete_what_they_acknowledged() {
    let server = RedisServer::start();
    let broker = RedisBroker::connect(redis_options(&server)).await.unwrap();
    assert_eq!(server.ask("XGROUP CREATE feedline:outlet workers $ MKSTREAM"), "+OK");
    assert_eq!(broker.outlet_stream_end().await.unwrap(), None, "it never had a record");
    broker.append_to_outlet_stream(&records(1..=3), 1_000).await.unwrap();
    // The newest one only, then all.
    assert_eq!(server.ask("XDEL feedline:outlet 3-0"), ":1");
    assert_eq!(broker.outlet_stream_end().await.unwrap(), Some(3));
    broker.append_to_outlet_stream(&records(2..=4), 1_000).await.unwrap();
    assert_eq!(server.ask("XDEL feedline:outlet 1-0 2-0 4-0"), ":3");
    assert_eq!(server.ask("XLEN feedline:outlet"), ":0");
    assert_eq!(broker.outlet_stream_end().await.unwrap(), Some(4));
    broker.append_to_outlet_stream(&records(1..=5), 1_000).await.unwrap();
    assert_eq!(server.ask("XLEN feedline:outlet"), ":1");
    assert_eq!(broker.outlet_stream_end().await.unwrap(), Some(5));
}

#[tokio::test]
async fn memory_has_no_stream() {
    let broker = MemoryBroker::new(inbox_options());
    assert_eq!(broker.outlet_stream_end().await.unwrap(), None);
    assert!(broker.append_to_outlet_stream(&records(1..=1), 10).await.is_err(), "{}", broker.name());
}
