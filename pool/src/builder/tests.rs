//! A builder's options reach the node.
use super::*;

#[test]
fn every_option_reaches_the_node() {
    let secs = Duration::from_secs;
    let builder = NodeBuilder::new("p", crate::store::MemoryStore::new().into())
        .worker_ttl(secs(3))
        .max_queued(4)
        .join_settle(secs(5))
        .stable_after(secs(6))
        .handoff_parallel(7)
        .start_timeout(secs(8))
        .stop_timeout(secs(9))
        .plan_timeout(secs(10))
        .start_permits(11)
        .client_only()
        .assume_fresh(true)
        .join_timeout(secs(12));
    let Ok(node) = NodeName::new("n") else { panic!("a name") };
    let config = builder.config(node, Purpose::Part);
    let settings = (config.settings.worker_ttl, config.settings.max_queued, config.settings.join_settle);
    assert_eq!(settings, (secs(3), 4, secs(5)));
    assert_eq!((config.stable_after, config.handoff_parallel), (secs(6), 7));
    assert_eq!((config.start_timeout, config.stop_timeout), (secs(8), secs(9)));
    assert_eq!((config.plan_timeout, config.start_permits), (secs(10), 11));
    assert!(config.client_only && config.assume_fresh);
    assert_eq!((builder.patience(), config.timing.ttl), (secs(12), secs(3)));
}

#[test]
fn a_handler_that_does_not_end_is_aborted_within_a_usual_budget() {
    let builder = NodeBuilder::new("p", crate::store::MemoryStore::new().into());
    let Ok(node) = NodeName::new("n") else { panic!("a name") };
    let config = builder.config(node, Purpose::Part);
    assert!(config.stop_timeout + config.abort_grace < Duration::from_secs(25));
}

#[test]
fn a_join_is_given_the_time_that_a_pool_takes_to_open() {
    let patience = |ttl| join_patience(Duration::from_secs(ttl)).as_secs();
    assert_eq!([1, 10, 25, 26, 600].map(patience), [60, 60, 60, 62, 1210]);
}
