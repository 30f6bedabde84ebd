//! The log messages, and how often they come. This test is alone in its process: a place in the code that first logs on
//! a thread without a listener may be taken for silent.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_connection::Client;
use tenure_rmap::RawMap;
use tenure_testing::{Data, RedisServer, eventually};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

const SOON: Duration = Duration::from_secs(20);

/// Records the library's messages at `info` and above on this thread.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<(Level, String)>>>);

impl Said {
    fn at(&self, level: Level) -> Vec<String> {
        let said = self.0.lock().unwrap();
        said.iter().filter(|(of, _)| *of == level).map(|(_, text)| text.clone()).collect()
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Said {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tenure_rmap") && *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push((*event.metadata().level(), text.0));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn an_outage_and_its_end_are_logged_once() {
    let said = Said::default();
    let _guard = tracing::subscriber::set_default(said.clone());
    let server = RedisServer::start().unwrap();
    let map = RawMap::join(&Client::open(&server.url()).unwrap(), "m").await.unwrap();
    map.set_and_wait("k", "1").await.unwrap();
    assert!(said.0.lock().unwrap().is_empty(), "quiet while all is well");
    server.kill().unwrap();
    for _ in 0..4 {
        assert!(map.refresh().await.is_err());
    }
    let warnings = said.at(Level::WARN);
    assert!(warnings.len() <= 2, "{warnings:?}");
    assert_eq!(warnings.iter().filter(|text| text.starts_with("cannot read the maps")).count(), 1);
    server.restart(Data::Wipe).unwrap();
    eventually(SOON, "the copy to be empty", async || map.is_empty()).await;
    eventually(SOON, "it to be said", async || {
        match said.at(Level::INFO).iter().filter(|text| *text == "the maps are read again").count() {
            1 => Ok(()),
            _ => Err(said.0.lock().unwrap().clone()),
        }
    })
    .await;
    assert!(said.at(Level::WARN).len() <= 2);
}
