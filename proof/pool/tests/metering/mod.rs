//! A recorder of metrics that gives a test a hand in the engine's thread.

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};

/// Counts the notifications with this counter, and nothing else. The engine's thread calls it.
pub(crate) struct OfNotifications(pub(crate) Counter);

impl metrics::Recorder for OfNotifications {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == "tenure_pool_notifications_total" { self.0.clone() } else { Counter::noop() }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Panics in the engine's thread when that counts a notification.
pub(crate) fn panics() -> OfNotifications {
    struct Panics;
    impl metrics::CounterFn for Panics {
        fn increment(&self, _: u64) {
            panic!("as it was told");
        }

        fn absolute(&self, _: u64) {}
    }
    OfNotifications(Counter::from_arc(std::sync::Arc::new(Panics)))
}
