//! Rate limits that nodes share.

use std::time::Duration;

use feedline::broker::{Permit, PermitRequest};
use futures::future::join_all;

use crate::engine::Engine;

const fn request(key: &str, interval: u64, cost: u32) -> PermitRequest<'_> {
    PermitRequest { key, interval: Duration::from_millis(interval), burst: 3, cost }
}

async fn wait(engine: &Engine, request: PermitRequest<'_>) -> Duration {
    match engine.broker.take_permit(request).await.unwrap() {
        Permit::Granted => Duration::ZERO,
        Permit::Denied { retry_after } => retry_after,
    }
}

pub(crate) async fn buckets_are_taken_from_and_refilled(engine: Engine) {
    let slow = request("posts:ann", 1_000_000, 1);
    for _ in 0..3 {
        assert_eq!(engine.broker.take_permit(slow).await.unwrap(), Permit::Granted);
    }
    let denied = wait(&engine, slow).await;
    assert!(denied > Duration::from_secs(900) && denied <= Duration::from_secs(1_000), "{denied:?}");
    // A denied request uses no permits: the wait does not grow.
    assert!(wait(&engine, slow).await <= denied);
    let quick = request("posts:bo", 200, 3);
    assert_eq!(wait(&engine, quick).await, Duration::ZERO);
    let denied = wait(&engine, request("posts:bo", 200, 1)).await;
    assert!(!denied.is_zero() && denied <= Duration::from_millis(200), "{denied:?}");
    tokio::time::sleep(denied + Duration::from_millis(5)).await;
    assert_eq!(
        wait(&engine, request("posts:bo", 200, 1)).await,
        Duration::ZERO,
        "the request succeeds after the announced wait"
    );
    // A request larger than the burst counts as the whole burst.
    assert_eq!(wait(&engine, request("posts:cy", 1_000, 1_000)).await, Duration::ZERO);
}

pub(crate) async fn peeks_take_nothing(engine: Engine) {
    let (look, take) = (request("sessions:ann", 1_000_000, 0), request("sessions:ann", 1_000_000, 1));
    for _ in 0..10 {
        assert_eq!(wait(&engine, look).await, Duration::ZERO);
    }
    for _ in 0..3 {
        assert_eq!(wait(&engine, take).await, Duration::ZERO);
    }
    assert!(wait(&engine, look).await > Duration::from_secs(900));
}

pub(crate) async fn buckets_are_independent_under_concurrency(engine: Engine) {
    for key in ["posts:ann", "sessions:ann", "posts:a b:{c}"] {
        let asked = (0..40).map(|_| engine.broker.take_permit(request(key, 1_000_000, 1)));
        let granted = join_all(asked).await.into_iter().filter(|permit| matches!(permit, Ok(Permit::Granted)));
        assert_eq!(granted.count(), 3, "{key}");
    }
}
