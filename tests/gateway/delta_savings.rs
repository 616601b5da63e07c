//! The bytes that deltas would save on channels of the feed, on frames of a running server. docs/decisions.md has
//! the decision: `cargo test --test gateway -- delta_savings --nocapture` prints them.

use feedline::model::Epoch;
use feedline::protocol::{Encoding, Push, PushEvent, SplitMembers, patch, split_members};
use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

/// The bytes of the pushes of a channel.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    events: usize,
    plain: usize,
    with_deltas: usize,
}

impl Sizes {
    fn saved(self) -> f64 {
        100.0 * (1.0 - self.with_deltas as f64 / self.plain as f64)
    }
}

fn size(encoding: Encoding, channel: &str, event: PushEvent<'_>) -> usize {
    let mut frame = Vec::new();
    encoding.append_push(&mut frame, &Push { channel, event });
    frame.len()
}

/// The sizes of these publications as they are, and as patches of the one before where that is shorter.
fn measure(encoding: Encoding, channel: &str, publications: &[Value]) -> Sizes {
    let epoch: Epoch = "epoch".into();
    let (mut sizes, mut previous) = (Sizes::default(), None::<String>);
    for (offset, publication) in (2..).zip(publications) {
        let members = format!("\"data\":{}", publication["data"]);
        let position = Some((offset, &epoch));
        let SplitMembers { data, rest } = split_members(members.as_bytes()).expect("a publication");
        let patched = previous.as_ref().and_then(|previous| patch(previous, data));
        let (text, is_patch) = patched.as_deref().map_or((data, false), |patch| (patch, true));
        sizes.events += 1;
        sizes.plain += size(encoding, channel, PushEvent::Publication { members: members.as_bytes(), position });
        sizes.with_deltas += size(encoding, channel, PushEvent::Text { text, is_patch, rest, position });
        previous = Some(data.to_owned());
    }
    sizes
}

#[tokio::test]
async fn deltas_of_feed_events_are_measured() {
    let server = Server::start().await;
    let text = "A post of the usual length, with some words about the day and a #topic or two at the #end of it.";
    let posts = [server.post("ann", text).await, server.post("ann", &text.to_uppercase()).await];
    server.follow("bo", "ann").await;
    let mut bo = Client::connect(&server, "bo").await;
    let counts_channel = format!("post:{}", posts[0]);
    bo.subscribe(&counts_channel).await;

    let mut counts = Vec::new();
    for n in 0..20 {
        server.call(&format!("fan{n}"), "PUT", &format!("/posts/{}/like", posts[0]), &Value::Null).await;
        counts.push(bo.publication(&counts_channel).await);
    }
    let mut edited = Vec::new();
    for n in 0..10 {
        // The same post twice, then the other.
        let post = posts[n / 2 % 2];
        let text = format!("{text} Edited {n}.");
        server.done("ann", "PATCH", &format!("/posts/{post}"), &json!({ "text": text })).await;
        edited.push(bo.publication("timeline:bo").await);
    }
    edited.retain(|publication| publication["data"]["type"] == "edited");
    counts.retain(|publication| publication["data"]["type"] == "counts");
    assert!(counts.len() >= 10 && edited.len() >= 8, "{} {}", counts.len(), edited.len());

    for (name, channel, publications) in
        [("counts", counts_channel.as_str(), &counts), ("edited", "timeline:bo", &edited)]
    {
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            let sizes = measure(encoding, channel, publications);
            let Sizes { events, plain, with_deltas } = sizes;
            println!(
                "{name:7} {encoding:?}: {events} events, {plain} bytes, {with_deltas} with deltas: {:.0} % saved",
                sizes.saved()
            );
        }
    }
}
