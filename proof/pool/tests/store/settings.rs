//! Settings that change while the pool runs.

use tenure_pool::store::{ChangeSettings, Join, Refusal, SettingChange};
use tenure_protocol::model::id::Revision;

use super::lab::Lab;

scenarios! {
    settings_change_together_and_every_replica_hears_of_it,
    a_change_that_is_sent_again_changes_nothing,
    a_change_from_a_value_that_is_not_stored_is_refused_whole,
    what_a_pool_keeps_for_its_life_is_refused,
    a_join_needs_the_changed_settings,
    a_recovering_pool_takes_changes_too,
    an_outcome_is_kept_while_its_dispatch_may_be_handed_in_again,
}

fn change(name: &str, from: &str, to: &str) -> SettingChange {
    SettingChange { name: name.into(), from: from.into(), to: to.into() }
}

async fn changed(lab: &Lab, changes: &[SettingChange]) -> Revision {
    lab.step(&ChangeSettings { changes: changes.to_vec() }).await.unwrap()
}

async fn settings_change_together_and_every_replica_hears_of_it(lab: Lab) {
    let mut replica = lab.store().settings();
    let revision = changed(&lab, &[change("strikes", "3", "5"), change("notify_cap", "64", "7")]).await;
    let seen = replica.wait_for(|settings| settings.revision >= revision).await.unwrap().clone();
    assert_eq!((seen.fields["strikes"].as_str(), seen.fields["notify_cap"].as_str()), ("5", "7"));
    assert_eq!(seen.revision, revision);
    assert_eq!(lab.field("settings", "max_queued").await.as_deref(), Some("10000"));
}

async fn a_change_that_is_sent_again_changes_nothing(lab: Lab) {
    let changes = [change("max_queued", "10000", "2"), change("of_a_later_version", "", "1")];
    let revision = changed(&lab, &changes).await;
    let before = lab.backend.dump().await;
    assert_eq!(changed(&lab, &changes).await, revision);
    assert_eq!(lab.backend.dump().await, before);
    assert_eq!(lab.field("settings", "of_a_later_version").await.as_deref(), Some("1"));
}

async fn a_change_from_a_value_that_is_not_stored_is_refused_whole(lab: Lab) {
    let changes = vec![change("strikes", "3", "5"), change("max_queued", "9", "10")];
    let refusal = lab.refused(lab.step(&ChangeSettings { changes })).await;
    let (name, theirs, ours) = ("max_queued".into(), "10000".into(), "9".into());
    assert_eq!(refusal, Refusal::Setting { name, theirs, ours });
}

async fn what_a_pool_keeps_for_its_life_is_refused(lab: Lab) {
    let no_number = ["many", "", "-1", "0", "00"].map(|to| change("strikes", "3", to));
    let fixed = ["protocol", "worker_ttl", "hash_keys", "shard", "shutdown", "no name", ""]
        .map(|name| change(name, "", "1"));
    for change in fixed.into_iter().chain(no_number) {
        let refusal =
            lab.refused(lab.step(&ChangeSettings { changes: std::slice::from_ref(&change).to_vec() })).await;
        assert_eq!(refusal, Refusal::BadArgument, "{change:?}");
    }
    let twice = vec![change("strikes", "3", "4"), change("strikes", "3", "5")];
    assert_eq!(lab.refused(lab.step(&ChangeSettings { changes: twice })).await, Refusal::BadArgument);
    assert_eq!(lab.refused(lab.step(&ChangeSettings { changes: Vec::new() })).await, Refusal::BadArgument);
}

async fn a_join_needs_the_changed_settings(mut lab: Lab) {
    changed(&lab, &[change("strikes", "3", "5")]).await;
    let request = lab.request();
    let refusal = lab.refused(lab.step(&Join { request: Box::new(request) })).await;
    let (name, theirs, ours) = ("strikes".into(), "5".into(), "3".into());
    assert_eq!(refusal, Refusal::Setting { name, theirs, ours });
    lab.settings.strikes = 5;
    lab.join().await;
}

async fn a_recovering_pool_takes_changes_too(mut lab: Lab) {
    lab.recover().await;
    changed(&lab, &[change("strikes", "3", "5")]).await;
    assert_eq!(lab.field("settings", "strikes").await.as_deref(), Some("5"));
}

async fn an_outcome_is_kept_while_its_dispatch_may_be_handed_in_again(lab: Lab) {
    let (shorter, longer) =
        (change("outcome_retention", "600000", "100000"), change("max_dispatch_deadline", "30000", "200000"));
    // Each alone fits the value that it was made from. Together they do not, so the second is refused.
    let both = vec![shorter.clone(), longer.clone()];
    assert_eq!(lab.refused(lab.step(&ChangeSettings { changes: both })).await, Refusal::BadArgument);
    changed(&lab, std::slice::from_ref(&shorter)).await;
    let before = lab.backend.dump().await;
    let refusal =
        lab.refused(lab.step(&ChangeSettings { changes: std::slice::from_ref(&longer).to_vec() })).await;
    assert_eq!(refusal, Refusal::BadArgument);
    assert_eq!(lab.backend.dump().await, before);
    changed(&lab, &[longer, change("outcome_retention", "100000", "200000")]).await;
}
